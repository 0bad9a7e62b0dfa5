//! JSON as this crate writes it, and the strict reading of JSON that a stranger wrote.
//!
//! Promises: written JSON is compact with sorted keys, whatever features serde_json is built with.
//! Read JSON has a size limit, a depth limit and no key twice in an object: two readers that pick different
//! ones of two equal keys would see two different documents under one digest.

use std::fmt;

use serde::{
    Serialize,
    de::{DeserializeOwned, DeserializeSeed, Error, MapAccess, SeqAccess, Visitor},
};
use serde_json::{Map, Value};

use crate::error::{ContainerError, Result};

/// Largest OCI document (index, manifest, config); registries refuse larger manifests too.
pub(crate) const MAX_DOCUMENT: u64 = 4 << 20;
/// Largest `oaax.json`, which lists every leaf digest and the placement of every node.
pub(crate) const MAX_MANIFEST: u64 = 16 << 20;
/// Deepest nesting of arrays and objects.
const MAX_DEPTH: usize = 32;

/// Serialises with sorted keys and no white space.
pub fn canonical<T: Serialize>(value: &T) -> Vec<u8> {
    let value = serde_json::to_value(value).expect("types of this crate have string keys");
    let mut text = String::new();
    write_value(&value, &mut text);
    text.into_bytes()
}

fn write_value(value: &Value, text: &mut String) {
    match value {
        Value::Object(map) => {
            let mut keys: Vec<&String> = map.keys().collect();
            keys.sort();
            text.push('{');
            for (position, key) in keys.into_iter().enumerate() {
                if position > 0 {
                    text.push(',');
                }
                text.push_str(&Value::String(key.clone()).to_string());
                text.push(':');
                write_value(&map[key], text);
            }
            text.push('}');
        }
        Value::Array(items) => {
            text.push('[');
            for (position, item) in items.iter().enumerate() {
                if position > 0 {
                    text.push(',');
                }
                write_value(item, text);
            }
            text.push(']');
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => text.push_str(&value.to_string()),
    }
}

/// Reads `bytes`, found at `place`, into a `T`; fields that `T` does not know are ignored.
pub(crate) fn read<T: DeserializeOwned>(bytes: &[u8], limit: u64, place: &str) -> Result<T> {
    if bytes.len() as u64 > limit {
        return Err(ContainerError::invalid(place, format!("{} bytes of JSON, more than {limit}", bytes.len())));
    }
    let wrong = |error: serde_json::Error| ContainerError::invalid(place, format!("not the JSON expected here: {error}"));
    let mut deserializer = serde_json::Deserializer::from_slice(bytes);
    let value = Strict { depth: 0 }.deserialize(&mut deserializer).map_err(wrong)?;
    deserializer.end().map_err(wrong)?;
    serde_json::from_value(value).map_err(wrong)
}

/// Reads a document of at most 4 MiB strictly: no key twice, at most 32 levels.
pub fn strict<T: DeserializeOwned>(bytes: &[u8], place: &str) -> Result<T> {
    read(bytes, MAX_DOCUMENT, place)
}

/// Builds a `Value` and refuses depth and repeated keys on the way.
struct Strict {
    depth: usize,
}

impl Strict {
    fn deeper<E: Error>(&self) -> std::result::Result<Strict, E> {
        if self.depth == MAX_DEPTH {
            return Err(E::custom(format!("nested deeper than {MAX_DEPTH}")));
        }
        Ok(Strict { depth: self.depth + 1 })
    }
}

impl<'de> DeserializeSeed<'de> for Strict {
    type Value = Value;

    fn deserialize<D: serde::Deserializer<'de>>(self, deserializer: D) -> std::result::Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Strict {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_bool<E>(self, value: bool) -> std::result::Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> std::result::Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_u64<E>(self, value: u64) -> std::result::Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_f64<E>(self, value: f64) -> std::result::Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_str<E>(self, value: &str) -> std::result::Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_unit<E>(self) -> std::result::Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut sequence: A) -> std::result::Result<Value, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = sequence.next_element_seed(self.deeper()?)? {
            items.push(item);
        }
        Ok(Value::Array(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> std::result::Result<Value, A::Error> {
        let mut map = Map::new();
        while let Some(key) = entries.next_key::<String>()? {
            let value = entries.next_value_seed(self.deeper()?)?;
            if map.insert(key.clone(), value).is_some() {
                return Err(A::Error::custom(format!("the key {key:?} stands twice in one object")));
            }
        }
        Ok(Value::Object(map))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_sorted_and_text_is_compact() {
        let value: Value = serde_json::from_str(r#"{"b": [1, 2.5, null], "a": {"d": "x\n", "c": true}}"#).unwrap();
        assert_eq!(canonical(&value), br#"{"a":{"c":true,"d":"x\n"},"b":[1,2.5,null]}"#);
    }

    #[test]
    fn hostile_json_is_refused() {
        let read = |text: &str| read::<Value>(text.as_bytes(), 1000, "x").map_err(|error| error.to_string());
        assert!(read(r#"{"a":1,"a":2}"#).unwrap_err().contains("twice"));
        assert!(read(&"[".repeat(200)).unwrap_err().contains("deeper"));
        assert!(read(&format!("{}{}", "[".repeat(33), "]".repeat(33))).unwrap_err().contains("deeper"));
        assert!(read(&format!("{}{}", "[".repeat(31), "]".repeat(31))).is_ok());
        assert!(read(&"[".repeat(1001)).unwrap_err().contains("more than"));
        assert!(read("{} x").is_err());
        assert!(read("").is_err());
    }
}
