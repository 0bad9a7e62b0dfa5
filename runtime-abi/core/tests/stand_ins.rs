//! The runtime's host path for HIP and CUDA against drivers that compute nothing and check everything
//! (`tests/stand-ins`), and that these checks can fail. A test runs itself again in a process of its own, in
//! which the loader finds the stand-in; what it leaves behind at its end is a violation too.

use oaax_core::{Model, Options, Session, Status, Tensor, Value, abi::DType};
use oaax_testkit::{
    Folder, folder,
    gpu::{self, Gpu},
    programs, root, run, stand_in,
};
use std::{
    fs,
    os::unix::process::ExitStatusExt,
    path::{Path, PathBuf},
    process::Command,
    sync::Arc,
};

const CHILD: &str = "OAAX_TEST_CHILD";

/// In the parent: runs test `name` again against the stand-ins with `settings`, gives their log. In the child: `None`.
fn parent(name: &str, settings: &[(&str, &str)]) -> Option<String> {
    if std::env::var_os(CHILD).is_some() {
        return None;
    }
    let folder = folder(&format!("stand-ins-{name}"));
    for gpu in [Gpu::Gfx942, Gpu::Sm80] {
        stand_in(gpu, &folder);
    }
    let log = folder.join("log");
    let mut command = Command::new(std::env::current_exe().expect("a test knows its path"));
    command
        .args(["--exact", name, "--nocapture"])
        .env(CHILD, "1")
        .env("LD_LIBRARY_PATH", &*folder)
        .env("OAAX_STAND_IN_LOG", &log);
    let done = command.envs(settings.iter().copied()).output().expect("a process");
    let (out, err) = (String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
    assert!(done.status.success() && out.contains("1 passed"), "{}\n{out}\n{err}", done.status);
    Some(fs::read_to_string(log).unwrap_or_default())
}

fn made(gpu: Gpu, program: oaax_core::abi::Program) -> (Folder, PathBuf) {
    let folder = folder(&format!("stand-in-{gpu:?}-{}-{:?}", program.name, std::thread::current().id()));
    let path = folder.join("model.oaax");
    gpu::write(&path, &[(gpu, program)], None, Some("allow"));
    (folder, path)
}

fn open(gpu: Gpu, program: oaax_core::abi::Program) -> Session {
    let (_folder, path) = made(gpu, program);
    Session::new(&Model::open(&path, &Options { threads: 2, ..Options::default() }).expect("the model opens"))
}

fn floats(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

fn tensor<'a>(dtype: DType, dims: &'a [i64], data: &'a [u8]) -> Value<'a> {
    Value::Tensor(Tensor { dtype, dims, data })
}

fn scaled_sum(session: &Session, n: usize) -> oaax_core::Result<usize> {
    let (data, dims) = (floats(&vec![1.5; n]), [n as i64]);
    let outputs = session.run_fresh(&[tensor(DType::F32, &dims, &data), tensor(DType::F32, &dims, &data)])?;
    Ok(outputs[0].data().len() / 4)
}

#[test]
fn every_kind_of_program_passes_all_checks() {
    let Some(log) = parent("every_kind_of_program_passes_all_checks", &[]) else {
        for gpu in [Gpu::Gfx942, Gpu::Sm80] {
            for with_host in [false, true] {
                let session = Arc::new(open(gpu, gpu::scaled_sum(gpu, with_host)));
                for n in [1, 5, 50_000, 3, 40_000_000 / 16] {
                    assert_eq!(scaled_sum(&session, n), Ok(n));
                }
                std::thread::scope(|scope| {
                    for n in 1..5 {
                        let session = session.clone();
                        scope.spawn(move || (0..20).for_each(|round| assert!(scaled_sum(&session, n * 300 + round).is_ok())));
                    }
                });
            }
            let session = open(gpu, gpu::gather(gpu));
            let (x, index) = (floats(&[1.0, 2.0]), 0i64.to_le_bytes());
            let outputs = session.run_fresh(&[tensor(DType::F32, &[2], &x), tensor(DType::I64, &[1], &index)]).expect("runs");
            assert_eq!(outputs[1].data(), 0i64.to_le_bytes(), "the cell that was written comes back through the device");
            let session = open(gpu, gpu::repeated_sum(gpu));
            for times in [1i64, 2, 30] {
                let count = times.to_le_bytes();
                let outputs = session.run_fresh(&[tensor(DType::F32, &[2], &x), tensor(DType::I64, &[], &count)]).expect("runs");
                assert_eq!(outputs[1].items.as_ref().map(Vec::len), Some(times as usize - 1));
                if times == 1 {
                    assert_eq!((outputs[0].data(), outputs[2].data()), (&x[..], &x[..]), "what goes up comes down");
                }
            }
        }
        return;
    };
    assert!(log.contains("hipModuleLaunchKernel demo_gather_f32_with_a_long_name 1 64"), "{log}");
    assert_eq!(log.matches("unload: ").count(), 2, "both libraries were used, and nothing was left");
}

#[test]
fn memory_that_ends_is_an_error_and_the_device_stays_good() {
    let settings = [("OAAX_STAND_IN_MEMORY", "1000000")];
    let Some(log) = parent("memory_that_ends_is_an_error_and_the_device_stays_good", &settings) else {
        for (gpu, name) in [(Gpu::Gfx942, "hipErrorOutOfMemory"), (Gpu::Sm80, "CUDA_ERROR_OUT_OF_MEMORY")] {
            let session = open(gpu, gpu::scaled_sum(gpu, false));
            for _ in 0..2 {
                assert_eq!(scaled_sum(&session, 1000), Ok(1000));
                let error = scaled_sum(&session, 100_000).expect_err("1.6 MB");
                assert_eq!(error.status, Status::OutOfMemory);
                assert!(error.message.ends_with(&format!("Stand-in accelerator: {name} (2): the stand-in says so")), "{error}");
            }
        }
        return;
    };
    assert!(log.contains("hipMalloc"), "{log}");
}

#[test]
fn a_failed_launch_is_an_error_with_its_node_and_the_next_run_is_good() {
    let test = "a_failed_launch_is_an_error_with_its_node_and_the_next_run_is_good";
    for (gpu, call, name) in [
        (Gpu::Gfx942, "hipModuleLaunchKernel", "hipErrorLaunchFailure"),
        (Gpu::Sm80, "cuLaunchKernel", "CUDA_ERROR_LAUNCH_FAILED"),
    ] {
        let which = format!("{gpu:?}");
        if std::env::var("OAAX_TEST_GPU").is_ok_and(|wanted| wanted != which) {
            continue;
        }
        if parent(test, &[("OAAX_STAND_IN_FAIL", &format!("{call}:4")), ("OAAX_TEST_GPU", &which)]).is_none() {
            let session = open(gpu, gpu::scaled_sum(gpu, false));
            assert_eq!(scaled_sum(&session, 10), Ok(10));
            let error = scaled_sum(&session, 10).expect_err("the fourth launch");
            assert_eq!((error.status, error.node.as_deref()), (Status::DeviceError, Some("Add_1")));
            let message = format!("{call} failed on Stand-in accelerator: {name} (719): the stand-in says so");
            assert_eq!(error.message, message);
            assert_eq!(scaled_sum(&session, 10), Ok(10));
        }
    }
}

#[test]
fn a_wait_that_fails_ends_the_run_and_no_more() {
    let settings = [("OAAX_STAND_IN_FAIL", "hipStreamSynchronize:3")];
    let Some(_) = parent("a_wait_that_fails_ends_the_run_and_no_more", &settings) else {
        let session = open(Gpu::Gfx942, gpu::scaled_sum(Gpu::Gfx942, false));
        assert_eq!(scaled_sum(&session, 10), Ok(10));
        let error = scaled_sum(&session, 10).expect_err("the third wait");
        assert!(error.message.starts_with("hipStreamSynchronize failed on"), "{error}");
        assert_eq!(scaled_sum(&session, 10), Ok(10));
        return;
    };
}

#[test]
fn devices_are_told_apart_by_number() {
    let Some(log) = parent("devices_are_told_apart_by_number", &[("OAAX_STAND_IN_DEVICES", "2")]) else {
        let (_folder, path) = made(Gpu::Gfx942, gpu::scaled_sum(Gpu::Gfx942, false));
        let on = |device: &str| Options { device: Some(device.to_owned()), ..Options::default() };
        let model = Model::open(&path, &on("hip:1")).expect("the second device");
        assert_eq!(model.choice, "hip:1 Stand-in accelerator (gfx942)");
        assert_eq!(scaled_sum(&Session::new(&model), 10), Ok(10));
        let error = Model::open(&path, &on("hip:2")).err().expect("no third device");
        assert_eq!(error.status, Status::DeviceError);
        return;
    };
    assert!(log.contains("hipSetDevice 1\n") && log.contains("hipSetDevice 0\n"), "what was current comes back: {log}");
}

#[test]
fn another_architecture_or_no_device_is_refused_with_what_is_there() {
    let test = "another_architecture_or_no_device_is_refused_with_what_is_there";
    let expect = |gpu: Gpu, reason: &str| {
        let (_folder, path) = made(gpu, gpu::scaled_sum(gpu, false));
        let error = Model::open(&path, &Options::default()).err().expect("refused");
        assert_eq!(error.status, Status::DeviceError);
        assert_eq!(error.message, format!("no variant runs here: {}: {reason}", gpu.facts().0));
        let (folder, _) = made(gpu, gpu::scaled_sum(gpu, false));
        let path = folder.join("both.oaax");
        gpu::write(&path, &[(gpu, gpu::scaled_sum(gpu, false))], Some(&programs::scaled_sum()), None);
        let model = Model::open(&path, &Options::default()).expect("the CPU's");
        assert!(model.choice.ends_with(&format!("; passed over {}: {reason}", gpu.facts().0)), "{}", model.choice);
    };
    match std::env::var("OAAX_STAND_IN_DEVICES").as_deref() {
        Ok("1") => {
            expect(Gpu::Gfx942, "needs gfx942; there is hip:0 Stand-in accelerator");
            expect(Gpu::Sm80, "needs sm_80; there is cuda:0 Stand-in accelerator (sm_75)");
        }
        Ok(_) => {
            expect(Gpu::Gfx942, "libamdhip64.so finds no device (hipErrorNoDevice (100): the stand-in says so)");
            expect(Gpu::Sm80, "libcuda.so.1 finds no device (CUDA_ERROR_NO_DEVICE (100): the stand-in says so)");
        }
        Err(_) => {
            parent(test, &[("OAAX_STAND_IN_DEVICES", "1"), ("OAAX_STAND_IN_ARCH", "75")]);
            parent(test, &[("OAAX_STAND_IN_DEVICES", "0")]);
        }
    }
}

/// How `wrong.c` ends for a case: its signal and what it says.
fn wrong(folder: &Path, gpu: Gpu, case: &str) -> (Option<i32>, Option<i32>, String) {
    let kind = if gpu == Gpu::Gfx942 { "hip" } else { "cuda" };
    let library = folder.join(if gpu == Gpu::Gfx942 { "libamdhip64.so" } else { "libcuda.so.1" });
    let done = Command::new(folder.join("wrong")).arg(kind).arg(library).arg(folder.join(gpu.file())).arg(case).output();
    let done = done.expect("a process");
    (done.status.code(), done.status.signal(), String::from_utf8_lossy(&done.stderr).into_owned())
}

#[test]
fn the_checks_can_fail() {
    let folder = folder("wrong");
    let source = root().join("tests/stand-ins/wrong.c");
    let words = ["-std=gnu11", "-Wall", "-Wextra", "-Werror", "-g", "-o"];
    let program = folder.join("wrong");
    let paths = [program.to_str().expect("UTF-8"), source.to_str().expect("UTF-8"), "-ldl"];
    run("cc", &[&words[..], &paths].concat());
    let cases = [
        ("wild-buffer", "is in no allocation"),
        ("host-buffer", "is in no allocation"),
        ("freed-buffer", "was freed"),
        ("shifted-arguments", "4 groups, and the kernel is told 256"),
        ("small-fault-record", "leave an allocation"),
        ("crooked-scratch", "scratch at"),
        ("negative-launch", "its number is -1"),
        ("null-argument", "argument 2 is NULL"),
        ("too-many-threads", "65 threads, at most 64 are allowed"),
        ("empty-grid", "an empty grid"),
        ("two-dimensions", "more than one dimension"),
        ("dynamic-shared", "dynamic shared memory"),
        ("unloaded-module", "its module was unloaded"),
        ("closed-stream", "the stream was closed"),
        ("extra", "extra parameters"),
        ("free-under-launch", "while a stream still uses it"),
        ("unload-under-launch", "was unloaded before it ran"),
        ("long-upload", "200 bytes at"),
        ("long-download", "8193 bytes at"),
        ("swapped-sides", "taken for the host's"),
        ("device-as-host", "taken for the host's"),
        ("overlapping-copy", "overlaps itself"),
        ("no-stream", "is no stream"),
        ("free-under-copy", "while a stream still uses it"),
        ("close-under-work", "closed with work on it"),
        ("double-free", "is freed twice"),
        ("wild-free", "was never allocated"),
        ("leaked-memory", "were never freed"),
        ("use-after-free", "was freed"),
        ("leaked-stream", "were never closed"),
        ("leaked-module", "were never unloaded"),
    ];
    let of_cuda = [
        ("no-context", "no context is current"),
        ("double-pop", "nothing was pushed"),
        ("leaked-context", "retained 1 times too often"),
    ];
    for gpu in [Gpu::Gfx942, Gpu::Sm80] {
        stand_in(gpu, &folder);
        fs::write(folder.join(gpu.file()), gpu::object(gpu)).expect("writable folder");
        assert_eq!(wrong(&folder, gpu, "right"), (Some(0), None, String::new()), "{gpu:?}");
        for (case, what) in cases.iter().chain(of_cuda.iter().filter(|_| gpu == Gpu::Sm80)) {
            let (_, signal, text) = wrong(&folder, gpu, case);
            assert_eq!(signal, Some(6), "{gpu:?} {case}: {text}");
            assert!(text.starts_with("stand-in: VIOLATION: ") && text.contains(what), "{gpu:?} {case}: {text}");
        }
        assert_eq!(wrong(&folder, gpu, "touched-by-host").1, Some(11), "the host cannot follow a device's address");
    }
}
