//! Words that people of other tools type: each is understood, and the word of this one is taught.

use std::ffi::OsString;

/// What to do with a foreign option.
enum Means {
    /// Its value is the model.
    Model,
    /// Another option with the same value.
    Option(&'static str),
    /// Another option, whose value is written in small letters.
    Lower(&'static str),
    /// Nothing, for this reason.
    Nothing(&'static str),
}

const KEEPS_TYPES: &str = "changes nothing: oaaxc computes in the model's own types";

/// Foreign options. Those that mean something take a value.
#[rustfmt::skip] // One option a line.
static OPTIONS: &[(&str, Means)] = &[
    ("--onnx", Means::Model),
    ("--model-path", Means::Model),
    ("--saveEngine", Means::Option("--output")),
    ("--output-model", Means::Option("--output")),
    ("--output_model", Means::Option("--output")),
    ("--save-outputs", Means::Option("--output")),
    ("--device", Means::Lower("--target")),
    ("-d", Means::Lower("--target")),
    ("--niter", Means::Option("--iterations")),
    ("--num-threads", Means::Option("--threads")),
    ("--dim-param", Means::Option("--dim")),
    ("--fp16", Means::Nothing(KEEPS_TYPES)),
    ("--bf16", Means::Nothing(KEEPS_TYPES)),
    ("--fp8", Means::Nothing(KEEPS_TYPES)),
    ("--int8", Means::Nothing(KEEPS_TYPES)),
    ("--best", Means::Nothing(KEEPS_TYPES)),
    ("--fp32", Means::Nothing(KEEPS_TYPES)),
    ("--release", Means::Nothing("changes nothing: artefacts are always optimised")),
    ("-O2", Means::Nothing("changes nothing: artefacts are always optimised")),
    ("-O3", Means::Nothing("changes nothing: artefacts are always optimised")),
];

/// Foreign subcommands.
#[rustfmt::skip] // One word a line.
static COMMANDS: &[(&str, &str)] = &[
    ("compile", "build"),
    ("convert", "build"),
    ("infer", "run"),
    ("perf", "bench"),
    ("benchmark", "bench"),
    ("time", "bench"),
    ("compare", "verify"),
    ("info", "inspect"),
    ("show", "inspect"),
    ("dump", "inspect"),
    ("lint", "check"),
    ("operators", "ops"),
    ("devices", "targets"),
];

/// Replaces foreign words; the second value says what was understood.
pub fn rewrite(arguments: Vec<OsString>) -> (Vec<OsString>, Vec<String>) {
    let mut out: Vec<OsString> = Vec::new();
    let mut hints = Vec::new();
    let mut all = arguments.into_iter();
    out.extend(all.next());
    let mut is_first_word = true;
    while let Some(argument) = all.next() {
        let Some(text) = argument.to_str().map(str::to_string) else {
            out.push(argument);
            continue;
        };
        if text == "--" {
            out.push(argument);
            out.extend(all.by_ref());
            break;
        }
        if !text.starts_with('-') {
            match COMMANDS.iter().find(|(word, _)| is_first_word && *word == text) {
                Some((_, known)) => {
                    hints.push(format!("`{text}` is called `{known}` here"));
                    out.push((*known).into());
                }
                None => out.push(argument),
            }
            is_first_word = false;
            continue;
        }
        let (name, value) = match text.split_once('=') {
            Some((name, value)) => (name, Some(value.to_string())),
            None => (text.as_str(), None),
        };
        let Some((_, means)) = OPTIONS.iter().find(|(foreign, _)| *foreign == name) else {
            out.push(argument);
            continue;
        };
        let mut value = || value.clone().map(OsString::from).or_else(|| all.next());
        match means {
            Means::Model => {
                hints.push(format!("`{name}` is not needed: the model is an argument by itself"));
                out.extend(value());
            }
            Means::Option(known) => {
                hints.push(format!("`{name}` is called `{known}` here"));
                out.push((*known).into());
                out.extend(value());
            }
            Means::Lower(known) => {
                hints.push(format!("`{name}` is called `{known}` here"));
                out.push((*known).into());
                out.extend(value().map(|v| OsString::from(v.to_string_lossy().to_lowercase())));
            }
            Means::Nothing(why) => hints.push(format!("`{name}` {why}")),
        }
    }
    (out, hints)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rewritten(line: &str) -> (String, usize) {
        let (words, hints) = rewrite(line.split(' ').map(OsString::from).collect());
        let words: Vec<&str> = words.iter().filter_map(|w| w.to_str()).collect();
        (words.join(" "), hints.len())
    }

    #[test]
    fn foreign_words_are_understood_and_taught() {
        assert_eq!(
            rewritten("oaaxc compile --onnx=m.onnx --saveEngine=m.oaax --fp16 -d CPU"),
            ("oaaxc build m.onnx --output m.oaax --target cpu".into(), 5)
        );
        assert_eq!(rewritten("oaaxc build m.onnx -o x"), ("oaaxc build m.onnx -o x".into(), 0));
    }

    #[test]
    fn a_file_may_be_called_like_a_foreign_command() {
        assert_eq!(rewritten("oaaxc build compile"), ("oaaxc build compile".into(), 0));
        assert_eq!(rewritten("oaaxc build -- --onnx"), ("oaaxc build -- --onnx".into(), 0));
    }
}
