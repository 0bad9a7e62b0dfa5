//! oaaxc-llvm: not yet written.
