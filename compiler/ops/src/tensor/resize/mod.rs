//! Resize and Upsample: sizes found, attributes read; evaluation and kernels stand in their own files.
//!
//! ONNX: "Each dimension value of the output tensor is: `output_dimension = floor(input_dimension * (roi_end -
//! roi_start) * scale)` if input \"sizes\" is not specified". The internal form is Resize of opset 19; Upsample
//! and Resize-10 become it with asymmetric coordinates and flooring.

mod eval;
mod kernel;

use oaaxc_base::{Code, Diagnostic};
use oaaxc_ir::attributes::normalize_axis;
use oaaxc_ir::expr::Expr;
use oaaxc_ir::graph::Attribute;
use oaaxc_ir::infer::InferCx;
use oaaxc_ir::op::{Lower, OpDef};
use oaaxc_ir::tensor::Tensor;
use oaaxc_ir::upgrade::UpgradeCx;
use oaaxc_ir::{ReadAttributes, ReadOperands};

type Result<T> = std::result::Result<T, Diagnostic>;

/// ONNX Resize.
pub static RESIZE: OpDef =
    OpDef { name: "Resize", domain: "", upgrade, infer, eval: eval::eval, lower: Lower::Kernels(kernel::lower) };
/// ONNX Upsample.
pub static UPSAMPLE: OpDef =
    OpDef { name: "Upsample", domain: "", upgrade, infer, eval: eval::eval, lower: Lower::Kernels(kernel::lower) };

/// How elements are joined.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Mode {
    Nearest,
    Linear,
    Cubic,
}

/// Where an output coordinate lies in the input.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Transformation {
    HalfPixel,
    HalfPixelSymmetric,
    PytorchHalfPixel,
    AlignCorners,
    Asymmetric,
    TfCropAndResize,
    /// Only version 11 has it.
    TfHalfPixelForNearest,
}

/// Which neighbour `Nearest` takes.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Rounding {
    PreferFloor,
    PreferCeil,
    Floor,
    Ceil,
}

/// The attributes.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    pub mode: Mode,
    pub transformation: Transformation,
    pub rounding: Rounding,
    pub antialias: bool,
    pub exclude_outside: bool,
    pub cubic: f64,
    pub extrapolation: f64,
}

/// What `sizes` means.
#[derive(Clone, Copy, PartialEq)]
pub enum Policy {
    Stretch,
    NotLarger,
    NotSmaller,
}

/// Reads the attributes.
pub fn settings(cx: &impl ReadAttributes) -> Result<Settings> {
    let unknown = |name: &str, value: &str| cx.fail(Code::ATTRIBUTE, format!("`{name}` \"{value}\" is not known"));
    let mode = match &cx.text("mode", "nearest")?[..] {
        "nearest" => Mode::Nearest,
        "linear" | "bilinear" | "trilinear" => Mode::Linear,
        "cubic" => Mode::Cubic,
        other => return Err(unknown("mode", other)),
    };
    let transformation = match &cx.text("coordinate_transformation_mode", "half_pixel")?[..] {
        "half_pixel" => Transformation::HalfPixel,
        "half_pixel_symmetric" => Transformation::HalfPixelSymmetric,
        "pytorch_half_pixel" => Transformation::PytorchHalfPixel,
        "align_corners" => Transformation::AlignCorners,
        "asymmetric" => Transformation::Asymmetric,
        "tf_crop_and_resize" => Transformation::TfCropAndResize,
        "tf_half_pixel_for_nn" => Transformation::TfHalfPixelForNearest,
        other => return Err(unknown("coordinate_transformation_mode", other)),
    };
    let rounding = match &cx.text("nearest_mode", "round_prefer_floor")?[..] {
        "round_prefer_floor" => Rounding::PreferFloor,
        "round_prefer_ceil" => Rounding::PreferCeil,
        "floor" => Rounding::Floor,
        "ceil" => Rounding::Ceil,
        other => return Err(unknown("nearest_mode", other)),
    };
    Ok(Settings {
        mode,
        transformation,
        rounding,
        antialias: cx.flag("antialias", false)? && mode != Mode::Nearest,
        exclude_outside: cx.flag("exclude_outside", false)?,
        cubic: f64::from(cx.float("cubic_coeff_a", -0.75)?),
        extrapolation: f64::from(cx.float("extrapolation_value", 0.0)?),
    })
}

/// Reads `keep_aspect_ratio_policy`.
pub fn policy(cx: &impl ReadAttributes) -> Result<Policy> {
    match &cx.text("keep_aspect_ratio_policy", "stretch")?[..] {
        "stretch" => Ok(Policy::Stretch),
        "not_larger" => Ok(Policy::NotLarger),
        "not_smaller" => Ok(Policy::NotSmaller),
        other => Err(cx.fail(Code::ATTRIBUTE, format!("`keep_aspect_ratio_policy` \"{other}\" is not known"))),
    }
}

/// The dims that scales, sizes and roi speak of, in their order.
pub fn axes(cx: &impl ReadAttributes, rank: usize) -> Result<Vec<usize>> {
    match cx.ints("axes")? {
        None => Ok((0..rank).collect()),
        Some(axes) => axes.into_iter().map(|a| normalize_axis(cx.node(), a, rank)).collect(),
    }
}

fn upgrade(cx: &mut UpgradeCx) -> Result<()> {
    let upsample = cx.node.op.name == "Upsample";
    if !upsample && cx.version >= 11 {
        return Ok(());
    }
    // X, scales → X, no roi, scales.
    cx.node.op = &RESIZE;
    let scales = cx.node.inputs.get(1).copied().flatten();
    cx.node.inputs.truncate(1);
    cx.node.inputs.extend([None, scales]);
    if let Some(Attribute::Floats(scales)) = cx.take("scales") {
        cx.set_input(2, Tensor::from_f32s(vec![scales.len()], &scales));
    }
    cx.set("coordinate_transformation_mode", Attribute::Text(b"asymmetric".to_vec()));
    cx.set("nearest_mode", Attribute::Text(b"floor".to_vec()));
    Ok(())
}

/// By how much a dim grows.
#[derive(Clone, Debug)]
pub enum Scale {
    /// A number.
    Number(f64),
    /// A quotient of sizes.
    Ratio(Expr, Expr),
    /// Element of the scales operand, read during the run.
    Element(usize),
}

/// What a dim becomes.
#[derive(Clone, Debug)]
pub struct Axis {
    pub dim: usize,
    /// Its position in the lists of scales, sizes and roi.
    pub place: usize,
    pub scale: Scale,
    /// The new size; `None`: known only during the run.
    pub size: Option<Expr>,
}

/// `floor(size · scale)` exactly: a float is a whole number over a power of two.
fn scaled(size: &Expr, scale: f32) -> Option<Expr> {
    if let Some(size) = size.as_const() {
        return Some(Expr::constant((size as f64 * f64::from(scale)).floor() as i64));
    }
    let (mut numerator, mut denominator) = (f64::from(scale), 1i64);
    while numerator.fract() != 0.0 && denominator < 1 << 40 {
        numerator *= 2.0;
        denominator *= 2;
    }
    (numerator.fract() == 0.0 && numerator < 1e9)
        .then(|| (size * &Expr::constant(numerator as i64)).floor_div(&denominator.into()))
}

/// New sizes and scales from wanted sizes, under the policy: the scale is a quotient, chosen exactly.
pub fn from_sizes(shape: &[Expr], axes: &[usize], sizes: &[Expr], policy: Policy) -> Vec<Axis> {
    let stretch = axes.iter().zip(sizes).enumerate().map(|(place, (&dim, size))| {
        let scale = Scale::Ratio(size.clone(), shape[dim].clone());
        Axis { dim, place, scale, size: Some(size.clone()) }
    });
    let all: Vec<Axis> = stretch.collect();
    if policy == Policy::Stretch || all.is_empty() {
        return all;
    }
    let (mut n, mut d) = (sizes[0].clone(), shape[axes[0]].clone());
    for (&dim, size) in axes.iter().zip(sizes).skip(1) {
        // size / shape against n / d.
        let (left, right) = (size * &d, &n * &shape[dim]);
        let better = if policy == Policy::NotLarger { left.less(&right) } else { right.less(&left) };
        n = better.select(size, &n);
        d = better.select(&shape[dim], &d);
    }
    let kept = |mut axis: Axis| {
        // Rounded half up: floor((2·n·size + d) / 2d).
        axis.size = Some((&n * &shape[axis.dim] * 2 + &d).floor_div(&(&d * 2)));
        axis.scale = Scale::Ratio(n.clone(), d.clone());
        axis
    };
    all.into_iter().map(kept).collect()
}

/// New sizes and scales from scales that are numbers.
pub fn from_scales(shape: &[Expr], axes: &[usize], scales: &[f32]) -> Vec<Axis> {
    let one = |(place, (&dim, &scale)): (usize, (&usize, &f32))| Axis {
        dim,
        place,
        scale: Scale::Number(f64::from(scale)),
        size: scaled(&shape[dim], scale),
    };
    axes.iter().zip(scales).enumerate().map(one).collect()
}

/// What is known before the run. Operands: 1 roi, 2 scales, 3 sizes.
pub fn known_axes(cx: &impl ReadOperands) -> Result<Vec<Axis>> {
    let shape = cx.shape(0)?;
    let axes = axes(cx, shape.len())?;
    let open = |scale: fn(usize) -> Scale| {
        axes.iter().enumerate().map(|(place, &dim)| Axis { dim, place, scale: scale(place), size: None }).collect()
    };
    let count_is_right = |n: usize| {
        let message = || format!("{n} scales or sizes are given for {} dims", axes.len());
        if n == axes.len() { Ok(()) } else { Err(cx.fail(Code::VALUE, message())) }
    };
    if cx.has_input(3) && !is_empty(cx, 3) {
        return Ok(match cx.known(3) {
            Some(sizes) => {
                count_is_right(sizes.len())?;
                from_sizes(&shape, &axes, &sizes, policy(cx)?)
            }
            None => open(Scale::Element),
        });
    }
    if !cx.has_input(2) {
        return Err(cx.fail(Code::OPERAND, "either scales or sizes must be given"));
    }
    match cx.constant(2) {
        Some(scales) => {
            count_is_right(scales.len())?;
            let scales: Vec<f32> = scales.to_f64s().into_iter().map(|s| s as f32).collect();
            Ok(from_scales(&shape, &axes, &scales))
        }
        None => Ok(open(Scale::Element)),
    }
}

/// Old exporters give an empty tensor where they mean none.
pub fn is_empty(cx: &impl ReadOperands, index: usize) -> bool {
    cx.shape(index).is_ok_and(|s| s.iter().any(|d| d.is(0)))
}

fn infer(cx: &mut InferCx) -> Result<()> {
    let (dtype, mut shape) = (cx.dtype(0)?, cx.shape(0)?);
    let settings = settings(cx)?;
    if settings.transformation == Transformation::TfCropAndResize && !cx.has_input(1) {
        return Err(cx.fail(Code::OPERAND, "tf_crop_and_resize needs a region of interest"));
    }
    for axis in known_axes(cx)? {
        shape[axis.dim] = match axis.size {
            Some(size) => size,
            None => cx.fresh("resized"),
        };
    }
    cx.set(0, dtype, shape);
    Ok(())
}
