//! What the tests of all engines share.

#[cfg(feature = "loom")]
pub(crate) mod orders;
