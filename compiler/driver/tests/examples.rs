//! The examples of this room print what their folders say.

use std::path::Path;
use std::process::Command;

#[test]
fn the_first_model_gives_its_probabilities() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/first-model");
    let cache = tempfile::tempdir().expect("a temporary folder");
    let mut command = Command::new(folder.join("run"));
    let output =
        command.env("OAAXC", env!("CARGO_BIN_EXE_oaaxc")).env("OAAXC_CACHE", cache.path()).output().expect("bash is there");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let expected = std::fs::read_to_string(folder.join("expected.txt")).expect("expected.txt");
    assert_eq!(String::from_utf8_lossy(&output.stdout), expected);
}
