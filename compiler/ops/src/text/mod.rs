//! Operators on strings, and labels of classical models. Strings are evaluated, not yet compiled.

mod features;
mod labels;
mod ngrams;
mod normalize;
mod regex_match;
mod strings;

use oaaxc_ir::op::OpDef;

/// Why an operator on strings is not lowered.
const NOT_COMPILED: &str = "strings are evaluated, but not compiled yet";

/// The operators of this group.
pub static OPS: &[&OpDef] = &[
    &features::ARRAY_FEATURE_EXTRACTOR,
    &features::BINARIZER,
    &labels::LABEL_ENCODER,
    &ngrams::TF_IDF_VECTORIZER,
    &normalize::STRING_NORMALIZER,
    &regex_match::REGEX_FULL_MATCH,
    &strings::STRING_CONCAT,
    &strings::STRING_SPLIT,
];
