//! An `ar` archive in GNU's form: deterministic headers, long names in a table.

/// The archive of these members, in order. Names must hold neither `/` nor a line break.
pub fn archive(members: &[(String, &[u8])]) -> Vec<u8> {
    let mut table = Vec::new();
    let mut names = Vec::new();
    for (name, _) in members {
        // A short name fits its header with the slash that ends it.
        if name.len() < 16 {
            names.push(format!("{name}/"));
        } else {
            names.push(format!("/{}", table.len()));
            table.extend_from_slice(name.as_bytes());
            table.extend_from_slice(b"/\n");
        }
    }
    let mut out = b"!<arch>\n".to_vec();
    if !table.is_empty() {
        // GNU ar leaves the other fields of the table blank.
        out.extend_from_slice(format!("{:<48}{:<10}`\n", "//", table.len()).as_bytes());
        append(&mut out, &table);
    }
    for (header, (_, content)) in names.iter().zip(members) {
        out.extend_from_slice(format!("{header:<16}{:<12}{:<6}{:<6}{:<8}{:<10}`\n", 0, 0, 0, 100644, content.len()).as_bytes());
        append(&mut out, content);
    }
    out
}

/// Members start at even positions.
fn append(out: &mut Vec<u8>, content: &[u8]) {
    out.extend_from_slice(content);
    if content.len() % 2 == 1 {
        out.push(b'\n');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_sixty_bytes_and_long_names_stand_in_a_table() {
        let made = archive(&[("a.spv".into(), b"xyz"), ("kernel_of_a_long_name.spv".into(), b"12")]);
        let text = String::from_utf8(made).unwrap();
        let table = format!("{:<48}{:<10}`\nkernel_of_a_long_name.spv/\n\n", "//", 27);
        let first = format!("a.spv/          0           0     0     100644  {:<10}`\nxyz\n", 3);
        let second = format!("/0              0           0     0     100644  {:<10}`\n12", 2);
        assert_eq!(text, format!("!<arch>\n{table}{first}{second}"));
    }
}
