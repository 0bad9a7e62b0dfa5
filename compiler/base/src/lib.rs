//! Ids and tables, diagnostics: what every floor of the compiler shares.
//!
//! Promises: nothing here knows of tensors, operators or targets.

pub mod codes;
pub mod diagnostic;
pub mod table;

pub use codes::{Code, CodeInfo};
pub use diagnostic::{Diagnostic, Diagnostics, Origin, Severity};
pub use table::{EntityId, SideTable, Table};
