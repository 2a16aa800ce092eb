//! Pins and graces.

#[cfg(not(any(feature = "shuttle", feature = "loom")))]
mod graces;
#[cfg(feature = "loom")]
mod orders;
