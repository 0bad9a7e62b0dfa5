//! The policy says no to everything but what its keys said of these very bytes.

use base64::{Engine, engine::general_purpose::STANDARD};
use oaaxc_container::Digest;
use oaaxc_trust::{
    Envelope, Evidence, Policy, PublicKey, SIGNATURE_PREDICATE, STATEMENT_TYPE, SecretKey, Statement, Subject, TrustError,
    cosign_manifest, cosign_payload, read_bundle, verify_cosign, write_bundle,
};
use serde_json::{Value, json};

const PLACE: &str = "r.example.org/team/m";

const FIRST: u8 = 1;
const SECOND: u8 = 2;

/// Private and public half of a key that everybody can make: P-256 for the first, Ed25519 for others.
fn pem(which: u8) -> (String, String) {
    use ed25519_dalek::pkcs8::{EncodePrivateKey as _, EncodePublicKey as _, spki::der::pem::LineEnding};
    let seed = [which; 32];
    if which == FIRST {
        let key = p256::SecretKey::from_slice(&seed).unwrap();
        let public = key.public_key().to_public_key_pem(LineEnding::LF).unwrap();
        return (key.to_pkcs8_pem(LineEnding::LF).unwrap().to_string(), public);
    }
    let key = ed25519_dalek::SigningKey::from_bytes(&seed);
    let public = key.verifying_key().to_public_key_pem(LineEnding::LF).unwrap();
    (key.to_pkcs8_pem(LineEnding::LF).unwrap().to_string(), public)
}

fn key(which: u8) -> SecretKey {
    SecretKey::from_pem(&pem(which).0).unwrap()
}

fn policy(text: &Value) -> Result<Policy, TrustError> {
    Policy::parse(text.to_string().as_bytes(), &|name| match name {
        "first" => Ok(pem(FIRST).1),
        "second" => Ok(pem(SECOND).1),
        _ => Err(TrustError("no such file".to_owned())),
    })
}

fn simple() -> Policy {
    policy(&json!({"version": 1, "rules": [{"places": ["r.example.org/team"], "keys": ["first"]}]})).unwrap()
}

fn digest() -> Digest {
    Digest::of(b"an index")
}

fn bundle(key: &SecretKey, digest: &Digest, kind: &str) -> Vec<u8> {
    let statement = Statement::new(vec![Subject::new("m", digest)], kind, json!({}));
    write_bundle(&Envelope::sign(STATEMENT_TYPE, &statement.to_json(), key), &key.public())
}

fn cosign(key: &SecretKey, place: &str, digest: &Digest) -> (Vec<u8>, String) {
    let payload = cosign_payload(place, digest);
    (payload.clone(), STANDARD.encode(key.sign(&payload)))
}

fn with_cosign(entries: Vec<(Vec<u8>, String)>) -> Evidence {
    Evidence { cosign: entries, bundles: Vec::new() }
}

fn with_bundles(bundles: Vec<Vec<u8>>) -> Evidence {
    Evidence { cosign: Vec::new(), bundles }
}

fn check(policy: &Policy, evidence: &Evidence) -> Result<Vec<String>, String> {
    policy.check(PLACE, &digest(), Some(PLACE), evidence).map(|verdict| verdict.keys).map_err(|error| error.0)
}

#[test]
fn both_forms_of_a_signature_and_both_kinds_of_key_are_accepted() {
    let first = key(FIRST);
    assert_eq!(check(&simple(), &with_cosign(vec![cosign(&first, PLACE, &digest())])), Ok(vec![first.public().id()]));
    assert_eq!(
        check(&simple(), &with_bundles(vec![bundle(&first, &digest(), SIGNATURE_PREDICATE)])),
        Ok(vec![first.public().id()])
    );
    let second = policy(&json!({"version": 1, "rules": [{"places": ["*"], "keys": ["second"]}]})).unwrap();
    assert!(check(&second, &with_bundles(vec![bundle(&key(SECOND), &digest(), SIGNATURE_PREDICATE)])).is_ok());
    assert!(matches!(key(FIRST).public(), PublicKey::P256(_)) && matches!(key(SECOND).public(), PublicKey::Ed25519(_)));
}

#[test]
fn signing_again_gives_the_same_bytes_and_keeps_other_signatures() {
    let payload = cosign_payload(PLACE, &digest());
    let (one, _) = cosign_manifest(None, &payload, &key(FIRST));
    assert_eq!(cosign_manifest(Some(&one), &payload, &key(FIRST)).0, one);
    let (two, _) = cosign_manifest(Some(&one), &payload, &key(SECOND));
    let layers = serde_json::from_slice::<Value>(&two).unwrap()["layers"].as_array().unwrap().len();
    assert_eq!(layers, 2);
}

#[test]
fn no_signature_and_no_rule_mean_no() {
    assert!(check(&simple(), &Evidence::default()).unwrap_err().contains("is not signed"));
    let good = with_cosign(vec![cosign(&key(FIRST), PLACE, &digest())]);
    let elsewhere = simple().check("other.org/m", &digest(), None, &good).unwrap_err().0;
    assert!(elsewhere.contains("no rule of the policy"), "{elsewhere}");
    let near = simple().check("r.example.org/teams/m", &digest(), None, &good).unwrap_err().0;
    assert!(near.contains("no rule"), "a prefix ends at a border: {near}");
    let empty = policy(&json!({"version": 1})).unwrap();
    assert!(check(&empty, &good).unwrap_err().contains("rejected"));
    let open = policy(&json!({"version": 1, "default": "accept"})).unwrap();
    assert_eq!(check(&open, &Evidence::default()), Ok(Vec::new()));
}

#[test]
fn signatures_of_other_things_do_not_count() {
    let (first, second, other) = (key(FIRST), key(SECOND), Digest::of(b"another index"));
    let refused = |what: &str, evidence: Evidence| assert!(check(&simple(), &evidence).is_err(), "{what}");
    refused("another key", with_cosign(vec![cosign(&second, PLACE, &digest())]));
    refused("another digest", with_cosign(vec![cosign(&first, PLACE, &other)]));
    refused("another place", with_cosign(vec![cosign(&first, "evil.org/m", &digest())]));
    refused("another key's bundle", with_bundles(vec![bundle(&second, &digest(), SIGNATURE_PREDICATE)]));
    refused("a bundle of another digest", with_bundles(vec![bundle(&first, &other, SIGNATURE_PREDICATE)]));
    refused("a statement that is no signature", with_bundles(vec![bundle(&first, &digest(), "https://spdx.dev/Document")]));
    let (payload, signature) = cosign(&first, PLACE, &digest());
    let spaced = String::from_utf8(payload.clone()).unwrap().replace("team", "tean");
    refused("a changed payload", with_cosign(vec![(spaced.into_bytes(), signature.clone())]));
    refused("an empty payload", with_cosign(vec![(Vec::new(), signature.clone())]));
    refused("no base64", with_cosign(vec![(payload.clone(), "%%".to_owned())]));
    refused("an empty signature", with_cosign(vec![(payload.clone(), String::new())]));
    refused("a short signature", with_cosign(vec![(payload, STANDARD.encode(&STANDARD.decode(&signature).unwrap()[..20]))]));
    // Signed by the right key, but not what cosign says.
    let odd = |payload: &str| {
        let bytes = payload.replace("DIGEST", &digest().to_string()).into_bytes();
        let signature = STANDARD.encode(first.sign(&bytes));
        verify_cosign(&bytes, &signature, &digest(), Some(PLACE), &[first.public()]).map_err(|error| error.0)
    };
    let head =
        r#"{"critical":{"identity":{"docker-reference":"r.example.org/team/m"},"image":{"docker-manifest-digest":"DIGEST"}"#;
    assert!(odd(&format!("{head},\"type\":\"cosign container image signature\"}}}}")).is_ok());
    for bad in [
        format!("{head},\"type\":\"atomic container signature\"}}}}"),
        format!("{head}}}}}"),
        format!("{head},\"type\":\"cosign container image signature\",\"more\":1}}}}"),
        format!("{head},\"type\":\"cosign container image signature\"}},\"critical\":{{}}}}"),
        "[]".to_owned(),
        "{}".to_owned(),
    ] {
        assert!(odd(&bad).is_err(), "{bad}");
    }
}

#[test]
fn envelopes_and_bundles_that_were_changed_are_refused() {
    let good = bundle(&key(FIRST), &digest(), SIGNATURE_PREDICATE);
    let value: Value = serde_json::from_slice(&good).unwrap();
    let refused = |what: &str, change: &dyn Fn(&mut Value)| {
        let mut value = value.clone();
        change(&mut value);
        assert!(check(&simple(), &with_bundles(vec![value.to_string().into_bytes()])).is_err(), "{what}");
    };
    refused("payload type", &|v| v["dsseEnvelope"]["payloadType"] = "text/plain".into());
    refused("payload", &|v| v["dsseEnvelope"]["payload"] = STANDARD.encode("{}").into());
    refused("empty payload", &|v| v["dsseEnvelope"]["payload"] = "".into());
    refused("no signatures", &|v| v["dsseEnvelope"]["signatures"] = json!([]));
    refused("signature", &|v| v["dsseEnvelope"]["signatures"][0]["sig"] = STANDARD.encode([0u8; 64]).into());
    refused("many signatures", &|v| {
        v["dsseEnvelope"]["signatures"] = vec![v["dsseEnvelope"]["signatures"][0].clone(); 17].into()
    });
    refused("media type", &|v| v["mediaType"] = "application/vnd.dev.sigstore.bundle.v9+json".into());
    refused("no envelope", &|v| drop(v.as_object_mut().unwrap().remove("dsseEnvelope")));
    refused("a stranger in the envelope", &|v| v["dsseEnvelope"]["more"] = 1.into());
    let text = String::from_utf8(good.clone()).unwrap();
    let twice = text.replacen("{\"dsseEnvelope\"", "{\"mediaType\":\"x\",\"dsseEnvelope\"", 1);
    assert!(read_bundle(twice.as_bytes()).is_err(), "a key twice");
    for kind in ["https://in-toto.io/Statement/v0.1", ""] {
        let mut statement = Statement::new(vec![Subject::new("m", &digest())], SIGNATURE_PREDICATE, json!({}));
        statement.kind = kind.to_owned();
        let signed = write_bundle(&Envelope::sign(STATEMENT_TYPE, &statement.to_json(), &key(FIRST)), &key(FIRST).public());
        assert!(check(&simple(), &with_bundles(vec![signed])).is_err(), "statement {kind:?}");
    }
    // Every byte of a bundle, one bit each.
    for at in 0..good.len() {
        let mut bytes = good.clone();
        bytes[at] ^= 1 << (at % 7);
        let (before, after) = (read_bundle(&good).unwrap(), read_bundle(&bytes));
        // Words that are not signed may change; what is accepted is what was signed.
        if check(&simple(), &with_bundles(vec![bytes])).is_ok() {
            let after = after.unwrap();
            assert_eq!((after.payload, after.payload_type), (before.payload, before.payload_type), "byte {at}");
        }
    }
}

#[test]
fn a_threshold_counts_keys_not_signatures() {
    let both = json!({"version": 1, "rules": [{"places": [PLACE], "keys": ["first", "second"], "threshold": 2}]});
    let both = policy(&both).unwrap();
    let (first, second) = (cosign(&key(FIRST), PLACE, &digest()), cosign(&key(SECOND), PLACE, &digest()));
    assert!(check(&both, &with_cosign(vec![first.clone(), first.clone()])).unwrap_err().contains("1 of 2"));
    assert_eq!(check(&both, &with_cosign(vec![first.clone(), second])).unwrap().len(), 2);
    let many = Evidence { cosign: vec![first; 65], bundles: Vec::new() };
    assert!(check(&both, &many).unwrap_err().contains("more than 64"));
}

#[test]
fn required_statements_must_be_there_and_signed() {
    let rule =
        json!({"version": 1, "rules": [{"places": [PLACE], "keys": ["first"], "require": ["https://slsa.dev/provenance/v1"]}]});
    let policy = policy(&rule).unwrap();
    let signature = bundle(&key(FIRST), &digest(), SIGNATURE_PREDICATE);
    let of = |key: &SecretKey, kind: &str| with_bundles(vec![signature.clone(), bundle(key, &digest(), kind)]);
    assert!(check(&policy, &with_bundles(vec![signature.clone()])).unwrap_err().contains("no signed statement"));
    assert!(check(&policy, &of(&key(FIRST), "https://spdx.dev/Document")).is_err());
    assert!(check(&policy, &of(&key(SECOND), "https://slsa.dev/provenance/v1")).is_err());
    assert!(check(&policy, &of(&key(FIRST), "https://slsa.dev/provenance/v1")).is_ok());
}

#[test]
fn the_most_exact_rule_holds_and_revoked_digests_never_do() {
    let rules = json!({"version": 1, "rules": [
        {"places": ["*"], "keys": ["first"]},
        {"places": ["r.example.org/team"], "keys": ["second"]},
    ]});
    let of = |which: u8| with_cosign(vec![cosign(&key(which), PLACE, &digest())]);
    let exact = policy(&rules).unwrap();
    assert!(check(&exact, &of(SECOND)).is_ok() && check(&exact, &of(FIRST)).is_err());
    let mut revoked = rules;
    revoked["revoked"] = json!([digest()]);
    assert!(check(&policy(&revoked).unwrap(), &of(SECOND)).unwrap_err().contains("revoked"));
    let mirror = json!({"version": 1, "rules": [{"places": ["mirror.org"], "keys": ["first"], "identity": PLACE}]});
    let mirror = policy(&mirror).unwrap();
    assert!(mirror.check("mirror.org/m", &digest(), Some("mirror.org/m"), &of(FIRST)).is_ok(), "identity of the origin");
}

#[test]
fn policies_that_would_let_too_much_through_are_errors() {
    for bad in [
        json!({"version": 2}),
        json!({"rules": []}),
        json!({"version": 1, "defaults": "accept"}),
        json!({"version": 1, "default": "maybe"}),
        json!({"version": 1, "rules": [{"places": ["*"], "keys": []}]}),
        json!({"version": 1, "rules": [{"places": ["*"], "keys": ["first"], "threshold": 0}]}),
        json!({"version": 1, "rules": [{"places": ["*"], "keys": ["first", "first"], "threshold": 2}]}),
        json!({"version": 1, "rules": [{"places": [], "keys": ["first"]}]}),
        json!({"version": 1, "rules": [{"places": [""], "keys": ["first"]}]}),
        json!({"version": 1, "rules": [{"places": ["*"], "keys": ["missing"]}]}),
        json!({"version": 1, "rules": [{"places": ["*"], "keys": ["first"], "requires": []}]}),
        json!({"version": 1, "revoked": ["md5:00"]}),
    ] {
        assert!(policy(&bad).is_err(), "{bad}");
    }
    for bad in ["", "-----BEGIN PUBLIC KEY-----\n-----END PUBLIC KEY-----\n", &pem(FIRST).0] {
        assert!(PublicKey::from_pem(bad).is_err());
    }
    assert!(SecretKey::from_pem(&pem(FIRST).1).is_err());
    assert!(SecretKey::from_pem("-----BEGIN ENCRYPTED SIGSTORE PRIVATE KEY-----").is_err());
}
