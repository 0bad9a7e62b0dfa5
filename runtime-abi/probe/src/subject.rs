//! What is checked, with which models, and what comes of a check.

use oaax_core::abi::DType;
use std::{cell::RefCell, fs, io::Write, path::PathBuf};

/// The interface that a library has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Version {
    /// OAAX 1.x.
    One,
    /// OAAX 2.0.
    Two,
}

/// An input of a model, with sizes for a request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Port {
    /// Name.
    pub name: String,
    /// ONNX's number of the element type.
    pub dtype: u32,
    /// Sizes.
    pub shape: Vec<i64>,
}

impl Port {
    /// `NAME=TYPE:D0,D1` (a scalar is `NAME=TYPE:`), types by ONNX's names.
    pub fn parse(text: &str) -> Result<Port, String> {
        let wrong = || format!("{text}: this is not NAME=TYPE:SIZE,SIZE");
        let (name, rest) = text.rsplit_once('=').ok_or_else(wrong)?;
        let (dtype, sizes) = rest.split_once(':').ok_or_else(wrong)?;
        let known = (1..=26).filter_map(DType::from_onnx).find(|known| known.name() == dtype);
        let known = known.filter(|known| *known != DType::String).ok_or_else(|| format!("{text}: no type {dtype:?}"))?;
        let sizes = sizes.split(',').filter(|size| !size.is_empty());
        let shape: Result<Vec<i64>, String> =
            sizes.map(|size| size.parse().ok().filter(|size| *size > 0).ok_or_else(wrong)).collect();
        Ok(Port { name: name.to_owned(), dtype: known.onnx(), shape: shape? })
    }

    /// The form that `parse` reads.
    pub fn text(&self) -> String {
        let dtype = DType::from_onnx(self.dtype).map_or("?", DType::name);
        let sizes: Vec<String> = self.shape.iter().map(i64::to_string).collect();
        format!("{}={dtype}:{}", self.name, sizes.join(","))
    }

    /// Bytes of such a tensor.
    pub fn bytes(&self) -> usize {
        let elements = self.shape.iter().product::<i64>() as u64;
        DType::from_onnx(self.dtype).and_then(|dtype| dtype.bytes(elements)).unwrap_or(0) as usize
    }

    /// Contents of request `seed`: small numbers that differ from request to request.
    pub fn data(&self, seed: u64) -> Vec<u8> {
        let number = |index: usize| (seed % 1000) + index as u64 % 7;
        let elements = self.shape.iter().product::<i64>() as usize;
        match DType::from_onnx(self.dtype) {
            Some(DType::F32) => (0..elements).flat_map(|index| (number(index) as f32).to_le_bytes()).collect(),
            Some(DType::F64) => (0..elements).flat_map(|index| (number(index) as f64).to_le_bytes()).collect(),
            // Integers may be indices, and other floats are worth no code of their own: zeros suit all.
            _ => vec![0; self.bytes()],
        }
    }
}

/// A model that the library is to load.
#[derive(Clone, Debug)]
pub struct Use {
    /// Where it lies.
    pub path: PathBuf,
    /// What it takes.
    pub inputs: Vec<Port>,
    /// Whether its one output is its one float input, doubled.
    pub doubles: bool,
}

/// A library and what to check it with.
#[derive(Clone, Debug)]
pub struct Subject {
    /// The library.
    pub library: PathBuf,
    /// A model that it loads.
    pub model: Option<Use>,
    /// A model whose requests fail where `index` holds a number outside 0..3.
    pub failing: Option<Use>,
    /// An empty folder for this check.
    pub folder: PathBuf,
}

/// What a check finds.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// The rule holds.
    Holds,
    /// The rule is broken, and how.
    Broken(String),
    /// Nothing can be said, and why.
    Skipped(String),
}

/// How a check ends early.
pub enum Stop {
    /// The rule is broken.
    Broken(String),
    /// Nothing can be said.
    Skipped(String),
}

impl From<String> for Stop {
    fn from(how: String) -> Stop {
        Stop::Broken(how)
    }
}

/// Result of a check.
pub type Check = Result<(), Stop>;

/// A check stops here unless the condition holds.
macro_rules! ensure {
    ($condition:expr, $($part:tt)*) => {
        match $condition {
            true => {}
            false => return Err($crate::subject::Stop::Broken(format!($($part)*))),
        }
    };
}
pub(crate) use ensure;

/// The diary of a check: should the library crash or hang, the last entry says where.
pub struct Diary(RefCell<fs::File>);

/// Begins an entry of the diary.
const STEP: &str = "step ";

impl Diary {
    /// A diary in this file.
    pub fn new(file: fs::File) -> Diary {
        Diary(RefCell::new(file))
    }

    /// What is about to be done.
    pub fn step(&self, what: &str) {
        self.line(&format!("{STEP}{what}"));
    }

    /// The last entry.
    pub fn verdict(&self, verdict: &Verdict) {
        let flat = |text: &String| text.replace('\n', " ");
        self.line(&match verdict {
            Verdict::Holds => "holds".to_owned(),
            Verdict::Broken(how) => format!("broken {}", flat(how)),
            Verdict::Skipped(why) => format!("skipped {}", flat(why)),
        });
    }

    fn line(&self, text: &str) {
        // A diary that cannot be written leaves the parent without an answer, which it reports.
        let _ = writeln!(self.0.borrow_mut(), "{text}");
    }

    /// Reads a diary: the last step, and the verdict if it came to one.
    pub fn read(text: &str) -> (Option<&str>, Option<Verdict>) {
        let step = text.lines().rev().find_map(|line| line.strip_prefix(STEP));
        let verdict = text.lines().rev().find_map(|line| match line.split_once(' ').unwrap_or((line, "")) {
            ("holds", "") => Some(Verdict::Holds),
            ("broken", how) => Some(Verdict::Broken(how.to_owned())),
            ("skipped", why) => Some(Verdict::Skipped(why.to_owned())),
            _ => None,
        });
        (step, verdict)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_read_as_they_are_written() {
        let port = Port::parse("a=b=float:1,4").expect("a port");
        assert_eq!((port.name.as_str(), port.dtype, port.bytes()), ("a=b", 1, 16));
        assert_eq!(port.text(), "a=b=float:1,4");
        assert_eq!(Port::parse("s=int64:").map(|port| port.bytes()), Ok(8));
        for wrong in ["x", "x=float", "x=string:1", "x=float:0", "x=float:a"] {
            assert!(Port::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_diary_without_a_verdict_tells_the_last_step() {
        assert_eq!(Diary::read("step a\nstep b\n"), (Some("b"), None));
        assert_eq!(Diary::read("step a\nbroken it is\n").1, Some(Verdict::Broken("it is".to_owned())));
        assert_eq!(Diary::read("holds\n"), (None, Some(Verdict::Holds)));
    }
}
