//! Dense ids of the host program's tables.
//! Each is an index into one table of [`crate::Program`]; the validator proves every one in range.

macro_rules! id {
    ($(#[$meta:meta])* $name:ident) => {
        $(#[$meta])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        pub struct $name(pub u32);

        impl $name {
            /// The id as an index.
            pub fn index(self) -> usize {
                self.0 as usize
            }
        }
    };
}

id!(
    /// A run-time integer (`r0`, `r1`, …): sizes, conditions, loop counters.
    Reg
);
id!(
    /// An expression over registers (or over a kernel's dims, see [`crate::KernelEntry`]).
    ExprId
);
id!(
    /// A value: a tensor's place and shape, or a sequence or optional cell.
    SlotId
);
id!(
    /// A kernel: one function for each level of its space.
    KernelId
);
id!(
    /// An interned string.
    StringId
);
