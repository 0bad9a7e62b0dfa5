//! Runs artefacts on tensors: the border between the compiler's data and the runtime's.

use std::path::Path;
use std::sync::Arc;

use oaax_core::{Model, Options, Output, PortInfo, Session, Value};
use oaaxc_base::{Code, Diagnostic};
use oaaxc_ir::{DType, Tensor};

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
}

/// Opens an artefact.
pub fn open(path: &Path, threads: usize, level: Option<&str>) -> Result<Loaded, Diagnostic> {
    let options = Options { threads, cpu_level: level.map(str::to_string), ..Options::default() };
    let model = Model::open(path, &options).map_err(|e| artefact_error(path, &e))?;
    let (inputs, outputs) = oaax_core::ports(model.program());
    Ok(Loaded { session: Session::new(&model), model, inputs, outputs })
}

fn artefact_error(path: &Path, error: &oaax_core::Error) -> Diagnostic {
    let code = match error.status {
        oaax_core::Status::Unsupported => Code::DEVICE,
        oaax_core::Status::NotFound => Code::IO,
        _ => Code::ARTEFACT,
    };
    Diagnostic::error(code, format!("{}: {}", path.display(), error.message))
}

/// Runs once; one tensor per output.
pub fn run(loaded: &Loaded, inputs: &[Tensor]) -> Result<Vec<Tensor>, Diagnostic> {
    let bytes: Vec<_> = inputs.iter().map(Tensor::to_bytes).collect();
    let dims: Vec<Vec<i64>> = inputs.iter().map(|t| t.dims.iter().map(|&d| d as i64).collect()).collect();
    let mut values = Vec::new();
    for ((tensor, data), dims) in inputs.iter().zip(&bytes).zip(&dims) {
        let dtype = runtime_type(tensor.dtype)?;
        values.push(Value::Tensor(oaax_core::Tensor { dtype, dims, data }));
    }
    let outputs = loaded.session.run_fresh(&values).map_err(|e| run_error(&e))?;
    outputs.iter().zip(&loaded.outputs).map(|(output, port)| tensor(output, port)).collect()
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

fn tensor(output: &Output, port: &PortInfo) -> Result<Tensor, Diagnostic> {
    let dtype = DType::from_onnx(port.dtype.onnx() as i32)
        .ok_or_else(|| Diagnostic::error(Code::INTERNAL, "the runtime gave an unknown element type"))?;
    let dims: Vec<usize> = output.dims.iter().map(|&d| usize::try_from(d).unwrap_or(0)).collect();
    Ok(Tensor::from_bytes(dtype, dims, output.data().to_vec()))
}
