//! The intermediate representations: graph, kernels, program; the types of the operator table; the interpreter.
//!
//! Promises: every structure is plain data, deterministic, printable. Nothing here names a
//! particular operator or target.

pub mod attributes;
pub mod dtype;
pub mod edit;
pub mod eval;
pub mod expr;
pub mod graph;
pub mod infer;
pub mod interpret;
pub mod kernel;
pub mod lower;
pub mod narrow;
pub mod op;
pub mod operands;
pub mod program;
pub mod scalar;
pub mod tensor;
pub mod text;
pub mod types;
pub mod upgrade;

pub use attributes::ReadAttributes;
pub use dtype::DType;
pub use expr::{AxisId, Expr, SymId};
pub use graph::{Attribute, BlockId, Def, Graph, Node, NodeId, ValueId};
pub use operands::ReadOperands;
pub use scalar::Scalar;
pub use tensor::{Datum, Tensor};
pub use types::{Fact, Symbols, TensorType, Type};
