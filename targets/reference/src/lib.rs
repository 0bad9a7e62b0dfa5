//! oaaxc-target-reference: not yet written.
