//! The text of a kernel, for `--emit kernel`, diagnostics and golden tests.

use std::fmt::{self, Display, Formatter, Write};

use crate::kernel::{Body, Bounds, Index, Item, Kernel, Loop, LoopAxis, Op, Operand, Role, Step, Store, V};
use crate::scalar::Scalar;

impl Display for Kernel {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        writeln!(f, "kernel \"{}\" {{", self.name.0)?;
        for (i, b) in self.buffers.iter().enumerate() {
            let role = match b.role {
                Role::In => "in",
                Role::Out => "out",
                Role::InOut => "inout",
                Role::Local => "local",
            };
            let dims: Vec<String> = b.dims.iter().map(ToString::to_string).collect();
            write!(f, "  b{i}: {role} {}[{}]", b.dtype, dims.join(","))?;
            if !b.layout.is_plain() {
                write!(f, " layout order {:?} tiles", b.layout.order)?;
                for tile in &b.layout.tiles {
                    write!(f, " {}:{}", tile.dim, tile.size)?;
                }
            }
            writeln!(f)?;
        }
        if !self.parallel.is_empty() {
            writeln!(f, "  parallel {}", axes(&self.parallel))?;
        }
        let mut text = String::new();
        items(&self.body, 2, &mut text).map_err(|_| fmt::Error)?;
        write!(f, "{text}}}")
    }
}

fn axes(axes: &[LoopAxis]) -> String {
    axes.iter().map(|a| format!("{}<{}", a.axis, a.extent)).collect::<Vec<_>>().join(" ")
}

fn items(list: &[Item], indent: usize, out: &mut String) -> fmt::Result {
    let pad = " ".repeat(indent);
    for item in list {
        match item {
            Item::Sequential { axis, body } => {
                writeln!(out, "{pad}sequential {}<{} {{", axis.axis, axis.extent)?;
                items(body, indent + 2, out)?;
                writeln!(out, "{pad}}}")?;
            }
            Item::Step(Step::Loop(l)) => print_loop(l, &pad, out)?,
            Item::Step(Step::Contract(c)) => {
                writeln!(
                    out,
                    "{pad}contract batch[{}] m[{}] n[{}] k[{}] acc {} {{",
                    axes(&c.batch),
                    axes(&c.m),
                    axes(&c.n),
                    axes(&c.k),
                    c.acc
                )?;
                operand("a", &c.a, &pad, out)?;
                operand("b", &c.b, &pad, out)?;
                body(&c.post, &pad, out)?;
                stores(&c.stores, &pad, out)?;
                writeln!(out, "{pad}}}")?;
            }
            Item::Step(Step::Sort(s)) => {
                let order = if s.descending { "descending" } else { "ascending" };
                writeln!(out, "{pad}sort {order} parallel[{}] along {}<{} {{", axes(&s.parallel), s.along.axis, s.along.extent)?;
                body(&s.key, &pad, out)?;
                writeln!(out, "{pad}  key {}; order {}{:?}\n{pad}}}", v(s.value), s.order, s.index)?;
            }
            Item::Step(Step::Compact(c)) => {
                writeln!(out, "{pad}compact [{}] position {} {{", axes(&c.axes), c.position)?;
                body(&c.body, &pad, out)?;
                writeln!(out, "{pad}  keep {}", v(c.keep))?;
                stores(&c.stores, &pad, out)?;
                if let Some(count) = c.count {
                    writeln!(out, "{pad}  count {count}")?;
                }
                writeln!(out, "{pad}}}")?;
            }
        }
    }
    Ok(())
}

fn print_loop(l: &Loop, pad: &str, out: &mut String) -> fmt::Result {
    write!(out, "{pad}loop parallel[{}]", axes(&l.parallel))?;
    if !l.reduce.is_empty() {
        write!(out, " reduce[{}]", axes(&l.reduce))?;
    }
    writeln!(out, " {{")?;
    body(&l.body, pad, out)?;
    for fold in &l.folds {
        writeln!(out, "{pad}  fold {:?} {} as {}", fold.kind, v(fold.value), fold.dtype)?;
    }
    if !l.folds.is_empty() {
        writeln!(out, "{pad}  post")?;
    }
    body(&l.post, pad, out)?;
    stores(&l.stores, pad, out)?;
    writeln!(out, "{pad}}}")
}

fn operand(name: &str, o: &Operand, pad: &str, out: &mut String) -> fmt::Result {
    write!(out, "{pad}  {name} = {}{:?}", o.buffer, o.index)?;
    if let Some(otherwise) = o.otherwise {
        write!(out, " else {}", number(otherwise))?;
    }
    if let Some((buffer, index)) = &o.zero {
        write!(out, " minus {buffer}{index:?}")?;
    }
    writeln!(out)?;
    if let Some((prologue, value)) = &o.prologue {
        writeln!(out, "{pad}  prologue of {name} gives {}", v(*value))?;
        body(prologue, pad, out)?;
    }
    Ok(())
}

fn v(value: V) -> String {
    format!("%{}", value.0)
}

fn number(scalar: Scalar) -> String {
    if scalar.dtype().is_float() {
        format!("{:?}:{}", scalar.as_f64(), scalar.dtype())
    } else {
        format!("{}:{}", scalar.as_integer(), scalar.dtype())
    }
}

fn indices(index: &[Index]) -> String {
    let one = |i: &Index| match i {
        Index::Expr(e) => e.to_string(),
        Index::Value(x) => v(*x),
    };
    index.iter().map(one).collect::<Vec<_>>().join(",")
}

fn body(body: &Body, pad: &str, out: &mut String) -> fmt::Result {
    for (i, op) in body.ops.iter().enumerate() {
        write!(out, "{pad}  %{i} = ")?;
        match op {
            Op::Const(scalar) => write!(out, "{}", number(*scalar))?,
            Op::Index(e) => write!(out, "index {e}")?,
            Op::Param(p, dtype) => write!(out, "param {p}:{dtype}")?,
            Op::Load { buffer, index, when, bounds, otherwise, .. } => {
                write!(out, "{buffer}[{}]", indices(index))?;
                if let Some(when) = when {
                    write!(out, " when {}", v(*when))?;
                }
                match bounds {
                    Bounds::Otherwise => write!(out, " else {}", number(*otherwise))?,
                    Bounds::Fault => write!(out, " checked")?,
                    Bounds::Inside if when.is_some() => write!(out, " else {}", number(*otherwise))?,
                    Bounds::Inside => {}
                }
            }
            Op::Unary(op, x) => write!(out, "{op:?} {}", v(*x))?,
            Op::Binary(op, x, y) => write!(out, "{op:?} {} {}", v(*x), v(*y))?,
            Op::Select(c, x, y) => write!(out, "Select {} {} {}", v(*c), v(*x), v(*y))?,
            Op::Cast(dtype, x) => write!(out, "Cast {dtype} {}", v(*x))?,
        }
        writeln!(out)?;
    }
    Ok(())
}

fn stores(stores: &[Store], pad: &str, out: &mut String) -> fmt::Result {
    for s in stores {
        write!(out, "{pad}  {}[{}] := {}", s.buffer, indices(&s.index), v(s.value))?;
        if let Some(when) = s.when {
            write!(out, " when {}", v(when))?;
        }
        writeln!(out, "{}", if s.bounds == Bounds::Fault { " checked" } else { "" })?;
    }
    Ok(())
}
