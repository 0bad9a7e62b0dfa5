//! `registry/repository:tag@sha256:…`, the name of a package in a registry.
//!
//! Promises: the host stands first and is never guessed; every part has the characters that the distribution
//! specification allows, so none can become a path or a header of its own.

use std::fmt;

use oaaxc_container::Digest;

use crate::error::{RegistryError, Result};

/// Where a package is, or shall be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reference {
    /// Host and, if given, port.
    pub registry: String,
    /// Lower-case components with slashes.
    pub repository: String,
    /// A name that can move.
    pub tag: Option<String>,
    /// A name that cannot; goes before the tag.
    pub digest: Option<Digest>,
}

impl Reference {
    /// Whether `text` looks like a reference rather than a path: a scheme, or a host with a dot or port and no such file.
    pub fn is_meant(text: &str) -> bool {
        if text.starts_with("docker://") || text.starts_with("oci://") {
            return true;
        }
        let looks = text.split_once('/').is_some_and(|(host, rest)| !rest.is_empty() && is_host(host));
        looks && !std::path::Path::new(text).exists() && Reference::parse(text).is_ok()
    }

    /// Reads a reference; `docker://` and `oci://` before it are passed over.
    pub fn parse(text: &str) -> Result<Reference> {
        let wrong = |why: &str| RegistryError::Request(format!("{text:?} is no reference to a registry: {why}"));
        let rest = text.strip_prefix("docker://").or_else(|| text.strip_prefix("oci://")).unwrap_or(text);
        let (host, rest) = rest.split_once('/').ok_or_else(|| wrong("it is REGISTRY/REPOSITORY[:TAG][@sha256:DIGEST]"))?;
        if !is_host(host) {
            return Err(wrong("the registry's host stands first, with a dot or a port, or is localhost"));
        }
        let (rest, digest) = match rest.split_once('@') {
            Some((rest, digest)) => {
                let digest = Digest::parse(digest).ok_or_else(|| wrong("the digest must be sha256: and 64 lower-case digits"))?;
                (rest, Some(digest))
            }
            None => (rest, None),
        };
        let (repository, tag) = match rest.split_once(':') {
            Some((repository, tag)) => (repository, Some(tag.to_owned())),
            None => (rest, None),
        };
        if repository.len() > 200 || !repository.split('/').all(is_component) {
            return Err(wrong("a repository has lower-case letters and digits, with single . _ - or -- between them"));
        }
        if let Some(tag) = &tag
            && !is_tag(tag)
        {
            return Err(wrong("a tag has at most 128 of A-Z a-z 0-9 _ . -, and begins with none of . -"));
        }
        Ok(Reference { registry: host.to_owned(), repository: repository.to_owned(), tag, digest })
    }

    /// As the API names it: the digest, the tag, or `latest`.
    pub fn name(&self) -> String {
        match (&self.digest, &self.tag) {
            (Some(digest), _) => digest.to_string(),
            (None, Some(tag)) => tag.clone(),
            (None, None) => "latest".to_owned(),
        }
    }

    /// The tag to write to.
    pub fn tag_or_latest(&self) -> &str {
        self.tag.as_deref().unwrap_or("latest")
    }

    /// `registry/repository`, the identity that signatures speak of.
    pub fn place(&self) -> String {
        format!("{}/{}", self.registry, self.repository)
    }
}

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.registry, self.repository)?;
        if let Some(tag) = &self.tag {
            write!(f, ":{tag}")?;
        }
        match &self.digest {
            Some(digest) => write!(f, "@{digest}"),
            None => Ok(()),
        }
    }
}

fn is_host(host: &str) -> bool {
    let (name, port) = match host.rsplit_once(':') {
        Some((name, port)) => (name, Some(port)),
        None => (host, None),
    };
    let v6 = name.strip_prefix('[').and_then(|name| name.strip_suffix(']'));
    let named = match v6 {
        Some(v6) => v6.parse::<std::net::Ipv6Addr>().is_ok(),
        None => {
            let label = |label: &str| {
                !label.is_empty()
                    && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
                    && !label.starts_with('-')
                    && !label.ends_with('-')
            };
            name.split('.').all(label)
        }
    };
    let port_fits = port.is_none_or(|port| port.len() <= 5 && port.parse::<u16>().is_ok_and(|port| port > 0));
    named && port_fits && (name.contains('.') || port.is_some() || v6.is_some() || name == "localhost")
}

/// "[a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*" (distribution-spec, "Pulling manifests").
fn is_component(component: &str) -> bool {
    let bytes = component.as_bytes();
    let plain = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let (Some(first), Some(last)) = (bytes.first(), bytes.last()) else { return false };
    let allowed = bytes.iter().all(|byte| plain(byte) || matches!(byte, b'.' | b'_' | b'-'));
    let mut gaps = component.split(|c: char| c.is_ascii_lowercase() || c.is_ascii_digit()).filter(|gap| !gap.is_empty());
    plain(first) && plain(last) && allowed && gaps.all(|gap| matches!(gap, "." | "_" | "__") || gap.bytes().all(|b| b == b'-'))
}

fn is_tag(tag: &str) -> bool {
    let word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    let first = tag.bytes().next().is_some_and(word);
    first && tag.len() <= 128 && tag.bytes().all(|byte| word(byte) || matches!(byte, b'.' | b'-'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_have_a_host_a_repository_and_a_name() {
        let hex = "ab".repeat(32);
        for (text, name) in [
            ("localhost/m", "latest".to_owned()),
            ("127.0.0.1:5000/a/b-c_d:v1", "v1".to_owned()),
            ("docker://registry.example.org/x__y/z.1:V_2.0-rc", "V_2.0-rc".to_owned()),
            ("[::1]:5000/m:v1", "v1".to_owned()),
        ] {
            let reference = Reference::parse(text).unwrap();
            assert_eq!(reference.name(), name);
            assert_eq!(Reference::parse(&reference.to_string()).unwrap(), reference);
        }
        let pinned = Reference::parse(&format!("r.io/m:v1@sha256:{hex}")).unwrap();
        assert_eq!(pinned.name(), format!("sha256:{hex}"));
    }

    #[test]
    fn what_could_become_a_path_or_another_host_is_refused() {
        let long = format!("r.io/m:{}", "t".repeat(129));
        for bad in [
            "model.oaax",
            "m",
            "models/m.oaax",
            "r.io/",
            "r.io/M",
            "r.io/../x",
            "r.io//x",
            "r.io/x/",
            "r.io/.x",
            "r.io/x..y",
            "r.io/x:",
            "r.io/x:a/b",
            "r.io/x:-a",
            "r.io/x:a b",
            "r.io/x@sha256:00",
            "r.io/x@md5:00",
            "u:p@r.io/x",
            "r.io:0/x",
            "r.io:99999/x",
            "-r.io/x",
            "r..io/x",
            "r.io/x?y",
            "r.io/x#y",
            "r.io/x%2e",
            "r.io/x\r\nA: b",
            "r.io/___a",
            &long,
        ] {
            assert!(Reference::parse(bad).is_err(), "{bad:?}");
        }
    }
}
