//! Compact steps: points visited in row-major order, kept ones counted.

use oaaxc_emit::access::Resolver;
use oaaxc_emit::body::Emitter;
use oaaxc_emit::cast::value;
use oaaxc_ir::DType;
use oaaxc_ir::kernel::{Bounds, Compact};

/// Emits one compact step.
pub fn compact(em: &mut Emitter, resolver: &mut Resolver, step: &Compact) {
    let mut code = resolver.code(&step.body);
    let puts = resolver.puts(&step.stores, &mut code);
    em.scope.ranges = resolver.ranges.clone();
    let (zero, one) = (em.w.int(0), em.w.int(1));
    let count = em.w.slot("i64", 1);
    em.w.line(format_args!("llvm.store {zero}, {count} : i64, !llvm.ptr"));
    let open = em.open(&step.axes);
    let position = em.w.op(format_args!("llvm.load {count} : !llvm.ptr -> i64"));
    em.scope.bind(step.position, &position);
    let values = em.code(&code, &[]);
    let (kept, next) = (em.w.label(), em.w.label());
    let keep = oaaxc_emit::cast::cast(&mut em.w, DType::Bool, &values[step.keep.0 as usize]);
    em.w.branch(&keep.name, &kept, &next);
    em.w.block(&kept, "");
    em.puts(&puts, &values);
    let more = em.w.int_op("addi", &position, &one);
    em.w.line(format_args!("llvm.store {more}, {count} : i64, !llvm.ptr"));
    em.w.jump(&next);
    em.w.block(&next, "");
    em.close(open);
    if let Some(buffer) = step.count {
        let total = em.w.op(format_args!("llvm.load {count} : !llvm.ptr -> i64"));
        let access = resolver.affine_access(buffer, &[], Bounds::Inside);
        let address = em.address(&access);
        em.store_to(&address, &value(DType::I64, total));
    }
}
