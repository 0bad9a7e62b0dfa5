//! The recurrent cells as kernels: one contract for the inputs of all steps, then one kernel whose
//! sequential axis is the time, with the state in locals.

use oaaxc_base::Diagnostic;
use oaaxc_ir::DType;
use oaaxc_ir::expr::Expr;
use oaaxc_ir::kernel::{BinaryOp, Body, Contract, Index, Loop, LoopAxis, Operand, Step, Store, V};
use oaaxc_ir::lower::{Arg, Buf, KernelBuilder, LowerCx};
use oaaxc_ir::{ReadOperands, ix};

use super::{Form, Kind};
use crate::formula::compute_type;

type Result<T> = std::result::Result<T, Diagnostic>;

/// The operands of a cell.
pub struct Cell {
    /// The sequences.
    pub x: Arg,
    /// Input weights.
    pub w: Arg,
    /// Recurrent weights.
    pub r: Arg,
    /// W and R are `[directions, input, gates·hidden]` instead of `[directions, gates·hidden, input]`.
    pub transposed: bool,
    /// `[directions, 2·gates·hidden]`.
    pub bias: Option<Arg>,
    /// Per sequence.
    pub lengths: Option<Arg>,
    /// The first hidden state.
    pub h: Option<Arg>,
    /// The first cell state.
    pub c: Option<Arg>,
    /// `[directions, 3·hidden]`.
    pub peephole: Option<Arg>,
}

/// Launches the kernels of a cell; results 0, 1, 2 are Y, Y_h, Y_c where asked for.
pub fn launch(cx: &mut LowerCx, form: &Form, cell: &Cell) -> Result<()> {
    let stat = compute_type(cell.x.dtype);
    let projected = project(cx, form, cell, stat)?;
    let mut k = cx.kernel();
    let (time, batch) = time_and_batch(form, &cell.x);
    let hidden = cell.r.dims[if cell.transposed { 1 } else { 2 }].clone();
    let d = k.parallel(form.directions);
    let b = k.parallel(batch);
    let read = |k: &mut KernelBuilder, arg: &Option<Arg>| arg.as_ref().map(|a| k.read(a));
    let (gates, r) = (k.read(&projected), k.read(&cell.r));
    let late_bias = form.kind == Kind::Gru && form.linear_before_reset;
    let bias = if late_bias { read(&mut k, &cell.bias) } else { None };
    let (lengths, peephole) = (read(&mut k, &cell.lengths), read(&mut k, &cell.peephole));
    let (h0, c0) = (read(&mut k, &cell.h), read(&mut k, &cell.c));
    let mut results = Vec::new();
    for i in 0..if form.kind == Kind::Lstm { 3 } else { 2 } {
        results.push(if cx.has_output(i) { Some(k.write(&cx.result(i)?)) } else { None });
    }
    let h = k.local(stat, vec![hidden.clone()]);
    let c = (form.kind == Kind::Lstm).then(|| k.local(stat, vec![hidden.clone()]));
    let sums = k.local(stat, vec![&hidden * form.kind.gates() as i64]);
    let scaled = (form.kind == Kind::Gru && !form.linear_before_reset).then(|| k.local(stat, vec![hidden.clone()]));
    let run = Run {
        form,
        stat,
        hidden,
        d,
        b,
        time: time.clone(),
        transposed: cell.transposed,
        gates,
        r,
        bias,
        lengths,
        peephole,
        h,
        c,
        sums,
        scaled,
    };

    for (state, from) in [(Some(&run.h), &h0), (run.c.as_ref(), &c0)] {
        let Some(state) = state else { continue };
        run.each(&mut k, |body, j| {
            let v = match from {
                Some(from) => {
                    let v = body.load(from, run.state_index(j));
                    body.cast(stat, v)
                }
                None => body.float(stat, 0.0),
            };
            vec![Store::at(state, ix![j], v)]
        });
    }
    let y = results[0].clone();
    k.sequential(time, |k, t| run.step(k, &t, y.as_ref()));
    for (result, state) in results[1..].iter().zip([Some(&run.h), run.c.as_ref()]) {
        if let (Some(result), Some(state)) = (result, state) {
            run.each(&mut k, |body, j| {
                let v = body.load(state, ix![j]);
                let v = body.cast(result.dtype, v);
                vec![Store::at(result, run.state_index(j), v)]
            });
        }
    }
    cx.launch(k)
}

fn time_and_batch(form: &Form, x: &Arg) -> (Expr, Expr) {
    if form.batch_first { (x.dims[1].clone(), x.dims[0].clone()) } else { (x.dims[0].clone(), x.dims[1].clone()) }
}

/// `[directions, time, batch, gates·hidden]`: W·x plus the biases that do not wait for the reset gate.
fn project(cx: &mut LowerCx, form: &Form, cell: &Cell, stat: DType) -> Result<Arg> {
    let (time, batch) = time_and_batch(form, &cell.x);
    let width = cell.w.dims[if cell.transposed { 2 } else { 1 }].clone();
    let out = cx.temp(stat, vec![form.directions.into(), time.clone(), batch.clone(), width.clone()]);
    let mut k = cx.kernel();
    let (x, w) = (k.read(&cell.x), k.read(&cell.w));
    let bias = cell.bias.as_ref().map(|b| k.read(b));
    let to = k.write(&out);
    let (mut groups, mut m, mut n, mut kk) = (vec![], vec![], vec![], vec![]);
    let d = k.axis(&mut groups, form.directions);
    let (t, b) = if form.batch_first {
        let b = k.axis(&mut m, batch);
        (k.axis(&mut m, time), b)
    } else {
        (k.axis(&mut m, time), k.axis(&mut m, batch))
    };
    let (row, i) = (k.axis(&mut n, width.clone()), k.axis(&mut kk, cell.x.dims[2].clone()));
    let a_index = if form.batch_first { vec![b.clone(), t.clone(), i.clone()] } else { vec![t.clone(), b.clone(), i.clone()] };
    let b_index = if cell.transposed { vec![d.clone(), i, row.clone()] } else { vec![d.clone(), row.clone(), i] };
    let mut contract = contract(&x, a_index, &w, b_index, stat);
    let mut v = contract.post.param(0, stat);
    if let Some(bias) = &bias {
        let late = form.kind == Kind::Gru && form.linear_before_reset;
        for at in std::iter::once(row.clone()).chain((!late).then(|| &row + &width)) {
            let w = contract.post.load(bias, ix![d.clone(), at]);
            let w = contract.post.cast(stat, w);
            v = contract.post.binary(BinaryOp::Add, v, w);
        }
    }
    contract.stores.push(Store::at(&to, ix![d, t, b, row], v));
    (contract.batch, contract.m, contract.n, contract.k) = (groups, m, n, kk);
    k.step(Step::Contract(contract));
    cx.launch(k)?;
    Ok(out)
}

fn contract(a: &Buf, a_index: Vec<Expr>, b: &Buf, b_index: Vec<Expr>, acc: DType) -> Contract {
    let plain = |buffer: &Buf, index| Operand { buffer: buffer.id, index, otherwise: None, zero: None, prologue: None };
    let (a, b) = (plain(a, a_index), plain(b, b_index));
    Contract { batch: vec![], m: vec![], n: vec![], k: vec![], a, b, acc, post: Body::default(), stores: vec![] }
}

struct Run<'a> {
    form: &'a Form,
    stat: DType,
    hidden: Expr,
    d: Expr,
    b: Expr,
    time: Expr,
    transposed: bool,
    gates: Buf,
    r: Buf,
    bias: Option<Buf>,
    lengths: Option<Buf>,
    peephole: Option<Buf>,
    h: Buf,
    c: Option<Buf>,
    sums: Buf,
    scaled: Option<Buf>,
}

impl Run<'_> {
    fn state_index(&self, j: &Expr) -> Vec<Index> {
        if self.form.batch_first { ix![&self.b, &self.d, j] } else { ix![&self.d, &self.b, j] }
    }
    /// A loop over the hidden units.
    fn each(&self, k: &mut KernelBuilder, f: impl FnOnce(&mut Body, &Expr) -> Vec<Store>) {
        let mut l = Loop::default();
        let j = k.axis(&mut l.parallel, self.hidden.clone());
        l.stores = f(&mut l.post, &j);
        k.push(l);
    }
    /// Where in the sequence step `t` is, and whether the sequence is still running.
    fn place(&self, body: &mut Body, t: &Expr) -> (Index, Option<V>) {
        let reversed = if self.form.directions == 2 { self.d.clone() } else { i64::from(self.form.backward).into() };
        let Some(lengths) = &self.lengths else {
            return ((t + reversed * (&self.time - 1 - t * 2)).into(), None);
        };
        let length = body.load(lengths, ix![&self.b]);
        let length = body.cast(DType::I64, length);
        let (now, zero) = (body.index(t.clone()), body.int(DType::I64, 0));
        let running = body.binary(BinaryOp::Lt, now, length);
        let reversed = body.index(reversed);
        let back = body.index(Expr::constant(-1) - t * 2);
        let back = body.binary(BinaryOp::Add, length, back);
        let back = body.binary(BinaryOp::Mul, reversed, back);
        let back = body.binary(BinaryOp::Add, now, back);
        let at = body.select(running, back, now);
        // A length beyond the sequence's end is the model's error; it must not reach outside.
        let last = body.index(&self.time - 1);
        let at = body.binary(BinaryOp::Min, at, last);
        (body.binary(BinaryOp::Max, at, zero).into(), Some(running))
    }
    /// `sums[rows] = R[rows]·state`, plus the projected input where wanted, plus the late bias.
    fn recur(&self, k: &mut KernelBuilder, state: &Buf, first: i64, count: i64, t: Option<&Expr>) {
        let mut n: Vec<LoopAxis> = vec![];
        let mut kk: Vec<LoopAxis> = vec![];
        let row = k.axis(&mut n, &self.hidden * count) + &self.hidden * first;
        let i = k.axis(&mut kk, self.hidden.clone());
        let weight = if self.transposed {
            vec![self.d.clone(), i.clone(), row.clone()]
        } else {
            vec![self.d.clone(), row.clone(), i.clone()]
        };
        let mut contract = contract(state, vec![i], &self.r, weight, self.stat);
        let post = &mut contract.post;
        let mut v = post.param(0, self.stat);
        if let Some(t) = t {
            let (at, _) = self.place(post, t);
            let x = post.load(&self.gates, vec![(&self.d).into(), at, (&self.b).into(), (&row).into()]);
            v = post.binary(BinaryOp::Add, v, x);
        }
        if let Some(bias) = &self.bias {
            let w = post.load(bias, ix![&self.d, &row + &self.hidden * self.form.kind.gates() as i64]);
            let w = post.cast(self.stat, w);
            v = post.binary(BinaryOp::Add, v, w);
        }
        contract.stores.push(Store::at(&self.sums, ix![row], v));
        (contract.n, contract.k) = (n, kk);
        k.step(Step::Contract(contract));
    }
    fn sum(&self, body: &mut Body, gate: i64, j: &Expr) -> V {
        body.load(&self.sums, ix![&self.hidden * gate + j])
    }
    /// The projected input of a gate.
    fn input(&self, body: &mut Body, gate: i64, j: &Expr, t: &Expr) -> V {
        let (at, _) = self.place(body, t);
        body.load(&self.gates, vec![(&self.d).into(), at, (&self.b).into(), (&self.hidden * gate + j).into()])
    }
    /// A gate's function, after the clip.
    fn activate(&self, body: &mut Body, which: usize, v: V) -> V {
        let v = match self.form.clip {
            Some(c) => {
                let (low, high) = (body.float(self.stat, -c), body.float(self.stat, c));
                let v = body.binary(BinaryOp::Max, v, low);
                body.binary(BinaryOp::Min, v, high)
            }
            None => v,
        };
        self.function(body, which, v)
    }
    fn function(&self, body: &mut Body, which: usize, v: V) -> V {
        let first = self.form.activations[0][which];
        let value = first.emit(body, v);
        match self.form.activations.get(1).map(|a| a[which]) {
            Some(second) if second != first => {
                let other = second.emit(body, v);
                let (d, zero) = (body.index(self.d.clone()), body.int(DType::I64, 0));
                let forward = body.binary(BinaryOp::Eq, d, zero);
                body.select(forward, value, other)
            }
            _ => value,
        }
    }
    /// `sum + P·cell`.
    fn peep(&self, body: &mut Body, which: i64, j: &Expr, sum: V, cell: V) -> V {
        let Some(p) = &self.peephole else { return sum };
        let p = body.load(p, ix![&self.d, &self.hidden * which + j]);
        let p = body.cast(self.stat, p);
        let p = body.binary(BinaryOp::Mul, p, cell);
        body.binary(BinaryOp::Add, sum, p)
    }
    /// One step of time: the products with the state, then the new state and the output.
    fn step(&self, k: &mut KernelBuilder, t: &Expr, y: Option<&Buf>) {
        match self.form.kind {
            Kind::Rnn => self.recur(k, &self.h, 0, 1, Some(t)),
            Kind::Lstm => self.recur(k, &self.h, 0, 4, Some(t)),
            Kind::Gru if self.form.linear_before_reset => self.recur(k, &self.h, 0, 3, None),
            Kind::Gru => {
                self.recur(k, &self.h, 0, 2, Some(t));
                let scaled = self.scaled.as_ref().expect("made for this form");
                self.each(k, |body, j| {
                    let r = self.sum(body, 1, j);
                    let r = self.activate(body, 0, r);
                    let h = body.load(&self.h, ix![j]);
                    let v = body.binary(BinaryOp::Mul, r, h);
                    vec![Store::at(scaled, ix![j], v)]
                });
                self.recur(k, scaled, 2, 1, Some(t));
            }
        }
        self.each(k, |body, j| {
            let (h, c) = match self.form.kind {
                Kind::Rnn => {
                    let v = self.sum(body, 0, j);
                    (self.activate(body, 0, v), None)
                }
                Kind::Gru => (self.gru(body, j, t), None),
                Kind::Lstm => {
                    let (h, c) = self.lstm(body, j);
                    (h, Some(c))
                }
            };
            let (at, running) = self.place(body, t);
            let keep = |body: &mut Body, new: V, old: &Buf| match running {
                Some(running) => {
                    let old = body.load(old, ix![j]);
                    body.select(running, new, old)
                }
                None => new,
            };
            let mut stores = Vec::new();
            if let Some(y) = y {
                let zero = body.float(self.stat, 0.0);
                let v = running.map_or(h, |running| body.select(running, h, zero));
                let v = body.cast(y.dtype, v);
                let index = if self.form.batch_first {
                    vec![(&self.b).into(), at, (&self.d).into(), j.into()]
                } else {
                    vec![at, (&self.d).into(), (&self.b).into(), j.into()]
                };
                stores.push(Store::at(y, index, v));
            }
            let next = keep(body, h, &self.h);
            stores.push(Store::at(&self.h, ix![j], next));
            if let (Some(c), Some(cell)) = (c, &self.c) {
                let next = keep(body, c, cell);
                stores.push(Store::at(cell, ix![j], next));
            }
            stores
        });
    }
    fn gru(&self, body: &mut Body, j: &Expr, t: &Expr) -> V {
        let late = self.form.linear_before_reset;
        let gate = |body: &mut Body, which: i64| {
            let mut v = self.sum(body, which, j);
            if late {
                let x = self.input(body, which, j, t);
                v = body.binary(BinaryOp::Add, v, x);
            }
            self.activate(body, 0, v)
        };
        let z = gate(body, 0);
        let mut v = self.sum(body, 2, j);
        if late {
            let r = gate(body, 1);
            v = body.binary(BinaryOp::Mul, r, v);
            let x = self.input(body, 2, j, t);
            v = body.binary(BinaryOp::Add, v, x);
        }
        let candidate = self.activate(body, 1, v);
        let (one, h) = (body.float(self.stat, 1.0), body.load(&self.h, ix![j]));
        let rest = body.binary(BinaryOp::Sub, one, z);
        let new = body.binary(BinaryOp::Mul, rest, candidate);
        let old = body.binary(BinaryOp::Mul, z, h);
        body.binary(BinaryOp::Add, new, old)
    }
    fn lstm(&self, body: &mut Body, j: &Expr) -> (V, V) {
        let cell = body.load(self.c.as_ref().expect("an LSTM has a cell"), ix![j]);
        let gate = |body: &mut Body, which: i64, cell: V| {
            let v = self.sum(body, which, j);
            let v = self.peep(body, which, j, v, cell);
            self.activate(body, 0, v)
        };
        let i = gate(body, 0, cell);
        let f = if self.form.couple {
            let one = body.float(self.stat, 1.0);
            body.binary(BinaryOp::Sub, one, i)
        } else {
            gate(body, 2, cell)
        };
        let candidate = self.sum(body, 3, j);
        let candidate = self.activate(body, 1, candidate);
        let kept = body.binary(BinaryOp::Mul, f, cell);
        let added = body.binary(BinaryOp::Mul, i, candidate);
        let next = body.binary(BinaryOp::Add, kept, added);
        let o = gate(body, 1, next);
        let shown = self.function(body, 2, next);
        (body.binary(BinaryOp::Mul, o, shown), next)
    }
}
