//! Request data for a model: read from files, or seeded within the declared ranges.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use bytes::Bytes;
use oaax_core::PortInfo;
pub use oaax_core::file_name;
use oaaxc_base::{Code, Diagnostic};
use oaaxc_ir::{DType, Datum, Scalar, Tensor, TensorType, Type};

/// A tensor from a `.npy` or `.pb` file, whatever its name.
pub fn read(path: &Path) -> Result<Tensor, Diagnostic> {
    let failed = |e: std::io::Error| Diagnostic::error(Code::IO, format!("cannot read {}: {e}", path.display()));
    let bytes = Bytes::from(std::fs::read(path).map_err(failed)?);
    let is_npy = bytes.starts_with(b"\x93NUMPY") || path.extension().is_some_and(|e| e == "npy");
    let tensor = match is_npy {
        true => oaaxc_onnx::data::npy::read(bytes),
        false => tensor(bytes).map_err(|d| {
            let message = format!("the file holds neither a .npy array nor a TensorProto: {}", d.message);
            Diagnostic::error(Code::TENSOR, message)
        }),
    };
    tensor.map_err(|d| d.note(format!("in {}", path.display())))
}

/// A tensor from the bytes of a `.pb` file.
pub fn tensor(bytes: Bytes) -> Result<Tensor, Diagnostic> {
    // The type of the value decides the message; element type and rank are the file's own.
    let any = Type::Tensor(TensorType { dtype: DType::F32, shape: None });
    match oaaxc_onnx::data::read(bytes, &any)? {
        Datum::Tensor(tensor) => Ok(tensor),
        _ => Err(Diagnostic::error(Code::REQUEST, "the file does not hold a tensor")),
    }
}

/// The bytes of a `.npy` or `.pb` file.
pub fn encode(tensor: &Tensor, name: &str, form: &str) -> Result<Vec<u8>, Diagnostic> {
    match form {
        "npy" => oaaxc_onnx::data::npy::write(tensor),
        _ => Ok(oaaxc_onnx::data::write(&tensor.clone().into(), name)),
    }
}

/// A deterministic stream of numbers (SplitMix64, Steele et al. 2014).
pub struct Random(u64);

impl Random {
    /// Starts from a seed and a name, so that each input has its own stream.
    pub fn new(seed: u64, name: &str) -> Random {
        Random(name.bytes().fold(seed ^ 0x9e37_79b9_7f4a_7c15, |h, b| (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3)))
    }
    /// The next 64 bits.
    pub fn next_bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }
    /// Uniform in [0, 1).
    pub fn unit(&mut self) -> f64 {
        (self.next_bits() >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// Which seeded numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seed {
    /// Chooses among them.
    pub number: u64,
    /// Integers are below this.
    pub below: u64,
}

impl Seed {
    /// As people mean a seed: integers below 8.
    pub fn new(number: u64) -> Seed {
        Seed { number, below: 8 }
    }
}

/// The most elements of a seeded tensor.
const MOST_SEEDED: usize = 1 << 27;

/// A seeded tensor: floats uniform in [-1, 1), integers small and not negative, bools fair.
pub fn seeded(name: &str, dtype: DType, dims: Vec<usize>, seed: Seed) -> Tensor {
    let mut random = Random::new(seed.number, name);
    let count: usize = dims.iter().product();
    let element = |random: &mut Random| match dtype {
        d if d.is_float() => Scalar::from_f64(random.unit() * 2.0 - 1.0),
        DType::Bool => Scalar::from_bool(random.next_bits() >> 63 == 1),
        d if d.is_complex() => Scalar::from_complex(random.unit() * 2.0 - 1.0, random.unit() * 2.0 - 1.0),
        _ => Scalar::from_i64((random.next_bits() % seed.below.max(1)) as i64),
    };
    Tensor::from_scalars(dtype, dims, (0..count).map(|_| element(&mut random)))
}

/// Sizes worth trying for a run nobody gave sizes for, in order: the first axis is most often the batch,
/// the others are widths and lengths that many models take. All lie within the declared ranges.
pub fn likely_sizes(ports: &[PortInfo], dims: &BTreeMap<String, i64>) -> Vec<BTreeMap<String, i64>> {
    let mut all: Vec<BTreeMap<String, i64>> = Vec::new();
    for candidate in [32, 64, 48, 1, 16, 8, 128, 224, 576, 2, 3] {
        let mut sizes = dims.clone();
        for port in ports {
            for (axis, dim) in port.dims.iter().flatten().enumerate() {
                if 0 <= dim.size || dim.symbol.is_empty() {
                    continue;
                }
                let wanted = if axis == 0 { 1 } else { candidate };
                let multiple = dim.multiple.max(1);
                let rounded = (wanted + multiple - 1) / multiple * multiple;
                sizes.entry(dim.symbol.clone()).or_insert(rounded.clamp(dim.min.max(0), dim.max.max(0)));
            }
        }
        if !all.contains(&sizes) {
            all.push(sizes);
        }
    }
    all
}

/// One tensor per input: those given by name, the others seeded. Named dims take `dims`, else the
/// given tensors' sizes, else their declared minimum or a small default.
pub fn requests(
    ports: &[PortInfo],
    given: &BTreeMap<String, Tensor>,
    dims: &BTreeMap<String, i64>,
    seed: Seed,
) -> Result<Vec<Tensor>, Diagnostic> {
    for name in given.keys() {
        if !ports.iter().any(|p| p.name == *name) {
            let names: Vec<&str> = ports.iter().map(|p| p.name.as_str()).collect();
            return Err(Diagnostic::error(Code::REQUEST, format!("the model has no input \"{name}\""))
                .help(format!("its inputs are {}", names.join(", "))));
        }
    }
    let mut sizes = dims.clone();
    for port in ports {
        let Some(tensor) = given.get(&port.name) else { continue };
        for (dim, size) in port.dims.iter().flatten().zip(&tensor.dims) {
            if dim.symbol.is_empty() {
                continue;
            }
            let size = *size as i64;
            if let Some(wanted) = dims.get(&dim.symbol).filter(|wanted| **wanted != size) {
                let message = format!("input \"{}\" has {} = {size}, and --dim says {wanted}", port.name, dim.symbol);
                return Err(Diagnostic::error(Code::REQUEST, message));
            }
            sizes.entry(dim.symbol.clone()).or_insert(size);
        }
    }
    let mut all = Vec::new();
    for port in ports {
        if let Some(tensor) = given.get(&port.name) {
            all.push(tensor.clone());
            continue;
        }
        let dtype = DType::from_onnx(port.dtype.onnx() as i32).unwrap_or(DType::F32);
        let shape = port.dims.iter().flatten().map(|dim| {
            let chosen = sizes.get(&dim.symbol).copied().filter(|_| dim.size < 0);
            usize::try_from(chosen.unwrap_or(if dim.size >= 0 { dim.size } else { dim.min.max(1) })).unwrap_or(1)
        });
        let shape: Vec<usize> = shape.collect();
        let count = shape.iter().try_fold(1usize, |n, &dim| n.checked_mul(dim));
        if count.is_none_or(|count| MOST_SEEDED < count) {
            let message = format!("input \"{}\" of {shape:?} is too large to be seeded", port.name);
            return Err(Diagnostic::error(Code::LIMIT, message).help("choose smaller sizes with --dim NAME=N"));
        }
        all.push(seeded(&port.name, dtype, shape, seed));
    }
    Ok(all)
}

/// Sizes are for symbols that the inputs have.
pub fn check_names(ports: &[PortInfo], dims: &BTreeMap<String, i64>) -> Result<(), Diagnostic> {
    let known: BTreeSet<&str> = ports.iter().flat_map(|p| p.dims.iter().flatten()).map(|dim| dim.symbol.as_str()).collect();
    let Some(name) = dims.keys().find(|name| !known.contains(name.as_str())) else { return Ok(()) };
    let known: Vec<&str> = known.into_iter().filter(|symbol| !symbol.is_empty()).collect();
    let known = if known.is_empty() { "none".to_string() } else { known.join(", ") };
    Err(Diagnostic::error(Code::USAGE, format!("no dim of the artefact is called \"{name}\""))
        .note(format!("its dims are: {known}")))
}

/// Whether no element is an infinity or no number.
pub fn is_finite(tensor: &Tensor) -> bool {
    !tensor.dtype.is_float() || tensor.scalars().all(|s| s.as_f64().is_finite())
}

/// How far two tensors are apart.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Difference {
    /// Largest |a − b|.
    pub max_abs: f64,
    /// Largest |a − b| over the reference's largest magnitude.
    pub max_rel: f64,
    /// Largest distance in units of the last place, for float and double.
    pub max_ulp: u64,
    /// 1 − cosine of the angle between both.
    pub cosine_loss: f64,
    /// The reference's largest finite magnitude.
    pub scale: f64,
}

/// Compares with a reference of equal type and dims; `None` where those differ. Equal NaNs and infinities are equal.
pub fn difference(reference: &Tensor, found: &Tensor) -> Option<Difference> {
    if (reference.dtype, &reference.dims) != (found.dtype, &found.dims) {
        return None;
    }
    let mut d = Difference::default();
    let (mut scale, mut dot, mut aa, mut bb) = (0f64, 0f64, 0f64, 0f64);
    for i in 0..reference.len() {
        let (x, y) = (reference.get(i), found.get(i));
        let (a, b) = (x.as_f64(), y.as_f64());
        if a.is_finite() {
            scale = scale.max(a.abs());
        }
        if x == y || a.is_nan() && b.is_nan() || a == b {
            dot += if a.is_finite() { a * b } else { 0.0 };
            aa += if a.is_finite() { a * a } else { 0.0 };
            bb += if b.is_finite() { b * b } else { 0.0 };
            continue;
        }
        let gap = (a - b).abs();
        d.max_abs = if gap.is_nan() { f64::INFINITY } else { d.max_abs.max(gap) };
        dot += a * b;
        aa += a * a;
        bb += b * b;
        d.max_ulp = d.max_ulp.max(ulps(x, y));
    }
    d.scale = scale;
    d.max_rel = if d.max_abs == 0.0 { 0.0 } else { d.max_abs / scale };
    d.cosine_loss = if aa > 0.0 && bb > 0.0 { (1.0 - dot / (aa.sqrt() * bb.sqrt())).max(0.0) } else { 0.0 };
    Some(d)
}

/// How far numbers may be apart: |a − b| ≤ absolute + relative · (largest magnitude of the reference).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tolerance {
    /// In units of the output.
    pub absolute: f64,
    /// Relative to the output's scale.
    pub relative: f64,
}

/// What float models are held to.
pub const TOLERANCE: Tolerance = Tolerance { absolute: 1e-6, relative: 1e-4 };

/// One output beside its reference.
#[derive(Clone, Debug)]
pub struct Comparison {
    /// The output.
    pub name: String,
    /// How far apart; `None` where type or dims differ.
    pub difference: Option<Difference>,
    /// Whether that is within the tolerance.
    pub within: bool,
    /// What is wrong, where something is.
    pub why: String,
}

/// Compares an output with its reference.
pub fn compare(name: &str, reference: &Tensor, found: &Tensor, tolerance: Tolerance) -> Comparison {
    let difference = difference(reference, found);
    let (within, why) = match difference {
        None => {
            let show = |t: &Tensor| format!("{}{:?}", t.dtype, t.dims);
            (false, format!("{} where {} is right", show(found), show(reference)))
        }
        Some(d) if d.max_abs <= tolerance.absolute + tolerance.relative * d.scale => (true, String::new()),
        Some(d) => (false, format!("differs by {:.3e}, {:.3e} of its scale", d.max_abs, d.max_rel)),
    };
    Comparison { name: name.to_string(), difference, within, why }
}

fn ulps(x: Scalar, y: Scalar) -> u64 {
    // Integers in the order of the floats: negative ones count down from the sign bit.
    let key = |s: Scalar, sign: u64| -> i128 {
        let bits = s.bits();
        if bits & sign != 0 { -i128::from(bits & !sign) } else { i128::from(bits) }
    };
    let sign = match x.dtype() {
        DType::F32 => 1 << 31,
        DType::F64 => 1 << 63,
        DType::F16 | DType::BF16 => 1 << 15,
        _ => return u64::try_from((x.as_integer() - y.as_integer()).abs()).unwrap_or(u64::MAX),
    };
    u64::try_from((key(x, sign) - key(y, sign)).abs()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_counts_ulps_and_scale() {
        let a = Tensor::from_f32s(vec![2], &[1.0, 4.0]);
        let b = Tensor::from_f32s(vec![2], &[1.0, f32::from_bits(4f32.to_bits() + 3)]);
        let d = difference(&a, &b).expect("equal dims");
        assert_eq!(d.max_ulp, 3);
        assert!(d.max_rel > 0.0 && d.max_rel < 1e-6);
        assert_eq!(difference(&a, &a), Some(Difference { scale: 4.0, ..Difference::default() }));
        assert_eq!(difference(&a, &Tensor::from_f32s(vec![1], &[1.0])), None);
    }

    #[test]
    fn seeds_decide_the_numbers() {
        let x = seeded("x", DType::F32, vec![4], Seed::new(1));
        assert_eq!(x, seeded("x", DType::F32, vec![4], Seed::new(1)));
        assert_ne!(x, seeded("y", DType::F32, vec![4], Seed::new(1)));
    }
}
