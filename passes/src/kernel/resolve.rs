//! Sizes that the program computes from the inputs' sizes alone are replaced by what they are,
//! and constants that are one element become numbers in the kernels that read them.
//!
//! After it the memory plan can place every buffer whose size the inputs decide, and kernels of
//! different nodes are equal where only such names differed.

use std::collections::BTreeMap;

use oaaxc_ir::Scalar;
use oaaxc_ir::expr::{Expr, SymId};
use oaaxc_ir::kernel::{Body, BufferId, Item, Kernel, Op, Role, Step};
use oaaxc_ir::program::{Instr, Program, SlotKind};
use oaaxc_ir::types::Type;

/// Runs the pass.
pub fn resolve(program: &mut Program) {
    resolve_sizes(program);
    resolve_scalars(program);
}

fn resolve_sizes(program: &mut Program) {
    let mut map: BTreeMap<SymId, Expr> = BTreeMap::new();
    for instr in &program.body {
        if let Instr::Let { symbol, value } = instr {
            let value = value.substitute(&|s| map.get(&s).cloned().unwrap_or(Expr::sym(s)), &Expr::axis);
            let from_inputs = value.symbols().iter().all(|s| program.symbols.table[*s].input);
            if from_inputs && !map.contains_key(symbol) {
                map.insert(*symbol, value);
            }
        }
    }
    // A symbol that is also set elsewhere (a loop, another branch) is not what its first Let says.
    let mut sets: BTreeMap<SymId, usize> = BTreeMap::new();
    program.visit(&mut |instr| match instr {
        Instr::Let { symbol, .. } | Instr::Read { symbol, .. } => *sets.entry(*symbol).or_default() += 1,
        Instr::Loop { counter, .. } => *sets.entry(*counter).or_default() += 1,
        _ => {}
    });
    map.retain(|s, _| sets.get(s) == Some(&1));
    program.map_exprs(&mut |e| e.substitute(&|s| map.get(&s).cloned().unwrap_or(Expr::sym(s)), &Expr::axis));
    program.body.retain(|i| !matches!(i, Instr::Let { symbol, .. } if map.contains_key(symbol)));
    program.body.retain(|i| !matches!(i, Instr::Check { holds, .. } if holds.as_const().is_some_and(|v| v != 0)));
    for (_, slot) in program.slots.iter_mut() {
        if let Type::Tensor(t) = &mut slot.ty {
            for dim in t.shape.iter_mut().flatten() {
                *dim = dim.substitute(&|s| map.get(&s).cloned().unwrap_or(Expr::sym(s)), &Expr::axis);
            }
        }
    }
}

fn resolve_scalars(program: &mut Program) {
    let splat = |slot| match &program.slots[slot].kind {
        SlotKind::Constant(tensor) if tensor.dtype.size() > 0 => tensor.as_splat(),
        _ => None,
    };
    let mut list = std::mem::take(&mut program.body);
    visit_launches(&mut list, &mut |launch| {
        let arguments: Vec<BufferId> = launch.kernel.arguments().map(|(id, _)| id).collect();
        let mut values: BTreeMap<BufferId, Scalar> = BTreeMap::new();
        for (slot, id) in launch.slots.iter().zip(&arguments) {
            if let Some(value) = splat(*slot) {
                values.insert(*id, value);
            }
        }
        if !values.is_empty() {
            visit_bodies(&mut launch.kernel, &mut |body| replace_loads(body, &values));
            drop_unused(launch);
        }
    });
    program.body = list;
}

fn replace_loads(body: &mut Body, values: &BTreeMap<BufferId, Scalar>) {
    use oaaxc_ir::kernel::Bounds;
    for op in &mut body.ops {
        if let Op::Load { buffer, when: None, bounds, .. } = op
            && let Some(value) = values.get(buffer)
            && *bounds == Bounds::Inside
        {
            *op = Op::Const(*value);
        }
    }
}

/// Calls `f` on every launch of a list, nested ones too.
pub fn visit_launches(list: &mut [Instr], f: &mut dyn FnMut(&mut oaaxc_ir::program::Launch)) {
    for instr in list {
        match instr {
            Instr::Launch(launch) => f(launch),
            Instr::If { then, otherwise, .. } => {
                visit_launches(then, f);
                visit_launches(otherwise, f);
            }
            Instr::Loop { body, .. } => visit_launches(body, f),
            _ => {}
        }
    }
}

/// Calls `f` on every body of a kernel.
pub fn visit_bodies(kernel: &mut Kernel, f: &mut dyn FnMut(&mut Body)) {
    fn items(list: &mut [Item], f: &mut dyn FnMut(&mut Body)) {
        for item in list {
            match item {
                Item::Sequential { body, .. } => items(body, f),
                Item::Step(Step::Loop(l)) => {
                    f(&mut l.body);
                    f(&mut l.post);
                }
                Item::Step(Step::Contract(c)) => {
                    for operand in [&mut c.a, &mut c.b] {
                        if let Some((body, _)) = &mut operand.prologue {
                            f(body);
                        }
                    }
                    f(&mut c.post);
                }
                Item::Step(Step::Sort(s)) => f(&mut s.key),
                Item::Step(Step::Compact(c)) => f(&mut c.body),
            }
        }
    }
    items(&mut kernel.body, f);
}

/// Removes arguments that nothing in the kernel touches any more.
pub fn drop_unused(launch: &mut oaaxc_ir::program::Launch) {
    let mut touched = vec![false; launch.kernel.buffers.len()];
    launch.kernel.visit_buffer_uses(&mut |id| touched[id.0 as usize] = true);
    let mut map = Vec::new();
    let mut buffers = Vec::new();
    let mut slots = Vec::new();
    let mut argument = launch.slots.iter();
    for (buffer, used) in launch.kernel.buffers.iter().zip(&touched) {
        let slot = (buffer.role != Role::Local).then(|| *argument.next().expect("one slot per argument"));
        map.push(BufferId(buffers.len() as u32));
        if *used {
            buffers.push(buffer.clone());
            slots.extend(slot);
        }
    }
    launch.kernel.buffers = buffers;
    launch.slots = slots;
    launch.kernel.map_buffers(&mut |id| map[id.0 as usize]);
}
