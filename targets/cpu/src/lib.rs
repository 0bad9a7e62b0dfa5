//! oaaxc-target-cpu: not yet written.
