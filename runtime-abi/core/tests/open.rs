//! Every form of an artefact opens; whatever was changed in it is found before it is used.

use oaax_core::{Model, Options, Session, Status, Tensor, Value, Verify, abi::DType, digest};
use oaax_testkit::{folder, programs, write_folder, write_model, write_registry_form};
use std::{fs, path::Path, sync::Arc};

fn options() -> Options {
    Options { threads: 1, ..Options::default() }
}

fn run(model: &Arc<Model>) -> oaax_core::Result<Vec<u8>> {
    let data: Vec<u8> = [2.0f32, 4.0].iter().flat_map(|x| x.to_le_bytes()).collect();
    let x = Value::Tensor(Tensor { dtype: DType::F32, dims: &[2], data: &data });
    let outputs = Session::new(model).run_fresh(&[x.clone(), x])?;
    Ok(outputs[0].data().to_vec())
}

fn expected() -> Vec<u8> {
    [3.0f32, 6.0].iter().flat_map(|x| x.to_le_bytes()).collect()
}

#[test]
fn all_forms_give_the_same_model() {
    let folder = folder("forms");
    let (archive, layout, plain) = (folder.join("m.oaax"), folder.join("layout"), folder.join("models"));
    write_model(&programs::scaled_sum(), &archive);
    write_registry_form(&programs::scaled_sum(), &layout);
    write_folder(&programs::scaled_sum(), &plain);
    let mut digests = Vec::new();
    for (path, form, copies) in [(&archive, "archive", false), (&layout, "layout", true), (&plain, "folder", false)] {
        let model = Model::open(path, &options()).expect(form);
        assert_eq!((model.form, !model.copied.is_empty()), (form, copies), "{:?}", model.copied);
        assert_eq!(run(&model).expect("runs"), expected(), "{form}");
        digests.push(model.digest);
    }
    let mut bytes = fs::read(&archive).expect("written above");
    let model = Model::open_memory(&bytes, &options()).expect("memory");
    bytes.fill(0);
    assert_eq!(run(&model).expect("runs"), expected(), "the bytes may be reused after opening");
    digests.push(model.digest);
    digests.dedup();
    assert_eq!(digests.len(), 1, "one oaax.json in all forms");
}

#[test]
fn levels_are_chosen_from_the_top_with_a_reason() {
    let folder = folder("levels");
    write_model(&programs::scaled_sum(), &folder.join("m.oaax"));
    let model = Model::open(folder.join("m.oaax"), &options()).expect("opens");
    if programs::LEVELS.len() > 1 {
        assert!(model.choice.contains("lacks"), "{}", model.choice);
        let lower = Options { cpu_level: Some(programs::LEVELS[0].to_owned()), ..options() };
        let model = Model::open(folder.join("m.oaax"), &lower).expect("opens");
        assert_eq!(model.choice, format!("{}: as asked for", programs::LEVELS[0]));
    }
    let other = Options { variant: Some("rocm".to_owned()), ..options() };
    let error = Model::open(folder.join("m.oaax"), &other).err().expect("no such variant");
    assert_eq!((error.status, error.message.as_str()), (Status::Unsupported, "the artefact has no variant rocm; it has cpu"));
}

#[test]
fn a_variant_whose_files_are_not_in_the_image_is_passed_over() {
    let folder = folder("slim");
    let plain = folder.join("models");
    write_folder(&programs::scaled_sum(), &plain);
    fs::remove_dir_all(plain.join("targets")).expect("written above");
    let error = Model::open(&plain, &options()).err().expect("nothing left");
    assert_eq!(error.message, "no variant runs here: cpu: its files are not in this image");
}

#[test]
fn a_changed_byte_of_any_file_is_found_before_use() {
    let folder = folder("tamper");
    let plain = folder.join("models");
    write_folder(&programs::scaled_sum(), &plain);
    let object = format!("targets/cpu/{}.so", programs::LEVELS[programs::LEVELS.len().min(2) - 1]);
    for path in ["weights/0.bin", "targets/cpu/program.bin", &object] {
        let file = plain.join(path);
        let good = fs::read(&file).expect("written above");
        let mut bad = good.clone();
        *bad.last_mut().expect("not empty") ^= 1;
        replace(&file, &bad);
        let error = Model::open(&plain, &options()).err().expect(path);
        assert_eq!(error.status, Status::Tampered, "{error}");
        assert!(error.message.starts_with(path), "{error}");
        replace(&file, &good[..good.len() - 1]);
        assert_eq!(Model::open(&plain, &options()).err().expect(path).status, Status::Tampered);
        replace(&file, &good);
    }
    let model = Model::open(&plain, &options()).expect("good again");
    assert!(!model.bound, "nothing binds an unpacked folder's oaax.json");
    let manifest = fs::read(plain.join("oaax.json")).expect("written above");
    let bound = Options { manifest_digest: Some(digest(&manifest)), ..options() };
    assert!(Model::open(&plain, &bound).expect("the right digest").bound);
    let wrong = Options { manifest_digest: Some([7; 32]), ..options() };
    assert_eq!(Model::open(&plain, &wrong).err().expect("wrong").status, Status::Tampered);
}

/// Files may be read only, and a map may still be open: replaced, never written in place.
fn replace(path: &Path, bytes: &[u8]) {
    fs::remove_file(path).expect("it is there");
    fs::write(path, bytes).expect("writable folder");
}

#[test]
fn weights_may_be_checked_at_the_first_run() {
    let folder = folder("lazy");
    let plain = folder.join("models");
    write_folder(&programs::scaled_sum(), &plain);
    let file = plain.join("weights/0.bin");
    let mut bytes = fs::read(&file).expect("written above");
    bytes[2 << 20] ^= 1;
    replace(&file, &bytes);
    let late = Options { verify: Verify::AtFirstRun, ..options() };
    let model = Model::open(&plain, &late).expect("opens");
    let error = run(&model).expect_err("changed");
    assert_eq!(error.message, "weights/0.bin: the bytes from 2097152 on are not those that were built");
}

#[test]
fn no_damage_of_an_archive_makes_the_reader_panic_or_run_wrong() {
    let folder = folder("damage");
    let path = folder.join("m.oaax");
    write_model(&programs::scaled_sum(), &path);
    let good = fs::read(&path).expect("written above");
    let interesting: Vec<usize> = (0..good.len()).filter(|i| good[*i] != 0).step_by(1999).collect();
    for at in interesting {
        let mut bad = good.clone();
        bad[at] ^= 0x15;
        if let Ok(model) = Model::open_memory(&bad, &options()) {
            assert_eq!(run(&model).expect("what opens, runs"), expected(), "byte {at}");
        }
    }
    for length in (0..good.len() - 4096).step_by(60_007) {
        assert!(Model::open_memory(&good[..length], &options()).is_err(), "cut at {length}");
    }
    for text in [&b"not a model"[..], b"", b"OAAXPROG"] {
        assert_eq!(Model::open_memory(text, &options()).err().expect("garbage").status, Status::InvalidModel);
    }
}

#[test]
fn a_later_manifest_is_refused_by_name() {
    let folder = folder("later");
    let plain = folder.join("models");
    write_folder(&programs::scaled_sum(), &plain);
    let manifest = fs::read_to_string(plain.join("oaax.json")).expect("written above");
    for (old, new, expected) in [
        ("\"min_reader\":1", "\"min_reader\":2", "needs a reader of version 2"),
        ("\"critical\":[\"hash_tree\"]", "\"critical\":[\"quantum\"]", "marks \"quantum\" as critical"),
        ("weights/0.bin", "../secret.bin", "leaves the artefact"),
    ] {
        assert!(manifest.contains(old), "{manifest}");
        replace(&plain.join("oaax.json"), manifest.replace(old, new).as_bytes());
        let error = Model::open(&plain, &options()).err().expect(new);
        assert!(error.message.contains(expected), "{error}");
    }
    let error = Model::open(folder.join("none"), &options()).err().expect("no file");
    assert_eq!(error.status, Status::NotFound);
}

#[test]
fn a_thousand_random_flips_of_data_and_manifest_are_refused() {
    let folder = folder("flips");
    let (path, plain) = (folder.join("m.oaax"), folder.join("models"));
    write_model(&programs::scaled_sum(), &path);
    write_folder(&programs::scaled_sum(), &plain);
    let archive = fs::read(&path).expect("written above");
    let manifest = fs::read(plain.join("oaax.json")).expect("written above");
    let find = |needle: &[u8]| archive.windows(needle.len()).position(|window| window == needle).expect("it is in the archive");
    let program = fs::read(plain.join("targets/cpu/program.bin")).expect("written above");
    // Of the weights the leaf with a number in it; the others are zeros, like the archive's padding.
    let weights = fs::read(plain.join("weights/0.bin")).expect("written above");
    let regions = [(find(&manifest), manifest.len()), (find(&program), program.len()), (find(&weights[..4096]), weights.len())];
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    let mut random = |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 11) as usize % below
    };
    for turn in 0..1000 {
        let (start, length) = regions[turn % regions.len()];
        let at = start + random(length);
        let mut bad = archive.clone();
        bad[at] ^= 1 << random(8);
        let error = Model::open_memory(&bad, &options()).err().unwrap_or_else(|| panic!("byte {at} of region {turn}"));
        assert_ne!(error.status, Status::NotFound, "{error}");
    }
}

#[test]
fn a_package_that_demands_a_signature_waits_for_who_checked_one() {
    let folder = folder("demands");
    let plain = folder.join("models");
    write_folder(&programs::scaled_sum(), &plain);
    let manifest = fs::read_to_string(plain.join("oaax.json")).expect("written above");
    let (none, required) = ("\"signature_policy\":\"none\"", "\"signature_policy\":\"required\"");
    assert!(manifest.contains(none), "{manifest}");
    let manifest = manifest.replace(none, required);
    replace(&plain.join("oaax.json"), manifest.as_bytes());
    let error = Model::open(&plain, &options()).err().expect("nobody checked");
    assert!(error.message.contains("demands a signature"), "{error}");
    let checked = Options { manifest_digest: Some(digest(manifest.as_bytes())), ..options() };
    assert!(Model::open(&plain, &checked).is_ok());
}
