//! The objects behind the opaque pointers.

use crate::types::{Dim, Port};
use oaax_core::{PortInfo, info_json, ports};
use std::{ffi::CString, sync::Arc};

/// Text for C; a NUL inside ends it.
pub fn c_text(text: &str) -> CString {
    let end = text.find('\0').unwrap_or(text.len());
    CString::new(&text[..end]).expect("no NUL before its first place")
}

/// An error.
pub struct Error {
    pub status: i32,
    pub message: CString,
    pub node: Option<CString>,
}

impl Error {
    pub fn boxed(error: oaax_core::Error) -> *mut Error {
        let node = error.node.as_deref().map(c_text);
        Box::into_raw(Box::new(Error { status: error.status as i32, message: c_text(&error.message), node }))
    }
}

/// A model with its ports in C's form.
pub struct Model {
    pub core: Arc<oaax_core::Model>,
    pub info: CString,
    pub inputs: Vec<Port>,
    pub outputs: Vec<Port>,
    /// What the ports point to.
    _texts: Vec<CString>,
    _dims: Vec<Vec<Dim>>,
}

// SAFETY: the pointers in the ports lead into the model's own unchanging lists.
unsafe impl Send for Model {}
// SAFETY: as above.
unsafe impl Sync for Model {}

impl Model {
    pub fn boxed(core: Arc<oaax_core::Model>) -> *mut Model {
        let (mut texts, mut dims) = (Vec::new(), Vec::new());
        let (inputs, outputs) = ports(core.program());
        let inputs = inputs.iter().map(|info| port(info, &mut texts, &mut dims)).collect();
        let outputs = outputs.iter().map(|info| port(info, &mut texts, &mut dims)).collect();
        let info = c_text(&info_json(&core));
        Box::into_raw(Box::new(Model { core, info, inputs, outputs, _texts: texts, _dims: dims }))
    }
}

/// Heap blocks of the strings and dims do not move when the lists that hold them grow.
fn port(info: &PortInfo, texts: &mut Vec<CString>, lists: &mut Vec<Vec<Dim>>) -> Port {
    let mut keep = |text: &str| {
        texts.push(c_text(text));
        texts.last().map_or(std::ptr::null(), |text| text.as_ptr())
    };
    let name = keep(&info.name);
    let dims = info.dims.iter().flatten().map(|dim| Dim {
        size: dim.size,
        symbol: keep(&dim.symbol),
        min: dim.min,
        max: dim.max,
        multiple: dim.multiple,
    });
    lists.push(dims.collect());
    Port {
        struct_size: size_of::<Port>() as u32,
        kind: info.kind,
        name,
        dtype: info.dtype.onnx(),
        rank: info.dims.as_ref().map_or(-1, |dims| dims.len() as i32),
        dims: lists.last().map_or(std::ptr::null(), |dims| dims.as_ptr()),
    }
}

/// A session.
pub struct Session(pub oaax_core::Session);
