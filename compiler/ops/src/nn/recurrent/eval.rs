//! The recurrent cells, evaluated step by step in f64.

use oaaxc_base::Diagnostic;
use oaaxc_ir::Datum;
use oaaxc_ir::eval::EvalCx;
use oaaxc_ir::tensor::Tensor;

use super::{Form, Kind, form};

type Result<T> = std::result::Result<T, Diagnostic>;

/// The operands as plain numbers: `w` is `[directions, gates·hidden, input]`, `r` `[directions, gates·hidden, hidden]`.
pub struct Operands<'a> {
    /// The sequences.
    pub x: &'a Tensor,
    /// Input weights.
    pub w: Vec<f64>,
    /// Recurrent weights.
    pub r: Vec<f64>,
    /// Size of the state.
    pub hidden: usize,
    /// `[directions, 2·gates·hidden]`.
    pub bias: Option<Vec<f64>>,
    /// Per sequence.
    pub lengths: Option<Vec<i64>>,
    /// The first hidden state.
    pub h: Option<Vec<f64>>,
    /// The first cell state.
    pub c: Option<Vec<f64>>,
    /// `[directions, 3·hidden]`.
    pub peephole: Option<Vec<f64>>,
}

pub fn eval(cx: &EvalCx) -> Result<Vec<Datum>> {
    let form = form(cx)?;
    let numbers = |i: usize| -> Result<Option<Vec<f64>>> { Ok(cx.optional(i)?.map(Tensor::to_f64s)) };
    let operands = Operands {
        x: cx.input(0)?,
        w: cx.input(1)?.to_f64s(),
        r: cx.input(2)?.to_f64s(),
        hidden: cx.input(2)?.dims[2],
        bias: numbers(3)?,
        lengths: cx.optional(4)?.map(Tensor::to_i64s),
        h: numbers(5)?,
        c: numbers(6)?,
        peephole: numbers(7)?,
    };
    let mut results = run(&form, &operands);
    results.truncate(cx.output_count());
    Ok(results)
}

/// Y, Y_h, and Y_c for an LSTM.
pub fn run(form: &Form, o: &Operands) -> Vec<Datum> {
    let (hidden, directions, input) = (o.hidden, form.directions, o.x.dims[2]);
    let (time, batch) = if form.batch_first { (o.x.dims[1], o.x.dims[0]) } else { (o.x.dims[0], o.x.dims[1]) };
    let x = o.x.to_f64s();
    let mut y = vec![0.0; time * directions * batch * hidden];
    let (mut y_h, mut y_c) = (vec![0.0; directions * batch * hidden], vec![0.0; directions * batch * hidden]);
    for d in 0..directions {
        let weights = Weights { form, o, d };
        for b in 0..batch {
            let state = if form.batch_first { (b * directions + d) * hidden } else { (d * batch + b) * hidden };
            let initial =
                |from: &Option<Vec<f64>>| from.as_ref().map_or(vec![0.0; hidden], |v| v[state..state + hidden].to_vec());
            let (mut h, mut c) = (initial(&o.h), initial(&o.c));
            let length = o.lengths.as_ref().map_or(time, |l| usize::try_from(l[b]).unwrap_or(0).min(time));
            for step in 0..length {
                let t = if form.backward != (d == 1) { length - 1 - step } else { step };
                let row = if form.batch_first { b * time + t } else { t * batch + b };
                weights.step(&x[row * input..(row + 1) * input], &mut h, &mut c);
                let at = if form.batch_first { (b * time + t) * directions + d } else { (t * directions + d) * batch + b };
                y[at * hidden..(at + 1) * hidden].copy_from_slice(&h);
            }
            y_h[state..state + hidden].copy_from_slice(&h);
            y_c[state..state + hidden].copy_from_slice(&c);
        }
    }
    let (y_dims, state_dims) = if form.batch_first {
        (vec![batch, time, directions, hidden], vec![batch, directions, hidden])
    } else {
        (vec![time, directions, batch, hidden], vec![directions, batch, hidden])
    };
    let dtype = o.x.dtype;
    let tensor = |dims: &[usize], v: Vec<f64>| Datum::from(Tensor::from_f64s(dtype, dims.to_vec(), v));
    let mut results = vec![tensor(&y_dims, y), tensor(&state_dims, y_h)];
    if form.kind == Kind::Lstm {
        results.push(tensor(&state_dims, y_c));
    }
    results
}

struct Weights<'a> {
    form: &'a Form,
    o: &'a Operands<'a>,
    d: usize,
}

impl Weights<'_> {
    fn product(&self, weights: &[f64], gate: usize, j: usize, v: &[f64]) -> f64 {
        let row = (self.d * self.form.kind.gates() + gate) * self.o.hidden + j;
        v.iter().zip(&weights[row * v.len()..]).map(|(a, b)| a * b).sum()
    }
    fn bias(&self, gate: usize, j: usize, recurrent: bool) -> f64 {
        let gates = self.form.kind.gates();
        let at = (self.d * 2 * gates + gate + if recurrent { gates } else { 0 }) * self.o.hidden + j;
        self.o.bias.as_ref().map_or(0.0, |b| b[at])
    }
    fn peephole(&self, which: usize, j: usize) -> f64 {
        self.o.peephole.as_ref().map_or(0.0, |p| p[(self.d * 3 + which) * self.o.hidden + j])
    }
    fn activate(&self, which: usize, v: f64) -> f64 {
        let v = self.form.clip.map_or(v, |c| v.clamp(-c, c));
        self.form.activations[self.d][which].value(v)
    }
    fn step(&self, x: &[f64], h: &mut [f64], c: &mut [f64]) {
        let n = h.len();
        let (before, w, r) = (h.to_vec(), &self.o.w, &self.o.r);
        let input = |g: usize, j: usize| self.product(w, g, j, x) + self.bias(g, j, false);
        let whole = |g: usize, j: usize| input(g, j) + self.product(r, g, j, &before) + self.bias(g, j, true);
        match self.form.kind {
            Kind::Rnn => (0..n).for_each(|j| h[j] = self.activate(0, whole(0, j))),
            Kind::Gru => {
                let reset: Vec<f64> = (0..n).map(|j| self.activate(0, whole(1, j))).collect();
                let scaled: Vec<f64> = reset.iter().zip(&before).map(|(r, h)| r * h).collect();
                for j in 0..n {
                    let z = self.activate(0, whole(0, j));
                    let recurrent = if self.form.linear_before_reset {
                        reset[j] * (self.product(r, 2, j, &before) + self.bias(2, j, true))
                    } else {
                        self.product(r, 2, j, &scaled) + self.bias(2, j, true)
                    };
                    h[j] = (1.0 - z) * self.activate(1, input(2, j) + recurrent) + z * before[j];
                }
            }
            Kind::Lstm => {
                for j in 0..n {
                    let i = self.activate(0, whole(0, j) + self.peephole(0, j) * c[j]);
                    let f = if self.form.couple { 1.0 - i } else { self.activate(0, whole(2, j) + self.peephole(2, j) * c[j]) };
                    c[j] = f * c[j] + i * self.activate(1, whole(3, j));
                    let o = self.activate(0, whole(1, j) + self.peephole(1, j) * c[j]);
                    // The clip is for gates' inputs; the last function sees the cell as it is.
                    h[j] = o * self.form.activations[self.d][2].value(c[j]);
                }
            }
        }
    }
}
