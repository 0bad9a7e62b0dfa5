//! Sliding windows: what Conv, pools and their kin share. Kernel shape, strides, dilations, pads,
//! `auto_pad`, `ceil_mode`, and the output sizes that follow.
//!
//! ONNX: "`output_spatial_shape[i] = floor((input + pad - dilation * (kernel - 1) - 1) / stride + 1)`".
//! With `ceil_mode` the quotient is rounded up, but a window that would start in the padding behind
//! the input (or behind it altogether) is dropped: the rule that PyTorch, ONNX Runtime and ONNX 22 share;
//! it holds here for every version.

use oaaxc_base::{Code, Diagnostic};
use oaaxc_ir::expr::Expr;
use oaaxc_ir::{ReadAttributes, Symbols};

type Result<T> = std::result::Result<T, Diagnostic>;

/// Where a window lies on one spatial dim.
#[derive(Clone, Debug)]
pub struct Dim {
    /// Taps of the window.
    pub kernel: Expr,
    /// Distance between windows.
    pub stride: i64,
    /// Distance between taps.
    pub dilation: i64,
    /// Padding before the first element.
    pub begin: Expr,
    /// Padding after the last element.
    pub end: Expr,
    /// Size of the input.
    pub input: Expr,
    /// Number of windows.
    pub output: Expr,
    /// No padding behind and no rounding up: the last window ends inside whatever the sizes are.
    fits: bool,
}

impl Dim {
    /// The input position that tap `k` of window `o` reads; outside `0..input` it is padding.
    pub fn position(&self, o: &Expr, k: &Expr) -> Expr {
        o * self.stride + k * self.dilation - &self.begin
    }
    /// The same windows over an input that has its padding in memory. Not with `ceil_mode`.
    pub fn padded(&self) -> Dim {
        let input = &self.input + &self.begin + &self.end;
        Dim { begin: 0.into(), end: 0.into(), fits: true, input, ..self.clone() }
    }
    /// Whether some tap of some window may lie outside the input.
    pub fn may_pad(&self) -> bool {
        let last = (&self.output - 1) * self.stride + (&self.kernel - 1) * self.dilation;
        let behind = (&self.input - 1 - last).as_const().is_none_or(|room| room < 0);
        !self.begin.is(0) || (behind && !self.fits)
    }
    /// How many taps of window `o` lie in `low..high` of the input's coordinates.
    pub fn taps_within(&self, o: &Expr, low: &Expr, high: &Expr) -> Expr {
        let start = o * self.stride - &self.begin;
        let d = Expr::constant(self.dilation);
        let first = (low - &start).ceil_div(&d).maximum(&0.into());
        let last = (high - &start).ceil_div(&d).minimum(&self.kernel);
        (last - first).maximum(&0.into())
    }
}

/// The number of windows in `span + 1` start positions.
fn windows(span: &Expr, stride: i64, ceil: bool, before_right_padding: &Expr) -> Expr {
    let s = Expr::constant(stride);
    if !ceil || stride == 1 {
        return span.floor_div(&s) + 1;
    }
    let count = span.ceil_div(&s) + 1;
    let last_starts_inside = ((&count - 1) * stride).less(before_right_padding);
    count - 1 + last_starts_inside
}

/// Reads the attributes of a window over these input sizes. `kernel` is the window's shape (the weight's, or `kernel_shape`).
pub fn read(cx: &impl ReadAttributes, symbols: Option<&Symbols>, input: &[Expr], kernel: &[Expr]) -> Result<Vec<Dim>> {
    let rank = input.len();
    let list = |name: &str, default: i64, count: usize| -> Result<Vec<i64>> {
        let values = cx.ints(name)?.unwrap_or_else(|| vec![default; count]);
        if values.len() != count {
            return Err(cx.fail(Code::ATTRIBUTE, format!("`{name}` has {} values, but {count} are needed", values.len())));
        }
        Ok(values)
    };
    if kernel.len() != rank {
        let message = format!("the window has {} dims, the input has {rank} spatial dims", kernel.len());
        return Err(cx.fail(Code::SHAPE, message));
    }
    let (strides, dilations) = (list("strides", 1, rank)?, list("dilations", 1, rank)?);
    if let Some(bad) = strides.iter().chain(&dilations).find(|v| **v < 1) {
        return Err(cx.fail(Code::ATTRIBUTE, format!("strides and dilations must be positive, not {bad}")));
    }
    let (auto, ceil) = (cx.text("auto_pad", "NOTSET")?, cx.flag("ceil_mode", false)?);
    let pads = if auto == "NOTSET" { list("pads", 0, 2 * rank)? } else { vec![0; 2 * rank] };
    let mut dims = Vec::new();
    for i in 0..rank {
        let (stride, dilation) = (strides[i], dilations[i]);
        let reach = (&kernel[i] - 1) * dilation + 1;
        let (begin, end, output) = match &auto[..] {
            "SAME_UPPER" | "SAME_LOWER" => {
                let output = input[i].ceil_div(&stride.into());
                let total = ((&output - 1) * stride + &reach - &input[i]).maximum(&0.into());
                let half = total.floor_div(&2.into());
                let rest = &total - &half;
                if auto == "SAME_UPPER" { (half, rest, output) } else { (rest, half, output) }
            }
            "NOTSET" | "VALID" => {
                let (begin, end) = (Expr::constant(pads[i]), Expr::constant(pads[rank + i]));
                let span = &input[i] + &begin + &end - &reach;
                let output = windows(&span, stride, ceil, &(&input[i] + &begin));
                (begin, end, output)
            }
            _ => return Err(cx.fail(Code::ATTRIBUTE, format!("`auto_pad` \"{auto}\" is not known"))),
        };
        if output.as_const().is_some_and(|o| o < 1) && !input[i].is(0) {
            let show = |e: &Expr| symbols.map_or_else(|| e.to_string(), |s| s.show(e));
            let message =
                format!("a window of {} does not fit into {} elements of spatial dim {i}", show(&reach), show(&input[i]));
            return Err(cx.fail(Code::SHAPE, message));
        }
        let output = if output.as_const().is_some_and(|o| o < 0) { Expr::constant(0) } else { output };
        let fits = end.is(0) && !ceil && auto.starts_with(['N', 'V']);
        dims.push(Dim { fits, kernel: kernel[i].clone(), stride, dilation, begin, end, input: input[i].clone(), output });
    }
    Ok(dims)
}

/// The attribute `kernel_shape` of a pool.
pub fn kernel_shape(cx: &impl ReadAttributes) -> Result<Vec<Expr>> {
    let shape = cx.ints("kernel_shape")?.ok_or_else(|| cx.fail(Code::ATTRIBUTE, "attribute `kernel_shape` is required"))?;
    Ok(shape.into_iter().map(Expr::constant).collect())
}

/// A window over concrete sizes, for evaluation.
#[derive(Clone, Debug)]
pub struct Concrete {
    /// Taps per dim.
    pub kernel: Vec<usize>,
    /// Number of windows per dim.
    pub output: Vec<usize>,
    /// Sizes of the input per dim.
    pub input: Vec<usize>,
    dims: Vec<(i64, i64, i64, i64)>, // stride, dilation, begin, end
}

impl Concrete {
    /// The window of a node over concrete sizes.
    pub fn read(cx: &impl ReadAttributes, input: &[usize], kernel: &[usize]) -> Result<Concrete> {
        let exprs = |v: &[usize]| v.iter().map(|&d| d.into()).collect::<Vec<Expr>>();
        let dims = read(cx, None, &exprs(input), &exprs(kernel))?;
        let number = |e: &Expr| e.as_const().expect("sizes are numbers");
        Ok(Concrete {
            kernel: kernel.to_vec(),
            input: input.to_vec(),
            output: dims.iter().map(|d| usize::try_from(number(&d.output)).expect("checked by read")).collect(),
            dims: dims.iter().map(|d| (d.stride, d.dilation, number(&d.begin), number(&d.end))).collect(),
        })
    }
    /// The input position of a tap on one dim; may lie outside.
    pub fn at(&self, dim: usize, o: usize, k: usize) -> i64 {
        let (stride, dilation, begin, _) = self.dims[dim];
        o as i64 * stride + k as i64 * dilation - begin
    }
    /// Whether a position lies in the input or its padding (and not behind both).
    pub fn in_padded(&self, dim: usize, at: i64) -> bool {
        let (_, _, begin, end) = self.dims[dim];
        -begin <= at && at < self.input[dim] as i64 + end
    }
    /// The row-major input position of each tap of a window at `o`, `None` where it is padding; with the number of
    /// taps inside input or padding.
    pub fn taps(&self, o: &[usize]) -> (Vec<Option<usize>>, usize) {
        let mut all = Vec::new();
        let mut padded = 0;
        for k in oaaxc_ir::tensor::Coordinates::new(&self.kernel) {
            let at: Vec<i64> = (0..o.len()).map(|i| self.at(i, o[i], k[i])).collect();
            let inside = at.iter().zip(&self.input).all(|(a, d)| 0 <= *a && *a < *d as i64);
            padded += usize::from(at.iter().enumerate().all(|(i, a)| self.in_padded(i, *a)));
            all.push(inside.then(|| at.iter().zip(&self.input).fold(0, |p, (a, d)| p * d + *a as usize)));
        }
        (all, padded)
    }
}
