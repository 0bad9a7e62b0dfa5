//! Checks the form of a kernel: ids in range, types that match, one index per dim, values defined before use.

use crate::dtype::DType;
use crate::kernel::{Body, BufferId, Index, Item, Kernel, Op, Role, Step, Store, V};

/// The first rule that the kernel breaks, as a sentence.
pub fn verify(kernel: &Kernel) -> Result<(), String> {
    let mut result = Ok(());
    kernel.visit_steps(&mut |step| {
        if result.is_ok() {
            result = verify_step(kernel, step);
        }
    });
    fn depth(items: &[Item]) -> usize {
        items.iter().map(|i| if let Item::Sequential { body, .. } = i { 1 + depth(body) } else { 0 }).max().unwrap_or(0)
    }
    if depth(&kernel.body) > 32 {
        return Err("sequential loops are nested deeper than 32".into());
    }
    result
}

fn verify_step(kernel: &Kernel, step: &Step) -> Result<(), String> {
    match step {
        Step::Loop(l) => {
            verify_body(kernel, &l.body)?;
            verify_body(kernel, &l.post)?;
            if l.folds.is_empty() != l.reduce.is_empty() {
                return Err("a loop has folds exactly where it has reduce axes".into());
            }
            for fold in &l.folds {
                defined(&l.body, fold.value)?;
            }
            verify_stores(kernel, &l.post, &l.stores)
        }
        Step::Contract(c) => {
            for operand in [&c.a, &c.b] {
                rank(kernel, operand.buffer, operand.index.len())?;
                if let Some((body, value)) = &operand.prologue {
                    verify_body(kernel, body)?;
                    defined(body, *value)?;
                }
            }
            verify_body(kernel, &c.post)?;
            verify_stores(kernel, &c.post, &c.stores)
        }
        Step::Sort(s) => {
            verify_body(kernel, &s.key)?;
            defined(&s.key, s.value)?;
            rank(kernel, s.order, s.index.len())?;
            if kernel.buffer(s.order).dtype != DType::I64 {
                return Err("a sort's order is an int64 buffer".into());
            }
            Ok(())
        }
        Step::Compact(c) => {
            verify_body(kernel, &c.body)?;
            defined(&c.body, c.keep)?;
            verify_stores(kernel, &c.body, &c.stores)
        }
    }
}

fn rank(kernel: &Kernel, buffer: BufferId, rank: usize) -> Result<(), String> {
    let Some(b) = kernel.buffers.get(buffer.0 as usize) else { return Err(format!("{buffer} does not exist")) };
    if b.dims.len() != rank {
        return Err(format!("{buffer} has {} dims, but {rank} indices", b.dims.len()));
    }
    Ok(())
}

fn defined(body: &Body, value: V) -> Result<(), String> {
    if (value.0 as usize) < body.ops.len() { Ok(()) } else { Err(format!("%{} is not defined", value.0)) }
}

fn verify_body(kernel: &Kernel, body: &Body) -> Result<(), String> {
    for (i, op) in body.ops.iter().enumerate() {
        let mut later = None;
        op.clone().map_values(&mut |v| {
            if v.0 as usize >= i {
                later = Some(v);
            }
            v
        });
        if let Some(v) = later {
            return Err(format!("%{i} uses %{}, which is not yet defined", v.0));
        }
        match op {
            Op::Load { buffer, dtype, index, .. } => {
                rank(kernel, *buffer, index.len())?;
                if kernel.buffer(*buffer).dtype != *dtype {
                    return Err(format!("%{i} loads {dtype} from {buffer} of {}", kernel.buffer(*buffer).dtype));
                }
                indices(body, index)?;
            }
            Op::Binary(op, x, y) if body.dtype(*x) != body.dtype(*y) => {
                return Err(format!("%{i}: {op:?} of {} and {}", body.dtype(*x), body.dtype(*y)));
            }
            Op::Select(c, x, y) if body.dtype(*c) != DType::Bool || body.dtype(*x) != body.dtype(*y) => {
                return Err(format!("%{i}: select of {}, {} and {}", body.dtype(*c), body.dtype(*x), body.dtype(*y)));
            }
            Op::Const(_) | Op::Index(_) | Op::Param(..) | Op::Unary(..) | Op::Binary(..) | Op::Select(..) | Op::Cast(..) => {}
        }
    }
    Ok(())
}

fn indices(body: &Body, index: &[Index]) -> Result<(), String> {
    for i in index {
        if let Index::Value(v) = i {
            defined(body, *v)?;
            if body.dtype(*v) != DType::I64 {
                return Err(format!("%{} is an index of type {}, not int64", v.0, body.dtype(*v)));
            }
        }
    }
    Ok(())
}

fn verify_stores(kernel: &Kernel, body: &Body, stores: &[Store]) -> Result<(), String> {
    for s in stores {
        defined(body, s.value)?;
        rank(kernel, s.buffer, s.index.len())?;
        indices(body, &s.index)?;
        let buffer = kernel.buffer(s.buffer);
        if buffer.role == Role::In {
            return Err(format!("{} is only read, but stored to", s.buffer));
        }
        if buffer.dtype != body.dtype(s.value) {
            return Err(format!("a {} is stored to {} of {}", body.dtype(s.value), s.buffer, buffer.dtype));
        }
    }
    Ok(())
}
