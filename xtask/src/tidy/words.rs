//! Words that must not stand where they stand: unfinished code, `unsafe` outside its rooms, matches
//! on operator names, paths of one machine.
//!
//! The search is by line and knows comments and string literals only roughly: it is a tripwire, not a parser.

use std::collections::BTreeSet;

use super::files::File;

/// (word in pieces, so that this file does not hold it, and why it is a fault).
#[rustfmt::skip] // One word a line.
const FORBIDDEN_IN_RUST: &[(&[&str], &str)] = &[
    (&["to", "do!("], "finish it, or refuse the case with a diagnostic"),
    (&["unimple", "mented!("], "finish it, or refuse the case with a diagnostic"),
    (&["#[ig", "nore"], "a test that never runs shows nothing"),
    (&["should_", "panic"], "say which error comes back, and test that"),
    (&["thread::", "sleep"], "wait for the event, not for a time"),
    (&["db", "g!("], "a leftover of debugging"),
];

/// Absolute paths that are true on one machine only.
const MACHINE_PATHS: &[&[&str]] = &[&["/wo", "rk/"], &["/ro", "ot/"], &["/ho", "me/"]];

/// Rooms that may hold `unsafe`; beside them, files that map files (`map.rs`, `mapped.rs`).
const UNSAFE_ROOMS: &[&str] = &["runtime-abi/", "targets/llvm/", "tests/", "examples/"];
const MAP_FILES: &[&str] = &["map.rs", "mapped.rs"];

/// Rooms whose code may ask for an operator by its name in a `match`.
const NAME_ROOMS: &[&str] = &["compiler/ops/", "tests/", "xtask/", "examples/"];

/// Every line with a word that must not be there.
pub fn check(files: &[File]) -> Vec<String> {
    let names = operator_names(files);
    files.iter().flat_map(|file| check_file(file, &names)).collect()
}

fn check_file(file: &File, names: &BTreeSet<String>) -> Vec<String> {
    let mut faults = Vec::new();
    // Test modules close a file by custom; a match in one is no dispatch.
    let mut in_tests = file.path.contains("/tests/") || file.path.ends_with("tests.rs");
    for (index, line) in file.text.lines().enumerate() {
        in_tests |= line.trim() == "#[cfg(test)]";
        let mut fault = |what: &str| faults.push(format!("{}:{}: {what}", file.path, index + 1));
        for path in MACHINE_PATHS {
            if is_path(line, &path.concat()) {
                fault(&format!("`{}` is a path of one machine", path.concat()));
            }
        }
        if !file.is_rust() || file.is_generated() {
            continue;
        }
        let code = code_of(line);
        for (word, why) in FORBIDDEN_IN_RUST {
            if code.contains(&word.concat()) {
                fault(&format!("`{}`: {why}", word.concat()));
            }
        }
        if has_unsafe(code) && !may_be_unsafe(&file.path) {
            fault("`unsafe` stands only in runtime-abi, targets/llvm and files that map files");
        }
        let may_match = in_tests || NAME_ROOMS.iter().any(|room| file.path.starts_with(room));
        if let Some(name) = matched_name(code, names).filter(|_| !may_match) {
            fault(&format!("a match on the operator name {name}: only compiler/ops knows operators by name"));
        }
    }
    faults
}

/// Whether `path` begins a path in `line`, rather than being the inside of a longer one.
fn is_path(line: &str, path: &str) -> bool {
    line.match_indices(path).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        !before.is_some_and(|c| c.is_alphanumeric() || "._-})$*".contains(c))
    })
}

/// The line without its comment.
fn code_of(line: &str) -> &str {
    line.find("//").map_or(line, |at| &line[..at])
}

fn has_unsafe(code: &str) -> bool {
    ["unsafe {", "unsafe fn", "unsafe impl", "unsafe extern", "unsafe trait", "unsafe("].iter().any(|form| code.contains(form))
}

fn may_be_unsafe(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    UNSAFE_ROOMS.iter().any(|room| path.starts_with(room))
        || MAP_FILES.contains(&name)
        || path.starts_with("xtask/src/tidy/words.rs")
}

/// The operator that `code` names as a pattern of a match arm, if any.
fn matched_name<'a>(code: &str, names: &'a BTreeSet<String>) -> Option<&'a String> {
    let patterns = code.split("=>").next().filter(|_| code.contains("=>"))?;
    let quoted = patterns.split('"').skip(1).step_by(2);
    quoted.into_iter().find_map(|text| names.get(text))
}

/// The operators of the generated schema. Words that the text forms use as well are no names here.
fn operator_names(files: &[File]) -> BTreeSet<String> {
    let schema = files.iter().find(|file| file.path == "compiler/ops/src/schema.rs");
    let rows = schema.map_or("", |file| &file.text).lines();
    rows.filter_map(|line| line.trim().strip_prefix("OperatorSchema { domain: ")?.split('"').nth(3)).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults(path: &str, text: &str) -> Vec<String> {
        let schema = "  OperatorSchema { domain: \"\", name: \"Conv\", versions: &[\n";
        let files = [File::new("compiler/ops/src/schema.rs", schema), File::new(path, text)];
        check(&files[..]).into_iter().filter(|fault| fault.starts_with(path)).collect()
    }

    #[test]
    fn unfinished_code_is_a_fault_and_talk_about_it_is_none() {
        let word = FORBIDDEN_IN_RUST[0].0.concat();
        assert_eq!(faults("passes/src/a.rs", &format!("fn a() {{ {word}) }}\n")).len(), 1);
        assert!(faults("passes/src/a.rs", &format!("// no {word})\n")).is_empty());
    }

    #[test]
    fn unsafe_stands_in_its_rooms_only() {
        let text = "fn a() { unsafe { b() } }\n";
        assert_eq!(faults("passes/src/a.rs", text).len(), 1);
        assert!(faults("runtime-abi/core/src/a.rs", text).is_empty());
        assert!(faults("container/src/map.rs", text).is_empty());
    }

    #[test]
    fn a_match_on_an_operator_name_is_a_fault_outside_ops() {
        let text = "match name { \"Conv\" => 1, _ => 2 }\n";
        assert_eq!(faults("passes/src/a.rs", text).len(), 1);
        assert!(faults("compiler/ops/src/a.rs", text).is_empty());
        assert!(faults("passes/src/a.rs", "let a = \"Conv\";\n").is_empty());
    }

    #[test]
    fn a_path_of_one_machine_is_a_fault() {
        let path = MACHINE_PATHS[0].concat();
        assert_eq!(faults("docs/a.md", &format!("see {path}main\n")).len(), 1);
        assert!(faults("docs/a.md", &format!("see ./net{path}main\n")).is_empty());
    }
}
