//! Sort steps: keys become ordered 64-bit integers, then one stable merge sort of positions.

use oaaxc_emit::access::Resolver;
use oaaxc_emit::body::Emitter;
use oaaxc_emit::cast::value;
use oaaxc_emit::sort::ordered_key;
use oaaxc_ir::kernel::{Bounds, Index, Sort};
use oaaxc_ir::{DType, Expr};

/// Bytes of scratch that a sort needs: two pairs of keys and positions.
pub fn scratch(step: &Sort) -> Expr {
    step.along.extent.clone() * 32
}

/// Emits one sort step; `scratch` points to its memory.
pub fn sort(em: &mut Emitter, resolver: &mut Resolver, step: &Sort, scratch: &str) {
    let key = resolver.code(&step.key);
    let index: Vec<Index> = step.index.iter().map(Index::from).collect();
    let order = resolver.access(step.order, &index, Bounds::Inside, &mut Vec::new());
    em.scope.ranges = resolver.ranges.clone();
    let outer = em.open(&step.parallel);
    let n = em.expr(&step.along.extent);
    let along = std::slice::from_ref(&step.along);
    let l = em.open(along);
    let at = l[0].counter.clone();
    let values = em.code(&key, &[]);
    let ordered = ordered_key(&mut em.w, &values[step.value.0 as usize], step.descending);
    let address = em.w.element(scratch, &at, "i64");
    em.w.line(format_args!("llvm.store {ordered}, {address} : i64, !llvm.ptr"));
    let second = em.w.int_op("addi", &n, &at);
    let address = em.w.element(scratch, &second, "i64");
    em.w.line(format_args!("llvm.store {at}, {address} : i64, !llvm.ptr"));
    em.close(l);
    let sorted = em.w.op(format_args!("func.call @oaaxc_sort({scratch}, {n}) : (!llvm.ptr, i64) -> !llvm.ptr"));
    let l = em.open(along);
    let at = em.w.int_op("addi", &n, &l[0].counter);
    let from = em.w.element(&sorted, &at, "i64");
    let position = em.w.op(format_args!("llvm.load {from} : !llvm.ptr -> i64"));
    let address = em.address(&order);
    em.store_to(&address, &value(DType::I64, position));
    em.close(l);
    em.close(outer);
}

/// The merge sort: `data` holds n keys and n positions, then as much room again; answers where the sorted ones lie.
pub const ROUTINE: &str = "
func.func private @oaaxc_sort(%data: !llvm.ptr, %n: i64) -> !llvm.ptr {
  %zero = arith.constant 0 : i64
  %one = arith.constant 1 : i64
  %two = arith.constant 2 : i64
  %nn = arith.muli %n, %two : i64
  %other = llvm.getelementptr %data[%nn] : (!llvm.ptr, i64) -> !llvm.ptr, i64
  cf.br ^widths(%one, %data, %other : i64, !llvm.ptr, !llvm.ptr)
^widths(%width: i64, %from: !llvm.ptr, %to: !llvm.ptr):
  %more = arith.cmpi slt, %width, %n : i64
  cf.cond_br %more, ^runs(%zero : i64), ^done
^done:
  return %from : !llvm.ptr
^runs(%low: i64):
  %some = arith.cmpi slt, %low, %n : i64
  cf.cond_br %some, ^run, ^next
^next:
  %wider = arith.muli %width, %two : i64
  cf.br ^widths(%wider, %to, %from : i64, !llvm.ptr, !llvm.ptr)
^run:
  %m0 = arith.addi %low, %width : i64
  %middle = arith.minsi %m0, %n : i64
  %h0 = arith.addi %middle, %width : i64
  %high = arith.minsi %h0, %n : i64
  cf.br ^merge(%low, %middle, %low : i64, i64, i64)
^merge(%i: i64, %j: i64, %k: i64):
  %left = arith.cmpi slt, %i, %middle : i64
  %right = arith.cmpi slt, %j, %high : i64
  %any = arith.ori %left, %right : i1
  cf.cond_br %any, ^look, ^runs(%high : i64)
^look:
  %both = arith.andi %left, %right : i1
  cf.cond_br %both, ^compare, ^take(%left : i1)
^compare:
  %ip = llvm.getelementptr %from[%i] : (!llvm.ptr, i64) -> !llvm.ptr, i64
  %jp = llvm.getelementptr %from[%j] : (!llvm.ptr, i64) -> !llvm.ptr, i64
  %ik = llvm.load %ip : !llvm.ptr -> i64
  %jk = llvm.load %jp : !llvm.ptr -> i64
  %first = arith.cmpi sle, %ik, %jk : i64
  cf.br ^take(%first : i1)
^take(%is_left: i1):
  %at = arith.select %is_left, %i, %j : i64
  %kp = llvm.getelementptr %from[%at] : (!llvm.ptr, i64) -> !llvm.ptr, i64
  %key = llvm.load %kp : !llvm.ptr -> i64
  %at2 = arith.addi %at, %n : i64
  %pp = llvm.getelementptr %from[%at2] : (!llvm.ptr, i64) -> !llvm.ptr, i64
  %position = llvm.load %pp : !llvm.ptr -> i64
  %kt = llvm.getelementptr %to[%k] : (!llvm.ptr, i64) -> !llvm.ptr, i64
  llvm.store %key, %kt : i64, !llvm.ptr
  %k2 = arith.addi %k, %n : i64
  %pt = llvm.getelementptr %to[%k2] : (!llvm.ptr, i64) -> !llvm.ptr, i64
  llvm.store %position, %pt : i64, !llvm.ptr
  %step_left = arith.extui %is_left : i1 to i64
  %step_right = arith.subi %one, %step_left : i64
  %i2 = arith.addi %i, %step_left : i64
  %j2 = arith.addi %j, %step_right : i64
  %kn = arith.addi %k, %one : i64
  cf.br ^merge(%i2, %j2, %kn : i64, i64, i64)
}
";
