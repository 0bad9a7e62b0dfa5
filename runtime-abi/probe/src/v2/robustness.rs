//! Rules about the library as a neighbour, and about what it must bear.

use super::{Config, Host, ModelConfig, NAMES, NODE, Tensors, model, request};
use crate::{
    process,
    subject::{Check, Diary, Stop, Subject, ensure},
};
use oaax_core::Json;
use std::ffi::c_int;

/// R2-1.
pub fn exports(subject: &Subject, _: &Diary) -> Check {
    crate::exports_are(subject, &NAMES, Some(NODE))
}

/// R2-20.
pub fn two_copies(subject: &Subject, diary: &Diary) -> Check {
    let copy = subject.folder.join("copy-of-the-library.so");
    std::fs::copy(&subject.library, &copy).map_err(|error| Stop::Skipped(format!("it cannot be copied: {error}")))?;
    let model = model(subject)?;
    let one = Host::open(&subject.library, diary)?;
    diary.step("dlopen of a copy under another name");
    let other = Host::open(&copy, diary)
        .map_err(|_| Stop::Skipped("a copy in another folder does not open: it needs its neighbours".to_owned()))?;
    one.ready(model, diary)?;
    diary.step("the copy beside it");
    ensure!(other.info().is_none(), "the copy is initialised by the init of the first");
    other.ready(model, diary)?;
    for id in 0..20 {
        let input = request(&model.inputs, id, 1);
        ensure!(one.enqueue(0, input).is_ok(), "the first refuses a good input");
        other.run(0, model, id + 100, 2)?;
        let output = one.retrieve(super::WAIT).output;
        ensure!(output.is_some_and(|output| output.id() == id), "the output of the first does not come from the first");
    }
    ensure!(other.cleanup() == 0, "cleanup of the copy fails");
    one.run(0, model, 3, 3)?;
    ensure!(one.cleanup() == 0, "cleanup fails");
    other.close()?;
    one.close()?;
    Ok(())
}

/// Numbers without a pattern; the same ones each time.
struct Random(u64);

impl Random {
    fn next(&mut self, below: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) % below
    }
}

/// R2-21.
pub fn fuzz(subject: &Subject, diary: &Diary) -> Check {
    let host = Host::open(&subject.library, diary)?;
    let mut random = Random(1);
    let wild = [0, 1, -1, 7, 255, 1 << 20, c_int::MAX, c_int::MIN];
    for round in 0..400 {
        let (a, b) = (wild[random.next(8) as usize], wild[random.next(8) as usize]);
        let mut tensors = Tensors { id: b, count: 0, tensors: std::ptr::null_mut() };
        let call = random.next(8);
        diary.step(&format!("wild call {round}: kind {call}, {a}, {b}"));
        let status = match call {
            0 => host.init_raw(Config { length: if a > 0 { a } else { 0 }, keys: std::ptr::null(), values: std::ptr::null() }),
            1 => host.init_raw(Config { length: -1, keys: std::ptr::null(), values: std::ptr::null() }),
            2 => host.load_raw(if a > 1 { -a } else { a.min(0) }, std::ptr::null()),
            3 => host.enqueue_raw(a, std::ptr::null_mut()),
            4 => host.enqueue_raw(a, &mut tensors),
            5 => host.retrieve_raw(std::ptr::null_mut(), std::ptr::null_mut(), 0),
            6 => host.cleanup(),
            _ => {
                let empty = ModelConfig { path: c"".as_ptr(), data: std::ptr::null(), size: a as usize, config: Config::NONE };
                host.load_raw(1, &empty)
            }
        };
        ensure!((0..=18).contains(&status), "call {call} gives {status}, which is no status");
        host.error();
        host.info();
    }
    host.cleanup();
    let model = model(subject)?;
    let Ok(good) = std::fs::read(&model.path) else { return Ok(()) };
    let path = subject.folder.join("damaged.model");
    for round in 0..60 {
        let mut bytes = good.clone();
        match round % 3 {
            0 => bytes.truncate(random.next(good.len() as u64) as usize),
            1 => (0..4).for_each(|_| bytes[random.next(good.len() as u64) as usize] ^= 1 << random.next(8)),
            _ => {
                let start = random.next(good.len() as u64) as usize;
                let end = good.len().min(start + 64);
                bytes[start..end].fill(random.next(256) as u8);
            }
        }
        std::fs::write(&path, &bytes).map_err(|error| error.to_string())?;
        diary.step(&format!("runtime_load_models of a damaged model, round {round} (bytes: {})", bytes.len()));
        ensure!(host.init_raw(Config::NONE) == 0, "init fails in round {round}");
        let status = host.load(&[&path]);
        ensure!((0..=18).contains(&status), "load gives {status}, which is no status");
        if bytes.is_empty() {
            ensure!(status == 6, "an empty model gives {status}, not INVALID_MODEL (6)");
        }
        diary.step(&format!("runtime_cleanup after a damaged model, round {round}"));
        ensure!(host.cleanup() == 0, "cleanup fails in round {round}");
    }
    host.ready(model, diary)?;
    host.run(0, model, 1, 1)?;
    ensure!(host.cleanup() == 0, "cleanup fails");
    ensure!(process::printed() == 0, "something was written to standard output");
    Ok(())
}

/// R2-22.
pub fn info(subject: &Subject, diary: &Diary) -> Check {
    let host = Host::open(&subject.library, diary)?;
    let read = || -> Result<Json, Stop> {
        let text = host.info().ok_or_else(|| Stop::Broken("the information is NULL after init".to_owned()))?;
        let json =
            Json::parse(text.as_bytes()).map_err(|why| Stop::Broken(format!("the information is no JSON, it {why}: {text}")))?;
        ensure!(matches!(json, Json::Object(_)), "the information is no JSON object: {text}");
        ensure!(!text.contains("\": "), "the information is not compact, there are blanks after colons: {text}");
        for key in ["loaded_models", "requests_in_flight"] {
            ensure!(json.get(key).and_then(Json::u64).is_some(), "{key} is no number: {text}");
        }
        ensure!(json.get("backend_version").and_then(Json::text).is_some(), "backend_version is no string: {text}");
        Ok(json)
    };
    diary.step("runtime_get_info after init");
    ensure!(host.init_raw(Config::NONE) == 0, "init fails");
    let json = read()?;
    ensure!(json.get("loaded_models").and_then(Json::u64) == Some(0), "loaded_models is not 0 before load");
    ensure!(host.cleanup() == 0, "cleanup fails");
    ensure!(host.info().is_none(), "there is information after cleanup, not NULL");
    let model = model(subject)?;
    host.ready(model, diary)?;
    let number = |key: &str| -> Result<Option<u64>, Stop> { Ok(read()?.get(key).and_then(Json::u64)) };
    ensure!(number("loaded_models")? == Some(1), "loaded_models is not 1 after load");
    host.run(0, model, 1, 1)?;
    ensure!(number("requests_in_flight")? == Some(0), "requests_in_flight is not 0 when all outputs are retrieved");
    ensure!(host.cleanup() == 0, "cleanup fails");
    Ok(())
}
