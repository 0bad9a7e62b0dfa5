//! Limits on everything that a file can name. They are far above what real models have and keep a
//! hostile file from costing more memory or time than its size explains; docs/limits.md lists them.

/// Nested subgraphs.
pub const DEPTH: usize = 32;
/// Nodes of all graphs and functions of a file.
pub const NODES: u64 = 1_000_000;
/// Tensors (initialisers and attributes) of a file.
pub const TENSORS: u64 = 1_000_000;
/// Attributes of all nodes.
pub const ATTRIBUTES: u64 = 4_000_000;
/// Names of operands and results of all nodes, strings of string tensors and of attributes.
pub const STRINGS: u64 = 16_000_000;
/// Bytes of one name.
pub const NAME_BYTES: usize = 64 * 1024;
/// Elements of lists of numbers that take more bytes in memory than in the file.
pub const NUMBERS: u64 = 256_000_000;
/// All other messages: declared types and their dims, opset imports, metadata, test data.
pub const MESSAGES: u64 = 4_000_000;
/// Nodes that inlined functions add, and that loops add whose bodies are typed again.
pub const INLINED_NODES: u64 = 100_000;
/// Functions within functions.
pub const FUNCTION_DEPTH: usize = 32;
/// Dims of a tensor.
pub const RANK: usize = 64;
/// Bytes of a tensor in memory.
pub const TENSOR_BYTES: u128 = 1 << 46;
/// Bytes of a tensor that is written out though the file does not hold its elements (a sparse one).
pub const DENSE_BYTES: u128 = 1 << 30;
/// Problems reported in one run.
pub const DIAGNOSTICS: usize = 200;
