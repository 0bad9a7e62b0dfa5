//! oaaxc-rt: not yet written.
