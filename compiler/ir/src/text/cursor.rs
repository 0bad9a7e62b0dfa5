//! The cursor over ONNX text: blanks and `#` comments are skipped, errors name line and column.

use bytes::Bytes;
use oaaxc_base::{Code, Diagnostic};

/// An error says where the text is wrong.
pub type Result<T> = std::result::Result<T, Diagnostic>;

/// A number in text.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Number {
    /// Without a point or an exponent.
    Int(i64),
    /// Any other.
    Float(f64),
}

/// A position in a text.
pub struct Cursor<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Cursor<'a> {
    /// At the start of a text.
    pub fn new(text: &'a str) -> Cursor<'a> {
        Cursor { text, at: 0 }
    }
    /// Where the cursor stands, to come back to.
    pub fn position(&self) -> usize {
        self.at
    }
    /// Goes back to a position.
    pub fn back_to(&mut self, position: usize) {
        self.at = position;
    }
    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }
    fn blanks(&mut self) {
        loop {
            let trimmed = self.rest().trim_start();
            self.at = self.text.len() - trimmed.len();
            if !trimmed.starts_with('#') {
                return;
            }
            self.at += trimmed.find('\n').unwrap_or(trimmed.len());
        }
    }
    /// The next character that is not blank.
    pub fn peek(&mut self) -> Option<char> {
        self.blanks();
        self.rest().chars().next()
    }
    /// Whether the text is over.
    pub fn is_done(&mut self) -> bool {
        self.peek().is_none()
    }
    /// Takes these characters if they come next.
    pub fn take(&mut self, wanted: &str) -> bool {
        self.blanks();
        let found = self.rest().starts_with(wanted);
        if found {
            self.at += wanted.len();
        }
        found
    }
    /// Takes these characters, or says what stands there.
    pub fn expect(&mut self, wanted: &str) -> Result<()> {
        if self.take(wanted) { Ok(()) } else { Err(self.error(format!("`{wanted}` is expected"))) }
    }
    /// An error at this place.
    pub fn error(&mut self, message: impl std::fmt::Display) -> Diagnostic {
        self.blanks();
        let before = &self.text[..self.at];
        let (line, column) = (before.matches('\n').count() + 1, before.rsplit('\n').next().unwrap_or("").chars().count() + 1);
        let found: String = self.rest().chars().take_while(|c| *c != '\n').take(40).collect();
        let found = if found.is_empty() { "the end".to_string() } else { format!("`{found}`") };
        Diagnostic::error(Code::NOT_ONNX, format!("ONNX text, line {line}, column {column}: {message}, {found} stands there"))
    }
    /// An identifier or a quoted name, if one comes next.
    pub fn name_if_any(&mut self) -> Result<Option<Bytes>> {
        match self.peek() {
            Some('"') => self.string().map(Some),
            Some(c) if c.is_ascii_alphabetic() || c == '_' => {
                let rest = self.rest();
                let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len());
                self.at += end;
                Ok(Some(Bytes::copy_from_slice(&rest.as_bytes()[..end])))
            }
            _ => Ok(None),
        }
    }
    /// An identifier or a quoted name.
    pub fn name(&mut self) -> Result<Bytes> {
        match self.name_if_any()? {
            Some(name) => Ok(name),
            None => Err(self.error("a name is expected")),
        }
    }
    /// A quoted string with `\"`, `\\`, `\n`, `\t`, `\r` and `\xHH`.
    pub fn string(&mut self) -> Result<Bytes> {
        self.expect("\"")?;
        let bytes = self.rest().as_bytes();
        let (mut out, mut i) = (Vec::new(), 0);
        loop {
            match bytes.get(i) {
                None => return Err(self.error("a string does not end")),
                Some(b'"') => break,
                Some(b'\\') => {
                    i += 1;
                    out.push(match bytes.get(i) {
                        Some(b'n') => b'\n',
                        Some(b't') => b'\t',
                        Some(b'r') => b'\r',
                        Some(b'x') => {
                            let hex = self.rest().get(i + 1..i + 3).and_then(|h| u8::from_str_radix(h, 16).ok());
                            let byte = hex.ok_or_else(|| self.error("`\\x` wants two hexadecimal digits"))?;
                            i += 2;
                            byte
                        }
                        Some(other) => *other,
                        None => return Err(self.error("a string does not end")),
                    });
                }
                Some(byte) => out.push(*byte),
            }
            i += 1;
        }
        self.at += i + 1;
        Ok(out.into())
    }
    /// A number: an integer, or a float with a point, an exponent, `inf` or `nan`.
    pub fn number(&mut self) -> Result<Number> {
        self.blanks();
        let rest = self.rest();
        let unsigned = rest.strip_prefix(['-', '+']).unwrap_or(rest);
        for word in ["infinity", "inf", "nan"] {
            if unsigned.get(..word.len()).is_some_and(|w| w.eq_ignore_ascii_case(word)) {
                let value = if word == "nan" { f64::NAN } else { f64::INFINITY };
                self.at += rest.len() - unsigned.len() + word.len();
                return Ok(Number::Float(if rest.starts_with('-') { -value } else { value }));
            }
        }
        let mut end = rest.len() - unsigned.len();
        let bytes = rest.as_bytes();
        while let Some(byte) = bytes.get(end) {
            let sign_of_exponent = matches!(byte, b'+' | b'-') && matches!(bytes[end - 1], b'e' | b'E');
            if !byte.is_ascii_digit() && !matches!(byte, b'.' | b'e' | b'E') && !sign_of_exponent {
                break;
            }
            end += 1;
        }
        let text = &rest[..end];
        let parsed = match text.parse::<i64>() {
            Ok(value) => Some(Number::Int(value)),
            Err(_) => text.parse::<f64>().ok().map(Number::Float),
        };
        let number = parsed.ok_or_else(|| self.error("a number is expected"))?;
        self.at += end;
        Ok(number)
    }
    /// An integer.
    pub fn int(&mut self) -> Result<i64> {
        let start = self.at;
        match self.number()? {
            Number::Int(value) => Ok(value),
            Number::Float(_) => {
                self.at = start;
                Err(self.error("an integer is expected"))
            }
        }
    }
    /// `open item, item close`; `open` is taken already.
    pub fn list<T>(&mut self, close: &str, mut item: impl FnMut(&mut Self) -> Result<T>) -> Result<Vec<T>> {
        let mut out = Vec::new();
        while !self.take(close) {
            if !out.is_empty() {
                self.expect(",")?;
            }
            out.push(item(self)?);
        }
        Ok(out)
    }
}
