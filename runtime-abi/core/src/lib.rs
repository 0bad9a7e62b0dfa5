//! oaax-core: not yet written.
