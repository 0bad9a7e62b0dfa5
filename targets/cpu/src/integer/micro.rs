//! The integer register tile: pairs of 16-bit factors, multiplied and added by one instruction, exactly.
//!
//! Factors are 8-bit values less their zero points, so they fit 9 bits and a sign, two products fit 32 bits
//! by far, and only the accumulator can wrap, as the law says.

use std::fmt::Write;

use crate::integer::plan::Tile;

/// The function `micro`: rows `[k/2][rows][2]`, columns `[k/2][columns][2]`, the tile `[rows][columns]` of i32,
/// steps of k/2.
pub fn function(tile: &Tile) -> String {
    let lanes = i64::from(tile.lanes);
    let vectors = tile.columns / lanes;
    let (wide, pairs) = (format!("vector<{lanes}xi32>"), format!("vector<{}xi16>", lanes * 2));
    let multiply = match lanes {
        16 => "llvm.x86.avx512.pmaddw.d.512",
        8 => "llvm.x86.avx2.pmadd.wd",
        _ => "llvm.x86.sse2.pmadd.wd",
    };
    let count = (tile.rows * vectors) as usize;
    let types = vec![wide.as_str(); count].join(", ");
    let carried = |suffix: &str| (0..count).map(|i| format!("%s{i}{suffix}")).collect::<Vec<_>>();
    let mut text = String::new();
    let mut next = 0;
    let mut line = |text: &mut String, operation: String| {
        next += 1;
        writeln!(text, "    %x{next} = {operation}").expect("strings take text");
        format!("%x{next}")
    };
    text.push_str(
        "  func.func private @micro(%rows: !llvm.ptr {llvm.noalias}, %columns: !llvm.ptr {llvm.noalias}, \
         %tile: !llvm.ptr {llvm.noalias}, %count: i64) {\n",
    );
    let start = line(&mut text, format!("arith.constant dense<0> : {wide}"));
    let zero = line(&mut text, "arith.constant 0 : i64".into());
    let one = line(&mut text, "arith.constant 1 : i64".into());
    let row_step = line(&mut text, format!("arith.constant {} : i64", tile.rows));
    let column_step = line(&mut text, format!("arith.constant {} : i64", tile.columns));
    let zeros = vec![start.as_str(); count].join(", ");
    writeln!(text, "    cf.br ^head({zero}, {zeros} : i64, {types})").expect("strings take text");
    let arguments: Vec<String> = carried("").iter().map(|s| format!("{s}: {wide}")).collect();
    writeln!(text, "  ^head(%k: i64, {}):", arguments.join(", ")).expect("strings take text");
    let more = line(&mut text, "arith.cmpi slt, %k, %count : i64".into());
    writeln!(text, "    cf.cond_br {more}, ^body, ^done\n  ^body:").expect("strings take text");
    let row_at = line(&mut text, format!("arith.muli %k, {row_step} : i64"));
    let column_at = line(&mut text, format!("arith.muli %k, {column_step} : i64"));
    let element = |base: &str, at: &str| format!("llvm.getelementptr {base}[{at}] : (!llvm.ptr, i64) -> !llvm.ptr, i32");
    let rows = line(&mut text, element("%rows", &row_at));
    let columns = line(&mut text, element("%columns", &column_at));
    let fixed = |base: &str, at: i64| format!("llvm.getelementptr {base}[{at}] : (!llvm.ptr) -> !llvm.ptr, i32");
    let mut vector = Vec::new();
    for v in 0..vectors {
        let p = line(&mut text, fixed(&columns, v * lanes));
        vector.push(line(&mut text, format!("llvm.load {p} {{alignment = 4 : i64}} : !llvm.ptr -> {pairs}")));
    }
    let mut sums = Vec::new();
    for row in 0..tile.rows {
        let p = line(&mut text, fixed(&rows, row));
        let x = line(&mut text, format!("llvm.load {p} : !llvm.ptr -> i32"));
        let x = line(&mut text, format!("vector.broadcast {x} : i32 to {wide}"));
        let x = line(&mut text, format!("vector.bitcast {x} : {wide} to {pairs}"));
        for (v, columns) in vector.iter().enumerate() {
            let product = match tile.x86 {
                true => {
                    let call = format!("llvm.call_intrinsic \"{multiply}\"({x}, {columns}) : ({pairs}, {pairs}) -> {wide}");
                    line(&mut text, call)
                }
                false => portable(&mut |operation| line(&mut text, operation), lanes, &x, columns),
            };
            let sum = format!("%s{}", row * vectors + v as i64);
            sums.push(line(&mut text, format!("arith.addi {sum}, {product} : {wide}")));
        }
    }
    let step = line(&mut text, format!("arith.addi %k, {one} : i64"));
    writeln!(text, "    cf.br ^head({step}, {} : i64, {types})\n  ^done:", sums.join(", ")).expect("strings take text");
    for (i, sum) in carried("").iter().enumerate() {
        let at = (i as i64 / vectors) * tile.columns + i as i64 % vectors * lanes;
        let p = line(&mut text, fixed("%tile", at));
        writeln!(text, "    llvm.store {sum}, {p} {{alignment = 16 : i64}} : {wide}, !llvm.ptr").expect("strings take text");
    }
    text.push_str("    return\n  }\n");
    text
}

/// What x86's pairwise multiply-add computes, for machines that have other instructions: all products in 32 bits,
/// then even ones added to odd ones.
fn portable(line: &mut dyn FnMut(String) -> String, lanes: i64, x: &str, y: &str) -> String {
    let (pairs, long, wide) =
        (format!("vector<{}xi16>", lanes * 2), format!("vector<{}xi32>", lanes * 2), format!("vector<{lanes}xi32>"));
    let x = line(format!("arith.extsi {x} : {pairs} to {long}"));
    let y = line(format!("arith.extsi {y} : {pairs} to {long}"));
    let products = line(format!("arith.muli {x}, {y} : {long}"));
    let mut half = |first: i64| {
        let numbers: Vec<String> = (0..lanes).map(|i| (2 * i + first).to_string()).collect();
        line(format!("vector.shuffle {products}, {products} [{}] : {long}, {long}", numbers.join(", ")))
    };
    let (even, odd) = (half(0), half(1));
    line(format!("arith.addi {even}, {odd} : {wide}"))
}
