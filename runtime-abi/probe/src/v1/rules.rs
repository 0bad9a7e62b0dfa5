//! The rules of OAAX 1.x.

use super::{Host, NAMES, Owned, Tensors, request};
use crate::{
    process::{self, since},
    subject::{Check, Diary, Stop, Subject, ensure},
    v2::{agree, check_answer, model},
};
use std::{
    ffi::c_void,
    time::{Duration, Instant},
};

/// Whether the model loads and runs.
pub fn loads(subject: &Subject, diary: &Diary) -> Check {
    let (host, model) = (Host::open(subject, diary)?, model(subject)?);
    host.ready(model, diary)?;
    host.run(model, 1)?;
    host.destruction();
    Ok(())
}

/// R1-1.
pub fn exports(subject: &Subject, _: &Diary) -> Check {
    crate::exports_are(subject, &NAMES, None)
}

/// R1-3.
pub fn init(subject: &Subject, diary: &Diary) -> Check {
    let host = Host::open(subject, diary)?;
    diary.step("runtime_name, runtime_version, runtime_error_message before init");
    ensure!(host.name().is_some_and(|name| !name.is_empty()), "runtime_name is NULL or empty");
    ensure!(host.version().is_some_and(|version| !version.is_empty()), "runtime_version is NULL or empty");
    diary.step("runtime_initialization");
    ensure!(host.initialization() == 0, "init fails");
    ensure!(host.destruction() == 0, "destruction fails");
    diary.step("runtime_initialization_with_args without arguments");
    ensure!(host.with_args(&[], &[]) == 0, "init with no arguments fails");
    ensure!(host.destruction() == 0, "destruction fails");
    diary.step("runtime_initialization_with_args with an unknown key whose value is no address");
    let values = [c"3".as_ptr().cast::<c_void>(), std::ptr::without_provenance(1)];
    let status = host.with_args(&[c"log_level", c"no_such_key.of_anyone"], &values);
    ensure!(status == 0, "an unknown key makes init fail with {status}: {}", host.error().unwrap_or_default());
    ensure!(host.destruction() == 0, "destruction fails");
    Ok(())
}

/// R1-4.
pub fn loading(subject: &Subject, diary: &Diary) -> Check {
    let host = Host::open(subject, diary)?;
    let missing = subject.folder.join("missing.model");
    diary.step("runtime_model_loading before init");
    ensure!(host.load(&missing) != 0, "a load before init succeeds");
    diary.step("runtime_model_loading of a missing file");
    ensure!(host.initialization() == 0, "init fails");
    ensure!(host.load(&missing) != 0, "a missing file is loaded");
    ensure!(host.error().is_some_and(|error| !error.is_empty()), "a missing file leaves no error message");
    diary.step("runtime_model_loading of garbage");
    let garbage = subject.folder.join("garbage.model");
    std::fs::write(&garbage, "this is no model at all\n".repeat(40)).map_err(|error| error.to_string())?;
    ensure!(host.load(&garbage) != 0, "garbage is loaded");
    let model = model(subject)?;
    diary.step("runtime_model_loading after failures");
    ensure!(host.load(&model.path) == 0, "a load after failed ones fails: {}", host.error().unwrap_or_default());
    diary.step("runtime_model_loading of a second model");
    ensure!(host.load(&model.path) != 0, "a second model is loaded, where an instance has one");
    host.run(model, 1)?;
    ensure!(host.destruction() == 0, "destruction fails");
    Ok(())
}

/// R1-5.
pub fn sending(subject: &Subject, diary: &Diary) -> Check {
    let host = Host::open(subject, diary)?;
    let model = model(subject)?;
    let refused = |what: &str, input: Owned| -> Check {
        diary.step(&format!("send_input {what}"));
        let outcome = host.send(input);
        ensure!(outcome.is_err(), "send_input {what} succeeds");
        diary.step(&format!("the input {what} is the caller's: free"));
        drop(outcome);
        Ok(())
    };
    refused("before init", request(&model.inputs, 1))?;
    diary.step("runtime_initialization");
    ensure!(host.initialization() == 0, "init fails");
    refused("before load", request(&model.inputs, 1))?;
    ensure!(host.load(&model.path) == 0, "load fails");
    diary.step("send_input(NULL)");
    ensure!(host.send_raw(std::ptr::null_mut()) != 0, "send_input(NULL) succeeds");
    let spoil = |what: &str, change: &dyn Fn(&mut Tensors)| -> Check {
        let mut input = request(&model.inputs, 1);
        // SAFETY: ours; a copy of the struct keeps what must be freed.
        let kept = unsafe { std::ptr::read(input.0) };
        change(input.tensors());
        diary.step(&format!("send_input with {what}"));
        let status = host.send_raw(input.0);
        // SAFETY: ours where it was refused, and every block is as it was.
        unsafe { std::ptr::write(input.0, kept) };
        if status == 0 {
            std::mem::forget(input);
            return Err(Stop::Broken(format!("an input with {what} is accepted")));
        }
        diary.step(&format!("the input with {what} is the caller's: free"));
        drop(input);
        Ok(())
    };
    spoil("no tensors announced", &|t| t.count = 0)?;
    spoil("no data array", &|t| t.data = std::ptr::null_mut())?;
    spoil("no shapes array", &|t| t.shapes = std::ptr::null_mut())?;
    diary.step("100 inputs before the first receive");
    for seed in 0..100 {
        if let Err((status, _)) = host.send(request(&model.inputs, seed)) {
            return Err(Stop::Broken(format!("input {seed} of 100 is refused with {status}")));
        }
    }
    for _ in 0..100 {
        host.wait()?.answers()?;
    }
    ensure!(host.destruction() == 0, "destruction fails");
    Ok(())
}

/// R1-6.
pub fn receiving(subject: &Subject, diary: &Diary) -> Check {
    let host = Host::open(subject, diary)?;
    let model = model(subject)?;
    host.ready(model, diary)?;
    diary.step("receive_output of nothing");
    let start = Instant::now();
    ensure!(host.receive().is_err(), "receive gives an output where none is owed");
    let took = since(start);
    ensure!(took <= 150.0, "receive of nothing takes {took:.0} ms, and hosts expect at most 100");
    host.run(model, 1)?;
    diary.step("200 outputs, freed");
    let heap = process::heap();
    for seed in 0..200 {
        host.run(model, seed)?;
    }
    let grown = process::heap() - heap;
    ensure!(grown < 4096, "{grown} bytes are lost over 200 requests whose outputs were freed block by block");
    ensure!(host.destruction() == 0, "destruction fails");
    Ok(())
}

/// R1-7.
pub fn two_threads(subject: &Subject, diary: &Diary) -> Check {
    let host = Host::open(subject, diary)?;
    let model = model(subject)?;
    host.ready(model, diary)?;
    let start = Instant::now();
    let wanted: Result<Vec<_>, Stop> = (0..5).map(|seed| host.run(model, seed)).collect();
    let wanted = wanted?;
    let single = since(start) / 5.0;
    let all = ((10_000.0 / single) as u64).clamp(20, 2000);
    // Long beside one request, short enough to notice that an output is lost.
    let patience = Duration::from_millis((single * 50.0).clamp(2000.0, 20_000.0) as u64);
    diary.step(&format!("one thread sends {all} inputs, another receives"));
    std::thread::scope(|scope| {
        let host = &host;
        scope.spawn(move || {
            for seed in 0..all {
                let (mut input, begun) = (request(&model.inputs, seed % 5), Instant::now());
                while let Err((_, back)) = host.send(input) {
                    if begun.elapsed().as_secs() > 20 {
                        return;
                    }
                    input = back;
                    process::wait(1);
                }
            }
        });
        for number in 0..all {
            let answers = host.wait_for(patience)?.answers()?;
            let right = wanted.iter().any(|wanted| agree(wanted, &answers));
            ensure!(right, "output {number} is none of those of a single thread");
        }
        Ok(())
    })?;
    ensure!(host.destruction() == 0, "destruction fails");
    Ok(())
}

/// R1-8.
pub fn cycles(subject: &Subject, diary: &Diary) -> Check {
    let host = Host::open(subject, diary)?;
    let model = model(subject)?;
    let mut before = (0, 0);
    for round in 0..60 {
        host.ready(model, diary)?;
        for seed in 0..10 {
            host.run(model, seed)?;
        }
        diary.step(&format!("runtime_destruction with work at hand, round {round}"));
        for seed in 0..10 {
            ensure!(host.send(request(&model.inputs, seed)).is_ok(), "a good input is refused");
        }
        ensure!(host.destruction() == 0, "destruction fails in round {round}");
        ensure!(host.name().is_some() && host.version().is_some(), "name or version is NULL after destruction");
        if round == 20 {
            before = (process::heap(), process::descriptors());
        }
    }
    let grown = process::heap() - before.0;
    ensure!(grown < 8192, "{grown} bytes are lost over 39 cycles of twenty requests");
    ensure!(process::descriptors() == before.1, "descriptors are lost");
    let threads = process::threads_settled(1);
    ensure!(threads == 1, "{} threads are left after destruction", threads - 1);
    Ok(())
}

/// R1-9.
pub fn order(subject: &Subject, diary: &Diary) -> Check {
    let host = Host::open(subject, diary)?;
    let model = model(subject)?;
    host.ready(model, diary)?;
    let wanted: Result<Vec<_>, Stop> = (0..20).map(|seed| host.run(model, seed)).collect();
    let wanted = wanted?;
    ensure!(!agree(&wanted[0], &wanted[1]) || !model.doubles, "two different inputs give one result");
    diary.step("80 inputs, then their outputs in order");
    for seed in 0..80 {
        ensure!(host.send(request(&model.inputs, seed % 20)).is_ok(), "a good input is refused");
    }
    for seed in 0..80 {
        let answers = host.wait()?.answers()?;
        check_answer(model, seed % 20, &answers)?;
        ensure!(agree(&wanted[seed as usize % 20], &answers), "output {seed} is not that of input {seed}");
    }
    ensure!(host.destruction() == 0, "destruction fails");
    Ok(())
}

/// R1-10: a host that goes through all functions with empty tensors.
pub fn illustrative(subject: &Subject, diary: &Diary) -> Check {
    let host = Host::open(subject, diary)?;
    diary.step("runtime_initialization");
    ensure!(host.initialization() == 0, "init fails");
    if let Some(model) = &subject.model {
        ensure!(host.load(&model.path) == 0, "load fails: {}", host.error().unwrap_or_default());
    }
    // SAFETY: a count of 0 and null pointers.
    let mut empty: Tensors = unsafe { std::mem::zeroed() };
    diary.step("send_input of empty tensors");
    let status = host.send_raw(&mut empty);
    ensure!(status != 0 || subject.model.as_ref().is_none_or(|model| model.inputs.is_empty()), "empty tensors are accepted");
    diary.step("receive_output");
    ensure!(host.receive().is_err(), "there is an output of empty tensors");
    ensure!(host.error().is_some() && host.name().is_some() && host.version().is_some(), "a text is NULL");
    diary.step("runtime_destruction");
    ensure!(host.destruction() == 0, "destruction fails");
    Ok(())
}
