//! oaaxc-base: not yet written.
