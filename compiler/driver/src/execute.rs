//! Runs artefacts on tensors: the border between the compiler's data and the runtime's.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use oaax_core::{Model, Options, Output, PortInfo, Session, Value};
use oaaxc_base::{Code, Diagnostic};
use oaaxc_container::ValueType;
use oaaxc_ir::{DType, Datum, Tensor};

use crate::data::{self, Seed};

/// A loaded artefact.
pub struct Loaded {
    /// The runtime's model.
    pub model: Arc<Model>,
    /// One run after the other.
    pub session: Session,
    /// Inputs, in order.
    pub inputs: Vec<PortInfo>,
    /// Outputs, in order.
    pub outputs: Vec<PortInfo>,
    /// The outputs' element types in the model; the runtime sees the bytes of 4- and 2-bit ones.
    pub types: Vec<DType>,
}

/// What may be asked of an artefact when it is opened.
#[derive(Clone, Debug, Default)]
pub struct Wanted {
    /// Workers; 0 for the number of processors.
    pub threads: usize,
    /// This CPU level or a lower one.
    pub level: Option<String>,
    /// A variant by its id, its target or its target's family; `None`: what `OAAX_TARGET` says, or any.
    pub variant: Option<String>,
    /// `cpu`, `gpu`, `opencl:0` …; `None`: any.
    pub device: Option<String>,
    /// Nothing but the package whose `oaax.json` has this digest; a policy approved it.
    pub manifest: Option<[u8; 32]>,
}

impl Wanted {
    /// Anything, with so many workers.
    pub fn threads(threads: usize) -> Wanted {
        Wanted { threads, ..Wanted::default() }
    }
    /// As the runtime wants it.
    pub fn options(&self) -> Options {
        Options {
            threads: self.threads,
            cpu_level: self.level.clone(),
            variant: self.variant.clone(),
            device: self.device.clone(),
            manifest_digest: self.manifest,
            ..Options::default()
        }
    }
}

/// Opens an artefact.
pub fn open(path: &Path, wanted: &Wanted) -> Result<Loaded, Diagnostic> {
    let options = wanted.options();
    let model = Model::open(path, &options).map_err(|e| artefact_error(path, &e))?;
    let (inputs, outputs) = oaax_core::ports(model.program());
    let types = outputs.iter().map(element_type).collect::<Result<Vec<_>, _>>()?;
    let types = narrow_types(path, &outputs, types)?;
    Ok(Loaded { session: Session::new(&model), model, inputs, outputs, types })
}

/// Replaces byte types by the 4- or 2-bit types that the manifest declares.
fn narrow_types(path: &Path, outputs: &[PortInfo], mut types: Vec<DType>) -> Result<Vec<DType>, Diagnostic> {
    if !types.iter().any(|t| matches!(t, DType::U8 | DType::I8)) {
        return Ok(types);
    }
    let failed = |e| Diagnostic::error(Code::ARTEFACT, format!("{}: {e}", path.display()));
    let package = oaaxc_container::open(path).map_err(failed)?;
    for value in &package.manifest().outputs {
        let mut ty = &value.ty;
        while let ValueType::Sequence { element } | ValueType::Optional { element } = ty {
            ty = element;
        }
        let ValueType::Tensor { dtype, .. } = ty else { continue };
        let found = outputs.iter().position(|port| port.name == value.name).zip(DType::from_name(dtype));
        if let Some((at, declared)) = found.filter(|(_, declared)| declared.onnx_bits() < 8) {
            types[at] = declared;
        }
    }
    Ok(types)
}

/// An error of opening as a diagnostic.
pub fn artefact_error(path: &Path, error: &oaax_core::Error) -> Diagnostic {
    let code = match error.status {
        oaax_core::Status::Unsupported | oaax_core::Status::DeviceError => Code::DEVICE,
        oaax_core::Status::NotFound => Code::IO,
        _ => Code::ARTEFACT,
    };
    let shown = path.display().to_string();
    let message = if error.message.starts_with(&shown) { error.message.clone() } else { format!("{shown}: {}", error.message) };
    Diagnostic::error(code, message)
}

/// Inputs in the runtime's form, to be used for many runs.
pub struct Request {
    tensors: Vec<(oaax_core::abi::DType, Vec<i64>, bytes::Bytes)>,
}

impl Request {
    /// One tensor per input, in order.
    pub fn new(inputs: &[Tensor]) -> Result<Request, Diagnostic> {
        let tensor = |t: &Tensor| Ok((runtime_type(t.dtype)?, t.dims.iter().map(|&d| d as i64).collect(), t.to_bytes()));
        Ok(Request { tensors: inputs.iter().map(tensor).collect::<Result<_, _>>()? })
    }
    /// As a run takes them.
    pub fn values(&self) -> Vec<Value<'_>> {
        self.tensors().map(Value::Tensor).collect()
    }
    fn tensors(&self) -> impl Iterator<Item = oaax_core::Tensor<'_>> {
        self.tensors.iter().map(|(dtype, dims, data)| oaax_core::Tensor { dtype: *dtype, dims, data })
    }
}

/// Runs once; one tensor per output.
pub fn run(loaded: &Loaded, inputs: &[Tensor]) -> Result<Vec<Tensor>, Diagnostic> {
    let request = Request::new(inputs)?;
    let outputs = loaded.session.run_fresh(&request.values()).map_err(|e| run_error(&e))?;
    outputs.iter().zip(&loaded.types).map(|(output, dtype)| Ok(tensor(output, *dtype))).collect()
}

/// Runs once on any data: tensors, sequences and optionals of tensors.
pub fn run_data(loaded: &Loaded, inputs: &[Datum]) -> Result<Vec<Datum>, Diagnostic> {
    let mut held = Vec::new();
    for datum in inputs {
        held.push(Held::new(datum)?);
    }
    let values: Vec<Value<'_>> = held.iter().map(Held::value).collect();
    let outputs = loaded.session.run_fresh(&values).map_err(|e| run_error(&e))?;
    let ports = loaded.outputs.iter().zip(&loaded.types);
    Ok(outputs.iter().zip(ports).map(|(output, (port, dtype))| datum(output, port.kind, *dtype)).collect())
}

/// A datum in the runtime's form.
enum Held {
    One(Request),
    Many(Request),
    Absent,
}

impl Held {
    fn new(datum: &Datum) -> Result<Held, Diagnostic> {
        let unsupported =
            || Diagnostic::error(Code::UNSUPPORTED, "the runtime takes tensors, and sequences and optionals of them");
        let tensors =
            |items: &[Datum]| items.iter().map(|i| i.as_tensor().cloned().ok_or_else(unsupported)).collect::<Result<Vec<_>, _>>();
        Ok(match datum {
            Datum::Tensor(tensor) => Held::One(Request::new(std::slice::from_ref(tensor))?),
            Datum::Sequence(items) => Held::Many(Request::new(&tensors(items)?)?),
            Datum::Optional(None) => Held::Absent,
            Datum::Optional(Some(inner)) => Held::new(inner)?,
            Datum::Map(_) => return Err(unsupported()),
        })
    }
    fn value(&self) -> Value<'_> {
        match self {
            Held::One(request) => request.values().remove(0),
            Held::Many(request) => Value::Sequence(request.tensors().collect()),
            Held::Absent => Value::Absent,
        }
    }
}

fn datum(output: &Output, kind: u32, dtype: DType) -> Datum {
    let item = |item: &oaax_core::Item| {
        let dims = item.dims.iter().map(|&d| usize::try_from(d).unwrap_or(0)).collect();
        Datum::Tensor(Tensor::from_bytes(dtype, dims, item.data().to_vec()))
    };
    match (kind, &output.items) {
        (1, found) => Datum::Sequence(found.iter().flatten().map(item).collect()),
        (2, None) => Datum::Optional(None),
        (2, Some(found)) => Datum::Optional(found.iter().map(item).next().map(Box::new)),
        _ => Datum::Tensor(tensor(output, dtype)),
    }
}

fn element_type(port: &PortInfo) -> Result<DType, Diagnostic> {
    DType::from_onnx(port.dtype.onnx() as i32)
        .ok_or_else(|| Diagnostic::error(Code::INTERNAL, "the runtime gave an unknown element type"))
}

/// Inputs, and what came of them.
pub struct Run {
    /// One per input of the model.
    pub inputs: Vec<Tensor>,
    /// One per output.
    pub outputs: Vec<Tensor>,
    /// The sizes that were chosen where nobody gave any.
    pub sizes: BTreeMap<String, i64>,
    /// What the inputs that nobody gave were drawn from.
    pub seed: Seed,
}

/// Runs on the given tensors and seeded ones for the rest. Sizes that nobody gave are those of
/// `data::likely_sizes` that the model takes; where it takes none, integers are drawn from 0 and 1, then all
/// are 0, for they may be positions in a small table. Where nothing helps, the first error is told.
pub fn run_seeded(
    loaded: &Loaded,
    given: &BTreeMap<String, Tensor>,
    dims: &BTreeMap<String, i64>,
    seed: u64,
) -> Result<Run, Diagnostic> {
    let is_open = |port: &&PortInfo| !given.contains_key(&port.name);
    let is_integer = |port: &PortInfo| DType::from_onnx(port.dtype.onnx() as i32).is_some_and(DType::is_integer);
    let open: Vec<&PortInfo> = loaded.inputs.iter().filter(is_open).collect();
    let candidates = if open.is_empty() { vec![dims.clone()] } else { data::likely_sizes(&loaded.inputs, dims) };
    let (mut first_error, mut not_finite) = (None, None);
    let bounds: &[u64] = if open.iter().any(|port| is_integer(port)) { &[8, 2, 1] } else { &[8] };
    for (seed, sizes) in
        bounds.iter().flat_map(|&below| candidates.iter().map(move |sizes| (Seed { number: seed, below }, sizes)))
    {
        let inputs = data::requests(&loaded.inputs, given, sizes, seed)?;
        let sizes = sizes.clone();
        match run(loaded, &inputs) {
            // A picture that is too small leaves nothing to a mean: a size with numbers is the better one.
            Ok(outputs) if outputs.iter().all(data::is_finite) => return Ok(Run { inputs, outputs, sizes, seed }),
            Ok(outputs) => not_finite = not_finite.or(Some(Run { inputs, outputs, sizes, seed })),
            Err(error) => first_error = first_error.or(Some(error)),
        }
    }
    if let Some(run) = not_finite {
        return Ok(run);
    }
    let first = first_error;
    Err(first.unwrap_or_else(|| Diagnostic::error(Code::REQUEST, "no sizes lie within the declared ranges")))
}

/// An error of a run as a diagnostic.
pub fn run_error(error: &oaax_core::Error) -> Diagnostic {
    let code = match error.status {
        oaax_core::Status::InvalidArgument | oaax_core::Status::ShapeMismatch | oaax_core::Status::TypeMismatch => Code::REQUEST,
        _ => Code::RUN,
    };
    let diagnostic = Diagnostic::error(code, error.message.clone());
    match &error.node {
        Some(node) => diagnostic.note(format!("at node \"{node}\"")),
        None => diagnostic,
    }
}

/// The runtime's name of an element type; the 4- and 2-bit types travel as bytes.
pub fn runtime_type(dtype: DType) -> Result<oaax_core::abi::DType, Diagnostic> {
    let number = match dtype {
        DType::U4 | DType::U2 | DType::F4E2M1 => DType::U8.onnx(),
        DType::I4 | DType::I2 => DType::I8.onnx(),
        other => other.onnx(),
    };
    oaax_core::abi::DType::from_onnx(number as u32)
        .ok_or_else(|| Diagnostic::error(Code::UNSUPPORTED, format!("the runtime holds no tensors of {dtype}")))
}

/// An output of a run as a tensor.
fn tensor(output: &Output, dtype: DType) -> Tensor {
    let dims: Vec<usize> = output.dims.iter().map(|&d| usize::try_from(d).unwrap_or(0)).collect();
    Tensor::from_bytes(dtype, dims, output.data().to_vec())
}
