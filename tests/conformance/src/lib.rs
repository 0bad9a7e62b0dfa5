//! oaaxc-conformance: not yet written.
