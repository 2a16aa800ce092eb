//! The hot index: from a hash to the newest record of its chain (H2; decision 10, "The index entry").

mod bucket;
mod entry;
mod find;
mod overflow;
mod table;
#[cfg(test)]
pub(in crate::hash) mod tests;

pub(crate) use self::{entry::Entry, find::Found, table::Table};
