//! Hostile files: external data that wants out, shapes that lie, bombs, and thousands of random
//! changes to real models. Each gives a diagnostic; none panics, hangs or takes the machine's memory.

use std::os::unix::fs::symlink;
use std::path::Path;

use bytes::Bytes;
use oaaxc_base::Code;
use oaaxc_onnx::messages::{
    AttributeProto, GraphProto, ModelProto, NodeProto, OperatorSetIdProto, StringStringEntryProto, TensorProto, ValueInfoProto,
};
use oaaxc_onnx::{ImportOptions, import_bytes, limits, text};
use prost::Message;

fn codes(bytes: Vec<u8>, folder: Option<&Path>) -> Vec<Code> {
    match import_bytes(bytes.into(), "test", folder, &ImportOptions::default()) {
        Ok(_) => Vec::new(),
        Err(problems) => problems.items.iter().map(|d| d.code).collect(),
    }
}

fn model(graph: GraphProto) -> Vec<u8> {
    let opset = OperatorSetIdProto { domain: Bytes::new(), version: 18 };
    ModelProto { ir_version: Some(9), graph: Some(graph), opset_import: vec![opset], ..ModelProto::default() }.encode_to_vec()
}

fn value(name: &'static str) -> ValueInfoProto {
    ValueInfoProto { name: Bytes::from_static(name.as_bytes()), ty: None }
}

fn node(op: &'static str, input: &[&'static str], output: &'static str) -> NodeProto {
    NodeProto {
        op_type: Bytes::from_static(op.as_bytes()),
        input: input.iter().map(|n| Bytes::from_static(n.as_bytes())).collect(),
        output: vec![Bytes::from_static(output.as_bytes())],
        ..NodeProto::default()
    }
}

/// A model whose weight of 8 bytes lies outside the file, as these entries say.
fn external(entries: &[(&str, &str)]) -> Vec<u8> {
    let entry = |(k, v): &(&str, &str)| StringStringEntryProto {
        key: Bytes::copy_from_slice(k.as_bytes()),
        value: Bytes::copy_from_slice(v.as_bytes()),
    };
    let weight = TensorProto {
        dims: vec![2],
        data_type: 1,
        name: Bytes::from_static(b"w"),
        external_data: entries.iter().map(entry).collect(),
        data_location: 1,
        ..TensorProto::default()
    };
    model(GraphProto {
        node: vec![node("Neg", &["w"], "y")],
        initializer: vec![weight],
        output: vec![value("y")],
        ..GraphProto::default()
    })
}

#[test]
fn external_data_stays_in_the_folder_of_the_model() {
    let outer = tempfile::tempdir().expect("a folder");
    let folder = outer.path().join("model");
    std::fs::create_dir_all(folder.join("inner")).expect("a folder");
    std::fs::write(outer.path().join("secret"), [7u8; 16]).expect("written");
    std::fs::write(folder.join("w.bin"), [0u8; 16]).expect("written");
    std::fs::write(folder.join("inner/w.bin"), [0u8; 16]).expect("written");
    symlink("../secret", folder.join("link")).expect("linked");
    symlink("..", folder.join("up")).expect("linked");
    std::fs::hard_link(outer.path().join("secret"), folder.join("hard")).expect("linked");
    let at = |location: &str| codes(external(&[("location", location)]), Some(&folder));
    assert_eq!(at("w.bin"), []);
    assert_eq!(at("inner/w.bin"), []);
    assert_eq!(at("./w.bin"), []);
    let absolute = folder.join("w.bin").display().to_string();
    for location in [
        "../secret",
        "inner/../../secret",
        "link",
        "up/secret",
        "hard",
        "inner",
        "missing",
        "",
        ".",
        "w.bin/",
        "a\\b",
        "w.bin\0x",
        "C:w.bin",
        "/dev/zero",
        "/proc/self/mem",
        absolute.as_str(),
    ] {
        assert_eq!(at(location), [Code::EXTERNAL_DATA], "{location:?}");
    }
    assert_eq!(codes(external(&[("location", "w.bin")]), None), [Code::EXTERNAL_DATA], "bytes without a folder");
}

#[test]
fn external_ranges_lie_inside_their_file() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("w.bin"), [0u8; 16]).expect("written");
    let with = |more: &[(&str, &str)]| {
        let mut entries = vec![("location", "w.bin")];
        entries.extend(more);
        codes(external(&entries), Some(folder.path()))
    };
    assert_eq!(with(&[("offset", "8"), ("length", "8")]), []);
    assert_eq!(with(&[("offset", "3")]), [], "an offset need not be aligned");
    let maximum = u64::MAX.to_string();
    for more in [
        &[("offset", "9")][..],
        &[("offset", "17")],
        &[("offset", maximum.as_str())],
        &[("length", maximum.as_str())],
        &[("length", "4")],
        &[("offset", "-1")],
        &[("offset", "x")],
        &[("offset", maximum.as_str()), ("length", "8")],
        &[("attribute", "injected")],
    ] {
        assert_eq!(with(more), [Code::EXTERNAL_DATA], "{more:?}");
    }
}

#[test]
fn a_large_file_of_empty_nodes_costs_nothing() {
    let graph = [0x0a, 0x00].repeat(21_000_000);
    let mut bytes = vec![0x08, 0x09, 0x3a];
    let mut length = graph.len();
    while length >= 0x80 {
        bytes.push(length as u8 | 0x80);
        length >>= 7;
    }
    bytes.push(length as u8);
    bytes.extend(graph);
    assert_eq!(codes(bytes, None), [Code::LIMIT]);
}

#[test]
fn nesting_ends_at_the_limit_and_below_it_works() {
    let nest = |depth: usize| {
        let mut graph = GraphProto { node: vec![node("Neg", &["w"], "y")], output: vec![value("y")], ..GraphProto::default() };
        for _ in 0..depth {
            let branch = |name: &'static str| AttributeProto {
                name: Bytes::from_static(name.as_bytes()),
                g: Some(Box::new(graph.clone())),
                kind: 5,
                ..AttributeProto::default()
            };
            let mut outer = node("If", &["c"], "y");
            // One deep branch and one flat one: two deep ones would double at each level.
            let flat = GraphProto { node: vec![node("Neg", &["w"], "y")], output: vec![value("y")], ..GraphProto::default() };
            outer.attribute = vec![branch("then_branch"), AttributeProto { g: Some(Box::new(flat)), ..branch("else_branch") }];
            graph = GraphProto { node: vec![outer], output: vec![value("y")], ..GraphProto::default() };
        }
        let constant = |name: &'static str, kind: i32, raw: &'static [u8]| TensorProto {
            data_type: kind,
            name: Bytes::from_static(name.as_bytes()),
            raw_data: Some(Bytes::from_static(raw)),
            ..TensorProto::default()
        };
        graph.initializer = vec![constant("w", 1, &[0; 4]), constant("c", 9, &[1])];
        codes(model(graph), None)
    };
    assert_eq!(nest(30), []);
    assert_eq!(nest(limits::DEPTH + 1), [Code::LIMIT]);
    assert_eq!(nest(200), [Code::LIMIT]);
}

#[test]
fn names_that_are_no_text_or_endless_are_told() {
    let with = |name: Vec<u8>| {
        let mut bad = node("Neg", &[], "y");
        bad.input = vec![name.into()];
        codes(model(GraphProto { node: vec![bad], output: vec![value("y")], ..GraphProto::default() }), None)
    };
    assert_eq!(with(vec![0xff, 0xfe]), [Code::STRUCTURE]);
    assert_eq!(with(vec![b'a'; limits::NAME_BYTES + 1]), [Code::LIMIT]);
}

#[test]
fn files_that_are_no_models_are_told() {
    for bytes in [&b""[..], b"version https://git-lfs.github.com/spec/v1\n", &[0x0a; 100], &[0xff; 100], b"PK\x03\x04"] {
        let found = codes(bytes.to_vec(), None);
        assert!(matches!(found[..], [Code::NOT_ONNX | Code::OPSET]), "{found:?}");
    }
}

/// A small generator with a fixed seed (xorshift).
struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % n.max(1) as u64) as usize
    }
}

/// Models that hold most of what a file can hold.
fn seeds() -> Vec<Vec<u8>> {
    let texts = [
        "<ir_version: 8, opset_import: [\"\": 17]> g (float[N,3,H,W] x, bool c, int64 n) => (float[N,?] y, s) <
            float[2,3,1,1] w = {1, 2, 3, 4, 5, 6}, int64[2] shape = {0, -1}, float[2] scale = {1.5, inf}> {
            conv = Conv <strides = [1, 1], auto_pad = \"SAME_UPPER\"> (x, w)
            relu = Relu (conv)
            flat = Reshape (relu, shape)
            soft = Softmax <axis = 1> (flat)
            y = If (c) <then_branch = t () => (a) { a = Neg (soft) }, else_branch = e () => (b) { b = Concat <axis = 0> (soft, soft) }>
            last, s = Loop (n, c, scale) <body = b (i, go, v) => (go, v2, k) { v2 = Add (v, v) k = Cast <to = 7> (v2) }>
        }",
        "<ir_version: 8, opset_import: [\"\": 18, \"own\": 1]> g (float[2] x) => (y) { t = own.F <a = 2.0> (x) u = ThresholdedRelu (t) y = Gelu (u) }
         <domain: \"own\", opset_import: [\"\": 18]> F <a> (x) => (y) { k = Constant <value_float: float = @a> () y = Mul (x, k) }",
        "<ir_version: 4, opset_import: [\"\": 9]> g (float[1,2,4,4] x) => (y) <float[3] r = {0, 0, 2}> {
            p = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (x)
            m = ReduceMean <axes = [2], keepdims = 0> (p)
            h = Shape (m)
            z = ConstantOfShape <value = float[1] {2}> (h)
            q = Transpose <perm = [1, 0, 2]> (z)
            y = Slice <axes = [0], starts = [0], ends = [1]> (q)
        }",
    ];
    texts.iter().map(|t| text::model(t).expect("well-formed").encode_to_vec()).collect()
}

#[test]
fn thousands_of_random_changes_never_panic() {
    std::panic::set_hook(Box::new(|_| {}));
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    for seed in seeds() {
        assert!(!codes(seed[..seed.len() / 2].to_vec(), None).is_empty(), "half a model is none");
        for round in 0..900 {
            let mut bytes = seed.clone();
            for _ in 0..1 + random.below(4) {
                let at = random.below(bytes.len());
                match random.below(5) {
                    0 => bytes[at] = random.below(256) as u8,
                    1 => bytes[at] ^= 1 << random.below(8),
                    2 => bytes.truncate(at.max(1)),
                    3 => drop(bytes.splice(at..at, [random.below(256) as u8; 2])),
                    _ => drop(bytes.drain(at..(at + 1 + random.below(6)).min(bytes.len()))),
                }
                if bytes.is_empty() {
                    bytes.push(0);
                }
            }
            let found = codes(bytes, None);
            assert!(!found.contains(&Code::INTERNAL), "round {round} of a seed found a bug of an operator");
        }
    }
}
