//! What typical faults look like, word by word.

mod common;

use common::{Place, text};

/// The model's text with these nodes.
fn model(nodes: &str) -> String {
    format!("<ir_version: 8, opset_import: [\"\": 17]>\nm (float[N, 3] x) => (float[N, 3] y) {{\n{nodes}\n}}\n")
}

fn fault(code: i32, nodes: &str) -> String {
    let place = Place::new();
    place.write("m.onnxtxt", model(nodes).as_bytes());
    place.fail(code, "check m.onnxtxt")
}

#[test]
fn an_unknown_operator_has_a_neighbour() {
    insta::assert_snapshot!(fault(3, "y = Reluu (x)"), @r#"
    error[E0201]: ai.onnx has no operator "Reluu"
      --> m.onnxtxt: main, node 0 (ai.onnx:Reluu-17)
       = help: did you mean Relu?
    for more, run `oaaxc explain E0201`
    "#);
}

#[test]
fn all_problems_come_in_one_run() {
    let shown = fault(3, "a = Nonsense (x)\nb = MoreNonsense (x)\ny = Relu (x)");
    assert_eq!(shown.matches("error[E0201]").count(), 2, "{shown}");
    assert!(shown.contains("2 errors"), "{shown}");
}

#[test]
fn shapes_that_do_not_fit_name_both_facts() {
    insta::assert_snapshot!(fault(1, "w = Constant <value: tensor = float[2, 3] {1, 2, 3, 4, 5, 6}> ()\ny = MatMul (x, w)"), @r#"
    error[E0304]: MatMul: the inner sizes of a matrix product: 3 is not 2
      --> m.onnxtxt: main, node 1 (ai.onnx:MatMul-13)
       |  MatMul (x, w)
       |      x: float[N,3]
       |      w: float[2,3]
    for more, run `oaaxc explain E0304`
    "#);
}

#[test]
fn an_undefined_value_is_named() {
    insta::assert_snapshot!(fault(1, "y = Add (x, w)"), @r#"
    error[E0105]: the operand "w" is not defined
      --> m.onnxtxt: main, node 0 (ai.onnx:Add-14)
       = help: did you mean "x"?
    for more, run `oaaxc explain E0105`
    "#);
}

#[test]
fn a_wrong_attribute_is_named() {
    insta::assert_snapshot!(fault(1, "y = Softmax <axis: int = 7> (x)"), @r#"
    error[E0301]: Softmax: axis 7 is outside [-2, 2) of a tensor of rank 2
      --> m.onnxtxt: main, node 0 (ai.onnx:Softmax-13)
       |  Softmax (x)
       |      x: float[N,3]
    for more, run `oaaxc explain E0301`
    "#);
}

#[test]
fn a_mistyped_target_has_a_neighbour() {
    let place = Place::with_tiny();
    insta::assert_snapshot!(place.fail(2, "build tiny.onnxtxt --target cpu:x86-64-v5"), @r#"
    error[E0402]: there is no target "cpu:x86-64-v5"
       = help: did you mean "cpu:x86-64-v2"? `oaaxc targets` lists all
    for more, run `oaaxc explain E0402`
    "#);
}

#[test]
fn a_missing_model_is_told_with_the_systems_words() {
    insta::assert_snapshot!(Place::new().fail(1, "build nothing.onnx"), @r#"
    error[E0001]: cannot open nothing.onnx: No such file or directory (os error 2)
    for more, run `oaaxc explain E0001`
    "#);
}

#[test]
fn bytes_that_are_no_model_are_told() {
    let place = Place::new();
    place.write("m.onnx", b"version https://git-lfs.github.com/spec/v1\n");
    let shown = place.fail(1, "build m.onnx");
    assert!(shown.contains("error[E0101]"), "{shown}");
}

#[test]
fn a_damaged_artefact_is_refused() {
    let place = Place::with_tiny();
    place.succeed("build tiny.onnxtxt --target cpu:x86-64-v2 -o tiny.oaax --no-canary");
    let mut bytes = place.read("tiny.oaax");
    // Inside the weights: the last bytes before the end of the archive are padding.
    let at = bytes.windows(8).rposition(|w| w == [0, 0, 64, 64, 0, 0, 0, 0]).unwrap_or(bytes.len() / 2);
    bytes[at] ^= 1;
    place.write("damaged.oaax", &bytes);
    let output = place.oaaxc("run damaged.oaax");
    assert_eq!(output.status.code(), Some(7), "{}", text(&output.stderr));
    place.write("short.oaax", &bytes[..1000]);
    place.fail(7, "run short.oaax");
}

#[test]
fn a_request_that_does_not_fit_is_told() {
    let place = Place::with_tiny();
    place.succeed("build tiny.onnxtxt --target cpu:x86-64-v2 -o tiny.oaax --no-canary");
    place.write("x.npy", &common::npy(&[2, 4], &[0.0; 8]));
    let shown = place.fail(1, "run tiny.oaax --input x=x.npy");
    assert!(shown.contains("error[E0502]") && shown.contains('3') && shown.contains('4'), "{shown}");
    insta::assert_snapshot!(place.fail(1, "run tiny.oaax --input z=x.npy"), @r#"
    error[E0502]: the model has no input "z"
       = help: its inputs are x
    for more, run `oaaxc explain E0502`
    "#);
    insta::assert_snapshot!(place.fail(2, "run tiny.oaax --dim N"), @r#"
    error[E0002]: --dim N: this is neither NAME=SIZE nor NAME=MIN..MAX
    for more, run `oaaxc explain E0002`
    "#);
}

#[test]
fn diagnostics_are_objects_with_json() {
    let place = Place::new();
    place.write("m.onnxtxt", model("y = Reluu (x)").as_bytes());
    let output = place.oaaxc("check m.onnxtxt --json");
    assert_eq!(output.status.code(), Some(3));
    let value: serde_json::Value = serde_json::from_str(text(&output.stdout).trim()).expect("one object");
    assert_eq!(value["diagnostic"]["code"], "E0201");
    assert_eq!(value["diagnostic"]["origin"]["index"], 0);
}

#[test]
fn options_and_subcommands_have_neighbours() {
    let place = Place::new();
    assert!(place.fail(2, "biuld m.onnx").contains("build"));
    assert!(place.fail(2, "build m.onnx --taget cpu").contains("--target"));
    let shown = place.fail(1, "compile --onnx=nothing.onnx --fp16");
    assert!(
        shown.contains("`compile` is called `build` here") && shown.contains("oaaxc computes in the model's own types"),
        "{shown}"
    );
}

#[test]
fn every_code_is_explained() {
    let place = Place::new();
    let listed = place.succeed("explain --json");
    for line in listed.lines() {
        let value: serde_json::Value = serde_json::from_str(line).expect("an object a line");
        let code = value["code"].as_str().expect("a code");
        assert!(place.succeed(&format!("explain {code}")).len() > 60);
    }
    place.fail(2, "explain E9999");
}

#[test]
fn lists_are_lists() {
    let place = Place::new();
    assert!(place.succeed("targets").contains("cpu:strict"));
    assert!(place.succeed("ops --opset 13 --domain ai.onnx").contains("Softmax"));
    assert!(place.succeed("doctor").contains("code generation"));
    assert!(place.succeed("--help").contains("Exit codes"));
}

#[test]
fn the_model_is_never_overwritten_and_neither_is_a_device() {
    let place = Place::with_tiny();
    let told = place.fail(2, "build tiny.onnxtxt --target cpu:x86-64-v2 -o tiny.onnxtxt");
    assert!(told.contains("the model itself"), "{told}");
    std::os::unix::fs::symlink("tiny.onnxtxt", place.file("link")).expect("a link");
    place.fail(2, "build tiny.onnxtxt --target cpu:x86-64-v2 -o link");
    assert_eq!(place.read("tiny.onnxtxt"), common::TINY.as_bytes());
    place.fail(1, "build tiny.onnxtxt --target cpu:x86-64-v2 -o /dev/null");
}

#[test]
fn a_link_means_what_it_points_to() {
    let place = Place::with_tiny();
    std::os::unix::fs::symlink("real.oaax", place.file("link.oaax")).expect("a link");
    place.succeed("build tiny.onnxtxt --target cpu:x86-64-v2 -o link.oaax -q");
    assert!(place.file("real.oaax").is_file() && place.file("link.oaax").is_symlink());
}

#[test]
fn sizes_and_inputs_that_contradict_are_said() {
    let place = Place::with_tiny();
    assert!(place.fail(2, "build tiny.onnxtxt --dim M=4").contains("its dims are: N"));
    place.succeed("build tiny.onnxtxt --target cpu:x86-64-v2 -o tiny.oaax -q");
    place.write("x.npy", &common::npy(&[1, 3], &[1.0, -1.0, 2.0]));
    assert!(place.fail(2, "run tiny.oaax --dim M=4").contains("its dims are: N"));
    assert!(place.fail(1, "run tiny.oaax --dim N=4 --input x=x.npy").contains("--dim says 4"));
    assert!(place.fail(2, "run tiny.oaax --input x=x.npy --input x=x.npy").contains("given twice"));
    assert!(place.fail(1, "run tiny.oaax --input x=tiny.onnxtxt").contains("neither a .npy array"));
    place.fail(5, "run tiny.oaax --dim N=99999999999");
    let told = place.fail(1, "run no.oaax");
    assert_eq!(told.matches("no.oaax").count(), 1, "{told}");
}

#[test]
fn a_wrong_command_line_is_json_where_asked_for() {
    let place = Place::with_tiny();
    let output = place.oaaxc("build tiny.onnxtxt --targt cpu --json");
    assert_eq!(output.status.code(), Some(2));
    let told: serde_json::Value = serde_json::from_slice(&output.stdout).expect("one object");
    assert_eq!(told["diagnostic"]["code"], "E0002");
    assert!(told["diagnostic"]["notes"].to_string().contains("--target"), "{told}");
}
