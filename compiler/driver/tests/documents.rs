//! Pages of docs/ that are made from tables of the program: `OAAXC_BLESS=1 cargo test` writes them anew.

use std::path::Path;

use oaaxc_base::codes::CODES;

fn errors() -> String {
    let mut page = String::from(
        "# Diagnostic codes\n\nMade from the table in `compiler/base/src/codes.rs`; `oaaxc explain CODE` prints the same.\nA code is never reused for another meaning.\n",
    );
    for info in CODES {
        let text: Vec<&str> = info.explanation.lines().map(str::trim).collect();
        page += &format!("\n## {}: {}\n\n{}\n\nExit code {}.\n", info.code, info.title, text.join("\n"), info.exit);
    }
    page
}

#[test]
fn the_page_of_diagnostic_codes_is_the_table() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/errors.md");
    if std::env::var_os("OAAXC_BLESS").is_some() {
        std::fs::write(&path, errors()).expect("docs/ is writable");
    }
    let found = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(found, errors(), "docs/errors.md is not what the table says: OAAXC_BLESS=1 cargo test writes it anew");
}
