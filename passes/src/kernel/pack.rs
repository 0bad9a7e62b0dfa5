//! Layout: constant weights of contractions are stored as panels, `[N/16][K…][16]`, at build time.
//!
//! The panel's columns are the contraction's N axis, its rows the K axes in the contraction's own
//! order (kh, kw, ic for a convolution). One packing for all CPUs: how a kernel walks a panel is
//! its schedule, not the layout. Activations stay row-major.

use oaaxc_ir::expr::Expr;
use oaaxc_ir::kernel::{Contract, Item, Layout, Role, Step, Tile};
use oaaxc_ir::program::{Program, SlotKind};

use crate::kernel::resolve::visit_launches;
use crate::kernel::uses::uses;

/// Packs what can be packed; returns how many weights were.
pub fn pack(program: &mut Program, panel: i64) -> usize {
    if panel == 0 {
        return 0;
    }
    let uses = uses(program);
    let mut list = std::mem::take(&mut program.body);
    let mut packed = 0;
    visit_launches(&mut list, &mut |launch| {
        let [Item::Step(Step::Contract(contract))] = &launch.kernel.body[..] else { return };
        let id = contract.b.buffer;
        let mut mentions = 0;
        launch.kernel.visit_buffer_uses(&mut |b| mentions += usize::from(b == id));
        let buffer = launch.kernel.buffer(id);
        let argument = launch.kernel.arguments().position(|(b, _)| b == id);
        let (Some(argument), Role::In, true, 1) = (argument, buffer.role, buffer.layout.is_plain(), mentions) else { return };
        let slot = launch.slots[argument];
        if !matches!(program.slots[slot].kind, SlotKind::Constant(_)) {
            return;
        }
        let Some(layout) = panels(contract, &buffer.dims, panel) else { return };
        // Every other reader would have to agree; a weight that two kernels share gets a second copy.
        let shared = uses.get(&slot).is_some_and(|u| u.readers.len() > 1 || u.other > 0);
        let target = if shared {
            let copy = program.slots[slot].clone();
            program.slots.push(copy)
        } else {
            slot
        };
        program.slots[target].layout = layout.clone();
        launch.slots[argument] = target;
        launch.kernel.buffers[id.0 as usize].layout = layout;
        packed += 1;
    });
    program.body = list;
    packed
}

/// The panel layout of operand `b`, where its indices are plain: one dim by N, one by each K axis.
fn panels(c: &Contract, dims: &[Expr], panel: i64) -> Option<Layout> {
    let [n] = &c.n[..] else { return None };
    let one = Expr::constant(1);
    // The dim of the N axis: its index is affine in it with stride 1.
    let n_dim = c.b.index.iter().position(|e| e.axis_stride(n.axis) == Some(one.clone()))?;
    // With groups the dim is `g·N + n`: a panel must not straddle two groups.
    let rest = &c.b.index[n_dim] - Expr::axis(n.axis);
    let size = n.extent.as_const()?;
    let grouped = !rest.is(0);
    if grouped && size % panel != 0 {
        return None;
    }
    if dims.len() < 2 || size == 1 {
        return None;
    }
    let mut order = Vec::new();
    let mut k_dims = Vec::new();
    for k in &c.k {
        k_dims.push(c.b.index.iter().position(|e| e.as_axis() == Some(k.axis))?);
    }
    for d in 0..dims.len() {
        if d != n_dim && !k_dims.contains(&d) {
            order.push(d);
        }
    }
    order.push(n_dim);
    order.extend(k_dims);
    Some(Layout { order, tiles: vec![Tile { dim: n_dim, size: panel }] })
}
