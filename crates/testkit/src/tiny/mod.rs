//! Two engines of a few hundred lines each, whose only purpose is to prove the contracts that every engine and the database owe each
//! other (`docs/decisions/0001-contracts.md`): one writes pages in place, one only appends.
//!
//! They keep little in order to be easy to believe: one lock for what is in memory, one turn for whatever does I/O in the background, and
//! cursors that copy their range.

pub mod append_only;
pub mod in_place;
mod pages;
mod runs;
mod table;
mod unflushed;

use std::{collections::BTreeMap, ops::RangeBounds};

use ecotone_engines::engine::{Context, Cursor, Range};
use ecotone_substrate::{Error, Result};

/// Keys with their newest values.
type Content = BTreeMap<Vec<u8>, Vec<u8>>;

/// A cursor over a copy.
fn cursor_over(content: Result<Content>, range: &Range) -> Cursor {
    match content {
        Ok(content) => {
            let inside: Vec<_> = content.into_iter().filter(|(key, _)| range.contains(key)).map(Ok).collect();
            Box::new(inside.into_iter())
        }
        Err(error) => Box::new(std::iter::once(Err(error))),
    }
}

/// Neither engine has options.
fn refuse_settings(context: &Context) -> Result<()> {
    match context.settings.first() {
        None => Ok(()),
        Some((name, _)) => Err(Error::Invalid(format!("a tiny engine has no option named {name:?}"))),
    }
}

/// The order of a bulk load: each key above the one before.
fn check_ascends(last: Option<&Vec<u8>>, key: &Vec<u8>) -> Result<()> {
    match last {
        Some(last) if last >= key => Err(Error::Invalid(format!("the key {:?} is out of order", key.escape_ascii().to_string()))),
        _ => Ok(()),
    }
}
