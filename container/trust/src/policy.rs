//! The trust policy: who must have signed what before a package is used.
//!
//! Promises: without a rule for a place the answer is no; a rule without keys is an error, not a yes; several signatures of
//! one key count once; a statement counts only for the digest and the predicate that it names.

use std::{collections::BTreeSet, fs, path::Path};

use oaaxc_container::Digest;
use serde::Deserialize;

use crate::{
    bundle::{SIGNATURE_PREDICATE, read_bundle},
    cosign::verify_cosign,
    dsse::STATEMENT_TYPE,
    error::{Result, TrustError, refuse},
    key::PublicKey,
    statement::Statement,
};

/// More signatures of one manifest than anybody has; each costs time.
const MAX_EVIDENCE: usize = 64;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    version: u32,
    #[serde(default)]
    default: Otherwise,
    #[serde(default)]
    rules: Vec<FileRule>,
    #[serde(default)]
    revoked: BTreeSet<Digest>,
}

#[derive(Deserialize, Clone, Copy, PartialEq, Eq, Default)]
#[serde(rename_all = "snake_case")]
enum Otherwise {
    #[default]
    Reject,
    Accept,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileRule {
    places: Vec<String>,
    #[serde(default)]
    keys: Vec<String>,
    #[serde(default = "one")]
    threshold: usize,
    #[serde(default)]
    require: Vec<String>,
    #[serde(default)]
    identity: Option<String>,
}

fn one() -> usize {
    1
}

/// One rule, its keys read.
struct Rule {
    places: Vec<String>,
    keys: Vec<PublicKey>,
    threshold: usize,
    require: Vec<String>,
    identity: Option<String>,
}

/// A policy file that was read.
pub struct Policy {
    accept_others: bool,
    rules: Vec<Rule>,
    revoked: BTreeSet<Digest>,
}

/// What speaks for one manifest.
#[derive(Clone, Debug, Default)]
pub struct Evidence {
    /// cosign: payload, and the base64 signature over it.
    pub cosign: Vec<(Vec<u8>, String)>,
    /// Sigstore bundles.
    pub bundles: Vec<Vec<u8>>,
}

/// Why a package may be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// Ids of the keys that signed, or nothing where no rule is for this place and others are accepted.
    pub keys: Vec<String>,
    /// Predicates that were found and signed.
    pub predicates: Vec<String>,
}

impl Policy {
    /// Reads a policy file; names of key files in it are relative to it.
    pub fn read(path: &Path) -> Result<Policy> {
        let failed = |path: &Path, why: String| TrustError(format!("{}: {why}", path.display()));
        let bytes = fs::read(path).map_err(|error| failed(path, error.to_string()))?;
        let folder = path.parent().unwrap_or(Path::new("."));
        let pem = |name: &str| {
            let path = folder.join(name);
            fs::read_to_string(&path).map_err(|error| failed(&path, error.to_string()))
        };
        Policy::parse(&bytes, &pem).map_err(|TrustError(why)| failed(path, why))
    }

    /// As `read`, where `pem` gives the text of a key file.
    pub fn parse(bytes: &[u8], pem: &dyn Fn(&str) -> Result<String>) -> Result<Policy> {
        let file: File = oaaxc_container::strict_json(bytes, "the policy").map_err(|error| TrustError(error.to_string()))?;
        if file.version != 1 {
            return refuse(format!("a policy of version {}; this oaaxc knows 1", file.version));
        }
        let mut rules = Vec::new();
        for rule in file.rules {
            let mut keys: Vec<PublicKey> = Vec::new();
            for name in &rule.keys {
                let key = PublicKey::from_pem(&pem(name)?)?;
                if !keys.contains(&key) {
                    keys.push(key);
                }
            }
            if rule.threshold == 0 || keys.len() < rule.threshold {
                return refuse(format!("a rule that wants {} signatures of {} keys", rule.threshold, keys.len()));
            }
            if rule.places.is_empty() || rule.places.iter().any(String::is_empty) {
                return refuse("a rule without places; \"*\" means all");
            }
            let FileRule { places, threshold, require, identity, .. } = rule;
            rules.push(Rule { places, keys, threshold, require, identity });
        }
        Ok(Policy { accept_others: file.default == Otherwise::Accept, rules, revoked: file.revoked })
    }

    /// Whether the manifest `digest` at `place` may be used. `named` is the identity that a cosign signature must have
    /// where the rule names none; only registries have one.
    pub fn check(&self, place: &str, digest: &Digest, named: Option<&str>, evidence: &Evidence) -> Result<Verdict> {
        self.decide(place, digest, named, evidence, true)
    }

    /// As `check`, for a manifest under an index that was checked: its signature counts, statements are about the index.
    pub fn check_signed(&self, place: &str, digest: &Digest, named: Option<&str>, evidence: &Evidence) -> Result<Verdict> {
        self.decide(place, digest, named, evidence, false)
    }

    fn decide(&self, place: &str, digest: &Digest, named: Option<&str>, evidence: &Evidence, whole: bool) -> Result<Verdict> {
        if self.revoked.contains(digest) {
            return refuse(format!("{digest} is revoked by the policy"));
        }
        // The most exact rule: one for a team goes before one for its registry.
        let fits = |rule: &&Rule| rule.places.iter().filter_map(|p| matches(p, place)).max();
        let Some(rule) = self.rules.iter().filter(|rule| fits(rule).is_some()).max_by_key(|rule| fits(rule)) else {
            return match self.accept_others {
                true => Ok(Verdict { keys: Vec::new(), predicates: Vec::new() }),
                false => refuse(format!("no rule of the policy is for {place}, and the rest is rejected")),
            };
        };
        rule.check(digest, rule.identity.as_deref().or(named), evidence, whole)
    }
}

/// How exactly a pattern fits a place; patterns end at component borders.
fn matches(pattern: &str, place: &str) -> Option<usize> {
    if pattern == "*" {
        return Some(0);
    }
    let rest = place.strip_prefix(pattern)?;
    let border = rest.is_empty() || rest.starts_with('/') || pattern.ends_with(['/', ':']);
    border.then_some(pattern.len())
}

impl Rule {
    fn check(&self, digest: &Digest, identity: Option<&str>, evidence: &Evidence, whole: bool) -> Result<Verdict> {
        let count = evidence.cosign.len() + evidence.bundles.len();
        if count > MAX_EVIDENCE {
            return refuse(format!("{count} signatures of {digest}, more than {MAX_EVIDENCE}"));
        }
        if count == 0 {
            return refuse(format!("{digest} is not signed"));
        }
        let mut signers = BTreeSet::new();
        // For each predicate, who said it: a threshold holds for what is required too.
        let mut predicates: std::collections::BTreeMap<String, BTreeSet<usize>> = std::collections::BTreeMap::new();
        let mut reasons = Vec::new();
        for (payload, signature) in &evidence.cosign {
            match verify_cosign(payload, signature, digest, identity, &self.keys) {
                Ok(signer) => drop(signers.insert(signer)),
                Err(error) => reasons.push(error.0),
            }
        }
        for bundle in &evidence.bundles {
            match self.statement(bundle, digest) {
                Ok((statement, who)) if statement.predicate_type == SIGNATURE_PREDICATE => signers.extend(who),
                Ok((statement, who)) => predicates.entry(statement.predicate_type).or_default().extend(who),
                Err(error) => reasons.push(error.0),
            }
        }
        if signers.len() < self.threshold {
            let why = reasons.first().map_or_else(String::new, |reason| format!(": {reason}"));
            return refuse(format!("{digest} has {} of {} signatures{why}", signers.len(), self.threshold));
        }
        let lacking = |wanted: &&String| predicates.get(*wanted).is_none_or(|who| who.len() < self.threshold);
        if let Some(wanted) = self.require.iter().find(lacking).filter(|_| whole) {
            return refuse(format!("{digest} has no signed statement of {wanted}"));
        }
        let keys = signers.iter().map(|signer| self.keys[*signer].id()).collect();
        Ok(Verdict { keys, predicates: predicates.into_keys().collect() })
    }

    fn statement(&self, bundle: &[u8], digest: &Digest) -> Result<(Statement, Vec<usize>)> {
        let (payload, signers) = read_bundle(bundle)?.verify(STATEMENT_TYPE, &self.keys)?;
        Ok((Statement::about(&payload, digest, None)?, signers))
    }
}
