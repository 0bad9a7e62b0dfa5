//! Hostile tars, one line each: every one is refused, for the reason that is named.

mod common;

use common::{CraftedLayer, craft, craft_with, entry, entry_with, good, gzip, outcome, record, refused, tar, with};

fn extended(records: &str) -> Vec<u8> {
    entry("PaxHeader", b'x', records.as_bytes())
}

#[test]
fn what_is_not_hostile_is_accepted() {
    assert_eq!(outcome(craft().build()), Ok(()));
    let padded = vec![extended(&record("comment", "x")), good()];
    assert_eq!(outcome(with(padded)), Ok(()));
    let long = extended(&(record("path", "models/weights/0.bin") + &record("size", "3")));
    assert_eq!(outcome(with(vec![long, entry("models/weights", b'0', b"abc")])), Ok(()));
    for level in [0, 9] {
        let content = tar(&[good()]);
        let mut craft = craft();
        craft.layers = vec![CraftedLayer::gzip(gzip(&content, level), &content)];
        assert_eq!(outcome(craft.build()), Ok(()));
    }
    // A registry may mislabel an encoding; bytes and digests decide.
    let mut craft = craft();
    craft.layers[0].media_type = "application/vnd.oci.image.layer.v1.tar+gzip".to_owned();
    assert_eq!(outcome(craft.build()), Ok(()));
}

#[test]
fn names_that_climb_or_confuse() {
    const REASONS: [&str; 5] = ["the path", "lies neither under", "lie in it", "lies in it", "only files and folders"];
    #[rustfmt::skip] // One name a line says nothing more.
    let names = [
        "../x", "models/../../x", "models/..", "..", ".", "./models/x", "/etc/passwd", "//x",
        "models//x", "models/./x", "", "models\\x", "models/a b", "models/\n", "models/a:b", "C:/x",
        "models/\u{e4}", "models/.wh.weights", "models/.wh..wh..opq", ".wh.models", "etc/passwd",
        "models", "usr", "bin/sh", "models/a*", "models/$x", "models/~", "models/\u{202e}x",
        "models/x/../y", "models/-/../..", "....//x", "models/x/", "proc/self/exe",
        "models/weights/0.bin/..", "%2e%2e/x", "\u{ff0e}./x", "models/%00", "models/'x'",
        "models/x;y", "models/|",
    ];
    for name in names {
        for kind in [b'0', b'5', b'1', b'2'] {
            // A folder may be called models or usr, or end with a slash.
            if kind == b'5' && matches!(name, "models" | "usr" | "models/x/") {
                continue;
            }
            let error = outcome(with(vec![good(), entry(name, kind, b"")])).expect_err(name);
            let mut reasons = REASONS.iter();
            assert!(reasons.any(|reason| error.contains(reason)), "{name:?}: {error}");
        }
    }
    let zero = entry_with("models/a", b'0', b"", |header| header[10] = b'x');
    refused("bytes after a name's NUL", with(vec![good(), zero]), "after a name's end");
    let binary = entry_with("models/a", b'0', b"", |header| header[7] = 0xff);
    refused("a name that is no text", with(vec![good(), binary]), "UTF-8");
    let prefix = entry_with("models/a", b'0', b"", |header| header[345] = b'x');
    refused("a name prefix", with(vec![good(), prefix]), "prefix");
}

#[test]
fn entries_that_are_neither_files_nor_folders() {
    for kind in (0..=255u8).filter(|kind| !matches!(kind, b'0' | b'5' | b'x')) {
        let other = entry("models/other", kind, b"");
        refused(&format!("type {kind}"), with(vec![good(), other]), "only files and folders");
    }
    let linked = entry_with("models/a", b'0', b"", |header| header[157] = b'x');
    refused("a link name", with(vec![good(), linked]), "link name");
    for mode in ["0004555", "0002555", "0001555", "0000446", "0007777"] {
        let odd = entry_with("models/a", b'0', b"", |header| header[100..107].copy_from_slice(mode.as_bytes()));
        refused(mode, with(vec![good(), odd]), "refused");
    }
}

#[test]
fn a_link_in_one_layer_and_a_file_through_it_in_the_next() {
    let mut craft = craft_with(tar(&[entry_with("models/weights", b'2', b"", |h| h[157..161].copy_from_slice(b"/etc"))]));
    craft.layers.push(CraftedLayer::plain(tar(&[good()])));
    refused("link then file", craft.build(), "link name");
}

#[test]
fn headers_that_two_readers_would_see_differently() {
    let sized = |size: &'static [u8]| {
        entry_with("models/a", b'0', b"", move |header| header[124..124 + size.len()].copy_from_slice(size))
    };
    refused("base-256 size", with(vec![good(), sized(b"\x80\0\0\0\0\0\0\0\0\0\0\0")]), "octal");
    refused("blank size", with(vec![good(), sized(b"            ")]), "octal");
    refused("decimal size", with(vec![good(), sized(b"00000000009\0")]), "octal");
    refused("size beyond the end", with(vec![good(), sized(b"77777777777\0")]), "");
    let gnu = entry_with("models/a", b'0', b"", |header| header[257..265].copy_from_slice(b"ustar  \0"));
    refused("GNU magic", with(vec![good(), gnu]), "ustar");
    let old = entry_with("models/a", b'0', b"", |header| header[257..265].fill(0));
    refused("no magic", with(vec![good(), old]), "ustar");
    let mut unsealed = good();
    unsealed[105] ^= 1;
    refused("checksum", with(vec![unsealed]), "checksum");
    refused("folder with data", with(vec![good(), entry("models/d/", b'5', b"x")]), "folder with data");
    let mut hidden = good();
    hidden[512 + 400] = 1;
    refused("bytes in the padding", with(vec![hidden]), "padding");
}

#[test]
fn extended_headers_that_lie() {
    let case = |what: &str, records: String, reason: &str| refused(what, with(vec![extended(&records), good()]), reason);
    case("size", record("size", "4"), "two sizes");
    case("path", record("path", "models/weights/1.bin"), "two names");
    case("climbing path", record("path", "models/weights/0.bin/../x"), "component");
    case("link", record("linkpath", "/etc"), "linkpath");
    case("sparse", record("GNU.sparse.major", "1"), "GNU.sparse");
    case("attributes", record("SCHILY.xattr.security.capability", "x"), "xattr");
    case("twice", record("size", "3") + &record("size", "3"), "twice");
    case("no number", record("size", "03"), "no number");
    case("negative", record("size", "-3"), "no number");
    case("length too long", "99 size=3\n".to_owned(), "lengths");
    case("length too short", "5 size=3\n".to_owned(), "lengths");
    case("no line end", "10 size=33".to_owned(), "lengths");
    case("no equals", "8 size3\n".to_owned(), "without =");
    case("no length", "size=3\n".to_owned(), "lengths");
    case("huge length", "18446744073709551617 a=b\n".to_owned(), "lengths");
    let alone = extended(&record("comment", "x"));
    refused("two in a row", with(vec![alone.clone(), alone.clone(), good()]), "type 'x'");
    refused("without a file", with(vec![good(), alone]), "without its file");
    refused("too long", with(vec![extended(&record("comment", &"x".repeat(200_000))), good()]), "128 KiB");
    refused("global", with(vec![entry("g", b'g', record("size", "4").as_bytes()), good()]), "type 'g'");
}

#[test]
fn the_same_path_twice_and_what_follows_the_end() {
    refused("twice", with(vec![good(), good()]), "twice");
    refused("folder twice", with(vec![entry("models/", b'5', b""), entry("models", b'5', b""), good()]), "twice");
    refused("below a file", with(vec![good(), entry("models/weights/0.bin/x", b'0', b"")]), "lies in it");
    refused("a file above", with(vec![good(), entry("models/weights", b'0', b"")]), "lie in it");
    let mut two_layers = craft();
    two_layers.layers.push(CraftedLayer::plain(tar(&[good()])));
    refused("in two layers", two_layers.build(), "two layers");
    let layer = tar(&[good()]);
    refused("more zeros", craft_with([&layer[..], &[0; 512]].concat()).build(), "after the end");
    refused("a second tar", craft_with([&layer[..], &layer].concat()).build(), "after the end");
    refused("one more byte", craft_with([&layer[..], &[0]].concat()).build(), "after the end");
    refused("a lone zero block", craft_with([&[0; 512], &layer[..]].concat()).build(), "lone zero block");
    refused("one end block", craft_with(layer[..layer.len() - 512].to_vec()).build(), "too early");
    refused("outer data", [craft().build(), vec![0]].concat(), "after the end");
    refused("empty file", Vec::new(), "not a tar");
    refused("a picture", vec![0x89; 5000], "not a tar");
    let mut outer = craft();
    outer.outer = vec![entry("index.json", b'0', b"{}")];
    refused("a second index.json", outer.build(), "twice");
    let mut outer = craft();
    outer.outer = vec![entry("evil", b'0', b"{}")];
    refused("a stranger in the archive", outer.build(), "no part of an OCI layout");
    let mut outer = craft();
    outer.outer = vec![entry("blobs/sha256/abc", b'0', b"{}")];
    refused("a blob without a digest", outer.build(), "not named by a digest");
}
