//! oaax-abi: not yet written.
