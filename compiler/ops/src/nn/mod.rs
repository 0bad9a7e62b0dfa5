//! Neural-network operators: convolution, pooling, normalisation, recurrence, attention.

mod attention;
mod batch_norm;
pub mod conv;
mod conv_transpose;
mod dropout;
mod group_norm;
pub mod layer_norm;
mod losses;
mod lp_norm;
mod lrn;
mod pool;
pub mod recurrent;
mod rotary;
pub mod rows;
mod softmax;
pub mod window;

use oaaxc_ir::op::OpDef;

/// The operators of this group.
pub static OPS: &[&OpDef] = &[
    &attention::ATTENTION,
    &batch_norm::BATCH_NORMALIZATION,
    &conv::CONV,
    &conv_transpose::CONV_TRANSPOSE,
    &dropout::DROPOUT,
    &group_norm::GROUP_NORMALIZATION,
    &group_norm::INSTANCE_NORMALIZATION,
    &layer_norm::LAYER_NORMALIZATION,
    &layer_norm::RMS_NORMALIZATION,
    &layer_norm::SIMPLIFIED,
    &layer_norm::SIMPLIFIED_MICROSOFT,
    &layer_norm::SKIP,
    &layer_norm::SKIP_SIMPLIFIED,
    &losses::NLL_LOSS,
    &losses::SCE_LOSS,
    &lp_norm::LP_NORMALIZATION,
    &lrn::LRN,
    &pool::AVERAGE_POOL,
    &pool::GLOBAL_AVERAGE_POOL,
    &pool::GLOBAL_LP_POOL,
    &pool::GLOBAL_MAX_POOL,
    &pool::LP_POOL,
    &pool::MAX_POOL,
    &recurrent::GRU,
    &recurrent::LSTM,
    &recurrent::RNN,
    &rotary::ROTARY_EMBEDDING,
    &softmax::HARDMAX,
    &softmax::LOG_SOFTMAX,
    &softmax::SOFTMAX,
];
