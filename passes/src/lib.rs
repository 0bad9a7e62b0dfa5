//! oaaxc-passes: not yet written.
