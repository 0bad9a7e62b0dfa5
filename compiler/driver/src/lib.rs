//! oaaxc: not yet written.
