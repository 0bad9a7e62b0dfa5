//! Packs a compiled model into an OCI container and reads such containers back.
//!
//! One content, two encodings: `write_archive` makes `model.oaax`, an OCI archive whose file data can be
//! mapped in place; `write_layout` makes an OCI layout in the form that registries keep.
//! `open` reads both, and an unpacked `/models` folder, and trusts nothing in them.
//! The bytes of the format stand in `docs/artefact.md`.
//!
//! Promises: equal packages give equal bytes; a failed write leaves no output; no bytes make the reader panic,
//! follow a link or unpack more than the manifest declares.
//! Never: sees a graph, depends on the compiler, or runs what it packs.
#![forbid(unsafe_code)]

mod archive;
mod check;
mod digest;
mod error;
mod gzip;
mod image;
mod inspect;
mod json;
mod layer;
mod layout;
mod manifest;
mod oci;
mod open;
mod package;
mod paths;
mod place;
mod prepare;
mod recode;
mod sink;
mod tar;

pub use archive::write_archive;
pub use digest::{Digest, HashTree, LEAF_SIZE, TreeHasher};
pub use error::{ContainerError, Result};
pub use inspect::{Report, ReportFile, ReportImage, ReportLayer, inspect};
pub use json::{canonical as canonical_json, strict as strict_json};
pub use layer::LayerRole;
pub use layout::write_layout;
pub use manifest::{
    Canary, DeviceNeed, Dim, Extra, Fallback, FileEntry, HashTreeForm, HostNode, KNOWN_CRITICAL, Manifest, Needs, Placement,
    PlacementEntry, PrecisionEntry, Producer, SCHEMA, SignaturePolicy, SymbolRange, Tolerance, ValueInfo, ValueType, Variant,
};
pub use open::{
    Expectation, FileRange, Form, OpenedFile, OpenedPackage, Verified, manifest_in_layer, open, open_bytes, open_with,
};
pub use package::{Data, Options, Package, PackageFile, Part, Platform, Role, RuntimeFile, target_folder};
pub use prepare::Written;
pub use recode::{to_archive, to_layout};

/// Every file's data begins at a multiple of this many bytes: in its layer, and in the archive.
/// It is the largest page size of the hosts that map artefacts (64 KiB pages on Arm).
pub const ALIGNMENT: u64 = 64 << 10;
