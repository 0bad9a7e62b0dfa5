//! Credentials go to the registry and the token server that it names, and nowhere else.

mod common;

use common::{Server, layout, options};
use oaaxc_registry::{Client, Reference, Step, pull, push};

fn quiet(_: &Step<'_>) {}

#[test]
fn a_bearer_challenge_is_answered_once_with_a_token() {
    let (server, folder) = (Server::start(), tempfile::tempdir().unwrap());
    let source = layout(&folder.path().join("layout"));
    server.with(|state| state.realm = Some(format!("http://{}/token", server.address)));
    push(&source, &server.client_as("m", Some("user:secret")), &[], &quiet).unwrap();
    assert_eq!(server.count("GET", "/token"), 2, "one token for reading and one for writing");
    let sent = server.authorizations();
    let basic = sent.iter().flatten().filter(|value| value.starts_with("Basic ")).count();
    assert_eq!(basic, 2, "the password goes to the token server alone");
}

#[test]
fn basic_credentials_are_sent_where_they_are_asked_for() {
    let (server, folder) = (Server::start(), tempfile::tempdir().unwrap());
    let source = layout(&folder.path().join("layout"));
    server.with(|state| state.basic = Some("Basic dXNlcjpzZWNyZXQ=".to_owned()));
    push(&source, &server.client_as("m", Some("user:secret")), &[], &quiet).unwrap();
    let wrong = server.client_as("m", Some("user:other")).manifest("v1").unwrap_err().to_string();
    assert!(wrong.contains("401") && !wrong.contains("other"), "{wrong}");
    assert!(server.client("m").manifest("v1").unwrap_err().to_string().contains("asks for a name and a password"));
}

#[test]
fn a_redirect_to_another_host_goes_without_credentials() {
    let (server, elsewhere, folder) = (Server::start(), Server::start(), tempfile::tempdir().unwrap());
    let source = layout(&folder.path().join("layout"));
    server.with(|state| state.realm = Some(format!("http://{}/token", server.address)));
    push(&source, &server.client_as("m", Some("user:secret")), &[], &quiet).unwrap();
    let blobs = server.state.lock().unwrap().blobs.clone();
    elsewhere.with(|state| state.blobs = blobs);
    server.with(|state| state.redirect_blobs = Some(format!("http://{}", elsewhere.address)));
    pull(&server.client_as("m", Some("user:secret")), &folder.path().join("back"), &quiet).unwrap();
    let seen = elsewhere.authorizations();
    assert!(seen.len() > 2 && seen.iter().all(Option::is_none), "{seen:?}");
}

#[test]
fn nothing_leads_away_from_this_machine_or_into_a_circle() {
    let (server, folder) = (Server::start(), tempfile::tempdir().unwrap());
    let source = layout(&folder.path().join("layout"));
    push(&source, &server.client("m"), &[], &quiet).unwrap();
    for (to, reason) in [
        ("http://example.org".to_owned(), "away from TLS"),
        ("ftp://127.0.0.1".to_owned(), "away from TLS"),
        ("https://169.254.169.254".to_owned(), "this link alone"),
        ("https://[fe80::1]".to_owned(), "this link alone"),
        ("https://user:word@example.org".to_owned(), "names a user"),
    ] {
        server.with(|state| state.redirect_blobs = Some(to.clone()));
        let error = pull(&server.client("m"), &folder.path().join("x"), &quiet).unwrap_err().to_string();
        assert!(error.contains(reason), "{to}: {error}");
    }
    // A token server elsewhere without TLS would learn the password.
    server.with(|state| {
        state.redirect_blobs = None;
        state.realm = Some("http://example.org/token".to_owned());
    });
    let error = server.client_as("m", Some("user:secret")).manifest("v1").unwrap_err().to_string();
    assert!(error.contains("away from TLS"), "{error}");
}

#[test]
fn plain_http_is_for_this_machine_alone() {
    let other = Reference::parse("registry.example.org/m").unwrap();
    assert!(Client::new(&other, &options(None)).is_err());
}
