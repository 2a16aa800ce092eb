//! Engines of a few hundred lines each, whose only purpose is to prove the contracts that every engine and the database owe each
//! other (`docs/decisions/0001-contracts.md`): one writes pages in place, one only appends, one finds its keys by a hash.
//!
//! They keep little in order to be easy to believe: one lock for what is in memory, one turn for whatever does I/O in the background, and
//! cursors that copy their range. The hashed one has the files of the one that only appends.

pub mod append_only;
pub mod hashed;
pub mod in_place;
mod pages;
mod run;
mod runs;
mod table;
mod unflushed;

use std::{
    collections::{BTreeMap, VecDeque},
    ops::RangeBounds,
};

use ecotone_engines::engine::{Context, Cursor, Range, Record, RecordRef, Walk};
use ecotone_substrate::{Error, Result};

/// Keys with their newest values.
type Content = BTreeMap<Vec<u8>, Vec<u8>>;

/// A cursor over a copy.
struct CopyCursor {
    /// Records that are left, or why there are none.
    left: Result<VecDeque<Record>>,
    given: Record,
}

impl CopyCursor {
    fn new(left: Result<VecDeque<Record>>) -> Self {
        CopyCursor { left, given: Record::default() }
    }

    fn step(&mut self, take: fn(&mut VecDeque<Record>) -> Option<Record>) -> Result<Option<RecordRef<'_>>> {
        let Some(record) = take(self.left.as_mut().map_err(|error| error.clone())?) else { return Ok(None) };
        self.given = record;
        Ok(Some((&self.given.0, &self.given.1)))
    }
}

impl Cursor for CopyCursor {
    fn next(&mut self) -> Result<Option<RecordRef<'_>>> {
        self.step(VecDeque::pop_front)
    }

    fn next_back(&mut self) -> Result<Option<RecordRef<'_>>> {
        self.step(VecDeque::pop_back)
    }
}

impl Walk for CopyCursor {
    fn next(&mut self) -> Result<Option<RecordRef<'_>>> {
        self.step(VecDeque::pop_front)
    }
}

/// A cursor over the part of `content` that lies in `range`.
fn cursor_over(content: Result<Content>, range: &Range) -> Box<dyn Cursor> {
    let left = content.map(|content| content.into_iter().filter(|(key, _)| range.contains(key)).collect());
    Box::new(CopyCursor::new(left))
}

/// None of them has options.
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
