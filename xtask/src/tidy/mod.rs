//! The invariants of the house, each a list of faults that is empty when it holds.
//!
//! A fault is one line, `place: what is wrong`, and says the rule. Checks read the workspace as cargo
//! describes it and the files that git tracks or would track; they change nothing.

mod arrows;
mod budget;
mod docs;
mod files;
mod manifests;
mod words;
mod workspace;

use std::path::Path;

/// All faults of the house at `root`, sorted by check. Errors: cargo or git cannot be asked.
pub fn check(root: &Path) -> Result<Vec<String>, String> {
    let workspace = workspace::load(root)?;
    let files = files::load(root)?;
    let mut faults = arrows::check(&workspace);
    faults.extend(manifests::check(&files));
    faults.extend(files::check(&files));
    faults.extend(words::check(&files));
    faults.extend(docs::check(&files));
    faults.extend(budget::check(&files));
    Ok(faults)
}
