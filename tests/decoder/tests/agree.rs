//! Our messages and an independent decoder (generated from onnx.proto by others) read the same out of
//! the same bytes: every field that the compiler reads, of the node cases and of the fetched models.

use std::path::{Path, PathBuf};

use oaaxc_onnx::{messages, text};
use onnx_protobuf as other;
use prost::Message as _;
use protobuf::Message as _;

fn compare_graph(ours: &messages::GraphProto, theirs: &other::GraphProto, at: &str) {
    assert_eq!(&ours.name[..], theirs.name.as_bytes(), "{at}: name");
    assert_eq!(ours.node.len(), theirs.node.len(), "{at}: nodes");
    for (a, b) in ours.node.iter().zip(&theirs.node) {
        compare_node(a, b, at);
    }
    assert_eq!(ours.initializer.len(), theirs.initializer.len(), "{at}: initialisers");
    for (a, b) in ours.initializer.iter().zip(&theirs.initializer) {
        compare_tensor(a, b, at);
    }
    for (a, b) in [(&ours.input, &theirs.input), (&ours.output, &theirs.output), (&ours.value_info, &theirs.value_info)] {
        assert_eq!(a.len(), b.len(), "{at}: declared values");
        for (a, b) in a.iter().zip(b) {
            assert_eq!(&a.name[..], b.name.as_bytes(), "{at}: a declared value");
            compare_type(a.ty.as_ref(), b.type_.as_ref(), at);
        }
    }
    assert_eq!(ours.sparse_initializer.len(), theirs.sparse_initializer.len(), "{at}: sparse initialisers");
}

fn texts(ours: &[bytes::Bytes]) -> Vec<String> {
    ours.iter().map(|t| String::from_utf8(t.to_vec()).expect("UTF-8")).collect()
}

fn compare_node(ours: &messages::NodeProto, theirs: &other::NodeProto, at: &str) {
    assert_eq!((&ours.op_type[..], &ours.domain[..]), (theirs.op_type.as_bytes(), theirs.domain.as_bytes()), "{at}");
    assert_eq!(&ours.name[..], theirs.name.as_bytes(), "{at}");
    assert_eq!((texts(&ours.input), texts(&ours.output)), (theirs.input.clone(), theirs.output.clone()), "{at}");
    assert_eq!(ours.attribute.len(), theirs.attribute.len(), "{at}: attributes");
    for (a, b) in ours.attribute.iter().zip(&theirs.attribute) {
        let at = format!("{at}: attribute {}", b.name);
        assert_eq!((&a.name[..], &a.ref_attr_name[..]), (b.name.as_bytes(), b.ref_attr_name.as_bytes()), "{at}");
        assert_eq!(a.kind, b.type_.value(), "{at}");
        assert_eq!((a.i.unwrap_or(0), &a.ints), (b.i, &b.ints), "{at}");
        assert_eq!(a.f.unwrap_or(0.0).to_bits(), b.f.to_bits(), "{at}");
        assert_eq!(bits(&a.floats), bits(&b.floats), "{at}");
        assert_eq!(a.s.as_deref().unwrap_or(&[]), &b.s[..], "{at}");
        assert_eq!(a.strings.iter().map(|s| s.to_vec()).collect::<Vec<_>>(), b.strings, "{at}");
        assert_eq!(a.t.is_some(), b.t.is_some(), "{at}");
        if let (Some(a), Some(b)) = (&a.t, b.t.as_ref()) {
            compare_tensor(a, b, &at);
        }
        assert_eq!(a.g.is_some(), b.g.is_some(), "{at}");
        if let (Some(a), Some(b)) = (&a.g, b.g.as_ref()) {
            compare_graph(a, b, &at);
        }
        compare_type(a.tp.as_ref(), b.tp.as_ref(), &at);
    }
}

fn bits(floats: &[f32]) -> Vec<u32> {
    floats.iter().map(|f| f.to_bits()).collect()
}

fn compare_tensor(ours: &messages::TensorProto, theirs: &other::TensorProto, at: &str) {
    let at = format!("{at}: tensor {}", theirs.name);
    assert_eq!((&ours.dims, ours.data_type), (&theirs.dims, theirs.data_type), "{at}");
    assert_eq!(&ours.name[..], theirs.name.as_bytes(), "{at}");
    assert_eq!(ours.raw_data.as_deref().unwrap_or(&[]), &theirs.raw_data[..], "{at}");
    assert_eq!(bits(&ours.float_data), bits(&theirs.float_data), "{at}");
    assert_eq!((&ours.int32_data, &ours.int64_data), (&theirs.int32_data, &theirs.int64_data), "{at}");
    assert_eq!(ours.uint64_data, theirs.uint64_data, "{at}");
    let doubles = |d: &[f64]| d.iter().map(|v| v.to_bits()).collect::<Vec<_>>();
    assert_eq!(doubles(&ours.double_data), doubles(&theirs.double_data), "{at}");
    assert_eq!(ours.string_data.iter().map(|s| s.to_vec()).collect::<Vec<_>>(), theirs.string_data, "{at}");
    assert_eq!(ours.external_data.len(), theirs.external_data.len(), "{at}");
}

fn compare_type(ours: Option<&messages::TypeProto>, theirs: Option<&other::TypeProto>, at: &str) {
    assert_eq!(ours.is_some(), theirs.is_some(), "{at}: type");
    let (Some(ours), Some(theirs)) = (ours, theirs) else { return };
    if let Some(tensor) = &ours.tensor_type {
        let b = theirs.tensor_type();
        assert_eq!(tensor.elem_type, b.elem_type, "{at}");
        assert_eq!(tensor.shape.is_some(), b.shape.is_some(), "{at}");
        let ours: Vec<(i64, Vec<u8>)> = tensor
            .shape
            .iter()
            .flat_map(|s| &s.dim)
            .map(|d| (d.dim_value.unwrap_or(0), d.dim_param.as_ref().map(|p| p.to_vec()).unwrap_or_default()))
            .collect();
        let theirs: Vec<(i64, Vec<u8>)> =
            b.shape.iter().flat_map(|s| &s.dim).map(|d| (d.dim_value(), d.dim_param().as_bytes().to_vec())).collect();
        assert_eq!(ours, theirs, "{at}: shape");
    }
    assert_eq!(ours.sequence_type.is_some(), theirs.has_sequence_type(), "{at}");
    assert_eq!(ours.optional_type.is_some(), theirs.has_optional_type(), "{at}");
    assert_eq!(ours.map_type.is_some(), theirs.has_map_type(), "{at}");
}

fn compare_bytes(bytes: &[u8], at: &str) {
    let ours = messages::ModelProto::decode(bytes.to_vec().as_slice()).unwrap_or_else(|e| panic!("{at}: {e}"));
    let theirs = other::ModelProto::parse_from_bytes(bytes).unwrap_or_else(|e| panic!("{at}: {e}"));
    assert_eq!(ours.ir_version.unwrap_or(0), theirs.ir_version, "{at}");
    assert_eq!(&ours.producer_name[..], theirs.producer_name.as_bytes(), "{at}");
    let imports: Vec<(Vec<u8>, i64)> = ours.opset_import.iter().map(|o| (o.domain.to_vec(), o.version)).collect();
    let others: Vec<(Vec<u8>, i64)> = theirs.opset_import.iter().map(|o| (o.domain.clone().into_bytes(), o.version)).collect();
    assert_eq!(imports, others, "{at}");
    assert_eq!(ours.functions.len(), theirs.functions.len(), "{at}");
    for (a, b) in ours.functions.iter().zip(&theirs.functions) {
        assert_eq!((&a.name[..], &a.domain[..]), (b.name.as_bytes(), b.domain.as_bytes()), "{at}");
        assert_eq!(
            (texts(&a.input), texts(&a.output), texts(&a.attribute)),
            (b.input.clone(), b.output.clone(), b.attribute.clone())
        );
        assert_eq!(a.node.len(), b.node.len(), "{at}");
        for (x, y) in a.node.iter().zip(&b.node) {
            compare_node(x, y, at);
        }
    }
    match (&ours.graph, theirs.graph.as_ref()) {
        (Some(a), Some(b)) => compare_graph(a, b, at),
        (a, b) => assert_eq!(a.is_some(), b.is_some(), "{at}"),
    }
}

fn models(below: &Path, out: &mut Vec<PathBuf>) {
    let Ok(entries) = std::fs::read_dir(below) else { return };
    for path in entries.flatten().map(|e| e.path()) {
        if path.is_dir() {
            models(&path, out);
        } else if path.extension().is_some_and(|e| e == "onnx") {
            out.push(path);
        }
    }
}

#[test]
fn written_models_are_read_alike() {
    let model = text::model(
        "<ir_version: 9, opset_import: [\"\": 18, \"own\": 1], producer_name: \"tests\"> g (float[N,3] x, seq(float[N]) q) => (float[N,?] y) <
            float[2] w = {1.5, -0.0}, int64[1] k = {-1}, string[1] s = {\"\\xff\"}, float16[1] h = {0.1}> {
            a = own.F <alpha = 0.1> (x)
            b = If (c) <then_branch = t () => (p) { p = Neg (a) }, else_branch = e () => (q) { q = Abs (a) }>
            y = Transpose <perm = [1, 0]> (b)
        }
        <domain: \"own\", opset_import: [\"\": 18]> F <alpha> (x) => (y) { k = Constant <value_float: float = @alpha> () y = Mul (x, k) }",
    );
    compare_bytes(&model.expect("well-formed").encode_to_vec(), "text");
}

#[test]
fn cases_and_fetched_models_are_read_alike() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut all = Vec::new();
    models(&root.join(".cases/node"), &mut all);
    all.sort();
    // Every fifth case, and every model of the packages up to 20 MB.
    let mut all: Vec<PathBuf> = all.into_iter().step_by(5).collect();
    models(&root.join(".models"), &mut all);
    for path in all {
        if path.metadata().is_ok_and(|m| m.len() < 20 << 20) {
            compare_bytes(&std::fs::read(&path).expect("readable"), &path.display().to_string());
        }
    }
}
