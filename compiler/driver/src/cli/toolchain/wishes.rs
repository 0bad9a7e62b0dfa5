//! `config.json` of an archive: what the caller wishes beyond the model.
//!
//! Keys: `target` (a name or a list; the image's own where absent), `dims` (`{"batch": 4}` or
//! `{"batch": "1..32"}`), `model_file` (must name the one model), `precision` (`fp32`). A key that is not
//! known is a warning in the log: other vendors' archives are taken. Never: does less than a known key asks for.

use std::path::Path;

use oaaxc_base::Code;
use oaaxc_onnx::ImportOptions;
use serde_json::Value;

use super::{Failure, INVALID};
use crate::cli::arguments::ModelArguments;

/// What to build.
#[derive(Debug)]
pub struct Wishes {
    /// For these.
    pub targets: Vec<String>,
    /// Read so.
    pub import: ImportOptions,
    /// What was not understood.
    pub warnings: Vec<String>,
}

fn wrong(message: impl Into<String>) -> Failure {
    Failure::new(INVALID, Code::CONFIG, format!("config.json: {}", message.into()))
}

impl Wishes {
    /// What the file says, or what the image says where there is none.
    pub fn read(config: Option<&Path>, model: &Path) -> Result<Wishes, Failure> {
        let ours = std::env::var("OAAXC_OAAX_TARGET").ok().filter(|target| !target.is_empty());
        let targets = vec![ours.unwrap_or_else(|| "cpu".to_owned())];
        let mut wishes = Wishes { targets, import: ImportOptions::default(), warnings: Vec::new() };
        let Some(config) = config else { return Ok(wishes) };
        let text = std::fs::read(config).map_err(|error| wrong(error.to_string()))?;
        let value: Value = serde_json::from_slice(&text).map_err(|error| wrong(format!("is no JSON: {error}")))?;
        let Value::Object(entries) = value else { return Err(wrong("is no JSON object")) };
        for (key, value) in &entries {
            wishes.take(key, value, model)?;
        }
        Ok(wishes)
    }

    fn take(&mut self, key: &str, value: &Value, model: &Path) -> Result<(), Failure> {
        match key {
            "target" => {
                let names: Vec<&Value> = value.as_array().map_or_else(|| vec![value], |list| list.iter().collect());
                let names: Option<Vec<String>> = names.into_iter().map(|name| Some(name.as_str()?.to_owned())).collect();
                self.targets =
                    names.filter(|names| !names.is_empty()).ok_or_else(|| wrong("target is no name and no list of names"))?;
            }
            "dims" => {
                let entries = value.as_object().ok_or_else(|| wrong("dims is no object"))?;
                let text = |value: &Value| value.as_str().map(str::to_owned).or_else(|| Some(value.as_u64()?.to_string()));
                let dim = |(name, value): (&String, &Value)| {
                    let size = text(value).ok_or_else(|| wrong(format!("dims: {name} is neither a size nor \"MIN..MAX\"")))?;
                    Ok(format!("{name}={size}"))
                };
                let dims: Result<Vec<String>, Failure> = entries.iter().map(dim).collect();
                let reading = ModelArguments { dims: dims?, ..ModelArguments::default() };
                self.import = reading.options().map_err(|_| wrong("dims holds sizes that are none"))?;
            }
            "model_file" => {
                let name = value.as_str().ok_or_else(|| wrong("model_file is no name"))?;
                if Path::new(name).file_name() != model.file_name() {
                    return Err(wrong(format!("model_file names {name}, and the archive holds another model")));
                }
            }
            "precision" => match value.as_str() {
                Some("fp32" | "FP32") => {}
                _ => {
                    return Err(Failure::new(
                        super::FAILED,
                        Code::UNSUPPORTED,
                        format!("config.json: precision {value} is not supported here, fp32 is"),
                    ));
                }
            },
            _ => self.warnings.push(format!("config.json: the key {key:?} is not known and has no effect")),
        }
        Ok(())
    }
}
