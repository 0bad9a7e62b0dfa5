//! Rules of `runtime_load_models`.

use super::{Config, Host, ModelConfig, agree, model};
use crate::subject::{Check, Diary, Stop, Subject, ensure};
use std::ffi::{CString, c_int};

/// R2-8.
pub fn errors(subject: &Subject, diary: &Diary) -> Check {
    let host = Host::open(&subject.library, diary)?;
    ensure!(host.init_raw(Config::NONE) == 0, "init fails");
    let empty = ModelConfig { path: std::ptr::null(), data: std::ptr::null(), size: 0, config: Config::NONE };
    let refused = |what: &str, status: c_int, wanted: c_int, name: &str| {
        ensure!(status == wanted, "load of {what} gives {status}, not {name} ({wanted})");
        ensure!(host.error().is_some(), "load of {what} leaves no error text");
        Ok(())
    };
    diary.step("runtime_load_models(0, NULL)");
    refused("0 models", host.load_raw(0, std::ptr::null()), 5, "INVALID_ARGUMENT")?;
    diary.step("runtime_load_models(-1, configs)");
    refused("-1 models", host.load_raw(-1, &empty), 5, "INVALID_ARGUMENT")?;
    diary.step("runtime_load_models(1, NULL)");
    refused("a NULL array", host.load_raw(1, std::ptr::null()), 5, "INVALID_ARGUMENT")?;
    diary.step("runtime_load_models with neither path nor data");
    refused("neither path nor data", host.load_raw(1, &empty), 5, "INVALID_ARGUMENT")?;
    diary.step("runtime_load_models of a missing file");
    let missing = subject.folder.join("missing.model");
    refused("a missing file", host.load(&[&missing]), 7, "FILE_NOT_FOUND")?;
    diary.step("runtime_load_models of garbage");
    let garbage = subject.folder.join("garbage.model");
    std::fs::write(&garbage, "this is no model at all\n".repeat(40)).map_err(|error| error.to_string())?;
    refused("garbage", host.load(&[&garbage]), 6, "INVALID_MODEL")?;
    let model = model(subject)?;
    diary.step("runtime_load_models of a good and a bad model");
    let status = host.load(&[&model.path, &garbage]);
    ensure!(status != 0, "a load with one bad model among two succeeds");
    let info = host.info().unwrap_or_default();
    ensure!(info.contains("\"loaded_models\":0"), "after a failed load of two there are models: {info}");
    diary.step("runtime_load_models again");
    let status = host.load(&[&model.path]);
    ensure!(status == 0, "a load after a failed one gives {status}: {}", host.error().unwrap_or_default());
    let info = host.info().unwrap_or_default();
    ensure!(info.contains("\"loaded_models\":1"), "after a load the information lacks \"loaded_models\":1: {info}");
    host.run(0, model, 1, 1)?;
    diary.step("runtime_load_models a second time");
    let status = host.load(&[&model.path]);
    ensure!(status == 3, "a second load gives {status}, not ALREADY_INITIALIZED (3)");
    host.run(0, model, 2, 2)?;
    ensure!(host.cleanup() == 0, "cleanup fails");
    Ok(())
}

/// R2-9.
pub fn memory(subject: &Subject, diary: &Diary) -> Check {
    let host = Host::open(&subject.library, diary)?;
    let model = model(subject)?;
    let mut bytes = std::fs::read(&model.path)
        .map_err(|error| Stop::Skipped(format!("{} is not one file: {error}", model.path.display())))?;
    diary.step("runtime_load_models of a path that is overwritten after the call");
    ensure!(host.init_raw(Config::NONE) == 0, "init fails");
    let mut path = CString::new(model.path.to_string_lossy().as_bytes()).unwrap_or_default().into_bytes_with_nul();
    let config = ModelConfig { path: path.as_ptr().cast(), data: std::ptr::null(), size: 0, config: Config::NONE };
    let status = host.load_raw(1, &config);
    ensure!(status == 0, "load gives {status}");
    let end = path.len() - 1;
    path[..end].fill(b'x');
    let from_file = host.run(0, model, 1, 5)?;
    ensure!(host.cleanup() == 0, "cleanup fails");
    diary.step("runtime_load_models from memory that is overwritten after the call");
    ensure!(host.init_raw(Config::NONE) == 0, "init fails");
    let status = host.load_memory(&bytes);
    if status == 14 {
        return Err(Stop::Skipped("models from memory are NOT_IMPLEMENTED (14), as is allowed".to_owned()));
    }
    ensure!(status == 0, "load from memory gives {status}: {}", host.error().unwrap_or_default());
    bytes.fill(0);
    drop(bytes);
    let from_memory = host.run(0, model, 2, 5)?;
    ensure!(agree(&from_file, &from_memory), "a model from memory gives other results than from its file");
    ensure!(host.cleanup() == 0, "cleanup fails");
    Ok(())
}

/// R2-10.
pub fn several(subject: &Subject, diary: &Diary) -> Check {
    let host = Host::open(&subject.library, diary)?;
    let model = model(subject)?;
    let other = subject.failing.as_ref().unwrap_or(model);
    ensure!(host.init_raw(Config::NONE) == 0, "init fails");
    diary.step("runtime_load_models of two models");
    let status = host.load(&[&other.path, &model.path]);
    if status != 0 {
        let error = host.error().unwrap_or_default();
        return Err(Stop::Skipped(format!("two models are refused with {status}, as is allowed: {error}")));
    }
    let info = host.info().unwrap_or_default();
    ensure!(info.contains("\"loaded_models\":2"), "two models are loaded, and the information says {info}");
    for id in 0..20 {
        host.run(1, model, id, id as u64)?;
        host.run(0, other, id, id as u64)?;
    }
    diary.step("runtime_enqueue_input for a third model");
    let status = host.enqueue_raw(2, super::request(&model.inputs, 1, 1).0);
    ensure!(status == 18, "model id 2 of two gives {status}, not INVALID_MODEL_ID (18)");
    ensure!(host.cleanup() == 0, "cleanup fails");
    Ok(())
}
