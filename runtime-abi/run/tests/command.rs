//! The program from outside: a card, a run on files, and errors with their exit codes.

use oaax_testkit::{folder, programs, write_model};
use std::{fs, path::Path, process::Command};

fn oaax_run(arguments: &[&str]) -> (i32, String, String) {
    let done = Command::new(env!("CARGO_BIN_EXE_oaax-run")).args(arguments).output().expect("built by cargo");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (done.status.code().expect("no signal"), text(&done.stdout), text(&done.stderr))
}

/// A float array as a file.
fn write_npy(path: &Path, values: &[f32]) {
    let header = format!("{{'descr': '<f4', 'fortran_order': False, 'shape': ({},), }}\n", values.len());
    let mut file = b"\x93NUMPY\x01\x00".to_vec();
    file.extend_from_slice(&(header.len() as u16).to_le_bytes());
    file.extend_from_slice(header.as_bytes());
    values.iter().for_each(|value| file.extend_from_slice(&value.to_le_bytes()));
    fs::write(path, file).expect("writable folder");
}

#[test]
fn a_model_is_shown_and_run() {
    let folder = folder("oaax-run");
    let (model, x) = (folder.join("m.oaax"), folder.join("x.npy"));
    write_model(&programs::scaled_sum(), &model);
    write_npy(&x, &[2.0, 4.0, 6.0]);
    let model = model.to_str().expect("UTF-8");
    let (code, card, _) = oaax_run(&["info", model]);
    assert_eq!(code, 0);
    assert!(card.contains("x: float[N]  N: 1 to 16777216\n") && card.contains("z: float[N]\n"), "{card}");
    let (given, results) = (format!("={}", x.display()), folder.join("results"));
    let both = ["--input", &format!("x{given}"), "--input", &format!("y{given}")];
    let output = ["--output", results.to_str().expect("UTF-8"), "--repeat", "3", "--threads", "1"];
    let (code, out, err) = oaax_run(&[&["run", model][..], &both, &output].concat());
    assert_eq!(code, 0, "{err}");
    assert!(out.contains("z: float[3]"), "{out}");
    let file = fs::read(results.join("z.npy")).expect("written by the program");
    let expected: Vec<u8> = [3.0f32, 6.0, 9.0].iter().flat_map(|z| z.to_le_bytes()).collect();
    assert!(file.ends_with(&expected));
    let (code, _, err) = oaax_run(&[&["run", model][..], &both[..2]].concat());
    assert_eq!((code, err.as_str()), (1, "oaax-run: input \"y\" is not given; it is float[N]\n"));
    assert_eq!(oaax_run(&[]).0, 2);
    assert_eq!(oaax_run(&["info", "a", "b"]).0, 2);
    let (code, _, err) = oaax_run(&["info"]);
    assert!(code == 0 || err.contains("/models"), "without a model, that of the image: {err}");
    let other = format!("sha256:{}", "0".repeat(64));
    let (code, _, err) = oaax_run(&["info", model, "--manifest", &other]);
    assert!(code == 1 && err.contains("not the one whose digest was given"), "{err}");
    assert_eq!(oaax_run(&["info", model, "--manifest", "md5:00"]).0, 2);
    assert_eq!(oaax_run(&["info", "/no/such/model"]).0, 1);
}
