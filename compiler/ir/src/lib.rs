//! oaaxc-ir: not yet written.
