//! Packages travel: whole, in pieces, interrupted, mounted; and nothing wrong arrives.

mod common;

use std::fs;

use common::{Server, layout, options};
use oaaxc_registry::{Client, Reference, Shelf, Step, copy, pull, push};

fn quiet(_: &Step<'_>) {}

#[test]
fn a_package_is_pushed_pulled_and_copied_with_one_digest() {
    let (server, other, folder) = (Server::start(), Server::start(), tempfile::tempdir().unwrap());
    let source = layout(&folder.path().join("layout"));
    let client = server.client("team/m");
    let moved = push(&source, &client, &[], &quiet).unwrap();
    assert_eq!((moved.digest, moved.present), (source.root().unwrap().digest, 0));
    let again = push(&source, &client, &[], &quiet).unwrap();
    assert_eq!((again.blobs, again.present), (0, moved.blobs), "what is there is not sent again");
    let copied = copy(&client, &other.client("m"), &quiet).unwrap();
    assert_eq!((copied.digest, copied.bytes), (moved.digest, moved.bytes));
    let back = folder.path().join("back");
    assert_eq!(pull(&other.client("m"), &back, &quiet).unwrap().digest, moved.digest);
    assert_eq!(oaaxc_container::open(&back).unwrap().verify().unwrap().files, 1);
    assert!(pull(&other.client("m"), &back, &quiet).is_err(), "an existing folder is left alone");
    let mounted = push(&source, &server.client("public/m"), &["team/m"], &quiet).unwrap();
    assert_eq!((mounted.blobs, mounted.present), (0, moved.blobs));
    assert_eq!(server.state.lock().unwrap().mounts, moved.blobs);
}

#[test]
fn blobs_of_a_sibling_are_mounted() {
    let (server, folder) = (Server::start(), tempfile::tempdir().unwrap());
    let source = layout(&folder.path().join("layout"));
    push(&source, &server.client("a"), &[], &quiet).unwrap();
    let blobs = server.state.lock().unwrap().blobs.len();
    let moved = copy(&server.client("a"), &server.client("b"), &quiet).unwrap();
    assert_eq!(moved.blobs, 0);
    assert_eq!(moved.present, blobs);
}

#[test]
fn an_upload_that_breaks_off_goes_on_where_it_stopped() {
    let (server, folder) = (Server::start(), tempfile::tempdir().unwrap());
    let source = layout(&folder.path().join("layout"));
    server.with(|state| state.cut_uploads = vec![300, 100, 200]);
    let moved = push(&source, &server.client("m"), &[], &quiet).unwrap();
    assert!(server.count("PATCH", "/uploads/") > 0, "resumed in pieces");
    assert_eq!(pull(&server.client("m"), &folder.path().join("back"), &quiet).unwrap().digest, moved.digest);
}

#[test]
fn a_registry_that_wants_pieces_gets_them() {
    let (server, folder) = (Server::start(), tempfile::tempdir().unwrap());
    let source = layout(&folder.path().join("layout"));
    server.with(|state| state.pieces_only = true);
    push(&source, &server.client("m"), &[], &quiet).unwrap();
    let chunked = Server::start();
    let reference = Reference::parse(&format!("{}/m:v1", chunked.address)).unwrap();
    let small = oaaxc_registry::Options { chunk: 100_000, ..options(None) };
    push(&source, &Client::new(&reference, &small).unwrap(), &[], &quiet).unwrap();
    assert!(chunked.count("PATCH", "/uploads/") >= 16, "1.6 MB in pieces of 100 kB");
}

#[test]
fn a_download_that_breaks_off_goes_on_in_this_run_and_in_the_next() {
    let (server, folder) = (Server::start(), tempfile::tempdir().unwrap());
    let source = layout(&folder.path().join("layout"));
    let moved = push(&source, &server.client("m"), &[], &quiet).unwrap();
    server.with(|state| state.cut_downloads = vec![150, 150, 150]);
    pull(&server.client("m"), &folder.path().join("first"), &quiet).unwrap();
    // No tries left: the pull fails and leaves what it has; the next one begins there.
    let reference = Reference::parse(&format!("{}/m:v1", server.address)).unwrap();
    let once = oaaxc_registry::Options { retries: 0, ..options(None) };
    server.with(|state| state.cut_downloads = vec![150; 8]);
    let second = folder.path().join("second");
    assert!(pull(&Client::new(&reference, &once).unwrap(), &second, &quiet).is_err());
    assert!(!second.exists());
    server.with(|state| state.cut_downloads = Vec::new());
    assert_eq!(pull(&server.client("m"), &second, &quiet).unwrap().digest, moved.digest);
    let left: Vec<_> = fs::read_dir(folder.path()).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    assert!(left.iter().all(|name| !name.ends_with(".pull")), "{left:?}");
}

#[test]
fn what_arrives_wrong_is_refused() {
    let (server, folder) = (Server::start(), tempfile::tempdir().unwrap());
    let source = layout(&folder.path().join("layout"));
    push(&source, &server.client("m"), &[], &quiet).unwrap();
    let refused = |name: &str| pull(&server.client("m"), &folder.path().join(name), &quiet).unwrap_err().to_string();
    server.with(|state| state.corrupt = true);
    assert!(refused("corrupt").contains("arrives with the digest"));
    server.with(|state| (state.corrupt, state.longer) = (false, 7));
    assert!(refused("longer").contains("longer than its descriptor says"));
    server.with(|state| {
        state.longer = 0;
        let manifest = state.manifests.get_mut("m/manifests/v1").unwrap();
        manifest.1 = vec![b' '; 5 << 20];
    });
    assert!(refused("large").contains("more than 4194304 bytes"));
    server.with(|state| state.manifests.get_mut("m/manifests/v1").unwrap().1 = b"{}".to_vec());
    refused("no manifest");
    // A manifest asked for by digest must have it.
    let digest = source.root().unwrap().digest;
    server.with(|state| state.manifests.get_mut(&format!("m/manifests/{digest}")).unwrap().1 = b"{}".to_vec());
    assert!(server.client("m").manifest(&digest.to_string()).unwrap_err().to_string().contains("has the digest"));
}

#[test]
fn passing_faults_are_tried_again_and_lasting_ones_are_not() {
    let (server, folder) = (Server::start(), tempfile::tempdir().unwrap());
    let source = layout(&folder.path().join("layout"));
    server.with(|state| state.statuses = vec![503, 429, 500]);
    push(&source, &server.client("m"), &[], &quiet).unwrap();
    server.with(|state| state.statuses = vec![403]);
    let error = server.client("m").manifest("v1").unwrap_err().to_string();
    assert!(error.contains("403") && error.contains("not now"), "{error}");
    server.with(|state| state.statuses = vec![503; 5]);
    assert!(server.client("m").manifest("v1").unwrap_err().to_string().contains("503"));
}

#[test]
fn a_tag_that_moves_while_it_is_pulled_gives_one_package() {
    let (server, folder) = (Server::start(), tempfile::tempdir().unwrap());
    let source = layout(&folder.path().join("layout"));
    let moved = push(&source, &server.client("m"), &[], &quiet).unwrap();
    let swap =
        |_: &Step<'_>| server.with(|state| drop(state.manifests.insert("m/manifests/v1".into(), ("x".into(), b"{}".to_vec()))));
    assert_eq!(pull(&server.client("m"), &folder.path().join("back"), &swap).unwrap().digest, moved.digest);
    assert_eq!(server.count("GET", "manifests/v1"), 1, "the tag is resolved once");
}
