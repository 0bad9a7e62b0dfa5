//! What the tests of the command line share: a folder of their own, a tiny model, the program.

#![allow(dead_code, reason = "each test file uses a part")]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// `y = x · w + relu(x)`, with a symbolic number of rows.
pub const TINY: &str = r#"<ir_version: 8, opset_import: ["": 17]>
tiny (float[N, 3] x) => (float[N, 3] y)
<float[3, 3] w = {1, 0, 0, 0, 2, 0, 0, 0, 3}>
{
   z = MatMul (x, w)
   r = Relu (x)
   y = Add (z, r)
}
"#;

/// A folder with the program's cache, which ends with the test.
pub struct Place {
    folder: tempfile::TempDir,
}

impl Place {
    pub fn new() -> Place {
        Place { folder: tempfile::tempdir().expect("a temporary folder") }
    }
    /// A place with `tiny.onnxtxt` in it.
    pub fn with_tiny() -> Place {
        let place = Place::new();
        place.write("tiny.onnxtxt", TINY.as_bytes());
        place
    }
    pub fn path(&self) -> &Path {
        self.folder.path()
    }
    pub fn file(&self, name: &str) -> PathBuf {
        self.path().join(name)
    }
    pub fn write(&self, name: &str, content: &[u8]) {
        std::fs::write(self.file(name), content).expect("a writable file");
    }
    pub fn read(&self, name: &str) -> Vec<u8> {
        std::fs::read(self.file(name)).expect("a readable file")
    }
    /// The program in this folder, with a cache here.
    pub fn command(&self, arguments: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_oaaxc"));
        command.args(arguments.split_whitespace()).current_dir(self.path());
        command.env("OAAXC_CACHE", self.file("cache")).env_remove("OAAXC_RUNTIME").env("NO_COLOR", "1");
        command
    }
    pub fn oaaxc(&self, arguments: &str) -> Output {
        self.command(arguments).output().expect("the program starts")
    }
    /// Runs and wants a success; what stood on standard output.
    pub fn succeed(&self, arguments: &str) -> String {
        let output = self.oaaxc(arguments);
        assert!(output.status.success(), "oaaxc {arguments}: {}\n{}", output.status, text(&output.stderr));
        text(&output.stdout)
    }
    /// Runs and wants this exit code; what stood on standard error.
    pub fn fail(&self, code: i32, arguments: &str) -> String {
        let output = self.oaaxc(arguments);
        let shown = text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "oaaxc {arguments}:\n{shown}{}", text(&output.stdout));
        shown
    }
}

pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A .npy file of floats.
pub fn npy(dims: &[usize], values: &[f32]) -> Vec<u8> {
    let tensor = oaaxc_ir::Tensor::from_f32s(dims.to_vec(), values);
    oaaxc_onnx::data::npy::write(&tensor).expect("floats have a name")
}

/// The floats of a .npy file.
pub fn floats(bytes: Vec<u8>) -> Vec<f64> {
    oaaxc_onnx::data::npy::read(bytes.into()).expect("a .npy file").to_f64s()
}
