//! Hostile images around good tars: lies, bombs, floods, contradictions; each refused for the reason named.

mod common;

use std::io::Write;

use common::{CraftedLayer, altered, craft, entry, good, gzip, oaax_json, refused, tar, with};
use serde_json::{Value, json};

#[test]
fn digests_and_sizes_that_lie() {
    let zeros = format!("sha256:{}", "0".repeat(64));
    let layer = |change: fn(&mut CraftedLayer)| {
        let mut craft = craft();
        change(&mut craft.layers[0]);
        craft.build()
    };
    refused("wrong diff_id", layer(|l| l.diff_id = format!("sha256:{}", "0".repeat(64))), "the config says");
    refused("size +1", layer(|l| l.size += 1), "its descriptor says");
    refused("size -1", layer(|l| l.size -= 1), "its descriptor says");
    refused("size 0", layer(|l| l.size = 0), "its descriptor says");
    refused("huge size", layer(|l| l.size = u64::MAX), "its descriptor says");
    refused("other bytes", layer(|l| l.bytes[1024] ^= 1), "digest");
    refused("missing blob", layer(|l| l.digest = "sha256:".to_owned() + &"1".repeat(64)), "digest");
    for bad in ["md5:d41d8cd98f00b204e9800998ecf8427e", "sha256:../../../../etc/passwd", "sha256:ABC", "", "sha256:"] {
        let mut craft = craft();
        craft.layers[0].digest = bad.to_owned();
        refused(bad, craft.build(), "64 lower-case hexadecimal");
        craft_diff_id(bad);
    }
    fn craft_diff_id(bad: &str) {
        let mut craft = craft();
        craft.layers[0].diff_id = bad.to_owned();
        refused(bad, craft.build(), "64 lower-case hexadecimal");
    }
    let none = altered(|c| &mut c.config, |v| v["rootfs"]["diff_ids"] = json!([]));
    refused("no diff_ids", none, "0 diff_ids");
    let few = altered(|c| &mut c.config, |v| drop(v["rootfs"]["diff_ids"].as_array_mut().unwrap().pop()));
    refused("too few diff_ids", few, "1 diff_ids");
    let swapped = altered(|c| &mut c.config, |v| v["rootfs"]["diff_ids"].as_array_mut().unwrap().swap(0, 1));
    refused("swapped diff_ids", swapped, "the config says");
    let size = altered(|c| &mut c.manifest, |v| v["config"]["size"] = json!(7));
    refused("config size", size, "its descriptor says 7");
    let digest = altered(|c| &mut c.manifest, move |v| v["config"]["digest"] = json!(zeros));
    refused("config digest", digest, "missing");
    let index = altered(|c| &mut c.top, |v| v["manifests"][0]["size"] = json!(1));
    refused("index size", index, "its descriptor says 1");
    let media = altered(|c| &mut c.manifest, |v| v["layers"][0]["mediaType"] = json!("text/html"));
    refused("layer type", media, "text/html");
    let version = altered(|c| &mut c.manifest, |v| v["schemaVersion"] = json!(1));
    refused("schemaVersion", version, "schemaVersion 1");
    let artefact = altered(|c| &mut c.manifest, |v| v["artifactType"] = json!("x/y"));
    refused("an artefact is no image", artefact, "no image");
}

#[test]
fn bombs_in_gzip() {
    let zeros = vec![0u8; 40 << 20];
    let content = tar(&[entry("models/weights/0.bin", b'0', &zeros)]);
    let bomb = |oaax: Value| {
        let mut craft = craft();
        craft.oaax = oaax;
        craft.layers = vec![CraftedLayer::gzip(gzip(&content, 9), &content)];
        craft.build()
    };
    refused("undeclared", bomb(oaax_json(&[("weights/0.bin", b"abc")])), "another size");
    refused("declared", bomb(oaax_json(&[("weights/0.bin", &zeros)])), "200 times");
    let content = tar(&[good()]);
    let case = |what: &str, bytes: Vec<u8>, reason: &str| {
        let mut craft = craft();
        craft.layers = vec![CraftedLayer::gzip(bytes, &content)];
        refused(what, craft.build(), reason);
    };
    let packed = gzip(&content, 0);
    case("nested", gzip(&packed, 0), "ustar");
    case("two members", [packed.clone(), gzip(b"x", 0)].concat(), "after the end of the gzip");
    case("trailing byte", [&packed[..], &[0]].concat(), "after the end of the gzip");
    case("truncated", packed[..packed.len() - 1].to_vec(), "too early");
    let mut crc = packed.clone();
    let at = crc.len() - 6;
    crc[at] ^= 1;
    case("wrong CRC", crc, "layer");
    case("other content", gzip(&tar(&[entry("models/weights/0.bin", b'0', b"abd")]), 0), "the config says");
    let mut endless = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::new(9));
    for _ in 0..64 {
        endless.write_all(&vec![0; 1 << 20]).unwrap();
    }
    case("endless zeros", endless.finish().unwrap(), "");
}

#[test]
fn too_much_of_everything() {
    let many: Vec<Vec<u8>> = (0..70_000).map(|i| entry(&format!("usr/{i}"), b'0', b"")).collect();
    refused("many files", with(many), "65,536 entries");
    let mut layers = craft();
    for i in 0..130 {
        layers.layers.push(CraftedLayer::plain(tar(&[entry(&format!("usr/{i}"), b'0', b"")])));
    }
    refused("many layers", layers.build(), "132 layers");
    let copies = |v: &mut Value, count: usize| {
        let first = v["manifests"][0].clone();
        v["manifests"] = Value::from(vec![first; count]);
    };
    refused("many manifests", altered(|c| &mut c.index, move |v| copies(v, 1100)), "more than 1024");
    refused("many references", altered(|c| &mut c.top, move |v| copies(v, 1100)), "more than 1024");
    let deep = |v: &mut Value| {
        let nested = (0..100).fold(json!(1), |inner, _| json!([inner]));
        v["x"] = nested;
    };
    refused("deep config", altered(|c| &mut c.config, deep), "deeper");
    refused("deep index.json", altered(|c| &mut c.top, deep), "deeper");
    let wide = |v: &mut Value| v["x"] = json!("y".repeat(5 << 20));
    refused("long manifest", altered(|c| &mut c.manifest, wide), "more than 4194304");
    let noted = |v: &mut Value| v["annotations"] = json!({"x": "y".repeat(70_000)});
    refused("long annotations", altered(|c| &mut c.manifest, noted), "of annotations");
    let nested = altered(|c| &mut c.index, |v| v["manifests"][0]["mediaType"] = json!("application/vnd.oci.image.index.v1+json"));
    refused("an index in an index", nested, "inside an index");
}

#[test]
fn packages_that_do_not_fit_their_manifest() {
    refused("unlisted", with(vec![good(), entry("models/extra", b'0', b"")]), "not listed");
    refused("missing", with(vec![entry("models/", b'5', b"")]), "missing");
    refused("larger", with(vec![entry("models/weights/0.bin", b'0', b"abcd")]), "another size");
    refused("other data", with(vec![entry("models/weights/0.bin", b'0', b"abd")]), "does not have the digest");
    refused("a second oaax.json", with(vec![good(), entry("models/oaax.json", b'0', b"{}")]), "not listed");
    let manifest = |layer: Vec<u8>| {
        let mut craft = craft();
        craft.manifest_layer = Some(CraftedLayer::plain(layer));
        craft.build()
    };
    refused("no oaax.json", manifest(tar(&[entry("models/", b'5', b"")])), "no models/oaax.json");
    refused("last layer with more", manifest(tar(&[entry("models/x", b'0', b"")])), "not oaax.json alone");
    refused("no JSON", manifest(tar(&[entry("models/oaax.json", b'0', b"{")])), "not the JSON");
    let twice = br#"{"schema":1,"min_reader":1,"name":"a","name":"b"}"#;
    refused("a key twice", manifest(tar(&[entry("models/oaax.json", b'0', twice)])), "twice");
    let mut critical = craft();
    critical.oaax["critical"] = json!(["hash_tree", "moon"]);
    refused("critical", critical.build(), "moon");
    let mut leaves = craft();
    leaves.oaax["files"][0]["leaves"] = json!("00".repeat(32));
    refused("leaves and root", leaves.build(), "the root does not fit");
}
