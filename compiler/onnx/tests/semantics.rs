//! What docs/semantics.md says of import, shown on models in ONNX text.

use std::collections::BTreeMap;

use oaaxc_base::{Code, Diagnostics, Severity};
use oaaxc_ir::{Datum, Def, Expr, Graph, Tensor, eval, interpret, lower};
use oaaxc_onnx::{ImportOptions, Imported, import_text};

fn import(text: &str) -> Result<Imported, Diagnostics> {
    import_text(text, "test", &ImportOptions::default())
}

fn graph(text: &str) -> Graph {
    import(text).unwrap_or_else(|d| panic!("{}", d.items.iter().map(|d| format!("{d}\n")).collect::<String>())).graph
}

fn error_codes(text: &str) -> Vec<Code> {
    let problems = import(text).expect_err("it is refused");
    problems.items.iter().filter(|d| d.severity == Severity::Error).map(|d| d.code).collect()
}

/// Runs both oracles, which must agree, and returns the outputs.
fn run(text: &str, inputs: &[Tensor]) -> Vec<Tensor> {
    let graph = graph(text);
    let data: Vec<Datum> = inputs.iter().map(|t| t.clone().into()).collect();
    let expected = eval::evaluate(&graph, data).unwrap_or_else(|d| panic!("{d}"));
    let program = lower::lower(&graph).unwrap_or_else(|d| panic!("{}", d.items[0]));
    let found = interpret::run(&program, inputs).unwrap_or_else(|f| panic!("{}", f.message));
    for (expected, found) in expected.iter().zip(&found) {
        let expected = expected.as_tensor().expect("a tensor");
        assert_eq!((&expected.dims, expected.to_f64s()), (&found.dims, found.to_f64s()));
    }
    found
}

fn floats(values: &[f32]) -> Tensor {
    Tensor::from_f32s(vec![values.len()], values)
}

fn int(value: i64) -> Tensor {
    Tensor::from_i64s(oaaxc_ir::DType::I64, vec![], [value])
}

#[test]
fn initialisers_that_are_also_inputs_are_constants_unless_overridable() {
    let model = |ir: i64| {
        format!(
            "<ir_version: {ir}, opset_import: [\"\": 13]> g (float[2] x, float[2] w = {{1, 2}}) => (float[2] y) {{ y = Add (x, w) }}"
        )
    };
    assert_eq!(graph(&model(3)).root().inputs.len(), 1);
    assert_eq!(graph(&model(8)).root().inputs.len(), 1);
    let options = ImportOptions { overridable: true, ..ImportOptions::default() };
    let imported = import_text(&model(8), "test", &options).expect("valid");
    assert_eq!((imported.graph.root().inputs.len(), imported.defaults.len()), (2, 1));
    let imported = import_text(&model(3), "test", &options).expect("valid");
    assert_eq!((imported.graph.root().inputs.len(), imported.defaults.len()), (1, 0), "IR 3 has no such inputs");
}

#[test]
fn equal_names_of_dims_are_equal_sizes_and_unnamed_ones_are_each_their_own() {
    let graph =
        graph("<ir_version: 8, opset_import: [\"\": 13]> g (float[N,?] x, float[N,?] z) => (y) { y = Concat <axis = 1> (x, z) }");
    let shape = |i: usize| {
        let value = graph.root().inputs[i];
        graph.values[value].fact.ty.as_tensor().and_then(|t| t.shape.clone()).expect("ranked")
    };
    assert_eq!(shape(0)[0], shape(1)[0]);
    assert_ne!(shape(0)[1], shape(1)[1]);
    assert_eq!(graph.symbols.show(&shape(0)[1]), "x_d1");
}

#[test]
fn dims_are_pinned_and_bounded_by_name() {
    let text = "<ir_version: 8, opset_import: [\"\": 13]> g (float[N,M] x) => (y) { y = Neg (x) }";
    let dims = BTreeMap::from([("N".to_string(), 4)]);
    let ranges = BTreeMap::from([("M".to_string(), (1, 32))]);
    let imported = import_text(text, "test", &ImportOptions { dims, ranges, ..ImportOptions::default() }).expect("valid");
    let value = imported.graph.root().inputs[0];
    let shape = imported.graph.values[value].fact.ty.as_tensor().and_then(|t| t.shape.clone()).expect("ranked");
    assert_eq!(shape[0], Expr::constant(4));
    let m = &imported.graph.symbols.table[shape[1].as_sym().expect("a symbol")];
    assert_eq!((m.min, m.max, m.input), (1, 32, true));
    let ranges = BTreeMap::from([("Q".to_string(), (1, 2))]);
    assert!(import_text(text, "test", &ImportOptions { ranges, ..ImportOptions::default() }).is_err(), "no such dim");
}

#[test]
fn inputs_of_unknown_rank_are_refused_unless_the_rank_is_given() {
    let text = "<ir_version: 8, opset_import: [\"\": 13]> g (float[] x) => (y) { y = Neg (x) }";
    assert_eq!(error_codes(text), [Code::RANK]);
    let ranks = BTreeMap::from([("x".to_string(), 3)]);
    assert!(import_text(text, "test", &ImportOptions { ranks, ..ImportOptions::default() }).is_ok());
}

#[test]
fn declared_outputs_are_claims_never_facts() {
    let imported =
        import("<ir_version: 8, opset_import: [\"\": 13]> g (float[2,3] x) => (float[9,K] y) { y = Neg (x) }").expect("valid");
    let value = imported.graph.root().outputs[0];
    assert_eq!(imported.graph.symbols.show_type(&imported.graph.values[value].fact.ty), "float[2,3]");
    assert_eq!(imported.warnings.len(), 1);
    assert!(imported.warnings[0].message.contains("float[9,K]"), "{}", imported.warnings[0].message.clone() + " shows both");
}

#[test]
fn every_wrong_node_is_reported_once_and_its_users_are_not() {
    let problems = import(
        "<ir_version: 8, opset_import: [\"\": 13]> g (float[2] x) => (y) {
            a = Softmacks (x)
            b = Neg (a)
            c = Conv <strids = [1]> (x, x)
            d = Add (x)
            e = Add (x, nowhere)
            y = Add (b, e)
        }",
    )
    .expect_err("wrong");
    let codes: Vec<Code> = problems.items.iter().map(|d| d.code).collect();
    assert_eq!(codes, [Code::UNKNOWN_OPERATOR, Code::ATTRIBUTE, Code::OPERAND, Code::STRUCTURE]);
    let text: String = problems.items.iter().map(|d| d.to_string()).collect();
    assert!(text.contains("did you mean Softmax?") && text.contains("did you mean `strides`?"), "{text}");
    assert!(text.contains("main, node 0 (ai.onnx:Softmacks-13)"), "{text}");
}

#[test]
fn nodes_out_of_order_and_cycles_are_named() {
    let text = |nodes: &str| format!("<ir_version: 8, opset_import: [\"\": 13]> g (float[2] x) => (y) {{ {nodes} }}");
    assert_eq!(error_codes(&text("y = Neg (a) a = Neg (x)")), [Code::STRUCTURE]);
    assert_eq!(error_codes(&text("y = Add (x, y)")), [Code::STRUCTURE]);
    assert_eq!(error_codes(&text("y = Neg (x) y = Neg (x)")), [Code::STRUCTURE]);
    assert_eq!(error_codes(&text("x = Neg (x) y = Neg (x)")), [Code::STRUCTURE]);
}

#[test]
fn versions_that_are_not_known_are_named() {
    let text = |ir: i64, opset: i64| {
        format!("<ir_version: {ir}, opset_import: [\"\": {opset}]> g (float[2] x) => (y) {{ y = Neg (x) }}")
    };
    assert!(import(&text(3, 7)).is_ok());
    assert_eq!(error_codes(&text(2, 7)), [Code::OPSET]);
    assert_eq!(error_codes(&text(99, 7)), [Code::OPSET]);
    assert_eq!(error_codes(&text(8, 99)), [Code::OPSET]);
    let twice = "<ir_version: 8, opset_import: [\"\": 13, \"\": 13]> g (float[2] x) => (y) { y = Neg (x) }";
    assert!(import(twice).is_ok(), "the same import twice is no contradiction");
    assert_eq!(error_codes(&twice.replacen("13", "12", 1)), [Code::OPSET]);
}

#[test]
fn functions_of_the_model_are_inlined_with_names_of_their_own() {
    let text = "<ir_version: 8, opset_import: [\"\": 18, \"own\": 1]> g (float[2] x) => (float[2] y) {
            t = Neg (x)
            u = own.Twice <by = 3.0> (x)
            v = own.Twice (t)
            y = Add (u, v)
        }
        <domain: \"own\", opset_import: [\"\": 18]> Twice <by: float = 2.0> (a) => (c) {
            t = Constant <value_float: float = @by> ()
            c = Mul (a, t)
        }";
    assert_eq!(run(text, &[floats(&[1.0, 2.0])])[0].to_f64s(), [1.0, 2.0]);
    let names: Vec<String> = graph(text).values.values().map(|v| v.name.clone()).collect();
    let mut unique = names.clone();
    unique.sort();
    unique.dedup();
    assert_eq!(unique.len(), names.len(), "{names:?}");
}

#[test]
fn functions_that_call_themselves_or_explode_are_refused() {
    let own = "<domain: \"own\", opset_import: [\"\": 18, \"own\": 1]>";
    let head = "<ir_version: 8, opset_import: [\"\": 18, \"own\": 1]> g (float[2] x) => (y) { y = own.F0 (x) }";
    assert_eq!(error_codes(&format!("{head} {own} F0 (a) => (b) {{ b = own.F0 (a) }}")), [Code::STRUCTURE]);
    let mut text = head.to_string();
    for i in 0..24 {
        text += &format!(" {own} F{i} (a) => (b) {{ c = own.F{} (a) b = own.F{} (c) }}", i + 1, i + 1);
    }
    text += &format!(" {own} F24 (a) => (b) {{ b = Neg (a) }}");
    assert_eq!(error_codes(&text), [Code::LIMIT]);
}

#[test]
fn branches_capture_outer_values_and_join_their_sizes() {
    let text = "<ir_version: 8, opset_import: [\"\": 13]> g (bool c, float[N] x) => (float[M] y) {
            y = If (c) <
                then_branch = t () => (a) { a = Neg (x) },
                else_branch = e () => (b) { b = Concat <axis = 0> (x, x) }
            >
        }";
    let flag = |v: i64| Tensor::from_i64s(oaaxc_ir::DType::Bool, vec![], [v]);
    assert_eq!(run(text, &[flag(1), floats(&[1.0, 2.0])])[0].to_f64s(), [-1.0, -2.0]);
    assert_eq!(run(text, &[flag(0), floats(&[1.0, 2.0])])[0].to_f64s(), [1.0, 2.0, 1.0, 2.0]);
}

#[test]
fn a_branch_of_another_rank_is_checked_at_run_time() {
    let text = "<ir_version: 8, opset_import: [\"\": 13]> g (bool c, float[1,N] x) => (y) {
            axes = Constant <value_ints = [0]> ()
            y = If (c) <
                then_branch = t () => (a) { a = Squeeze (x, axes) },
                else_branch = e () => (b) { b = Identity (x) }
            >
        }";
    let graph = graph(text);
    let program = lower::lower(&graph).unwrap_or_else(|d| panic!("{}", d.items[0]));
    let input = |c: i64| [Tensor::from_i64s(oaaxc_ir::DType::Bool, vec![], [c]), floats(&[1.0, 2.0]).reshaped(vec![1, 2])];
    assert_eq!(interpret::run(&program, &input(1)).expect("the first branch")[0].dims, [2]);
    let fault = interpret::run(&program, &input(0)).expect_err("the other one");
    assert!(fault.message.contains("different ranks"), "{}", fault.message);
}

#[test]
fn loops_carry_values_whose_sizes_change_and_collect_scan_outputs() {
    // The carried tensor doubles in each iteration; the scan output is its first element plus the number.
    let text = "<ir_version: 8, opset_import: [\"\": 13]> g (int64 trips, float[N] x) => (float[M] y, float[T,1] s) {
            always = Constant <value = bool {1}> ()
            y, s = Loop (trips, always, x) <body = b (i, go, a) => (go, double, first) {
                double = Concat <axis = 0> (a, a)
                zero = Constant <value_ints = [0]> ()
                head = Gather (a, zero)
                number = Cast <to = 1> (i)
                first = Add (head, number)
            }>
        }";
    for trips in [0, 1, 3, 6] {
        let out = run(text, &[int(trips), floats(&[1.0, 2.0])]);
        assert_eq!(out[0].dims, [2 << trips]);
        if trips > 0 {
            assert_eq!(out[1].dims, [trips as usize, 1]);
            assert_eq!(out[1].f64_at(trips as usize - 1), trips as f64);
        }
    }
}

#[test]
fn a_loop_ends_when_its_condition_fails() {
    let text = "<ir_version: 8, opset_import: [\"\": 13]> g (float x) => (float y, float[T] s) {
            always = Constant <value = bool {1}> ()
            y, s = Loop (\"\", always, x) <body = b (i, go, a) => (more, next, next2) {
                two = Constant <value_float = 2.0> ()
                next = Mul (a, two)
                next2 = Identity (next)
                bound = Constant <value_float = 100.0> ()
                more = Less (next, bound)
            }>
        }";
    let out = run(text, &[Tensor::from_f32s(vec![], &[1.0])]);
    assert_eq!(out[0].to_f64s(), [128.0]);
    assert_eq!(out[1].to_f64s(), [2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0]);
}

#[test]
fn carried_integers_that_are_sizes_stay_sizes() {
    // Two values swap places, and one of them is the length of a slice.
    let text = "<ir_version: 8, opset_import: [\"\": 13]> g (int64 trips, float[N] x) => (float[M] y) {
            always = Constant <value = bool {1}> ()
            one = Constant <value_ints = [1]> ()
            three = Constant <value_ints = [3]> ()
            a, b = Loop (trips, always, one, three) <body = b (i, go, p, q) => (go, q2, p2) {
                p2 = Identity (p)
                q2 = Identity (q)
            }>
            zero = Constant <value_ints = [0]> ()
            y = Slice (x, zero, a)
        }";
    let x = floats(&[1.0, 2.0, 3.0, 4.0]);
    for (trips, length) in [(0, 1), (1, 3), (2, 1), (5, 3)] {
        assert_eq!(run(text, &[int(trips), x.clone()])[0].dims, [length]);
    }
}

#[test]
fn scan_runs_forward_and_backward_over_any_axis() {
    let text = "<ir_version: 8, opset_import: [\"\": 13]> g (float[2] start, float[2,T] x) => (float[2] last, float[2,T] sums) {
            last, sums = Scan <num_scan_inputs = 1, scan_input_axes = [1], scan_input_directions = [1], scan_output_axes = [1],
                scan_output_directions = [1], body = b (s, v) => (sum, copy) { sum = Add (s, v) copy = Identity (sum) }> (start, x)
        }";
    let x = Tensor::from_f32s(vec![2, 3], &[1.0, 2.0, 3.0, 10.0, 20.0, 30.0]);
    let out = run(text, &[floats(&[0.0, 0.0]), x]);
    assert_eq!(out[0].to_f64s(), [6.0, 60.0]);
    assert_eq!(out[1].to_f64s(), [6.0, 5.0, 3.0, 60.0, 50.0, 30.0]);
}

#[test]
fn names_inside_a_body_may_repeat_names_of_other_bodies() {
    let branch = |op: &str| format!("g () => (r) {{ t = {op} (x) r = Neg (t) }}");
    let text = format!(
        "<ir_version: 8, opset_import: [\"\": 13]> g (bool c, float[N] x) => (y) {{
            y = If (c) <then_branch = {}, else_branch = {}> }}",
        branch("Neg"),
        branch("Abs")
    );
    let graph = graph(&text);
    let mut names: Vec<&str> =
        graph.values.values().filter(|v| !matches!(v.def, Def::Constant(_))).map(|v| v.name.as_str()).collect();
    let count = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), count);
}

#[test]
fn an_output_may_be_an_input_a_constant_or_another_output() {
    let text = "<ir_version: 8, opset_import: [\"\": 13]> g (float[1] x) => (x, k, y) <float[1] k = {7}> { y = Neg (x) }";
    let out = run(text, &[floats(&[2.0])]);
    assert_eq!([out[0].f64_at(0), out[1].f64_at(0), out[2].f64_at(0)], [2.0, 7.0, -2.0]);
}

#[test]
fn an_if_that_is_decided_before_the_run_leaves_only_its_branch() {
    // The other branch could not even be typed: its operand has another rank here.
    let text = "<ir_version: 8, opset_import: [\"\": 13]> g (float[2,N] x) => (float[2,N] y) {
            shape = Shape (x)
            rank = Size (shape)
            two = Constant <value_int = 2> ()
            flat = Equal (rank, two)
            y = If (flat) <
                then_branch = t () => (a) { a = Neg (x) },
                else_branch = e () => (b) { b = Transpose <perm = [0, 2, 1]> (x) }
            >
        }";
    let out = run(text, &[floats(&[1.0, 2.0]).reshaped(vec![2, 1])]);
    assert_eq!(out[0].to_f64s(), [-1.0, -2.0]);
    let graph = graph(text);
    assert!(graph.listed_nodes().iter().all(|n| graph.nodes[*n].blocks.is_empty()));
    assert_eq!(graph.values[graph.root().outputs[0]].name, "y");
}

#[test]
fn sequences_of_known_length_are_lists_of_tensors() {
    let text = "<ir_version: 8, opset_import: [\"\": 17]> g (float[4,N] x) => (float[M] y, float[2,N] z, int64 n) {
            two = Constant <value_int = 2> ()
            last = Constant <value_int = -1> ()
            parts = SplitToSequence <axis = 0, keepdims = 0> (x)
            one = SequenceAt (parts, last)
            fewer = SequenceErase (parts, two)
            more = SequenceInsert (fewer, one)
            y = ConcatFromSequence <axis = 0> (more)
            pair = SequenceConstruct (one, one)
            z = ConcatFromSequence <axis = 0, new_axis = 1> (pair)
            n = SequenceLength (more)
        }";
    let out = run(text, &[Tensor::from_f32s(vec![4, 2], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0])]);
    assert_eq!(out[0].to_f64s(), [1.0, 2.0, 3.0, 4.0, 7.0, 8.0, 7.0, 8.0]);
    assert_eq!(out[1].to_f64s(), [7.0, 8.0, 7.0, 8.0]);
    assert_eq!(out[2].i64_at(0), 4);
}
