//! Runs on a device through OpenCL, executed by Intel's OpenCL runtime for CPUs (`scripts/setup test`).

use oaax_core::{Error, Model, Options, Output, Session, Status, Tensor, Value, abi::DType};
use oaax_testkit::{
    folder,
    gpu::{self, Gpu},
    opencl, programs,
};
use std::sync::Arc;

fn open(name: &str, program: oaax_core::abi::Program) -> Session {
    opencl();
    let folder = folder(&format!("opencl-{name}"));
    let path = folder.join("model.oaax");
    gpu::write(&path, &[(Gpu::Spirv, program)], None, Some("allow"));
    let model = Model::open(&path, &Options { threads: 1, ..Options::default() }).expect("the model opens");
    assert!(model.choice.starts_with("opencl:"), "{}", model.choice);
    Session::new(&model)
}

fn floats(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

fn as_floats(bytes: &[u8]) -> Vec<f32> {
    bytes.chunks_exact(4).map(|four| f32::from_le_bytes(four.try_into().expect("four bytes"))).collect()
}

fn ints(values: &[i64]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

fn tensor<'a>(dtype: DType, dims: &'a [i64], data: &'a [u8]) -> Value<'a> {
    Value::Tensor(Tensor { dtype, dims, data })
}

fn scaled_sum(session: &Session, n: usize, start: f32) -> Result<Vec<f32>, Error> {
    let data = floats(&(0..n).map(|i| start + i as f32).collect::<Vec<_>>());
    let dims = [n as i64];
    let outputs = session.run_fresh(&[tensor(DType::F32, &dims, &data), tensor(DType::F32, &dims, &data)])?;
    Ok(as_floats(outputs[0].data()))
}

fn expected(n: usize, start: f32) -> Vec<f32> {
    (0..n).map(|i| (start + i as f32) * 1.5).collect()
}

#[test]
fn one_program_runs_at_every_size() {
    let session = open("sizes", gpu::scaled_sum(Gpu::Spirv, false));
    for n in [1, 5, 256, 257, 50_000, 3] {
        assert_eq!(scaled_sum(&session, n, 1.0).expect("runs"), expected(n, 1.0), "{n}");
    }
    assert!(session.model().device_weight_bytes() > 0);
}

#[test]
fn kernels_on_the_host_take_part_where_the_artefact_allows_it() {
    let session = open("mixed", gpu::scaled_sum(Gpu::Spirv, true));
    assert!(session.model().choice.contains("host kernels x86-64"), "{}", session.model().choice);
    for n in [7, 3000, 64] {
        assert_eq!(scaled_sum(&session, n, 2.0).expect("runs"), expected(n, 2.0), "{n}");
    }
}

#[test]
fn runs_from_many_threads_do_not_disturb_one_another() {
    let session = Arc::new(open("threads", gpu::scaled_sum(Gpu::Spirv, false)));
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let session = session.clone();
            scope.spawn(move || {
                for round in 0..25 {
                    let (n, start) = (100 + 700 * (round % 5) + thread, (thread * 1000 + round) as f32);
                    assert_eq!(scaled_sum(&session, n, start).expect("runs"), expected(n, start));
                }
            });
        }
    });
}

#[test]
fn a_fault_names_its_node_and_the_next_run_is_good() {
    let session = open("fault", gpu::gather(Gpu::Spirv));
    let x = floats(&[10.0, 0.0, 30.0]);
    let run = |index: &[i64]| {
        let data = ints(index);
        session.run_fresh(&[tensor(DType::F32, &[3], &x), tensor(DType::I64, &[index.len() as i64], &data)])
    };
    let good = |outputs: Vec<Output>| {
        assert_eq!(as_floats(outputs[0].data()), [30.0, 30.0, 10.0, 0.0]);
        assert_eq!(outputs[1].data(), ints(&[2]), "two elements are not 0");
    };
    good(run(&[2, -1, 0, 1]).expect("runs"));
    let mut index = vec![0; 4096];
    index[4000] = 3;
    for _ in 0..2 {
        let error = run(&index).expect_err("out of range");
        assert_eq!(error.to_string(), "node \"Gather_1\": index 3 lies outside -3 to 3 (exclusive)");
        assert_eq!(error.status, Status::RunFailed);
        good(run(&[2, -1, 0, 1]).expect("runs after a fault"));
    }
}

#[test]
fn heap_values_aliases_and_cells_hold_what_the_device_made() {
    let session = open("heap", gpu::repeated_sum(Gpu::Spirv));
    let x = floats(&[1.0, -2.0, 0.25]);
    for times in [1i64, 2, 7, 100, 3] {
        let count = ints(&[times]);
        let outputs = session.run_fresh(&[tensor(DType::F32, &[3], &x), tensor(DType::I64, &[], &count)]).expect("runs");
        let sum = |times: i64| [1.0, -2.0, 0.25].map(|x: f32| x * times as f32);
        assert_eq!(as_floats(outputs[0].data()), sum(times));
        assert_eq!(as_floats(outputs[2].data()), sum(times), "an output straight from a slot of the device");
        let turns = outputs[1].items.as_ref().expect("a sequence");
        assert_eq!(turns.len() as i64, times - 1);
        for (turn, item) in turns.iter().enumerate() {
            assert_eq!(as_floats(item.data()), sum(turn as i64 + 2));
        }
    }
}

#[test]
fn what_a_variant_needs_and_gets_is_data() {
    opencl();
    let folder = folder("opencl-explain");
    let path = folder.join("model.oaax");
    let cpu = programs::scaled_sum();
    let spirv = (Gpu::Spirv, gpu::scaled_sum(Gpu::Spirv, true));
    gpu::write(&path, &[(Gpu::Gfx942, gpu::scaled_sum(Gpu::Gfx942, false)), spirv], Some(&cpu), None);
    let reports = Model::explain(&path, &Options::default()).expect("an artefact");
    let chosen: Vec<(&str, bool, bool)> = reports.iter().map(|row| (row.id.as_str(), row.runs, row.chosen)).collect();
    assert_eq!(chosen, [("rocm-gfx942", false, false), ("spirv", false, false), ("cpu", true, true)]);
    assert!(reports[0].needs.contains("hip device gfx942"), "{reports:?}");
    assert!(reports[0].reason.contains("libamdhip64.so"), "{reports:?}");
    assert_eq!(reports[1].reason, "1 of 3 kernels of variant spirv run on the host, which the artefact does not allow");
    assert!(reports[1].answer.contains("opencl:0"), "{reports:?}");
    let spirv = (Gpu::Spirv, gpu::scaled_sum(Gpu::Spirv, true));
    gpu::write(&path, &[spirv], Some(&cpu), Some("warn"));
    let model = Model::open(&path, &Options::default()).expect("opens");
    assert_eq!(model.messages, ["1 of 3 kernels of variant spirv run on the host"]);
    let wanted = |variant: Option<&str>, device: Option<&str>| {
        let options = Options { variant: variant.map(str::to_owned), device: device.map(str::to_owned), ..Options::default() };
        Model::open(&path, &options).map(|model| model.variant.clone())
    };
    assert_eq!(wanted(None, Some("cpu")).as_deref(), Ok("cpu"));
    assert_eq!(wanted(Some("spirv"), None).as_deref(), Ok("spirv"));
    assert_eq!(wanted(None, Some("opencl:0")).as_deref(), Ok("spirv"));
    let error = wanted(None, Some("opencl:7")).expect_err("no such device");
    assert_eq!(error.status, Status::DeviceError);
    assert!(error.message.contains("device 7 is not there"), "{error}");
    let error = wanted(Some("spirv"), Some("cuda")).expect_err("another kind");
    assert!(error.message.contains("needs a device of kind opencl, and cuda is asked for"), "{error}");
}

#[test]
fn no_software_of_a_vendor_is_a_sentence() {
    let folder = folder("opencl-none");
    let path = folder.join("model.oaax");
    let rocm = || (Gpu::Gfx942, gpu::scaled_sum(Gpu::Gfx942, false));
    gpu::write(&path, &[rocm()], None, None);
    let error = Model::open(&path, &Options::default()).err().expect("no AMD software here");
    assert_eq!(error.status, Status::DeviceError);
    assert_eq!(
        error.message,
        "no variant runs here: rocm-gfx942: no library libamdhip64.so, libamdhip64.so.7, libamdhip64.so.6, \
         libamdhip64.so.5, /opt/rocm/lib/libamdhip64.so in the loader's search path"
    );
    gpu::write(&path, &[rocm()], Some(&programs::scaled_sum()), None);
    let model = Model::open(&path, &Options::default()).expect("the CPU's variant");
    assert_eq!(model.variant, "cpu");
    assert!(model.choice.contains("; passed over rocm-gfx942: no library libamdhip64.so"), "{}", model.choice);
}

#[test]
fn a_module_that_the_driver_refuses_is_an_error_with_its_log() {
    opencl();
    let folder = folder("opencl-bad");
    let path = folder.join("model.oaax");
    let mut package = gpu::package(&[(Gpu::Spirv, gpu::scaled_sum(Gpu::Spirv, false))], None, None);
    let mut broken = 0x0723_0203u32.to_le_bytes().to_vec();
    broken.extend([0, 0, 1, 0].iter().chain(&[0; 4]).chain(&[8, 0, 0, 0]).chain(&[0; 4]));
    broken.extend([0xff, 0x3f, 1, 0]); // An instruction that does not exist.
    let member = |symbol: &str| (format!("{symbol}.spv"), broken.clone());
    let archive = gpu::archive(&[member("demo_add_f32"), member("demo_scale_f32")]);
    let file = package.files.iter_mut().find(|file| file.path.ends_with(".spv.a")).expect("the object");
    file.data = oaax_testkit::Data::from(archive);
    oaax_testkit::write_package(&package, &path);
    let model = Model::open(&path, &Options::default()).expect("modules are built at their first launch");
    let error = scaled_sum(&Session::new(&model), 4, 0.0).expect_err("no module");
    assert_eq!(error.status, Status::DeviceError);
    assert!(error.message.contains("kernel demo_scale_f32 failed on"), "{error}");
    assert_eq!(error.node.as_deref(), Some("Mul_0"));
}
