//! Where an element lies, as one offset, and which of its indices must still be checked.

use oaaxc_ir::kernel::{Body, Bounds, Buffer, BufferId, Index, Kernel, Op, Store, V};
use oaaxc_ir::{AxisId, Expr};

use crate::index::Ranges;

/// One read or write.
#[derive(Clone, Debug)]
pub struct Access {
    /// The buffer.
    pub buffer: BufferId,
    /// The physical position in elements, valid where all checks hold.
    pub offset: Expr,
    /// What is not proved.
    pub checks: Vec<Check>,
    /// What a failing check means.
    pub bounds: Bounds,
}

/// One index that may lie outside.
#[derive(Clone, Debug)]
pub struct Check {
    /// The index.
    pub index: Expr,
    /// The dim's size.
    pub size: Expr,
    /// Whether it may be negative.
    pub low: bool,
    /// Whether it may reach the size.
    pub high: bool,
}

/// A scalar body with its accesses resolved.
#[derive(Clone, Debug, Default)]
pub struct Code {
    /// The operations; the indices in their loads are replaced by `accesses`.
    pub ops: Vec<Op>,
    /// One per operation that is a load.
    pub accesses: Vec<Option<Access>>,
    /// Axes that stand for values used as indices.
    pub computed: Vec<(AxisId, V)>,
}

/// One store.
#[derive(Clone, Debug)]
pub struct Put {
    /// Where.
    pub access: Access,
    /// What.
    pub value: V,
    /// Only where this is true.
    pub when: Option<V>,
}

/// Resolves accesses; hands out axes for computed indices.
#[derive(Debug)]
pub struct Resolver<'k> {
    /// The kernel whose buffers are accessed.
    pub kernel: &'k Kernel,
    /// What is known; grows by the computed axes.
    pub ranges: Ranges,
    next_axis: u32,
}

impl<'k> Resolver<'k> {
    /// For the accesses of this kernel.
    pub fn new(kernel: &'k Kernel) -> Resolver<'k> {
        Resolver { kernel, ranges: Ranges::of(kernel), next_axis: kernel.axes }
    }
    /// An axis that the kernel does not have.
    pub fn new_axis(&mut self) -> AxisId {
        self.next_axis += 1;
        AxisId(self.next_axis - 1)
    }
    /// A body.
    pub fn code(&mut self, body: &Body) -> Code {
        let mut code = Code { ops: body.ops.clone(), ..Code::default() };
        for op in &body.ops {
            let access = match op {
                Op::Load { buffer, index, bounds, .. } => Some(self.access(*buffer, index, *bounds, &mut code.computed)),
                _ => None,
            };
            code.accesses.push(access);
        }
        code
    }
    /// Stores of values of `code`.
    pub fn puts(&mut self, stores: &[Store], code: &mut Code) -> Vec<Put> {
        let put = |s: &Store| Put {
            access: self.access(s.buffer, &s.index, s.bounds, &mut code.computed),
            value: s.value,
            when: s.when,
        };
        stores.iter().map(put).collect()
    }
    /// One access.
    pub fn access(&mut self, id: BufferId, index: &[Index], bounds: Bounds, computed: &mut Vec<(AxisId, V)>) -> Access {
        let mut one = |i: &Index| match i {
            Index::Expr(e) => e.clone(),
            Index::Value(v) => {
                let known = computed.iter().find(|(_, value)| value == v).map(|(axis, _)| *axis);
                let axis = known.unwrap_or_else(|| {
                    let axis = self.new_axis();
                    self.ranges.add_computed(axis);
                    computed.push((axis, *v));
                    axis
                });
                Expr::axis(axis)
            }
        };
        let index: Vec<Expr> = index.iter().map(&mut one).collect();
        self.affine_access(id, &index, bounds)
    }
    /// One access by expressions alone.
    pub fn affine_access(&self, id: BufferId, index: &[Expr], bounds: Bounds) -> Access {
        let buffer: &Buffer = self.kernel.buffer(id);
        let check = |(index, size): (&Expr, &Expr)| Check {
            index: index.clone(),
            size: size.clone(),
            low: !self.ranges.is_nonnegative(index, false),
            high: !self.ranges.is_nonnegative(&(size.clone() - 1 - index.clone()), false),
        };
        let checks = match bounds {
            Bounds::Inside => Vec::new(),
            Bounds::Otherwise | Bounds::Fault => index.iter().zip(&buffer.dims).map(check).filter(|c| c.low || c.high).collect(),
        };
        Access { buffer: id, offset: buffer.layout.offset(&buffer.dims, index), checks, bounds }
    }
}

impl Access {
    /// Rewrites its expressions.
    pub fn map_exprs(&mut self, f: &mut dyn FnMut(&Expr) -> Expr) {
        self.offset = f(&self.offset);
        for check in &mut self.checks {
            check.index = f(&check.index);
            check.size = f(&check.size);
        }
    }
}

impl Code {
    /// Rewrites its expressions.
    pub fn map_exprs(&mut self, f: &mut dyn FnMut(&Expr) -> Expr) {
        for (op, access) in self.ops.iter_mut().zip(&mut self.accesses) {
            match (op, access) {
                (Op::Index(e), _) => *e = f(e),
                (_, Some(access)) => access.map_exprs(f),
                _ => {}
            }
        }
    }
}
