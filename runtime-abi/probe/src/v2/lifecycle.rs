//! Rules from init to cleanup, and about what is left behind.

use super::{Config, Host, Tensors, model, request};
use crate::{
    process,
    subject::{Check, Diary, Stop, Subject, ensure},
};

/// R2-3.
pub fn names(subject: &Subject, diary: &Diary) -> Check {
    let host = Host::open(&subject.library, diary)?;
    let texts = || (host.name(), host.version());
    diary.step("get_name and get_version before init");
    let (Some(name), Some(version)) = texts() else {
        return Err(Stop::Broken("name or version is NULL before init".to_owned()));
    };
    ensure!(!name.is_empty(), "the name is empty");
    let core = version.split(['-', '+']).next().unwrap_or_default();
    let parts: Vec<&str> = core.split('.').collect();
    let is_number = |part: &&str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    ensure!(parts.len() == 3 && parts.iter().all(is_number), "the version {version:?} is not MAJOR.MINOR.PATCH");
    let same = (Some(name), Some(version));
    diary.step("get_name and get_version after init");
    ensure!(host.init_raw(Config::NONE) == 0, "init fails");
    ensure!(texts() == same, "name or version changed with init");
    host.cleanup();
    diary.step("get_name and get_version after cleanup");
    ensure!(texts() == same, "name or version changed with cleanup");
    Ok(())
}

/// R2-4.
pub fn before_init(subject: &Subject, diary: &Diary) -> Check {
    let host = Host::open(&subject.library, diary)?;
    diary.step("runtime_load_models(0, NULL) before init");
    let status = host.load_raw(0, std::ptr::null());
    ensure!(status == 2, "load before init gives {status}, not NOT_INITIALIZED (2)");
    diary.step("runtime_enqueue_input(0, zeros) before init");
    let mut zeros = Tensors { id: 0, count: 0, tensors: std::ptr::null_mut() };
    let status = host.enqueue_raw(0, &mut zeros);
    ensure!(status == 2, "enqueue before init gives {status}, not NOT_INITIALIZED (2)");
    diary.step("runtime_retrieve_output before init");
    let status = host.retrieve(0).status;
    ensure!(status == 2, "retrieve before init gives {status}, not NOT_INITIALIZED (2)");
    diary.step("runtime_get_info before init");
    ensure!(host.info().is_none(), "there is information before init, not NULL");
    diary.step("runtime_cleanup before init");
    let status = host.cleanup();
    ensure!(status == 0, "cleanup before init gives {status}, not SUCCESS");
    Ok(())
}

/// R2-5.
pub fn init(subject: &Subject, diary: &Diary) -> Check {
    let host = Host::open(&subject.library, diary)?;
    let good = |what: &str, status: i32| {
        ensure!(status == 0, "init with {what} gives {status}: {}", host.error().unwrap_or_default());
        ensure!(host.error().is_none(), "there is an error after a good init: {:?}", host.error());
        ensure!(host.cleanup() == 0, "cleanup fails");
        Ok(())
    };
    diary.step("runtime_init({0, NULL, NULL}) twice");
    let status = host.init_raw(Config::NONE);
    ensure!(status == 0, "init without keys gives {status}: {}", host.error().unwrap_or_default());
    let status = host.init_raw(Config::NONE);
    ensure!(status == 3, "a second init gives {status}, not ALREADY_INITIALIZED (3)");
    ensure!(host.info().is_some(), "after a second init the runtime is no longer initialised");
    ensure!(host.cleanup() == 0, "cleanup fails");
    diary.step("runtime_init({3, NULL, NULL})");
    let status = host.init_raw(Config { length: 3, keys: std::ptr::null(), values: std::ptr::null() });
    ensure!(status == 5, "init with 3 entries and no arrays gives {status}, not INVALID_ARGUMENT (5)");
    diary.step("runtime_init with NULL entries");
    good("a NULL key and a NULL value", host.init(&[(None, Some("x")), (Some("log_level"), None)]))?;
    diary.step("runtime_init with an unknown key");
    good("an unknown key", host.init(&[(Some("no_such_key.of_anyone"), Some("value"))]))?;
    diary.step("runtime_init with log_level=debug");
    let status = host.init(&[(Some("log_level"), Some("debug"))]);
    ensure!(status != 0, "log_level \"debug\", which is no level, is taken in silence");
    ensure!(host.error().is_some(), "a refused init leaves no error text");
    diary.step("runtime_init after a refused one");
    good("nothing, after a refused one,", host.init_raw(Config::NONE))
}

/// R2-6.
pub fn silence(subject: &Subject, diary: &Diary) -> Check {
    let host = Host::open(&subject.library, diary)?;
    diary.step("runtime_init with a log_file that cannot be written");
    let status = host.init(&[(Some("log_file"), Some("/no/such/folder/runtime.log"))]);
    ensure!(status == 0, "an unwritable log_file makes init fail with {status}");
    host.cleanup();
    if let Ok(model) = model(subject) {
        host.ready(model, diary)?;
        host.run(0, model, 1, 1)?;
    } else {
        host.init_raw(Config::NONE);
    }
    host.load(&[&subject.folder.join("missing")]);
    host.cleanup();
    let files = std::fs::read_dir(".").map_err(|error| format!("the working folder cannot be read: {error}"))?;
    let files: Vec<String> = files.flatten().map(|file| file.file_name().to_string_lossy().into_owned()).collect();
    ensure!(files.is_empty(), "unasked, {} appeared in the working folder", files.join(", "));
    let printed = process::printed();
    ensure!(printed == 0, "{printed} bytes were written to standard output");
    Ok(())
}

/// R2-7.
pub fn before_load(subject: &Subject, diary: &Diary) -> Check {
    let host = Host::open(&subject.library, diary)?;
    ensure!(host.init_raw(Config::NONE) == 0, "init fails");
    diary.step("runtime_enqueue_input(0, zeros) before load");
    let mut zeros = Tensors { id: 0, count: 0, tensors: std::ptr::null_mut() };
    let status = host.enqueue_raw(0, &mut zeros);
    ensure!(status == 4, "enqueue before load gives {status}, not MODEL_NOT_LOADED (4)");
    diary.step("runtime_get_info before load");
    let info = host.info().unwrap_or_default();
    ensure!(info.contains("\"loaded_models\":0"), "the information lacks the bytes \"loaded_models\":0: {info}");
    Ok(())
}

/// R2-17.
pub fn cleanup(subject: &Subject, diary: &Diary) -> Check {
    let host = Host::open(&subject.library, diary)?;
    let model = model(subject)?;
    // Libraries below it may start threads of their own at their first use; those of a second round are its own.
    host.ready(model, diary)?;
    host.run(0, model, 1, 1)?;
    ensure!(host.cleanup() == 0, "cleanup fails");
    let threads = process::threads_settled(1);
    ensure!(threads == 1, "{} threads are left after cleanup", threads - 1);
    host.ready(model, diary)?;
    diary.step("runtime_cleanup while a thread waits in runtime_retrieve_output(-1)");
    let status = std::thread::scope(|scope| {
        let waiting = scope.spawn(|| host.retrieve(-1).status);
        process::wait(50);
        let status = host.cleanup();
        (status, waiting.join())
    });
    ensure!(status.0 == 0, "cleanup gives {}", status.0);
    let woken = status.1.unwrap_or(-1);
    ensure!(
        woken == 12 || woken == 2,
        "the thread that waited gets {woken}, not NO_OUTPUT_AVAILABLE (12) or NOT_INITIALIZED (2)"
    );
    let heap = process::heap();
    for round in 0..20 {
        host.ready(model, diary)?;
        diary.step("runtime_cleanup with inputs queued and outputs unread");
        for id in 0..50 {
            if let Err((status, _)) = host.enqueue(0, request(&model.inputs, id, 1)) {
                return Err(Stop::Broken(format!("request {id} of 50 is refused with {status}")));
            }
        }
        if round % 2 == 0 {
            drop(host.retrieve(super::WAIT));
        }
        ensure!(host.cleanup() == 0, "cleanup with work at hand fails");
    }
    let grown = process::heap() - heap;
    let allowed = 20 * 10 * model.inputs.iter().map(|port| port.bytes() as i64 + 64).sum::<i64>() + 16_384;
    ensure!(grown < allowed, "{grown} bytes are lost over 20 cleanups with work at hand");
    let threads = process::threads_settled(1);
    ensure!(threads == 1, "{} threads are left after cleanup", threads - 1);
    Ok(())
}

/// R2-18.
pub fn cycles(subject: &Subject, diary: &Diary) -> Check {
    let host = Host::open(&subject.library, diary)?;
    let model = model(subject)?;
    let mut before = (0, 0, 0);
    for round in 0..100 {
        host.ready(model, diary)?;
        for id in 0..10 {
            host.run(0, model, id, id as u64)?;
        }
        host.load(&[&subject.folder.join("missing")]);
        diary.step(&format!("runtime_cleanup twice, round {round}"));
        let status = (host.cleanup(), host.cleanup());
        ensure!(status == (0, 0), "cleanup twice gives {status:?}");
        ensure!(host.error().is_none(), "after cleanup there still is an error: {:?}", host.error());
        ensure!(host.info().is_none(), "after cleanup there still is information");
        if round == 20 {
            before = (process::heap(), process::resident() as i64, process::descriptors() as i64);
        }
    }
    let (heap, resident) = (process::heap() - before.0, process::resident() as i64 - before.1);
    let descriptors = process::descriptors() as i64 - before.2;
    ensure!(descriptors == 0, "{descriptors} descriptors more after 80 cycles");
    ensure!(heap < 8192, "{heap} bytes are lost over 80 cycles of ten requests");
    ensure!(resident < 4096, "{resident} KiB of resident memory more after 80 cycles");
    Ok(())
}

fn one_cycle(host: &Host, subject: &Subject, diary: &Diary) -> Check {
    match &subject.model {
        Some(model) => {
            host.ready(model, diary)?;
            host.run(0, model, 1, 1).map(drop)
        }
        None => {
            ensure!(host.init_raw(Config::NONE) == 0, "init fails");
            Ok(())
        }
    }
}

/// R2-19.
pub fn unload(subject: &Subject, diary: &Diary) -> Check {
    for _ in 0..3 {
        let host = Host::open(&subject.library, diary)?;
        one_cycle(&host, subject, diary)?;
        ensure!(host.cleanup() == 0, "cleanup fails");
        diary.step("dlclose after cleanup");
        host.close()?;
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
        let path = std::fs::canonicalize(&subject.library).unwrap_or_default();
        let is_mapped = maps.lines().any(|line| line.ends_with(&path.display().to_string()));
        ensure!(!is_mapped, "after dlclose parts of the library are mapped");
    }
    Ok(())
}

/// R2-19, the other half: the process ends without cleanup once this returns.
pub fn abandon(subject: &Subject, diary: &Diary) -> Check {
    let host = Host::open(&subject.library, diary)?;
    one_cycle(&host, subject, diary)?;
    diary.step("dlclose without cleanup");
    // Whether it is unmapped is the other half's matter; threads of its own would now run into nothing.
    drop(host.close());
    process::wait(30);
    let host = Host::open(&subject.library, diary)?;
    one_cycle(&host, subject, diary)?;
    if let Some(model) = &subject.model {
        for id in 0..20 {
            // What is still in work when the process ends must not bring it down.
            drop(host.enqueue(0, request(&model.inputs, id, 1)));
        }
    }
    diary.step("exit without cleanup");
    Ok(())
}
