//! Holds a test alone: our messages against an independent decoder of ONNX files, which nothing
//! that is shipped may link.
