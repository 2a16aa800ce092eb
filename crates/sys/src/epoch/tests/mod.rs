//! Tests of pins and grace periods.

#[cfg(not(any(feature = "shuttle", feature = "loom")))]
mod graces;
#[cfg(feature = "loom")]
mod orders;
