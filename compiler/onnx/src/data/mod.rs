//! Test data: tensors, sequences, optionals and maps as files of protobuf or npy.

pub mod npy;
mod pb;

pub use pb::{read, write};
