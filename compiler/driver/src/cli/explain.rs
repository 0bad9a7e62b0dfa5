//! `oaaxc explain E0304`: what a diagnostic code means, and the way out.

use oaaxc_base::{Code, codes};
use serde_json::json;

use super::Outcome;
use super::arguments::usage;
use super::console::Console;
use super::table::Table;

#[derive(clap::Args, Debug)]
pub struct Arguments {
    /// The code, with or without its E and zeros; without one, all codes are listed
    code: Option<String>,
}

/// Explains one code, or lists all.
pub fn main(arguments: &Arguments, console: &Console) -> Outcome {
    let Some(text) = &arguments.code else {
        list(console);
        return Ok(0);
    };
    let digits = text.trim_start_matches(['E', 'e']);
    let number = digits.parse().map_err(|_| usage(format!("\"{text}\" is not a code like E0304")))?;
    let Some(info) = codes::info(Code(number)) else {
        let mut error = usage(format!("there is no code {}", Code(number)));
        error.items[0].help.push("`oaaxc explain` lists all".into());
        return Err(error);
    };
    let explanation: Vec<&str> = info.explanation.lines().map(str::trim).collect();
    if console.json {
        console.object(&json!({
            "code": info.code.to_string(), "title": info.title, "explanation": explanation.join("\n"), "exit": info.exit,
        }));
        return Ok(0);
    }
    console.line(&format!("{}: {}", info.code, info.title));
    console.line("");
    explanation.iter().for_each(|line| console.line(line));
    console.line("");
    console.line(&format!("A run that fails with it ends with exit code {}.", info.exit));
    Ok(0)
}

fn list(console: &Console) {
    let mut table = Table::new(&["code", "exit", "title"]);
    for info in codes::CODES {
        if console.json {
            console.object(&json!({ "code": info.code.to_string(), "title": info.title, "exit": info.exit }));
        }
        table.row(vec![info.code.to_string(), info.exit.to_string(), info.title.to_string()]);
    }
    if !console.json {
        table.lines().iter().for_each(|line| console.line(line));
    }
}
