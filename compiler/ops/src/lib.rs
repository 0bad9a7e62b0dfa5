//! oaaxc-ops: not yet written.
