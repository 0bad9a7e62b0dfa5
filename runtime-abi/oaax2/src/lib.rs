//! oaax2-runtime: not yet written.
