//! Which paths a package may hold.
//!
//! Promises: an accepted path has only components of `[A-Za-z0-9._+-]`, none of which climbs, hides another
//! layer's file (`.wh.`) or is empty, and fits the one name field of a tar header, so no reader needs
//! long names.

/// A tar header's name field.
pub(crate) const MAX_PATH: usize = 100;
const MAX_COMPONENTS: usize = 16;

/// Whether `path` is acceptable; otherwise why not, as the end of the sentence "the path …".
pub(crate) fn check(path: &str) -> Result<(), &'static str> {
    if path.is_empty() {
        return Err("is empty");
    }
    if path.len() > MAX_PATH {
        return Err("is longer than 100 bytes");
    }
    if path.split('/').count() > MAX_COMPONENTS {
        return Err("has more than 16 components");
    }
    path.split('/').try_for_each(check_component)
}

fn check_component(component: &str) -> Result<(), &'static str> {
    match component {
        "" => Err("is absolute or has an empty component"),
        "." | ".." => Err("has a component . or .."),
        _ if component.starts_with(".wh.") => Err("has a whiteout component, which would delete files"),
        _ if component.bytes().all(allowed) => Ok(()),
        _ => Err("has a character outside A-Z a-z 0-9 . _ + -"),
    }
}

fn allowed(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'+' | b'-')
}

/// Every folder above `path`, outermost first: `a/b/c` gives `a`, `a/b`.
pub(crate) fn folders_above(path: &str) -> impl Iterator<Item = &str> {
    path.match_indices('/').map(|(position, _)| &path[..position])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn climbing_absolute_and_odd_paths_are_refused() {
        for good in ["oaax.json", "weights/0.bin", "targets/cpu-x86-64-v3/kernels.so", "usr/lib/libstdc++.so.6", "..a", "a.."] {
            assert_eq!(check(good), Ok(()), "{good}");
        }
        let long = "a".repeat(101);
        let deep = "a/".repeat(20) + "a";
        for bad in [
            "",
            "/",
            "/etc/passwd",
            "..",
            "../a",
            "a/../b",
            "a/..",
            ".",
            "./a",
            "a//b",
            "a/",
            "a\\b",
            "a b",
            "a\0b",
            "a\nb",
            "a:b",
            "ä",
            "a/.wh.b",
            ".wh..wh..opq",
            "~",
            "a*",
            long.as_str(),
            deep.as_str(),
            "C:/x",
            "\u{202e}a",
        ] {
            assert!(check(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn folders_come_outermost_first() {
        assert_eq!(folders_above("a/b/c").collect::<Vec<_>>(), ["a", "a/b"]);
        assert_eq!(folders_above("a").count(), 0);
    }
}
