//! Credentials: from the command line, or from the files of podman, skopeo and docker.
//!
//! Promises: the most exact entry of a file wins (`registry/name/space` before `registry`); a file that does not
//! parse is an error, not silence. Credential helpers are never started: they would run a program that a file names.

use std::{collections::BTreeMap, env, fmt, fs, path::PathBuf};

use base64::{Engine, engine::general_purpose::STANDARD};
use serde::Deserialize;

use crate::{
    error::{RegistryError, Result},
    reference::Reference,
};

/// A name and its password.
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    /// The name.
    pub user: String,
    /// The password, or an access token of the registry.
    pub password: String,
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Credentials({}, …)", self.user)
    }
}

impl Credentials {
    /// Reads `USER:PASSWORD`.
    pub fn parse(text: &str) -> Result<Credentials> {
        match text.split_once(':') {
            Some((user, password)) if !user.is_empty() => {
                Ok(Credentials { user: user.to_owned(), password: password.to_owned() })
            }
            _ => Err(RegistryError::Request("credentials are USER:PASSWORD".to_owned())),
        }
    }

    /// The value of an `Authorization` header.
    pub(crate) fn basic(&self) -> String {
        format!("Basic {}", STANDARD.encode(format!("{}:{}", self.user, self.password)))
    }
}

/// The parts of `auth.json` and `config.json` that say credentials.
#[derive(Deserialize)]
struct AuthFile {
    #[serde(default)]
    auths: BTreeMap<String, AuthEntry>,
}

#[derive(Deserialize)]
struct AuthEntry {
    #[serde(default)]
    auth: String,
}

/// Where podman and docker keep them, in the order in which skopeo looks.
fn usual_files() -> Vec<PathBuf> {
    let folder = |name: &str, below: &str| env::var_os(name).filter(|v| !v.is_empty()).map(|v| PathBuf::from(v).join(below));
    if let Some(file) = folder("REGISTRY_AUTH_FILE", "").map(|path| path.components().collect()) {
        return vec![file];
    }
    [
        folder("XDG_RUNTIME_DIR", "containers/auth.json"),
        folder("XDG_CONFIG_HOME", "containers/auth.json").or_else(|| folder("HOME", ".config/containers/auth.json")),
        folder("DOCKER_CONFIG", "config.json").or_else(|| folder("HOME", ".docker/config.json")),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// The credentials for `reference` in `file`, or in the usual ones where none is given.
pub(crate) fn find(file: Option<&PathBuf>, reference: &Reference) -> Result<Option<Credentials>> {
    let files = file.map_or_else(usual_files, |file| vec![file.clone()]);
    for path in files {
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound && file.is_none() => continue,
            Err(error) => return Err(RegistryError::file("read", &path, &error)),
        };
        let wrong = |why: String| RegistryError::Request(format!("{}: {why}", path.display()));
        let parsed: AuthFile = serde_json::from_str(&text).map_err(|error| wrong(error.to_string()))?;
        if let Some(found) = choose(&parsed, reference).map_err(wrong)? {
            return Ok(Some(found));
        }
    }
    Ok(None)
}

fn choose(file: &AuthFile, reference: &Reference) -> std::result::Result<Option<Credentials>, String> {
    let place = reference.place();
    let fits = |key: &str| {
        let key = key.trim_start_matches("https://").trim_start_matches("http://");
        let key = key.trim_end_matches('/').trim_end_matches("/v2").trim_end_matches("/v1");
        let fits = place == key || place.strip_prefix(key).is_some_and(|rest| rest.starts_with('/'));
        fits.then_some(key.len())
    };
    let best = file.auths.iter().filter_map(|(key, entry)| Some((fits(key)?, entry))).max_by_key(|(length, _)| *length);
    let Some((_, entry)) = best.filter(|(_, entry)| !entry.auth.is_empty()) else { return Ok(None) };
    let text = STANDARD.decode(&entry.auth).ok().and_then(|bytes| String::from_utf8(bytes).ok());
    let text = text.ok_or("an entry whose auth is not base64")?;
    Credentials::parse(text.trim_end_matches('\0')).map(Some).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_exact_entry_of_a_file_wins() {
        let entry = |text: &str| STANDARD.encode(text);
        let text = format!(
            r#"{{"auths":{{"r.io":{{"auth":"{}"}},"r.io/team":{{"auth":"{}"}},"https://hub.io/v1/":{{"auth":"{}"}},"e.io":{{}}}}}}"#,
            entry("a:1"),
            entry("b:2:3"),
            entry("c:4")
        );
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("auth.json");
        fs::write(&path, text).unwrap();
        let user = |reference: &str| {
            let reference = Reference::parse(reference).unwrap();
            find(Some(&path), &reference).unwrap().map(|found| format!("{}:{}", found.user, found.password))
        };
        assert_eq!(user("r.io/m"), Some("a:1".to_owned()));
        assert_eq!(user("r.io/team/m"), Some("b:2:3".to_owned()));
        assert_eq!(user("r.io/teams/m"), Some("a:1".to_owned()));
        assert_eq!(user("hub.io/m"), Some("c:4".to_owned()));
        assert_eq!(user("e.io/m"), None);
        assert_eq!(user("r.io.evil.org/m"), None);
        fs::write(&path, "{").unwrap();
        assert!(find(Some(&path), &Reference::parse("r.io/m").unwrap()).is_err());
        assert!(find(Some(&folder.path().join("none")), &Reference::parse("r.io/m").unwrap()).is_err());
    }

    #[test]
    fn a_password_is_never_printed() {
        let credentials = Credentials::parse("user:secret").unwrap();
        assert!(!format!("{credentials:?}").contains("secret"));
    }
}
