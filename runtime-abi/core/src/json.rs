//! A small strict JSON reader (RFC 8259) for the few documents that the runtime reads, and the one
//! string escape that it writes. Bounded depth; duplicate keys keep the first; no panic on any bytes.

/// A JSON value. Numbers keep their text: sizes must not pass through a float.
#[derive(Clone, Debug, PartialEq)]
pub enum Json {
    /// null
    Null,
    /// true or false
    Bool(bool),
    /// A number as written.
    Number(String),
    /// A string.
    Text(String),
    /// An array.
    List(Vec<Json>),
    /// An object in its order.
    Object(Vec<(String, Json)>),
}

/// Deepest nesting.
const MAX_DEPTH: u32 = 64;

impl Json {
    /// Reads one document.
    pub fn parse(text: &[u8]) -> Result<Json, String> {
        let text = std::str::from_utf8(text).map_err(|_| "is not UTF-8".to_owned())?;
        let mut reader = Reader { bytes: text.as_bytes(), at: 0 };
        let value = reader.value(0)?;
        reader.space();
        match reader.at == reader.bytes.len() {
            true => Ok(value),
            false => Err(format!("goes on after its end at byte {}", reader.at)),
        }
    }

    /// Member of an object.
    pub fn get(&self, key: &str) -> Option<&Json> {
        match self {
            Json::Object(members) => members.iter().find(|member| member.0 == key).map(|member| &member.1),
            _ => None,
        }
    }

    /// A string.
    pub fn text(&self) -> Option<&str> {
        match self {
            Json::Text(text) => Some(text),
            _ => None,
        }
    }

    /// A number that is a whole one of 64 bits.
    pub fn u64(&self) -> Option<u64> {
        match self {
            Json::Number(text) => text.parse().ok(),
            _ => None,
        }
    }

    /// Elements of an array; none of anything else.
    pub fn list(&self) -> &[Json] {
        match self {
            Json::List(items) => items,
            _ => &[],
        }
    }
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Reader<'_> {
    fn space(&mut self) {
        while matches!(self.bytes.get(self.at), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    fn wrong<T>(&self, what: &str) -> Result<T, String> {
        Err(format!("{what} at byte {}", self.at))
    }

    fn take(&mut self, word: &str) -> bool {
        let found = self.bytes[self.at..].starts_with(word.as_bytes());
        self.at += if found { word.len() } else { 0 };
        found
    }

    fn value(&mut self, depth: u32) -> Result<Json, String> {
        if depth > MAX_DEPTH {
            return self.wrong("nests too deep");
        }
        self.space();
        match self.bytes.get(self.at) {
            Some(b'{') => self.object(depth),
            Some(b'[') => self.array(depth),
            Some(b'"') => self.string().map(Json::Text),
            Some(b'-' | b'0'..=b'9') => self.number(),
            _ if self.take("null") => Ok(Json::Null),
            _ if self.take("true") => Ok(Json::Bool(true)),
            _ if self.take("false") => Ok(Json::Bool(false)),
            _ => self.wrong("a value is missing"),
        }
    }

    fn object(&mut self, depth: u32) -> Result<Json, String> {
        self.at += 1;
        let mut members = Vec::new();
        self.space();
        if self.take("}") {
            return Ok(Json::Object(members));
        }
        loop {
            self.space();
            if self.bytes.get(self.at) != Some(&b'"') {
                return self.wrong("a key is missing");
            }
            let key = self.string()?;
            self.space();
            if !self.take(":") {
                return self.wrong("a colon is missing");
            }
            members.push((key, self.value(depth + 1)?));
            self.space();
            match () {
                () if self.take(",") => {}
                () if self.take("}") => return Ok(Json::Object(members)),
                () => return self.wrong("an object does not end"),
            }
        }
    }

    fn array(&mut self, depth: u32) -> Result<Json, String> {
        self.at += 1;
        let mut items = Vec::new();
        self.space();
        if self.take("]") {
            return Ok(Json::List(items));
        }
        loop {
            items.push(self.value(depth + 1)?);
            self.space();
            match () {
                () if self.take(",") => {}
                () if self.take("]") => return Ok(Json::List(items)),
                () => return self.wrong("an array does not end"),
            }
        }
    }

    fn digits(&mut self) -> usize {
        let start = self.at;
        while self.bytes.get(self.at).is_some_and(u8::is_ascii_digit) {
            self.at += 1;
        }
        self.at - start
    }

    fn number(&mut self) -> Result<Json, String> {
        let start = self.at;
        self.take("-");
        let zero = self.bytes.get(self.at) == Some(&b'0');
        let whole = self.digits();
        if whole == 0 || (zero && whole > 1) {
            return self.wrong("a number is malformed");
        }
        if self.take(".") && self.digits() == 0 {
            return self.wrong("a fraction is missing");
        }
        if self.take("e") || self.take("E") {
            let _ = self.take("+") || self.take("-");
            if self.digits() == 0 {
                return self.wrong("an exponent is missing");
            }
        }
        let text = std::str::from_utf8(&self.bytes[start..self.at]).expect("digits and signs are ASCII");
        Ok(Json::Number(text.to_owned()))
    }

    fn string(&mut self) -> Result<String, String> {
        self.at += 1;
        let mut text = Vec::new();
        loop {
            match self.bytes.get(self.at).copied() {
                None | Some(0..=0x1f) => return self.wrong("a string does not end"),
                Some(b'"') => break,
                Some(b'\\') => {
                    self.at += 1;
                    let mut buffer = [0; 4];
                    text.extend_from_slice(self.escape()?.encode_utf8(&mut buffer).as_bytes());
                }
                Some(byte) => {
                    text.push(byte);
                    self.at += 1;
                }
            }
        }
        self.at += 1;
        String::from_utf8(text).or_else(|_| self.wrong("a string is not UTF-8"))
    }

    fn escape(&mut self) -> Result<char, String> {
        let byte = self.bytes.get(self.at).copied();
        self.at += 1;
        Ok(match byte {
            Some(b @ (b'"' | b'\\' | b'/')) => char::from(b),
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            Some(b'n') => '\n',
            Some(b'r') => '\r',
            Some(b't') => '\t',
            Some(b'u') => {
                let high = self.hex()?;
                let code = match high {
                    0xd800..0xdc00 if self.take("\\u") => {
                        let low = self.hex()?;
                        if !(0xdc00..0xe000).contains(&low) {
                            return self.wrong("a surrogate is alone");
                        }
                        0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00)
                    }
                    code => code,
                };
                match char::from_u32(code) {
                    Some(found) => found,
                    None => return self.wrong("a surrogate is alone"),
                }
            }
            _ => return self.wrong("an escape is unknown"),
        })
    }

    fn hex(&mut self) -> Result<u32, String> {
        let digits = self.bytes.get(self.at..self.at + 4).filter(|four| four.iter().all(u8::is_ascii_hexdigit));
        let Some(digits) = digits else { return self.wrong("four hexadecimal digits are missing") };
        let text = std::str::from_utf8(digits).expect("hexadecimal digits are ASCII");
        self.at += 4;
        Ok(u32::from_str_radix(text, 16).expect("checked above"))
    }
}

/// A string as a JSON string.
pub fn quote(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            c if c < ' ' => out.push_str(&format!("\\u{:04x}", c as u32)),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use super::{Json, quote};

    #[test]
    fn documents_are_read_exactly() {
        let json = Json::parse(br#" {"a":[1,-2.5e3,true,null,"x\n\u00e9\ud83d\ude00"],"n":18446744073709551615} "#);
        let json = json.expect("valid");
        assert_eq!(json.get("n").and_then(Json::u64), Some(u64::MAX));
        assert_eq!(json.get("a").expect("there").list()[4].text(), Some("x\né😀"));
    }

    #[test]
    fn what_is_not_json_is_refused() {
        let bad = ["", "{", "[1,]", "{\"a\"}", "01", "1.", "\"\\x\"", "\"\\ud800\"", "\"a", "nul", "1 2", "\"\n\"", "+1"];
        for text in bad {
            assert!(Json::parse(text.as_bytes()).is_err(), "{text}");
        }
        assert!(Json::parse("[".repeat(10_000).as_bytes()).is_err());
    }

    #[test]
    fn quoting_round_trips() {
        let text = "a\"b\\c\n\u{1}é";
        assert_eq!(Json::parse(quote(text).as_bytes()).expect("valid").text(), Some(text));
    }
}
