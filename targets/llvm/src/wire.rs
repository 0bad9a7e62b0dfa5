//! Messages between a build and its workers: length-prefixed lists of byte fields over pipes.
//!
//! Both ends are the same program, so there is no version beyond the greeting; garbage is refused, never
//! trusted to be sized rightly.

use std::io::{self, Read, Write};

use crate::{
    compile::Form,
    error::{BackendError, Stage},
    level::Level,
};

/// What a worker says first.
pub(crate) const GREETING: &[u8] = b"oaaxc-llvm worker 1\n";

/// Longest message, against garbage lengths.
const LONGEST: u64 = 1 << 32;

/// Work for a worker.
#[derive(Debug, PartialEq)]
pub(crate) enum Request {
    Compile { mlir: String, level: Level, form: Form },
    Link { objects: Vec<Vec<u8>>, level: Level },
}

pub(crate) type Answer = Result<Vec<u8>, BackendError>;

const FORMS: [(Form, &str); 4] =
    [(Form::Code, "code"), (Form::LoweredMlir, "mlir"), (Form::LlvmIr, "llvm"), (Form::Assembly, "asm")];

/// The name of a form, on the wire and in cache keys.
pub(crate) fn form_name(form: Form) -> &'static str {
    let known = FORMS.iter().find(|(f, _)| *f == form);
    known.expect("every form has a name").1
}

impl Request {
    pub fn encode(&self) -> Vec<u8> {
        let (kind, level) = match self {
            Request::Compile { level, .. } => ("compile", level),
            Request::Link { level, .. } => ("link", level),
        };
        let level = level.fields();
        let mut fields: Vec<&[u8]> = vec![kind.as_bytes()];
        fields.extend(level.iter().map(|f| f.as_bytes()));
        match self {
            Request::Compile { mlir, form, .. } => {
                fields.extend([form_name(*form).as_bytes(), mlir.as_bytes()]);
            }
            Request::Link { objects, .. } => fields.extend(objects.iter().map(|o| o.as_slice())),
        }
        pack(&fields)
    }

    pub fn decode(message: &[u8]) -> Option<Request> {
        let fields = unpack(message)?;
        let (kind, rest) = fields.split_first()?;
        let (level, rest) = rest.split_at_checked(Level::FIELDS)?;
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).ok();
        let level: Option<Vec<String>> = level.iter().map(|f| text(f)).collect();
        let level = Level::from_fields(&level?)?;
        match (*kind, rest) {
            (b"compile", [form, mlir]) => {
                let form = FORMS.iter().find(|(_, name)| name.as_bytes() == *form)?.0;
                Some(Request::Compile { mlir: text(mlir)?, level, form })
            }
            (b"link", objects) => Some(Request::Link { objects: objects.iter().map(|o| o.to_vec()).collect(), level }),
            _ => None,
        }
    }
}

pub(crate) fn encode_answer(answer: &Answer) -> Vec<u8> {
    match answer {
        Ok(bytes) => pack(&[b"ok", bytes]),
        Err(e) => pack(&[e.stage.name().as_bytes(), e.message.as_bytes()]),
    }
}

pub(crate) fn decode_answer(message: &[u8]) -> Option<Answer> {
    let fields = unpack(message)?;
    let [status, body] = fields.as_slice() else { return None };
    if *status == b"ok" {
        return Some(Ok(body.to_vec()));
    }
    let stage = Stage::ALL.into_iter().find(|s| s.name().as_bytes() == *status)?;
    Some(Err(BackendError::new(stage, String::from_utf8_lossy(body))))
}

fn pack(fields: &[&[u8]]) -> Vec<u8> {
    let mut message = Vec::with_capacity(fields.iter().map(|f| f.len() + 8).sum());
    for field in fields {
        message.extend((field.len() as u64).to_le_bytes());
        message.extend(*field);
    }
    message
}

fn unpack(mut message: &[u8]) -> Option<Vec<&[u8]>> {
    let mut fields = Vec::new();
    while !message.is_empty() {
        let (length, rest) = message.split_first_chunk::<8>()?;
        let length = usize::try_from(u64::from_le_bytes(*length)).ok()?;
        let (field, rest) = rest.split_at_checked(length)?;
        fields.push(field);
        message = rest;
    }
    Some(fields)
}

/// Writes one message behind its length.
pub(crate) fn send(to: &mut impl Write, message: &[u8]) -> io::Result<()> {
    to.write_all(&(message.len() as u64).to_le_bytes())?;
    to.write_all(message)?;
    to.flush()
}

/// Reads one message; `None` where the stream ends before its first byte.
pub(crate) fn receive(from: &mut impl Read) -> io::Result<Option<Vec<u8>>> {
    let mut length = [0; 8];
    let mut have = 0;
    while have < 8 {
        match from.read(&mut length[have..])? {
            0 if have == 0 => return Ok(None),
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            n => have += n,
        }
    }
    let length = u64::from_le_bytes(length);
    if length > LONGEST {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "message of absurd length"));
    }
    let mut message = Vec::new();
    from.take(length).read_to_end(&mut message)?;
    match message.len() as u64 == length {
        true => Ok(Some(message)),
        false => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_survive_the_wire() {
        let level = Level::riscv64("+v");
        let request = Request::Compile { mlir: "func".into(), level: level.clone(), form: Form::LlvmIr };
        assert_eq!(Request::decode(&request.encode()), Some(request));
        let request = Request::Link { objects: vec![vec![1, 2], vec![]], level };
        assert_eq!(Request::decode(&request.encode()), Some(request));
        for answer in [Ok(vec![7; 3]), Err(BackendError::new(Stage::Link, "no"))] {
            assert_eq!(decode_answer(&encode_answer(&answer)), Some(answer));
        }
    }

    #[test]
    fn garbage_is_refused() {
        assert_eq!(Request::decode(b"hello"), None);
        assert_eq!(Request::decode(&pack(&[b"compile", b"x"])), None);
        assert!(receive(&mut &[0xff_u8; 20][..]).is_err());
        assert!(receive(&mut &[9_u8, 0, 0, 0, 0, 0, 0, 0, 1][..]).is_err());
        assert!(receive(&mut &[][..]).unwrap().is_none());
    }
}
