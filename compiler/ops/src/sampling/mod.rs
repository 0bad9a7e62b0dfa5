//! Operators that look at tensors as images: sampling grids, boxes, patches, centred crops.

mod affine_grid;
mod boxes;
mod center_crop;
mod columns;
mod grid_sample;

use oaaxc_ir::op::OpDef;

/// The operators of this group.
pub static OPS: &[&OpDef] = &[
    &affine_grid::AFFINE_GRID,
    &boxes::NON_MAX_SUPPRESSION,
    &center_crop::CENTER_CROP_PAD,
    &columns::COL2IM,
    &grid_sample::GRID_SAMPLE,
];
