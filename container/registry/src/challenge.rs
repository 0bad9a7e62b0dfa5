//! `WWW-Authenticate`: how a registry asks for credentials.
//!
//! Promises: only the two schemes of registries are known; parameters are taken once each.

use std::collections::BTreeMap;

/// What a registry asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Challenge {
    /// Name and password with each request.
    Basic,
    /// A token from `realm`.
    Bearer {
        /// The token server's address.
        realm: String,
        /// The registry's name at the token server.
        service: Option<String>,
        /// What the token shall allow.
        scope: Option<String>,
    },
}

/// Reads the header; the first challenge that is known.
pub(crate) fn parse(header: &str) -> Option<Challenge> {
    let (scheme, rest) = header.trim().split_once(' ').unwrap_or((header.trim(), ""));
    if scheme.eq_ignore_ascii_case("basic") {
        return Some(Challenge::Basic);
    }
    if !scheme.eq_ignore_ascii_case("bearer") {
        return None;
    }
    let mut parameters = parameters(rest)?;
    Some(Challenge::Bearer {
        realm: parameters.remove("realm")?,
        service: parameters.remove("service"),
        scope: parameters.remove("scope"),
    })
}

/// `name="quoted, with commas",other=token`
fn parameters(mut text: &str) -> Option<BTreeMap<String, String>> {
    let mut found = BTreeMap::new();
    loop {
        text = text.trim_start_matches([' ', ',']);
        if text.is_empty() {
            return Some(found);
        }
        let (name, rest) = text.split_once('=')?;
        let (value, rest) = match rest.strip_prefix('"') {
            Some(quoted) => quoted.split_once('"')?,
            None => rest.split_at(rest.find(',').unwrap_or(rest.len())),
        };
        if found.insert(name.trim().to_ascii_lowercase(), value.to_owned()).is_some() {
            return None;
        }
        text = rest;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_schemes_are_read() {
        assert_eq!(parse("Basic realm=\"x\""), Some(Challenge::Basic));
        let bearer = r#"Bearer realm="https://a.io/token",service="r.io",scope="repository:m:pull,push""#;
        let Some(Challenge::Bearer { realm, service, scope }) = parse(bearer) else { panic!("a bearer challenge") };
        assert_eq!(realm, "https://a.io/token");
        assert_eq!(service.as_deref(), Some("r.io"));
        assert_eq!(scope.as_deref(), Some("repository:m:pull,push"));
    }

    #[test]
    fn other_schemes_and_broken_ones_are_not() {
        for bad in ["", "Negotiate", "Bearer", "Bearer realm", "Bearer realm=\"x", "Bearer realm=a,realm=b", "Bearer service=x"] {
            assert_eq!(parse(bad), None, "{bad}");
        }
    }
}
