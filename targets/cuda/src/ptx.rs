//! PTX texts of one machine joined to one: the header stands once.

/// Joins texts whose `.version`, `.target` and `.address_size` are the same; symbols must differ.
pub fn join<'a>(texts: impl Iterator<Item = &'a [u8]>) -> Result<Vec<u8>, String> {
    let mut header: Option<Vec<&str>> = None;
    let mut body = String::new();
    for text in texts {
        let text = std::str::from_utf8(text).map_err(|e| format!("PTX is not text: {e}"))?;
        let is_header = |l: &&str| [".version", ".target", ".address_size"].iter().any(|d| l.starts_with(d));
        let own: Vec<&str> = text.lines().filter(is_header).collect();
        match &header {
            Some(header) if *header != own => return Err(format!("PTX headers differ: {header:?} and {own:?}")),
            _ => header = Some(own),
        }
        for line in text.lines().filter(|l| !is_header(l) && !l.starts_with("//")) {
            body.push_str(line);
            body.push('\n');
        }
    }
    Ok((header.unwrap_or_default().join("\n") + "\n" + &body).into_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_header_stands_once_and_must_agree() {
        let text =
            |version: &str, name: &str| format!(".version {version}\n.target sm_80\n.address_size 64\n.entry {name}() {{}}\n");
        let (a, b) = (text("8.0", "a"), text("8.0", "b"));
        let joined = String::from_utf8(join([a.as_bytes(), b.as_bytes()].into_iter()).unwrap()).unwrap();
        assert_eq!(joined.matches(".version").count(), 1);
        assert!(joined.contains(".entry a") && joined.contains(".entry b"));
        assert!(join([a.as_bytes(), text("8.7", "c").as_bytes()].into_iter()).is_err());
    }
}
