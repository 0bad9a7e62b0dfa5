//! oaaxc-target-api: not yet written.
