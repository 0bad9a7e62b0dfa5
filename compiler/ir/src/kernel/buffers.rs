//! Walks over the buffers that the steps of a kernel name.

use crate::kernel::{Body, BufferId, Item, Kernel, Op, Operand, Step, Store};

impl Kernel {
    /// Calls `f` on every mention of a buffer in the kernel's steps.
    pub fn visit_buffer_uses(&self, f: &mut dyn FnMut(BufferId)) {
        let mut copy = self.clone();
        copy.map_buffers(&mut |id| {
            f(id);
            id
        });
    }
    /// Renames the buffers in the kernel's steps.
    pub fn map_buffers(&mut self, f: &mut dyn FnMut(BufferId) -> BufferId) {
        items(&mut self.body, f);
    }
}

fn items(list: &mut [Item], f: &mut dyn FnMut(BufferId) -> BufferId) {
    for item in list {
        match item {
            Item::Sequential { body: inner, .. } => items(inner, f),
            Item::Step(Step::Loop(l)) => {
                body(&mut l.body, f);
                body(&mut l.post, f);
                stores(&mut l.stores, f);
            }
            Item::Step(Step::Contract(c)) => {
                operand(&mut c.a, f);
                operand(&mut c.b, f);
                body(&mut c.post, f);
                stores(&mut c.stores, f);
            }
            Item::Step(Step::Sort(s)) => {
                body(&mut s.key, f);
                s.order = f(s.order);
            }
            Item::Step(Step::Compact(c)) => {
                body(&mut c.body, f);
                stores(&mut c.stores, f);
                c.count = c.count.map(&mut *f);
            }
        }
    }
}

fn operand(o: &mut Operand, f: &mut dyn FnMut(BufferId) -> BufferId) {
    o.buffer = f(o.buffer);
    if let Some((buffer, _)) = &mut o.zero {
        *buffer = f(*buffer);
    }
    if let Some((prologue, _)) = &mut o.prologue {
        body(prologue, f);
    }
}

fn body(body: &mut Body, f: &mut dyn FnMut(BufferId) -> BufferId) {
    for op in &mut body.ops {
        if let Op::Load { buffer, .. } = op {
            *buffer = f(*buffer);
        }
    }
}

fn stores(stores: &mut [Store], f: &mut dyn FnMut(BufferId) -> BufferId) {
    for s in stores {
        s.buffer = f(s.buffer);
    }
}
