//! Runs of hand-written programs: sizes, branches, loops, data-dependent outputs, faults, threads.

use oaax_core::{Error, Model, Options, Output, Session, Status, Tensor, Value, abi::DType};
use oaax_testkit::{folder, programs, write_model};
use std::sync::Arc;

fn open(program: &oaax_core::abi::Program, threads: usize) -> Session {
    let folder = folder(&format!("run-{}-{threads}-{:?}", program.name, std::thread::current().id()));
    let path = folder.join("model.oaax");
    write_model(program, &path);
    let model = Model::open(&path, &Options { threads, ..Options::default() }).expect("the model opens");
    Session::new(&model) // The folder goes, the map stays good.
}

fn floats(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

fn ints(values: &[i64]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

fn as_floats(bytes: &[u8]) -> Vec<f32> {
    bytes.chunks_exact(4).map(|four| f32::from_le_bytes(four.try_into().unwrap())).collect()
}

fn as_ints(bytes: &[u8]) -> Vec<i64> {
    bytes.chunks_exact(8).map(|eight| i64::from_le_bytes(eight.try_into().unwrap())).collect()
}

fn tensor<'a>(dtype: DType, dims: &'a [i64], data: &'a [u8]) -> Value<'a> {
    Value::Tensor(Tensor { dtype, dims, data })
}

fn scaled_sum(session: &Session, n: usize, start: f32) -> Result<Vec<f32>, Error> {
    let x: Vec<f32> = (0..n).map(|i| start + i as f32).collect();
    let data = floats(&x);
    let dims = [n as i64];
    let outputs = session.run_fresh(&[tensor(DType::F32, &dims, &data), tensor(DType::F32, &dims, &data)])?;
    assert_eq!(outputs[0].dims, dims);
    Ok(as_floats(outputs[0].data()))
}

#[test]
fn one_program_runs_at_every_size_and_number_of_threads() {
    for threads in [1, 2, 3] {
        let session = open(&programs::scaled_sum(), threads);
        for n in [1, 5, 1024, 1025, 50_000, 3] {
            let expected: Vec<f32> = (0..n).map(|i| (1.0 + i as f32) * 0.5 + (1.0 + i as f32)).collect();
            assert_eq!(scaled_sum(&session, n, 1.0).expect("runs"), expected, "{n} elements, {threads} threads");
        }
    }
}

#[test]
fn runs_from_many_threads_do_not_disturb_one_another() {
    let session = Arc::new(open(&programs::scaled_sum(), 2));
    std::thread::scope(|scope| {
        for thread in 0..6 {
            let session = session.clone();
            scope.spawn(move || {
                for round in 0..50 {
                    let n = 100 + 700 * (round % 5) + thread;
                    let start = (thread * 1000 + round) as f32;
                    let z = scaled_sum(&session, n, start).expect("runs");
                    assert_eq!(z.len(), n);
                    assert!(z.iter().enumerate().all(|(i, z)| *z == (start + i as f32) * 1.5));
                }
            });
        }
    });
}

#[test]
fn loops_branches_and_cells_of_tensors_are_the_hosts() {
    let session = open(&programs::repeated_sum(), 2);
    let x = floats(&[1.0, -2.0, 0.25]);
    for times in [1i64, 2, 7] {
        let count = ints(&[times]);
        let outputs = session.run_fresh(&[tensor(DType::F32, &[3], &x), tensor(DType::I64, &[], &count)]).expect("runs");
        assert_eq!(as_floats(outputs[0].data()), [1.0, -2.0, 0.25].map(|x: f32| x * times as f32));
        assert_eq!(as_ints(outputs[1].data()), [times]);
    }
    let count = ints(&[-1]);
    let inputs = [tensor(DType::F32, &[3], &x), tensor(DType::I64, &[], &count)];
    let error = session.run_fresh(&inputs).expect_err("negative");
    assert_eq!(error.to_string(), "node \"Loop_0\": the trip count is negative");
    assert_eq!(error.status, Status::RunFailed);
}

#[test]
fn data_decide_the_size_of_an_output() {
    let session = open(&programs::nonzero(), 2);
    for x in [&[0.0f32, 3.0, 0.0, -1.0][..], &[0.0, 0.0], &[], &[7.0; 3000]] {
        let outputs = session.run_fresh(&[tensor(DType::F32, &[x.len() as i64], &floats(x))]).expect("runs");
        let expected: Vec<i64> = (0..x.len()).filter(|i| x[*i] != 0.0).map(|i| i as i64).collect();
        assert_eq!(outputs[0].dims, [expected.len() as i64]);
        assert_eq!(as_ints(outputs[0].data()), expected);
    }
}

#[test]
fn an_index_out_of_range_names_its_node() {
    for threads in [1, 3] {
        let session = open(&programs::gather(), threads);
        let x = floats(&[10.0, 20.0, 30.0]);
        let run = |index: &[i64]| {
            let data = ints(index);
            session.run_fresh(&[tensor(DType::F32, &[3], &x), tensor(DType::I64, &[index.len() as i64], &data)])
        };
        let outputs = run(&[2, -1, 0, 1]).expect("runs");
        assert_eq!(as_floats(outputs[0].data()), [30.0, 30.0, 10.0, 20.0]);
        assert_eq!(as_floats(outputs[1].data()), [30.0, 30.0, 10.0, 20.0]);
        let mut index = vec![0; 4096];
        index[4000] = 3;
        let error = run(&index).expect_err("out of range");
        let message = error.to_string();
        let expected = |node| format!("node \"{node}\": index 3 lies outside -3 to 3 (exclusive)");
        assert!([expected("Gather_0"), expected("Gather_1")].contains(&message), "{message}");
        assert!(run(&[1, 1]).is_ok(), "the session is good after an error");
    }
}

#[test]
fn wrong_inputs_are_named_with_what_was_wanted() {
    let session = open(&programs::gather(), 1);
    let x = floats(&[1.0, 2.0]);
    let index = ints(&[0, 1]);
    let error = |inputs: &[Value<'_>]| {
        let error = session.run_fresh(inputs).expect_err("wrong input");
        (error.status, error.message)
    };
    let good = || tensor(DType::F32, &[2], &x);
    assert_eq!(error(&[good()]), (Status::InvalidArgument, "the model takes 2 inputs, 1 are given".into()));
    assert_eq!(
        error(&[good(), tensor(DType::F32, &[2], &x)]),
        (Status::TypeMismatch, "input \"index\" is float, the model takes int64".into())
    );
    assert_eq!(
        error(&[good(), tensor(DType::I64, &[1, 2], &index)]),
        (Status::ShapeMismatch, "input \"index\" has rank 2, the model takes rank 1: [M]".into())
    );
    assert_eq!(
        error(&[good(), tensor(DType::I64, &[1], &index[..8])]),
        (Status::ShapeMismatch, "input \"index\", dim 0 (M): wanted a multiple of 2, found 1".into())
    );
    assert_eq!(
        error(&[good(), tensor(DType::I64, &[3], &index)]),
        (Status::InvalidArgument, "input \"index\": 16 bytes do not fit the shape [3] of int64".into())
    );
    let many = vec![0; 8 * 5000];
    assert_eq!(
        error(&[good(), tensor(DType::I64, &[5000], &many)]).1,
        "input \"index\", dim 0 (M): wanted 0 to 4096, found 5000"
    );
    let sum = open(&programs::scaled_sum(), 1);
    let other = floats(&[1.0, 2.0, 3.0]);
    let message = sum.run_fresh(&[good(), tensor(DType::F32, &[3], &other)]).expect_err("unequal").message;
    assert_eq!(message, "input \"y\", dim 0 (N): wanted 2, found 3");
}

#[test]
fn sequences_and_optionals_go_in_and_out() {
    let session = open(&programs::cells(), 1);
    let data = [floats(&[1.0]), floats(&[2.0, 3.0]), floats(&[4.0, 5.0])];
    let shapes: [&[i64]; 3] = [&[1], &[2], &[1, 2]];
    let list: Vec<Tensor<'_>> = data.iter().zip(shapes).map(|(data, dims)| Tensor { dtype: DType::F32, dims, data }).collect();
    let outputs = session.run_fresh(&[Value::Sequence(list.clone()), Value::Absent]).expect("runs");
    let items = outputs[0].items.as_ref().expect("a sequence");
    assert_eq!(items.len(), 2, "reversed, the last one erased");
    assert_eq!((items[0].data(), &items[0].dims[..]), (&data[2][..], shapes[2]));
    assert_eq!((items[1].data(), &items[1].dims[..]), (&data[1][..], shapes[1]));
    assert_eq!((outputs[1].data(), &outputs[1].dims[..]), (&data[0][..], shapes[0]));
    assert!(outputs[2].items.is_none(), "absent");
    let outputs = session.run_fresh(&[Value::Sequence(list.clone()), Value::Tensor(list[2])]).expect("runs");
    assert_eq!((outputs[1].data(), &outputs[1].dims[..]), (&data[2][..], shapes[2]));
    assert_eq!(outputs[2].items.as_ref().expect("present").len(), 1);
    let error = session.run_fresh(&[Value::Sequence(vec![]), Value::Absent]).expect_err("nothing to erase");
    assert_eq!(error.to_string(), "node \"Reverse\": position -1 of a sequence of 0 is asked for");
}

#[test]
fn an_input_of_any_rank_is_padded_with_ones() {
    let session = open(&programs::any_rank(), 1);
    let data = floats(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    let outputs = session.run_fresh(&[tensor(DType::F32, &[2, 3], &data)]).expect("runs");
    assert_eq!((outputs[0].data(), &outputs[0].dims[..]), (&data[..], &[2, 3][..]));
    assert_eq!(as_ints(outputs[1].data()), [2, 1, 1, 1, 1, 1, 1, 2, 3]);
    assert!(session.run_fresh(&[tensor(DType::F32, &[1; 9], &data[..4])]).is_err());
}

#[test]
fn outputs_go_to_the_callers_memory_or_say_how_much_they_need() {
    let session = open(&programs::scaled_sum(), 1);
    let x = floats(&[2.0, 4.0, 6.0]);
    let inputs = [tensor(DType::F32, &[3], &x), tensor(DType::F32, &[3], &x)];
    let mut memory = [0f32; 4];
    // SAFETY: `memory` outlives both runs and is used by nobody else meanwhile.
    let mut output = unsafe { Output::in_memory(memory.as_mut_ptr().cast(), 12) };
    session.run(&inputs, std::slice::from_mut(&mut output)).expect("runs");
    assert_eq!(memory, [3.0, 6.0, 9.0, 0.0]);
    // SAFETY: as above.
    let mut output = unsafe { Output::in_memory(memory.as_mut_ptr().cast(), 8) };
    let error = session.run(&inputs, std::slice::from_mut(&mut output)).expect_err("too small");
    assert_eq!(error.message, "output \"z\" needs 12 bytes, 8 are given");
    assert_eq!(output.bytes, 12);
}

#[test]
fn unaligned_inputs_are_taken() {
    let session = open(&programs::scaled_sum(), 1);
    let mut shifted = vec![0u8];
    shifted.extend(floats(&[8.0, 2.0]));
    let x = tensor(DType::F32, &[2], &shifted[1..]);
    let outputs = session.run_fresh(&[x.clone(), x]).expect("runs");
    assert_eq!(as_floats(outputs[0].data()), [12.0, 3.0]);
}
