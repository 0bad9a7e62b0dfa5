//! oaaxc-emit: not yet written.
