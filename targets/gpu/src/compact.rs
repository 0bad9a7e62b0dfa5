//! Compact steps: the first thread of the group visits the points in order.

use oaaxc_emit::access::Resolver;
use oaaxc_emit::body::Emitter;
use oaaxc_emit::cast::{cast, value};
use oaaxc_ir::DType;
use oaaxc_ir::kernel::{Bounds, Compact};

use crate::group::Group;
use crate::loops::{get, set};

/// Emits one compact step.
pub(crate) fn compact(g: &mut Group, em: &mut Emitter, resolver: &mut Resolver, step: &Compact) {
    g.generic = true;
    let mut code = resolver.code(&step.body);
    let puts = resolver.puts(&step.stores, &mut code);
    em.scope.ranges = resolver.ranges.clone();
    let count = em.w.slot("i64", 1);
    let all = g.first_thread(em);
    let (zero, one) = (em.w.int(0), em.w.int(1));
    set(em, &count, &value(DType::I64, zero));
    let loops = em.open(&step.axes);
    let position = get(em, &count, DType::I64).name;
    em.scope.bind(step.position, &position);
    let values = em.code(&code, &[]);
    let (kept, next) = (em.w.label(), em.w.label());
    let keep = cast(&mut em.w, DType::Bool, &values[step.keep.0 as usize]);
    em.w.branch(&keep.name, &kept, &next);
    em.w.block(&kept, "");
    em.puts(&puts, &values);
    let more = em.w.int_op("addi", &position, &one);
    set(em, &count, &value(DType::I64, more));
    em.w.jump(&next);
    em.w.block(&next, "");
    em.close(loops);
    if let Some(buffer) = step.count {
        let total = get(em, &count, DType::I64);
        let access = resolver.affine_access(buffer, &[], Bounds::Inside);
        let address = em.address(&access);
        let space = em.spaces[buffer.0 as usize];
        em.store_in(space, &address, &total);
    }
    g.all_threads(em, &all);
}
