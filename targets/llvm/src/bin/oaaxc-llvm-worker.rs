//! The worker alone, for tests of this room; the product's worker is `oaaxc` itself.

fn main() {
    std::process::exit(oaaxc_llvm::worker_main());
}
