//! TfIdfVectorizer. ONNX: "extracts n-grams from the input sequence and save them as a vector"; an n-gram of the
//! pool counts wherever its items stand at equal distances of at most `max_skip_count + 1`.

use oaaxc_base::{Code, Diagnostic};
use oaaxc_ir::eval::EvalCx;
use oaaxc_ir::expr::Expr;
use oaaxc_ir::infer::InferCx;
use oaaxc_ir::kernel::{BinaryOp, Fold, FoldKind, Index, Loop, Store, V};
use oaaxc_ir::lower::LowerCx;
use oaaxc_ir::op::{Lower, OpDef, no_upgrade};
use oaaxc_ir::tensor::Tensor;
use oaaxc_ir::{DType, Datum, ReadAttributes, ReadOperands, Scalar};

use crate::sizes::dim;
use crate::text::NOT_COMPILED;

type Result<T> = std::result::Result<T, Diagnostic>;

/// The operator.
pub static TF_IDF_VECTORIZER: OpDef =
    OpDef { name: "TfIdfVectorizer", domain: "", upgrade: no_upgrade, infer, eval, lower: Lower::Kernels(lower) };

/// One n-gram of the pool that counts.
struct Gram {
    /// Positions in the pool.
    items: std::ops::Range<usize>,
    /// Its column in the result, and its weight.
    column: usize,
    weight: f64,
}

struct Pool {
    ints: Vec<i64>,
    texts: Vec<Vec<u8>>,
    grams: Vec<Gram>,
    columns: usize,
    skips: usize,
    counts: bool,
}

fn pool(cx: &impl ReadAttributes) -> Result<Pool> {
    let (ints, texts) = (cx.ints("pool_int64s")?.unwrap_or_default(), cx.texts("pool_strings")?.unwrap_or_default());
    let total = ints.len().max(texts.len());
    let starts = cx.ints("ngram_counts")?.unwrap_or_default();
    let columns = cx.ints("ngram_indexes")?.unwrap_or_default();
    let weights = cx.floats("weights")?;
    let wanted = dim(cx.required_int("min_gram_length")?)..=dim(cx.required_int("max_gram_length")?);
    let mode = cx.text("mode", "")?;
    if !matches!(&mode[..], "TF" | "IDF" | "TFIDF") {
        return Err(cx.fail(Code::ATTRIBUTE, format!("`mode` \"{mode}\" is none of TF, IDF, TFIDF")));
    }
    let wrong = |what: &str| cx.fail(Code::ATTRIBUTE, format!("the attributes of the pool disagree: {what}"));
    let mut grams = Vec::new();
    let mut number = 0;
    for (i, &start) in starts.iter().enumerate() {
        let (length, end) = (i + 1, starts.get(i + 1).map_or(total, |&e| dim(e)));
        if dim(start) > end || end > total {
            return Err(wrong("`ngram_counts` is not rising or beyond the pool"));
        }
        for at in (dim(start)..end).step_by(length).take_while(|at| at + length <= end) {
            let column = columns.get(number).copied().ok_or_else(|| wrong("too few `ngram_indexes`"))?;
            let weight = match (&mode[..], &weights) {
                ("TF", _) | (_, None) => 1.0,
                (_, Some(w)) => f64::from(*w.get(dim(column)).ok_or_else(|| wrong("too few `weights`"))?),
            };
            if wanted.contains(&length) {
                grams.push(Gram { items: at..at + length, column: dim(column), weight });
            }
            number += 1;
        }
    }
    let width = columns.iter().max().map_or(0, |&c| dim(c) + 1);
    Ok(Pool { ints, texts, grams, columns: width, skips: dim(cx.required_int("max_skip_count")?), counts: mode != "IDF" })
}

fn infer(cx: &mut InferCx) -> Result<()> {
    let shape = cx.shape(0)?;
    let columns = Expr::from(pool(cx)?.columns);
    let out = match &shape[..] {
        [] | [_] => vec![columns],
        [batch, _] => vec![batch.clone(), columns],
        _ => return Err(cx.fail(Code::RANK, "the input must be [C] or [B, C]")),
    };
    cx.set(0, DType::F32, out);
    Ok(())
}

/// Distances between the items of an n-gram: one item stands at no distance.
fn distances(length: usize, skips: usize) -> std::ops::RangeInclusive<usize> {
    if length == 1 { 1..=1 } else { 1..=skips + 1 }
}

fn eval(cx: &EvalCx) -> Result<Vec<Datum>> {
    let x = cx.input(0)?;
    let pool = pool(cx)?;
    let width = x.dims.last().copied().unwrap_or(1);
    let rows = if x.rank() == 2 { x.dims[0] } else { 1 };
    let same = |at: usize, item: usize| match x.dtype {
        DType::String => pool.texts.get(item).is_some_and(|t| t == x.string_at(at)),
        _ => pool.ints.get(item) == Some(&x.i64_at(at)),
    };
    let mut out = vec![0.0; rows * pool.columns];
    for row in 0..rows {
        for gram in &pool.grams {
            let mut found = 0u32;
            for distance in distances(gram.items.len(), pool.skips) {
                for start in 0..width {
                    let mut places = gram.items.clone().enumerate().map(|(i, item)| (start + i * distance, item));
                    found += u32::from(places.all(|(at, item)| at < width && same(row * width + at, item)));
                }
            }
            let value = if pool.counts { f64::from(found) } else { f64::from(found.min(1)) };
            out[row * pool.columns + gram.column] += value * gram.weight;
        }
    }
    let dims = if x.rank() == 2 { vec![rows, pool.columns] } else { vec![pool.columns] };
    Ok(vec![Tensor::from_f64s(DType::F32, dims, out).into()])
}

/// One loop per n-gram, which writes its column; columns of no n-gram are 0.
fn lower(cx: &mut LowerCx) -> Result<()> {
    let mut x = cx.arg(0)?;
    let pool = pool(cx)?;
    if x.dtype == DType::String {
        return Err(cx.fail(Code::UNSUPPORTED, NOT_COMPILED));
    }
    let mut columns: Vec<usize> = pool.grams.iter().map(|g| g.column).collect();
    columns.sort_unstable();
    columns.dedup();
    if pool.grams.len() > 256 || columns.len() != pool.grams.len() {
        return Err(cx.fail(Code::UNSUPPORTED, "pools of more than 256 n-grams, or with shared columns, are not compiled yet"));
    }
    let y = cx.result(0)?;
    let (rows, width) = match &x.dims[..] {
        [batch, width] => (batch.clone(), width.clone()),
        _ => (1.into(), Expr::product(&x.dims)),
    };
    x = cx.reshaped(&x, vec![rows.clone(), width.clone()]);
    let mut k = cx.kernel();
    let (xb, yb) = (k.read(&x), k.write(&y));
    let place = |row: &Expr, column: Expr| {
        if y.dims.len() == 2 { vec![Index::from(row), Index::Expr(column)] } else { vec![Index::Expr(column)] }
    };
    let mut clear = Loop::default();
    let (row, column) = (k.axis(&mut clear.parallel, rows.clone()), k.axis(&mut clear.parallel, pool.columns));
    let zero = clear.post.float(DType::F32, 0.0);
    clear.stores.push(Store::at(&yb, place(&row, column), zero));
    k.push(clear);
    for gram in &pool.grams {
        let mut l = Loop::default();
        let row = k.axis(&mut l.parallel, rows.clone());
        let distances = distances(gram.items.len(), pool.skips);
        let distance = k.axis(&mut l.reduce, distances.end() - distances.start() + 1) + 1;
        let start = k.axis(&mut l.reduce, width.clone());
        let mut hit: Option<V> = None;
        for (i, item) in gram.items.clone().enumerate() {
            let at = &start + &distance * (i as i64);
            let inside = l.body.index(at.less(&width));
            let inside = l.body.cast(DType::Bool, inside);
            let v = l.body.load_when(&xb, vec![Index::from(&row), Index::Expr(at)], inside, Scalar::zero(x.dtype));
            let v = l.body.cast(DType::I64, v);
            let wanted = l.body.int(DType::I64, pool.ints.get(item).copied().unwrap_or(0));
            let equal = l.body.binary(BinaryOp::Eq, v, wanted);
            let equal = l.body.binary(BinaryOp::And, equal, inside);
            hit = Some(hit.map_or(equal, |h| l.body.binary(BinaryOp::And, h, equal)));
        }
        let hit = hit.expect("an n-gram has an item");
        let one = l.body.cast(DType::F32, hit);
        let kind = if pool.counts { FoldKind::Sum } else { FoldKind::Max };
        l.folds.push(Fold { kind, value: one, dtype: DType::F32 });
        let total = l.post.param(0, DType::F32);
        // An empty row has no largest value: nothing was found.
        let zero = l.post.float(DType::F32, 0.0);
        let total = l.post.binary(BinaryOp::Max, total, zero);
        let weight = l.post.float(DType::F32, gram.weight);
        let v = l.post.binary(BinaryOp::Mul, total, weight);
        l.stores.push(Store::at(&yb, place(&row, gram.column.into()), v));
        k.push(l);
    }
    cx.launch(k)
}
