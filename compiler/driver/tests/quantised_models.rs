//! Quantised models that other compilers got wrong: QDQ and QOperator graphs on every x86 level, against `eval` of the
//! graph as imported, or against the formula where it fits a line.

use std::path::PathBuf;

use oaaxc::execute::Wanted;
use oaaxc::pipeline::{Options, Silent, simplify};
use oaaxc::session::{Opened, build_graph};
use oaaxc_ir::eval::evaluate;
use oaaxc_ir::{DType, Datum, Graph, Tensor};
use oaaxc_onnx::{ImportOptions, import_text};
use oaaxc_passes::precision::qdq;

fn import(text: &str) -> Graph {
    import_text(text, "model", &ImportOptions::default()).unwrap_or_else(|d| panic!("{:?}", d.items)).graph
}

/// The outputs on every level of `cpu` that this machine has.
fn compiled(text: &str, inputs: &[Tensor]) -> Vec<(String, Vec<Tensor>)> {
    let mut graph = import(text);
    qdq::collect(&mut graph).expect("it rewrites");
    simplify(&mut graph);
    let options = Options { jobs: 1, worker: PathBuf::from(env!("CARGO_BIN_EXE_oaaxc")), ..Options::default() };
    let built = build_graph(graph, &["cpu".into()], &options, &mut Silent).unwrap_or_else(|d| panic!("{:?}", d.items));
    let mut all = Vec::new();
    for level in ["x86-64-v2", "x86-64-v3", "x86-64-v4"] {
        let wanted = Wanted { level: Some(level.to_string()), ..Wanted::threads(1) };
        let Ok(opened) = Opened::package_as(&built.package, &wanted) else { continue };
        let outputs = oaaxc::execute::run(&opened.loaded, inputs).unwrap_or_else(|d| panic!("{level}: {d:?}"));
        all.push((level.to_string(), outputs));
    }
    assert!(!all.is_empty(), "this machine runs no level");
    all
}

/// What the imported graph means.
fn meant(text: &str, inputs: &[Tensor]) -> Vec<Tensor> {
    let data = inputs.iter().cloned().map(Datum::from).collect();
    let outputs = evaluate(&import(text), data).unwrap_or_else(|d| panic!("{d:?}"));
    outputs.iter().map(|d| d.as_tensor().expect("a tensor").clone()).collect()
}

/// All levels give what is meant, within so many steps of the output's type, and the same on every level.
fn agrees(text: &str, inputs: &[Tensor], steps: f64) {
    let expected = meant(text, inputs);
    let found = compiled(text, inputs);
    for (level, outputs) in &found {
        assert_eq!(outputs, &found[0].1, "{level} is not bit-equal to {}", found[0].0);
        for (e, f) in expected.iter().zip(outputs) {
            assert_eq!(e.dims, f.dims, "{level}");
            let worst = e.to_f64s().iter().zip(f.to_f64s()).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
            assert!(worst <= steps, "{level}: {worst} steps");
        }
    }
}

/// Integers that fill a type's range without a pattern.
fn integers(dtype: DType, dims: &[usize], low: i64, high: i64) -> Tensor {
    let count: usize = dims.iter().product();
    Tensor::from_i64s(dtype, dims.to_vec(), (0..count as i64).map(|i| low + (i * 7919 + i / 13 * 31) % (high - low + 1)))
}

fn floats(dims: &[usize], span: f32) -> Tensor {
    let count: usize = dims.iter().product();
    let values: Vec<f32> = (0..count).map(|i| ((i * 7919 + i / 13) % 2001) as f32 / 1000.0 * span - span).collect();
    Tensor::from_f32s(dims.to_vec(), &values)
}

fn list<T: std::fmt::Display>(values: impl IntoIterator<Item = T>) -> String {
    values.into_iter().map(|v| v.to_string()).collect::<Vec<_>>().join(", ")
}

fn weights(count: usize, low: i64, high: i64) -> String {
    list(integers(DType::I8, &[count], low, high).to_i64s())
}

#[test]
fn p14_a_quantised_sum_is_dequantise_add_quantise() {
    let text = r#"<ir_version: 8, opset_import: ["": 17, "com.microsoft": 1]>
m (int8[N,64,7,7] a, int8[N,64,7,7] b) => (int8[N,64,7,7] c)
<float sa = {0.02}, int8 za = {-3}, float sb = {0.031}, int8 zb = {5}, float sc = {0.05}, int8 zc = {-7}>
{ c = com.microsoft.QLinearAdd (a, sa, za, b, sb, zb, sc, zc) }
"#;
    let (a, b) = (integers(DType::I8, &[2, 64, 7, 7], -128, 127), integers(DType::I8, &[2, 64, 7, 7], -100, 127));
    let expected: Vec<i64> = a
        .to_i64s()
        .iter()
        .zip(b.to_i64s())
        .map(|(a, b)| {
            let sum = (a + 3) as f32 * 0.02 + (b - 5) as f32 * 0.031;
            ((sum / 0.05).round_ties_even() as i64 - 7).clamp(-128, 127)
        })
        .collect();
    for (level, outputs) in compiled(text, &[a, b]) {
        assert_eq!(outputs[0].to_i64s(), expected, "{level}");
    }
}

#[test]
fn p15_a_quantised_convolution_of_mixed_signs_has_a_scale_for_each_channel() {
    let text = format!(
        r#"<ir_version: 8, opset_import: ["": 17]>
m (uint8[N,3,28,28] x) => (uint8[N,8,14,14] y)
<float xs = {{0.02}}, uint8 xz = {{113}}, int8[8,3,7,7] w = {{{}}}, float[8] ws = {{{}}}, int8[8] wz = {{0,0,0,0,0,0,0,0}},
 float ys = {{0.5}}, uint8 yz = {{128}}, int32[8] b = {{{}}}>
{{ y = QLinearConv <pads = [3, 3, 3, 3], strides = [2, 2], auto_pad = "NOTSET"> (x, xs, xz, w, ws, wz, ys, yz, b) }}
"#,
        weights(8 * 147, -127, 127),
        list((1..9).map(|i| i as f32 * 0.003)),
        list((0..8).map(|i| i * 100 - 350)),
    );
    agrees(&text, &[integers(DType::U8, &[2, 3, 28, 28], 0, 255)], 0.0);
}

#[test]
fn p16_a_quantised_product_has_a_scale_for_each_column() {
    let text = format!(
        r#"<ir_version: 8, opset_import: ["": 21]>
m (uint8[1,128] a, int8[128,768] b) => (uint8[1,768] y)
<float s = {{0.02}}, uint8 z = {{7}}, float[768] t = {{{}}}, int8[768] u = {{{}}}, float v = {{1.5}}, uint8 w = {{100}}>
{{ y = QLinearMatMul (a, s, z, b, t, u, v, w) }}
"#,
        list((0..768).map(|i| 0.001 + i as f32 * 1e-5)),
        list((0..768).map(|i| i % 5 - 2)),
    );
    agrees(&text, &[integers(DType::U8, &[1, 128], 0, 255), integers(DType::I8, &[128, 768], -128, 127)], 0.0);
}

/// `Q(Relu(Conv(DQ(Q(x)), DQ(w), DQ(b))))`; `bias` is the scale of the bias over x's times w's.
fn qdq_convolution(x: [usize; 4], w: [usize; 4], group: usize, attributes: &str, bias: f32) -> String {
    let channels = w[0];
    format!(
        r#"<ir_version: 8, opset_import: ["": 17]>
m (float[{x0},{x1},{x2},{x3}] x) => (int8[A,B,C,D] y)
<float xs = {{0.0625}}, int8 xz = {{0}}, int8[{w0},{w1},{w2},{w3}] w = {{{weights}}}, float[{w0}] ws = {{{scales}}},
 int8[{w0}] wz = {{{zeros}}}, int32[{w0}] b = {{{b}}}, float[{w0}] bs = {{{bias_scales}}}, int32[{w0}] bz = {{{zeros}}}, float ys = {{0.25}}>
{{
   xq = QuantizeLinear (x, xs, xz)
   xd = DequantizeLinear (xq, xs, xz)
   wd = DequantizeLinear <axis = 0> (w, ws, wz)
   bd = DequantizeLinear <axis = 0> (b, bs, bz)
   c = Conv <group = {group}, {attributes}> (xd, wd, bd)
   r = Relu (c)
   y = QuantizeLinear (r, ys, xz)
}}
"#,
        x0 = x[0],
        x1 = x[1],
        x2 = x[2],
        x3 = x[3],
        w0 = w[0],
        w1 = w[1],
        w2 = w[2],
        w3 = w[3],
        weights = weights(w.iter().product(), -127, 127),
        scales = list((0..channels).map(|i| 0.005 + i as f32 * 1e-4)),
        zeros = list(vec![0; channels]),
        b = list((0..channels).map(|i| i as i64 * 900 - 9000)),
        bias_scales = list((0..channels).map(|i| 0.0625 * (0.005 + i as f32 * 1e-4) * bias)),
    )
}

#[test]
fn p17_qdq_around_depthwise_and_strided_convolutions_is_one_integer_sum() {
    for (x, w, group, attributes) in
        [([1, 32, 28, 30], [32, 1, 3, 3], 32, "pads = [1, 1, 1, 1]"), ([1, 3, 33, 513], [32, 3, 3, 3], 1, "strides = [2, 2]")]
    {
        let text = qdq_convolution(x, w, group, attributes, 1.0);
        let mut graph = import(&text);
        assert_eq!(qdq::collect(&mut graph).expect("it rewrites"), 1);
        agrees(&text, &[floats(&x, 6.0)], 1.0);
    }
}

#[test]
fn p18_a_bias_of_another_scale_keeps_its_own() {
    let text = qdq_convolution([1, 3, 9, 11], [8, 3, 3, 3], 1, "pads = [1, 1, 1, 1]", 3.0);
    agrees(&text, &[floats(&[1, 3, 9, 11], 6.0)], 1.0);
}

#[test]
fn p19_four_bits_in_blocks_of_every_size() {
    for block in [16usize, 32, 64, 128, 256, 512] {
        let (k, n) = (2048usize, 4usize);
        let blocks = k / block;
        let text = format!(
            r#"<ir_version: 8, opset_import: ["": 17, "com.microsoft": 1]>
m (float[2,{k}] a, uint8[{n},{blocks},{half}] b, float[{scales}] s, uint8[{zeros}] z) => (float[2,{n}] y)
{{ y = com.microsoft.MatMulNBits <K = {k}, N = {n}, bits = 4, block_size = {block}> (a, b, s, z) }}
"#,
            half = block / 2,
            scales = n * blocks,
            zeros = n * blocks.div_ceil(2),
        );
        let a = floats(&[2, k], 1.0);
        let b = Tensor::from_i64s(DType::U8, vec![n, blocks, block / 2], vec![0x22; n * k / 2]);
        let s = Tensor::from_f32s(vec![n * blocks], &vec![0.5; n * blocks]);
        let z = Tensor::from_i64s(DType::U8, vec![n * blocks.div_ceil(2)], vec![0x33; n * blocks.div_ceil(2)]);
        let sums: Vec<f64> = a.to_f64s().chunks(k).map(|row| -0.5 * row.iter().sum::<f64>()).collect();
        for (level, outputs) in compiled(&text, &[a, b, s, z]) {
            for (i, y) in outputs[0].to_f64s().into_iter().enumerate() {
                assert!((y - sums[i / n]).abs() <= 1e-3 * k as f64 / 100.0, "{level}, block {block}: {y}, not {}", sums[i / n]);
            }
        }
    }
}

#[test]
fn p20_blocks_along_an_inner_axis() {
    let model = |axis: i64, dims: &str, parameters: &str| {
        format!(
            r#"<ir_version: 10, opset_import: ["": 21]>
m (uint8[{dims}] x, float[{parameters}] s, uint8[{parameters}] z) => (float[{dims}] y)
{{ y = DequantizeLinear <axis = {axis}, block_size = 2> (x, s, z) }}
"#
        )
    };
    let nine = |dims: Vec<usize>| Tensor::from_i64s(DType::U8, dims, vec![9; 8]);
    let expected = [8.0, 8.0, 14.0, 14.0, 18.0, 18.0, 20.0, 20.0];
    for (axis, dims, parameters) in [(1, vec![1, 8], vec![1, 4]), (2, vec![1, 1, 8], vec![1, 1, 4])] {
        let text = model(axis, &list(dims.clone()), &list(parameters.clone()));
        let scales = Tensor::from_f32s(parameters.clone(), &[1.0, 2.0, 3.0, 4.0]);
        let zeros = Tensor::from_i64s(DType::U8, parameters, 1..5);
        for (level, outputs) in compiled(&text, &[nine(dims), scales, zeros]) {
            assert_eq!(outputs[0].to_f64s(), expected, "{level}, axis {axis}");
        }
    }
}

#[test]
fn p21_large_bytes_by_large_weights_do_not_saturate() {
    let signs = |i: usize| if i % 4 == 3 { -127 } else { 127 };
    let text = format!(
        r#"<ir_version: 8, opset_import: ["": 17]>
m (uint8[1,3,3,3] x, uint8[40,64] a) => (int32[1,1,1,1] y, int32[40,24] z)
<uint8 zero = {{0}}, int8[1,3,3,3] w = {{{}}}, int8[64,24] b = {{{}}}>
{{
   y = ConvInteger (x, w, zero)
   z = MatMulInteger (a, b)
}}
"#,
        list((0..27).map(signs)),
        list((0..64 * 24).map(signs)),
    );
    let (x, a) = (integers(DType::U8, &[1, 3, 3, 3], 200, 250), integers(DType::U8, &[40, 64], 200, 255));
    let y: i64 = x.to_i64s().iter().enumerate().map(|(i, v)| v * signs(i) as i64).sum();
    let (a_values, at) = (a.to_i64s(), |k: usize, n: usize| signs(k * 24 + n) as i64);
    let z: Vec<i64> = (0..40 * 24).map(|i| (0..64).map(|k| a_values[i / 24 * 64 + k] * at(k, i % 24)).sum()).collect();
    for (level, outputs) in compiled(&text, &[x, a]) {
        assert_eq!((outputs[0].to_i64s(), outputs[1].to_i64s()), (vec![y], z.clone()), "{level}");
    }
}

#[test]
fn p22_dynamic_quantisation_and_extreme_zero_points() {
    let text = format!(
        r#"<ir_version: 8, opset_import: ["": 17]>
m (float[M,64] x, uint8[1,4,6,6] p) => (float[M,24] y, uint8[1,2,6,6] q)
<int8[64,24] b = {{{}}}, int8 bz = {{0}}, float bs = {{0.01}}, float ps = {{0.02}}, uint8 pz = {{255}}, int8[2,4,3,3] w = {{{}}},
 float ws = {{0.03}}, int8 wz = {{0}}, float qs = {{0.4}}, uint8 qz = {{255}}>
{{
   xq, s, z = DynamicQuantizeLinear (x)
   i = MatMulInteger (xq, b, z, bz)
   f = Cast <to = 1> (i)
   t = Mul (s, bs)
   y = Mul (f, t)
   q = QLinearConv <pads = [1, 1, 1, 1]> (p, ps, pz, w, ws, wz, qs, qz)
}}
"#,
        weights(64 * 24, -127, 127),
        weights(72, -127, 127),
    );
    let inputs = [floats(&[9, 64], 3.0), integers(DType::U8, &[1, 4, 6, 6], 0, 255)];
    let expected = meant(&text, &inputs);
    for (level, outputs) in compiled(&text, &inputs) {
        assert_eq!(outputs[1], expected[1], "{level}");
        let scale = expected[0].to_f64s().iter().fold(0.0f64, |s, v| s.max(v.abs()));
        for (a, b) in expected[0].to_f64s().iter().zip(outputs[0].to_f64s()) {
            assert!((a - b).abs() <= 1e-6 * scale, "{level}: {b}, not {a}");
        }
    }
}
