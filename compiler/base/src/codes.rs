//! The one table of diagnostic codes: behind `oaaxc explain`, the JSON log, the OAAX log,
//! the exit code and the docs.
//!
//! Codes are stable: a code is never reused for another meaning.

use std::fmt;

/// A stable diagnostic code, printed as `E0304`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Code(pub u16);

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "E{:04}", self.0)
    }
}

/// What a code means.
pub struct CodeInfo {
    /// The code.
    pub code: Code,
    /// One line.
    pub title: &'static str,
    /// What it means, why, and the way out; the text of `oaaxc explain`.
    pub explanation: &'static str,
    /// The exit code of a run that fails with it (see `docs/cli.md`).
    pub exit: u8,
}

macro_rules! codes {
    ($($(#[doc = $doc:literal])* $name:ident = $number:literal, exit $exit:literal, $title:literal;)*) => {
        impl Code {
            $($(#[doc = $doc])* pub const $name: Code = Code($number);)*
        }
        /// Every code, in order of its number.
        pub static CODES: &[CodeInfo] = &[
            $(CodeInfo { code: Code($number), title: $title, explanation: concat!($($doc, "\n",)*), exit: $exit },)*
        ];
    };
}

codes! {
    /// The file cannot be read or written: the message holds the system's own words and the path.
    IO = 1, exit 1, "a file cannot be read or written";
    /// The command line names something that does not exist. Run `oaaxc help`.
    USAGE = 2, exit 2, "the command line is wrong";
    /// Something that the compiler promised to itself does not hold. This is a bug of oaaxc, not of your model; please report it with the model, or with `--emit graph`'s text.
    INTERNAL = 70, exit 70, "an invariant of the compiler does not hold";
    /// The bytes are not an ONNX model: the protobuf wire format is broken, truncated or deeper than allowed.
    NOT_ONNX = 101, exit 1, "not an ONNX model";
    /// The file names more of something (nodes, bytes, depth, names) than the limits of oaaxc allow. The limits protect against hostile files; see docs/limits.md.
    LIMIT = 102, exit 5, "a limit is exceeded";
    /// External tensor data must lie inside the model's folder, in a regular file, within its size.
    EXTERNAL_DATA = 103, exit 1, "external data is refused";
    /// The model asks for an operator set or IR version that this version of oaaxc does not know.
    OPSET = 104, exit 3, "an operator set or IR version is not known";
    /// The graph's structure is wrong: a name is defined twice, used before its definition, or missing.
    STRUCTURE = 105, exit 1, "the graph's structure is wrong";
    /// A tensor in the file disagrees with itself: its data is shorter or longer than its shape and type say.
    TENSOR = 106, exit 1, "a tensor is malformed";
    /// The archive given to the OAAX entry point is refused: it is damaged, holds no model or several, or a member that would lie outside it, a link, or far more bytes than it has itself.
    ARCHIVE = 107, exit 1, "an input archive is refused";
    /// config.json in the archive given to the OAAX entry point is no JSON object, or a key has a value that it cannot have. docs/oaax.md lists the keys.
    CONFIG = 108, exit 1, "config.json is wrong";
    /// No operator with this name exists in this domain at this opset version.
    UNKNOWN_OPERATOR = 201, exit 3, "the operator is not known";
    /// The operator is known, but not in this form (version, attribute, type or rank). The message names what is supported.
    UNSUPPORTED = 202, exit 3, "this form of the operator is not supported";
    /// An attribute is missing, of the wrong type, or outside its range.
    ATTRIBUTE = 301, exit 1, "an attribute is wrong";
    /// An operand is missing, or there are too many.
    OPERAND = 302, exit 1, "an operand is missing or superfluous";
    /// The element type of an operand is not allowed here.
    TYPE = 303, exit 1, "an element type is wrong";
    /// The shapes of a node's operands do not fit together.
    SHAPE = 304, exit 1, "shapes do not fit";
    /// A value that must be known or valid at build time is not.
    VALUE = 305, exit 1, "a value is invalid";
    /// A shape depends on data in a way that has no bound, or the rank of a tensor is not known.
    RANK = 306, exit 3, "a rank is not known";
    /// The target's code generator refused a kernel. The kernel's text is in the message or behind `--emit kernel`.
    CODEGEN = 401, exit 3, "code generation failed";
    /// The name is not the name of a target. Run `oaaxc targets`.
    UNKNOWN_TARGET = 402, exit 2, "the target is not known";
    /// The device or its software was not found on this machine.
    DEVICE = 403, exit 6, "the device is missing";
    /// A part of the model would run on the host although another target was asked for, since the device cannot run it. The notes name the nodes and the reasons. Build with `--fallback warn` or `--fallback allow` to accept it: the host's share then comes along in the artefact, compiled for x86-64-v2 and aarch64, and tensors are copied where the spaces meet (`oaaxc inspect` shows what runs where). An artefact keeps the choice, and the runtime enforces it.
    FALLBACK = 404, exit 3, "a node would run on the host";
    /// The artefact is not one, is damaged, or was written by a newer oaaxc.
    ARTEFACT = 501, exit 7, "the artefact cannot be loaded";
    /// A request does not fit the model: name, type, rank or size of a tensor.
    REQUEST = 502, exit 1, "a request does not fit the model";
    /// Running the model failed: the message names the node.
    RUN = 503, exit 1, "the run failed";
    /// The numbers differ from the reference by more than the tolerance.
    NUMERICS = 601, exit 4, "the numbers differ from the reference";
}

/// The entry of a code, where it exists.
pub fn info(code: Code) -> Option<&'static CodeInfo> {
    CODES.iter().find(|info| info.code == code)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_is_explained_and_the_numbers_rise() {
        for info in CODES {
            assert!(info.explanation.len() > 40, "{} is not explained", info.code);
        }
        assert!(CODES.windows(2).all(|w| w[0].code < w[1].code));
    }
}
