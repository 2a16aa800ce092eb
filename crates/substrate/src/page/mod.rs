//! The 4 KiB slotted page (mechanism T5): sorted slots from the front, a record heap from the back, and two fence keys
//! whose common prefix the records leave out. The byte layout is in `docs/format/page.md`.

mod build;
mod check;
mod layout;
mod read;
mod resident;
#[cfg(test)]
mod tests;

pub use build::{PageBuilder, capacity, prefix_len, record_bytes, replace_values, seal};
pub use layout::{PageAddress, PageError, PageKind, RecordKind};
pub use read::{Entry, Page};
pub use resident::Resident;
