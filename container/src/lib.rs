//! oaaxc-container: not yet written.
