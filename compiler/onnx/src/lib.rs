//! oaaxc-onnx: not yet written.
