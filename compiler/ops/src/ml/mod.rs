//! Operators of ai.onnx.ml, as scikit-learn's exporter writes them.

mod forest;
mod scaler;
mod trees;

use oaaxc_ir::op::OpDef;

/// The operators of this group.
pub static OPS: &[&OpDef] = &[&scaler::BINARIZER, &scaler::SCALER, &trees::CLASSIFIER, &trees::REGRESSOR];
