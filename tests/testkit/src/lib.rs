//! Makes small artefacts without the compiler, for the runtime's tests and the host examples:
//! hand-written kernels (`runtime-abi/abi/demo.c`) under hand-written host programs.
//!
//! Promises: an artefact has the very form that the compiler's have, as `oaaxc-container` writes it.

pub mod gpu;
pub mod programs;

use oaax_abi::Program;
pub use oaaxc_container::Data;
use oaaxc_container::{Manifest, Needs, Options, Package, PackageFile, Platform, Role, Variant, write_archive, write_layout};
use std::{
    fs,
    ops::Deref,
    path::{Path, PathBuf},
    process::Command,
    sync::OnceLock,
};

/// Root of the repository.
pub fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

/// A folder for a test's files, removed on drop.
#[derive(Debug)]
pub struct Folder(PathBuf);

impl Deref for Folder {
    type Target = Path;

    fn deref(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// An empty folder for a test's files; `name` tells the tests of one process apart.
pub fn folder(name: &str) -> Folder {
    let folder = std::env::temp_dir().join(format!("oaax-testkit-{}-{name}", std::process::id()));
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).expect("a folder for temporary files");
    Folder(folder)
}

/// Compiles C to a freestanding shared object.
pub fn compile_object(source: &Path) -> Vec<u8> {
    let output = std::env::temp_dir().join(format!("oaax-kernel-{}-{:?}.so", std::process::id(), std::thread::current().id()));
    let done = Command::new("cc")
        .args(["-std=c99", "-O2", "-shared", "-fPIC", "-nostdlib", "-ffreestanding", "-fno-builtin"])
        .args(["-fno-tree-loop-distribute-patterns", "-fvisibility=hidden", "-I"])
        .arg(root().join("runtime-abi/abi/include"))
        .arg(source)
        .arg("-o")
        .arg(&output)
        .output()
        .expect("a C compiler");
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let bytes = fs::read(&output).expect("written by the compiler");
    fs::remove_file(&output).expect("written by the compiler");
    bytes
}

/// The object of `demo.c`.
pub fn demo_object() -> &'static [u8] {
    static OBJECT: OnceLock<Vec<u8>> = OnceLock::new();
    OBJECT.get_or_init(|| compile_object(&root().join("runtime-abi/abi/demo.c")))
}

/// A package of a program over the demo kernels. Weight file 0 is 3 MiB (two leaves) with the float
/// 0.5 at byte 64.
pub fn package(program: &Program) -> Package {
    let mut weights = vec![0u8; 3 << 20];
    weights[64..68].copy_from_slice(&0.5f32.to_le_bytes());
    let file = |path: String, role: Role, bytes: Vec<u8>| PackageFile { path, role, data: Data::from(bytes) };
    let target = || Role::Target("cpu".to_owned());
    let mut files = vec![
        file("weights/0.bin".to_owned(), Role::Weights, weights),
        file("targets/cpu/program.bin".to_owned(), target(), program.encode()),
    ];
    let mut objects = Vec::new();
    for level in programs::LEVELS {
        let path = format!("targets/cpu/{}.so", level.replace('+', "-"));
        objects.push(path.clone());
        files.push(file(path, target(), demo_object().to_vec()));
    }
    let arch = match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    };
    let mut manifest = Manifest::new(program.name.clone(), "0.1.0");
    manifest.variants.push(Variant {
        id: "cpu".to_owned(),
        target: "cpu".to_owned(),
        needs: Needs { arch: vec![arch.to_owned()], ..Needs::default() },
        program: "targets/cpu/program.bin".to_owned(),
        objects,
        weights: vec!["weights/0.bin".to_owned()],
        ..Variant::default()
    });
    Package { manifest, files, platforms: vec![Platform::linux(arch)], options: Options::default() }
}

/// Writes `model.oaax`, the mappable archive.
pub fn write_model(program: &Program, path: &Path) {
    write_archive(&package(program), path).expect("the archive is written");
}

/// Writes an OCI layout folder, the registry form.
pub fn write_registry_form(program: &Program, path: &Path) {
    write_layout(&package(program), path).expect("the layout is written");
}

/// Writes an unpacked `/models` folder.
pub fn write_folder(program: &Program, path: &Path) {
    let archive = path.with_extension("archive");
    write_model(program, &archive);
    let opened = oaaxc_container::open(&archive).expect("the archive opens");
    opened.unpack(path).expect("the archive unpacks");
    fs::remove_file(&archive).expect("written above");
}

/// Runs a command and gives what it printed; a failure shows both streams.
pub fn run(program: &str, arguments: &[&str]) -> String {
    let done = Command::new(program).args(arguments).output().unwrap_or_else(|error| panic!("{program}: {error}"));
    let (out, err) = (String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
    assert!(done.status.success(), "{program} {arguments:?}: {}\n{out}{err}", done.status);
    out.into_owned()
}

/// Links the OAAX runtime of this version, 1 or 2, from the newest static library of the build that the
/// calling test belongs to (a test of that library's own crate, or of one that depends on it).
pub fn oaax_library(version: u32, output: &Path) {
    let test = std::env::current_exe().expect("a test knows its path");
    let deps = test.parent().expect("in a folder").read_dir().expect("a folder").flatten();
    let start = format!("liboaax{version}_runtime");
    let ours = |path: &PathBuf| {
        path.file_name().and_then(|name| name.to_str()).is_some_and(|name| name.starts_with(&start) && name.ends_with(".a"))
    };
    let found = deps.map(|entry| entry.path()).filter(ours);
    let archive = found.max_by_key(|path| path.metadata().and_then(|data| data.modified()).ok());
    let archive = archive.expect("cargo built the static library");
    let text = |path: &Path| path.to_str().expect("UTF-8").to_owned();
    run(&text(&root().join("scripts/link-oaax")), &[&version.to_string(), &text(&archive), &text(output)]);
}

/// Runs a program under valgrind: no invalid access, no bad free, no leak.
pub fn valgrind(program: &Path, arguments: &[&str]) {
    let program = program.to_str().expect("UTF-8");
    let flags = ["--quiet", "--error-exitcode=9", "--leak-check=full", "--show-leak-kinds=definite,possible", program];
    run("valgrind", &[&flags[..], arguments].concat());
}

/// Makes this process see Intel's OpenCL runtime for CPUs. Call it before anything that may open OpenCL.
pub fn opencl() {
    static DONE: OnceLock<()> = OnceLock::new();
    DONE.get_or_init(|| {
        let line = run(root().join("scripts/opencl-env").to_str().expect("UTF-8"), &[]);
        let folder = line.trim().strip_prefix("export OCL_ICD_VENDORS=").expect("what the script prints");
        // SAFETY: behind a lock that every caller waits for; what reads the environment comes after it.
        unsafe { std::env::set_var("OCL_ICD_VENDORS", folder) };
    });
}

/// Writes a package as `model.oaax`.
pub fn write_package(package: &Package, path: &Path) {
    write_archive(package, path).expect("the archive is written");
}

/// Builds the stand-in of a vendor's driver (`tests/stand-ins`) in `folder`; gives its path.
pub fn stand_in(gpu: gpu::Gpu, folder: &Path) -> PathBuf {
    let (name, sources) = match gpu {
        gpu::Gpu::Gfx942 => ("libamdhip64.so", ["device.c", "hsaco.c", "hip.c"]),
        gpu::Gpu::Sm80 => ("libcuda.so.1", ["device.c", "ptx.c", "cuda.c"]),
        gpu::Gpu::Spirv => panic!("OpenCL is executed, there is no stand-in for it"),
    };
    let library = folder.join(name);
    let home = root().join("tests/stand-ins");
    let sources = sources.map(|source| home.join(source).to_str().expect("UTF-8").to_owned());
    let flags = ["-std=gnu11", "-O1", "-g", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-fvisibility=hidden", "-o"];
    let words = flags.iter().copied().chain([library.to_str().expect("UTF-8")]).chain(sources.iter().map(String::as_str));
    run("cc", &words.chain(["-lpthread"]).collect::<Vec<_>>());
    library
}
