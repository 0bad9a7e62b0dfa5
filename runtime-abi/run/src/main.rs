//! oaax-run: the program in the image. Shows what a model takes and gives, or runs it on `.npy` files.
//!
//! Promises: without a model on the command line it takes `/models`, where images have theirs; with
//! `--manifest` nothing of another package is run.
//! Exit codes: 0 done, 1 the model or the run failed, 2 the command line is wrong, 6 nothing in the artefact runs
//! here, or a device failed.

mod npy;

use oaax_core::{Model, Options, Output, PortInfo, Session, Status, Tensor, Value, abi::DType, info_json, ports};
use std::{fs, path::PathBuf, process::ExitCode, sync::Arc, time::Instant};

const USAGE: &str = "\
usage: oaax-run info [MODEL] [--json]
       oaax-run run [MODEL] --input NAME=FILE.npy ... [--output FOLDER] [--repeat N]
options: --threads N   workers (default: one for each CPU)
         --level NAME  this CPU level or a lower one, for example x86-64-v3
         --manifest DIGEST  run only the package whose oaax.json has this digest (sha256:...)
         --target NAME this variant: its id or target (default: OAAX_TARGET, else the first that runs here)
         --device NAME cpu, gpu, hip, cuda, opencl, or one by number: hip:0
MODEL is a model.oaax file, an unpacked /models folder, or an OCI layout folder; without it: /models.";

/// Where an image has its model.
const MODELS: &str = "/models";

/// The command line.
#[derive(Default)]
struct Arguments {
    command: String,
    model: PathBuf,
    inputs: Vec<(String, PathBuf)>,
    output: Option<PathBuf>,
    json: bool,
    repeat: u32,
    options: Options,
}

fn main() -> ExitCode {
    let arguments = match parse(std::env::args().skip(1)) {
        Ok(arguments) => arguments,
        Err(reason) => {
            eprintln!("oaax-run: {reason}\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    match execute(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("oaax-run: {}", error.0);
            ExitCode::from(error.1)
        }
    }
}

/// A sentence and an exit code.
struct Failure(String, u8);

impl From<String> for Failure {
    fn from(reason: String) -> Failure {
        Failure(reason, 1)
    }
}

impl From<oaax_core::Error> for Failure {
    fn from(error: oaax_core::Error) -> Failure {
        let device = matches!(error.status, Status::Unsupported | Status::DeviceError);
        Failure(error.to_string(), if device { 6 } else { 1 })
    }
}

fn parse(mut words: impl Iterator<Item = String>) -> Result<Arguments, String> {
    let mut arguments = Arguments { repeat: 1, ..Arguments::default() };
    let mut plain = Vec::new();
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or_else(|| format!("{word} needs a value"));
        match word.as_str() {
            "--json" => arguments.json = true,
            "--input" => {
                let value = value()?;
                let (name, file) = value.split_once('=').ok_or_else(|| format!("--input {value:?} is not NAME=FILE"))?;
                arguments.inputs.push((name.to_owned(), PathBuf::from(file)));
            }
            "--output" => arguments.output = Some(PathBuf::from(value()?)),
            "--threads" => arguments.options.threads = number(&value()?)? as usize,
            "--repeat" => arguments.repeat = number(&value()?)?.max(1),
            "--target" => arguments.options.variant = Some(value()?),
            "--device" => arguments.options.device = Some(value()?),
            "--level" => arguments.options.cpu_level = Some(value()?),
            "--manifest" => arguments.options.manifest_digest = Some(digest(&value()?)?),
            _ if word.starts_with("--") => return Err(format!("{word} is no option")),
            _ => plain.push(word),
        }
    }
    let mut plain = plain.into_iter();
    arguments.command = plain.next().unwrap_or_default();
    arguments.model = PathBuf::from(plain.next().unwrap_or_else(|| MODELS.to_owned()));
    match (arguments.command.as_str(), plain.next()) {
        ("info" | "run", None) => Ok(arguments),
        ("info" | "run", Some(more)) => Err(format!("{more:?} is one word too many")),
        _ => Err("a command is needed: info or run".to_owned()),
    }
}

fn digest(text: &str) -> Result<[u8; 32], String> {
    let hex = text.strip_prefix("sha256:").unwrap_or(text);
    oaax_core::digest_from_hex(hex).ok_or_else(|| format!("{text:?} is no digest: sha256: and 64 lower-case hexadecimal digits"))
}

fn number(text: &str) -> Result<u32, String> {
    text.parse().map_err(|_| format!("{text:?} is no number"))
}

fn execute(arguments: &Arguments) -> Result<(), Failure> {
    let start = Instant::now();
    let model = Model::open(&arguments.model, &arguments.options)?;
    for message in &model.messages {
        eprintln!("oaax-run: note: {message}");
    }
    let opened = start.elapsed();
    match (arguments.command.as_str(), arguments.json) {
        ("info", true) => println!("{}", info_json(&model)),
        ("info", false) => print!("{}", card(&model)),
        _ => {
            let session = Session::new(&model);
            let outputs = run(arguments, &session)?;
            println!("opened in {:.1} ms", opened.as_secs_f64() * 1e3);
            save(arguments, &session, &outputs)?;
        }
    }
    Ok(())
}

/// A model as people read it.
fn card(model: &Arc<Model>) -> String {
    let (inputs, outputs) = ports(model.program());
    let mut text = format!("{} ({})\n", model.program().name, model.program().producer);
    text += &format!("  variant {}, {}, {} threads\n", model.variant, model.choice, model.workers());
    text += &format!("  digest sha256:{}{}\n", oaax_core::hex(&model.digest), if model.bound { "" } else { " (not bound)" });
    for what in &model.copied {
        text += &format!("  copied: {what}\n");
    }
    for (title, list) in [("inputs", inputs), ("outputs", outputs)] {
        text += &format!("  {title}\n");
        for port in list {
            text += &format!("    {}: {}\n", port.name, type_text(&port));
        }
    }
    text
}

/// `float[N,3,224]`, with the sizes that a run accepts where they are narrower than any.
fn type_text(port: &PortInfo) -> String {
    let Some(dims) = &port.dims else { return format!("{} of any rank", port.dtype.name()) };
    let mut limits = String::new();
    let dim = |dim: &oaax_core::DimInfo| {
        let name = match (dim.size, dim.symbol.as_str()) {
            (-1, "") => "?".to_owned(),
            (-1, symbol) => symbol.to_owned(),
            (size, _) => size.to_string(),
        };
        if dim.size == -1 && (dim.min > 0 || dim.max < i64::MAX || dim.multiple > 1) {
            let most = if dim.max == i64::MAX { String::new() } else { format!(" to {}", dim.max) };
            let step = if dim.multiple > 1 { format!(", multiple of {}", dim.multiple) } else { String::new() };
            limits += &format!("  {name}: {}{most}{step}", dim.min);
        }
        name
    };
    let names: Vec<String> = dims.iter().map(dim).collect();
    format!("{}[{}]{limits}", port.dtype.name(), names.join(","))
}

/// Reads the inputs and runs as often as asked; prints the times.
fn run(arguments: &Arguments, session: &Session) -> Result<Vec<Output>, Failure> {
    let (ports, _) = ports(session.model().program());
    let mut arrays = Vec::new();
    for port in &ports {
        let given = arguments.inputs.iter().find(|input| input.0 == port.name);
        let Some((_, file)) = given else {
            return Err(format!("input {:?} is not given; it is {}", port.name, type_text(port)).into());
        };
        let bytes = fs::read(file).map_err(|error| format!("{}: {error}", file.display()))?;
        arrays.push(npy::read(&bytes).map_err(|reason| format!("{} {reason}", file.display()))?);
    }
    if let Some((name, _)) = arguments.inputs.iter().find(|input| ports.iter().all(|port| port.name != input.0)) {
        let names: Vec<&str> = ports.iter().map(|port| port.name.as_str()).collect();
        return Err(format!("the model has no input {name:?}; it has {}", names.join(", ")).into());
    }
    let value = |(array, port): (&'_ npy::Array, &PortInfo)| array.dtype.unwrap_or(port.dtype);
    let dtypes: Vec<DType> = arrays.iter().zip(&ports).map(value).collect();
    let tensor = |(array, dtype)| {
        let array: &npy::Array = array;
        Value::Tensor(Tensor { dtype, dims: &array.dims, data: &array.data })
    };
    let values: Vec<Value<'_>> = arrays.iter().zip(dtypes).map(tensor).collect();
    let mut outputs: Vec<Output> = session.model().program().outputs.iter().map(|_| Output::default()).collect();
    let mut times = Vec::new();
    for _ in 0..arguments.repeat {
        let start = Instant::now();
        session.run(&values, &mut outputs)?;
        times.push(start.elapsed().as_secs_f64() * 1e3);
    }
    println!("first run {:.3} ms", times[0]);
    if times.len() > 1 {
        times.sort_by(f64::total_cmp);
        println!("{} runs: least {:.3} ms, median {:.3} ms", times.len(), times[0], times[times.len() / 2]);
    }
    Ok(outputs)
}

/// Writes outputs to files named after them, and prints their shapes.
fn save(arguments: &Arguments, session: &Session, outputs: &[Output]) -> Result<(), String> {
    let (_, ports) = ports(session.model().program());
    for (port, output) in ports.iter().zip(outputs) {
        if port.kind != 0 {
            println!("{}: {} elements", port.name, output.items.as_ref().map_or(0, Vec::len));
            continue;
        }
        println!("{}: {}{:?}", port.name, port.dtype.name(), output.dims);
        let Some(folder) = &arguments.output else { continue };
        let path = folder.join(format!("{}.npy", oaax_core::file_name(&port.name)));
        let written = fs::create_dir_all(folder);
        let written = written.and_then(|()| fs::write(&path, npy::write(port.dtype, &output.dims, output.data())));
        written.map_err(|error| format!("{}: {error}", path.display()))?;
    }
    Ok(())
}
