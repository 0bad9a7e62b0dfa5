//! Rules of `runtime_enqueue_input` and `runtime_retrieve_output`.

use super::{Host, Owned, Tensors, WAIT, agree, check_answer, model, request};
use crate::{
    process::{self, since},
    subject::{Check, Diary, Stop, Subject, Use, ensure},
};
use std::{
    collections::BTreeMap,
    ffi::c_int,
    sync::atomic::{AtomicUsize, Ordering},
    time::Instant,
};

/// Whether the model loads and runs.
pub fn loads(subject: &Subject, diary: &Diary) -> Check {
    let (host, model) = (Host::open(&subject.library, diary)?, model(subject)?);
    host.ready(model, diary)?;
    host.run(0, model, 1, 1)?;
    host.cleanup();
    Ok(())
}

/// R2-11.
pub fn wrong_inputs(subject: &Subject, diary: &Diary) -> Check {
    let host = Host::open(&subject.library, diary)?;
    let model = model(subject)?;
    host.ready(model, diary)?;
    let fresh = || request(&model.inputs, 9, 3);
    let refused = |what: &str, wanted: c_int, status: c_int| {
        ensure!(status != 0, "{what} is accepted");
        ensure!(status == wanted, "{what} gives {status}, not {wanted}: {}", host.error().unwrap_or_default());
        ensure!(host.error().is_some(), "{what} leaves no error text");
        Ok(())
    };
    diary.step("runtime_enqueue_input(0, NULL)");
    refused("NULL", 5, host.enqueue_raw(0, std::ptr::null_mut()))?;
    for id in [-1, 1, 1000] {
        let input = fresh();
        diary.step(&format!("runtime_enqueue_input({id}, a good input)"));
        refused(&format!("model id {id}"), 18, host.enqueue_raw(id, input.0))?;
        diary.step("the refused input is the caller's: free");
        drop(input);
    }
    // SAFETY (of all below): the tensors are ours, and what is spoilt is put right before they are freed.
    let spoil = |what: &str, wanted: c_int, change: &dyn Fn(&mut Tensors)| -> Check {
        let input = fresh();
        // SAFETY: ours; a copy of the struct keeps what must be freed.
        let kept = unsafe { std::ptr::read(input.0) };
        // SAFETY: ours.
        change(unsafe { &mut *input.0 });
        diary.step(&format!("runtime_enqueue_input with {what}"));
        let outcome = refused(what, wanted, host.enqueue_raw(0, input.0));
        // SAFETY: ours, and every block is as it was.
        unsafe { std::ptr::write(input.0, kept) };
        diary.step(&format!("the input with {what} is the caller's: free"));
        drop(input);
        outcome
    };
    spoil("one tensor too many announced", 9, &|t| t.count += 1)?;
    spoil("no tensors announced", 9, &|t| t.count = 0)?;
    spoil("a NULL array", 9, &|t| t.tensors = std::ptr::null_mut())?;
    let first = |what: &str, wanted: c_int, change: &dyn Fn(&mut super::Descriptor)| -> Check {
        let mut input = fresh();
        let slot: *mut super::Descriptor = &mut input.descriptors()[0];
        // SAFETY: ours; a copy keeps what must be freed.
        let kept = unsafe { std::ptr::read(slot) };
        // SAFETY: ours.
        change(unsafe { &mut *slot });
        diary.step(&format!("runtime_enqueue_input with {what}"));
        let outcome = refused(what, wanted, host.enqueue_raw(0, input.0));
        // SAFETY: ours, and every block is as it was.
        unsafe { std::ptr::write(slot, kept) };
        diary.step(&format!("the input with {what} is the caller's: free"));
        ensure!(input.id() == 9 && input.descriptors()[0].bytes == model.inputs[0].bytes(), "a refused input was changed");
        drop(input);
        outcome
    };
    let other = if model.inputs[0].dtype == 6 { 1 } else { 6 };
    first("another type", 11, &|t| t.dtype = other)?;
    first("type 99, which is none", 11, &|t| t.dtype = 99)?;
    // A shape of the same number of bytes, so that nothing but the rank is wrong.
    first("rank 0", 10, &|t| (t.rank, t.bytes) = (0, t.bytes / elements(model)))?;
    first("a data_size one byte short", 9, &|t| t.bytes -= 1)?;
    first("an endless data_size", 9, &|t| t.bytes = usize::MAX)?;
    first("no data", 9, &|t| t.data = std::ptr::null_mut())?;
    first("no shape", 9, &|t| t.shape = std::ptr::null_mut())?;
    first("a negative rank", 9, &|t| t.rank = -1)?;
    let name = c"no_such_input_of_any_model";
    first("an unknown name", 9, &|t| t.name = name.as_ptr().cast_mut())?;
    host.run(0, model, 10, 3)?;
    ensure!(host.cleanup() == 0, "cleanup fails");
    Ok(())
}

fn elements(model: &Use) -> usize {
    model.inputs[0].shape.iter().product::<i64>().max(1) as usize
}

/// R2-12.
pub fn queue(subject: &Subject, diary: &Diary) -> Check {
    let host = Host::open(&subject.library, diary)?;
    let model = model(subject)?;
    host.ready(model, diary)?;
    host.run(0, model, 1, 1)?;
    diary.step("one request, timed");
    let start = Instant::now();
    taken(&host, model, 2)?;
    let enqueued = since(start);
    let output = host.retrieve(WAIT);
    let whole = since(start);
    ensure!(output.status == 0, "retrieve gives {}", output.status);
    ensure!(
        enqueued < 5.0 || enqueued < whole * 0.5,
        "enqueue takes {enqueued:.1} ms of the {whole:.1} ms that a whole request takes: it waits for the inference"
    );
    diary.step("100 requests without a retrieve");
    for id in 0..100 {
        taken(&host, model, id)?;
    }
    let mut refused = false;
    for id in 100..2000 {
        diary.step(&format!("request {id} without a retrieve"));
        let outcome = host.enqueue(0, request(&model.inputs, id, id as u64));
        if let Err((_, input)) = outcome {
            ensure!(host.error().is_some(), "a full queue leaves no error text");
            diary.step("the refused input is the caller's: free");
            drop(input);
            refused = true;
            break;
        }
    }
    diary.step("the outputs of all");
    let mut seen = 0;
    while let Some(output) = host.retrieve(if seen < 100 { WAIT } else { 500 }).output {
        check_answer(model, output.id() as u64, &output.answers()?)?;
        seen += 1;
    }
    ensure!(seen >= 100 && (refused || seen == 2000), "{seen} outputs came of the accepted requests");
    ensure!(host.cleanup() == 0, "cleanup fails");
    Ok(())
}

fn taken(host: &Host, model: &Use, id: c_int) -> Check {
    host.enqueue(0, request(&model.inputs, id, id as u64)).map_err(|(status, _)| {
        let error = host.error().unwrap_or_default();
        Stop::Broken(format!("request {id} is refused with {status} while fewer than a hundred are outstanding: {error}"))
    })
}

/// Senders of R2-13.
const SENDERS: usize = 8;

/// R2-13.
pub fn threads(subject: &Subject, diary: &Diary) -> Check {
    let host = Host::open(&subject.library, diary)?;
    let model = model(subject)?;
    ensure!(host.init_raw(super::Config::NONE) == 0, "init fails");
    let models = if host.load(&[&model.path, &model.path]) == 0 { 2 } else { 1 };
    if models == 1 {
        let status = host.load(&[&model.path]);
        ensure!(status == 0, "load gives {status}");
    }
    diary.step("single requests, for the right results and the time");
    let start = Instant::now();
    let mut wanted = BTreeMap::new();
    for seed in 0..5u64 {
        wanted.insert(seed, host.run(0, model, 1, seed)?);
    }
    // A slow model gets fewer requests: about ten seconds of them.
    let single = since(start) / 5.0;
    let each = ((10_000.0 / single) as usize / SENDERS).clamp(4, 1000);
    // Long beside one request, short enough to notice that an output is lost.
    let patience = (single * 50.0).clamp(2000.0, 20_000.0) as c_int;
    let all = each * SENDERS;
    diary.step(&format!("{SENDERS} threads with {each} requests each, {models} models"));
    let (waiting, failed) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let mut seen = vec![false; all];
    std::thread::scope(|scope| {
        for sender in 0..SENDERS {
            let (host, waiting, failed) = (&host, &waiting, &failed);
            scope.spawn(move || {
                for index in 0..each {
                    let id = (sender * each + index) as c_int;
                    let mut input = request(&model.inputs, id, id as u64 % 5);
                    let begun = Instant::now();
                    while let Err((_, back)) = host.enqueue(id % models, input) {
                        // A full queue: the receiver makes room.
                        if begun.elapsed().as_secs() > 20 {
                            failed.fetch_add(1, Ordering::Relaxed);
                            return;
                        }
                        input = back;
                        process::wait(1);
                    }
                    waiting.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        for _ in 0..all {
            let retrieved = host.retrieve(patience);
            let Some(output) = retrieved.output else {
                let lost = seen.iter().filter(|seen| !**seen).count();
                return Err(Stop::Broken(format!("retrieve gives {} while {lost} outputs are owed", retrieved.status)));
            };
            let id = output.id();
            let place = usize::try_from(id).ok().filter(|place| *place < all);
            let Some(place) = place else {
                return Err(Stop::Broken(format!("an output has the id {id}, which none was sent with")));
            };
            ensure!(!seen[place], "the output of request {id} comes twice");
            seen[place] = true;
            ensure!(
                retrieved.model == id % models,
                "request {id} went to model {}, its output says {}",
                id % models,
                retrieved.model
            );
            let right = agree(&wanted[&(id as u64 % 5)], &output.answers()?);
            ensure!(right, "the output of request {id} is not that of a single thread");
        }
        Ok(())
    })?;
    ensure!(failed.load(Ordering::Relaxed) == 0, "requests are refused for more than 20 s though outputs are retrieved");
    let more = host.retrieve(0).status;
    ensure!(more == 12, "after all outputs one more retrieve gives {more}, not NO_OUTPUT_AVAILABLE (12)");
    ensure!(host.cleanup() == 0, "cleanup fails");
    Ok(())
}

/// R2-14.
pub fn timeouts(subject: &Subject, diary: &Diary) -> Check {
    let host = Host::open(&subject.library, diary)?;
    let model = model(subject)?;
    host.ready(model, diary)?;
    let poll = |timeout: c_int| {
        let (mut model, mut output) = (0, std::ptr::without_provenance_mut::<Tensors>(1));
        let start = Instant::now();
        let status = host.retrieve_raw(&mut model, &mut output, timeout);
        (status, output, since(start))
    };
    diary.step("runtime_retrieve_output(0) of nothing");
    let (status, output, took) = poll(0);
    ensure!(status == 12, "a poll of nothing gives {status}, not NO_OUTPUT_AVAILABLE (12)");
    ensure!(output.is_null(), "after NO_OUTPUT_AVAILABLE *output_tensors is not NULL");
    ensure!(took < 40.0, "a poll takes {took:.1} ms");
    diary.step("runtime_retrieve_output(50) of nothing");
    let (status, _, took) = poll(50);
    ensure!(status == 12, "a wait for nothing gives {status}, not NO_OUTPUT_AVAILABLE (12)");
    ensure!((49.9..450.0).contains(&took), "a wait of 50 ms takes {took:.1} ms");
    diary.step("runtime_retrieve_output(-1) before its input is there");
    let retrieved = std::thread::scope(|scope| {
        let waiting = scope.spawn(|| host.retrieve(-1));
        process::wait(40);
        let sent = host.enqueue(0, request(&model.inputs, 5, 5));
        (waiting.join(), sent.is_ok())
    });
    ensure!(retrieved.1, "a good input is refused");
    let Ok(retrieved) = retrieved.0 else { return Err(Stop::Broken("the waiting thread panicked".to_owned())) };
    ensure!(retrieved.output.is_some_and(|output| output.id() == 5), "retrieve(-1) gives {}", retrieved.status);
    diary.step("runtime_retrieve_output(NULL, …)");
    let (mut id, mut output) = (0, std::ptr::null_mut());
    let status = host.retrieve_raw(std::ptr::null_mut(), &mut output, 0);
    ensure!(status == 5, "a NULL model_id gives {status}, not INVALID_ARGUMENT (5)");
    diary.step("runtime_retrieve_output(…, NULL)");
    let status = host.retrieve_raw(&mut id, std::ptr::null_mut(), 0);
    ensure!(status == 5, "a NULL output_tensors gives {status}, not INVALID_ARGUMENT (5)");
    ensure!(host.cleanup() == 0, "cleanup fails");
    Ok(())
}

/// R2-15.
pub fn outputs(subject: &Subject, diary: &Diary) -> Check {
    let host = Host::open(&subject.library, diary)?;
    let model = model(subject)?;
    host.ready(model, diary)?;
    for id in [-7, 0, c_int::MAX, c_int::MIN] {
        diary.step(&format!("request {id}, its output freed block by block"));
        host.run(0, model, id, 3)?;
    }
    diary.step("two outputs at hand at once");
    let answers = |output: &Option<Owned>| output.as_ref().map(Owned::answers).transpose();
    taken(&host, model, 1)?;
    taken(&host, model, 2)?;
    let (one, other) = (host.retrieve(WAIT).output, host.retrieve(WAIT).output);
    let first = answers(&one)?;
    ensure!(first.is_some() && other.is_some(), "two requests give no two outputs");
    drop(other);
    taken(&host, model, 3)?;
    let third = host.retrieve(WAIT).output;
    ensure!(answers(&one)? == first, "an output that was given away changes with later ones");
    drop(one);
    drop(third);
    diary.step("200 outputs, freed");
    let heap = process::heap();
    for id in 0..200 {
        host.run(0, model, id, id as u64)?;
    }
    let grown = process::heap() - heap;
    ensure!(grown < 4096, "{grown} bytes are lost over 200 requests whose outputs were freed block by block");
    ensure!(host.cleanup() == 0, "cleanup fails");
    Ok(())
}

/// R2-16.
pub fn failure(subject: &Subject, diary: &Diary) -> Check {
    let host = Host::open(&subject.library, diary)?;
    let Some(model) = &subject.failing else {
        return Err(Stop::Skipped("no model whose request fails is at hand (it comes with the small models)".to_owned()));
    };
    host.ready(model, diary)?;
    host.run(0, model, 1, 1)?;
    let mut bad = request(&model.inputs, 77, 1);
    let Some(place) = model.inputs.iter().position(|port| port.dtype == 7) else {
        return Err(Stop::Skipped("the failing model has no int64 input".to_owned()));
    };
    // SAFETY: the block has room for at least one such number.
    unsafe { bad.descriptors()[place].data.cast::<i64>().write_unaligned(1000) };
    diary.step("a request that must fail");
    if host.enqueue(0, bad).is_ok() {
        let retrieved = host.retrieve(5000);
        ensure!(
            retrieved.status != 12,
            "a failed request is never heard of again: retrieve(5000) gives NO_OUTPUT_AVAILABLE (12)"
        );
        ensure!(retrieved.status != 0, "a request that must fail gives an output");
        ensure!(
            matches!(retrieved.status, 13 | 16),
            "a failed request gives {}, not INFERENCE_ERROR (13) or DEVICE_ERROR (16)",
            retrieved.status
        );
        ensure!(retrieved.model == 0, "a failed request of model 0 sets model_id to {}", retrieved.model);
        let error = host.error().unwrap_or_default();
        ensure!(error.contains("77"), "the error text of failed request 77 does not name it: {error:?}");
    }
    diary.step("a good request after a failed one");
    host.run(0, model, 2, 1)?;
    ensure!(host.cleanup() == 0, "cleanup fails");
    Ok(())
}

/// R2-23.
pub fn upstream(subject: &Subject, diary: &Diary) -> Check {
    let host = Host::open(&subject.library, diary)?;
    let model = model(subject)?;
    for round in 0..2 {
        host.ready(model, diary)?;
        diary.step("40 requests, unthrottled, then 40 outputs");
        for id in 0..40 {
            taken(&host, model, id)?;
        }
        let mut seen = [false; 40];
        for _ in 0..40 {
            let retrieved = host.retrieve(-1);
            let Some(output) = retrieved.output else {
                return Err(Stop::Broken(format!("retrieve(-1) gives {} in round {round}", retrieved.status)));
            };
            let place = usize::try_from(output.id()).ok().filter(|place| *place < 40 && !seen[*place]);
            let Some(place) = place else { return Err(Stop::Broken(format!("id {} is not owed", output.id()))) };
            seen[place] = true;
            check_answer(model, place as u64, &output.answers()?)?;
        }
        ensure!(host.cleanup() == 0, "cleanup fails");
    }
    Ok(())
}
