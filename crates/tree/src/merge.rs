//! Merging dirty records with the pages they belong to.

use std::cmp::Ordering;

use ecotone_engine::superseded::LeftOut;
use ecotone_substrate::page::{
    Page, PageAddress, PageBuilder, PageKind, RecordKind, capacity, prefix_len, record_bytes, replace_values,
};

use super::{dirty::DirtyRecord, records::Records};

/// Adds the records of a page pair as a reader sees them: base and overflow page merged, with the dirty records over
/// them. Calls `seen` with `None` for each stored record, and with the dirty record for each dirty record whose key is
/// in neither page.
pub(crate) fn visible<'d>(
    (base, overflow): &(Page<'_>, Option<Page<'_>>),
    dirty: impl Iterator<Item = DirtyRecord<'d>>,
    merged: &mut Records,
    seen: impl FnMut(Option<DirtyRecord<'d>>),
) {
    let Some(overflow) = overflow else { return overlay(merged, entries(base), dirty, seen) };
    let (mut first, mut second) = (Records::default(), Records::default());
    first.push_page(base);
    second.push_page(overflow);
    let stored = union(&first, &second);
    overlay(merged, stored.iter().map(|(key, value)| (&[][..], key, value)), dirty, seen);
}

/// A stored record: the prefix of its page, the rest of its key, and its value.
type StoredRecord<'a> = (&'a [u8], &'a [u8], &'a [u8]);

fn entries<'a>(page: &Page<'a>) -> impl Iterator<Item = StoredRecord<'a>> {
    let prefix = page.prefix();
    page.iter().map(move |entry| (prefix, entry.suffix, entry.value))
}

/// Merges two runs. If a key is in both (which no intact segment has), the first run's record stays.
pub(crate) fn union(first: &Records, second: &Records) -> Records {
    let mut merged = Records::default();
    let (mut i, mut j) = (0, 0);
    while i < first.len() || j < second.len() {
        let order = match (i < first.len(), j < second.len()) {
            (true, true) => first.get(i).0.cmp(second.get(j).0),
            (true, false) => Ordering::Less,
            _ => Ordering::Greater,
        };
        let (key, value) = if order == Ordering::Greater { second.get(j) } else { first.get(i) };
        merged.push(key, value);
        i += usize::from(order != Ordering::Greater);
        j += usize::from(order != Ordering::Less);
    }
    merged
}

/// Adds stored records with dirty records over them. A dirty record replaces or adds a record; a tombstone hides one.
fn overlay<'a, 'd>(
    merged: &mut Records,
    stored: impl Iterator<Item = StoredRecord<'a>>,
    dirty: impl Iterator<Item = DirtyRecord<'d>>,
    mut seen: impl FnMut(Option<DirtyRecord<'d>>),
) {
    let mut dirty = dirty.peekable();
    let emit = |merged: &mut Records, record: DirtyRecord<'_>| {
        if let Some(value) = record.value {
            merged.push(record.key, value);
        }
    };
    for (prefix, suffix, value) in stored {
        let order = |record: &DirtyRecord<'_>| match record.key.strip_prefix(prefix) {
            Some(rest) => rest.cmp(suffix),
            None => record.key.cmp(prefix),
        };
        while let Some(record) = dirty.next_if(|record| order(record).is_lt()) {
            emit(merged, record);
            seen(Some(record));
        }
        seen(None);
        match dirty.next_if(|record| order(record).is_eq()) {
            Some(record) => emit(merged, record),
            None => merged.push_parts(prefix, suffix, value),
        }
    }
    for record in dirty {
        emit(merged, record);
        seen(Some(record));
    }
}

/// The keys of dirty records that neither page has.
pub(crate) fn added<'a>(
    base: &Page<'_>,
    overflow: Option<&Page<'_>>,
    dirty: impl Iterator<Item = DirtyRecord<'a>>,
) -> impl Iterator<Item = &'a [u8]> {
    let stored = move |key: &[u8]| base.search(key).is_ok() || overflow.is_some_and(|page| page.search(key).is_ok());
    dirty.filter(move |record| record.value.is_some() && !stored(record.key)).map(|record| record.key)
}

/// Collects the stored versions that dirty records replace or remove.
pub(crate) fn collect_left_out<'d>(
    (base, overflow): &(Page<'_>, Option<Page<'_>>),
    dirty: impl Iterator<Item = DirtyRecord<'d>>,
    left_out: &mut LeftOut,
) {
    if !left_out.is_wanted() {
        return;
    }
    for DirtyRecord { key, value, .. } in dirty.filter(|record| !record.page_reported) {
        let stored = base.get(key).or_else(|| overflow.as_ref()?.get(key));
        left_out.newest(value);
        left_out.hidden(key, stored.map(|(_, stored)| stored));
    }
}

/// The result of a write-out into a page pair.
#[derive(Debug)]
pub(crate) enum WriteOutResult {
    /// New content of the pages that change. A new overflow page has no page number yet.
    Pages(ChangedPages),
    /// The dirty records do not fit without moving a record to another page: the segment must be reorganised.
    Reorganise,
}

/// New content of a page.
#[derive(Debug)]
pub(crate) enum PageContent {
    /// All records of the page.
    Records(Records),
    /// The stored records, with the values of the dirty records put in at these positions.
    Values(Vec<usize>),
}

impl PageContent {
    /// Builds the page with this `shape`. `old` is the old base page, and `dirty` the records that the content was made
    /// with.
    pub(crate) fn build<'d>(
        &self,
        block: &mut [u8],
        place: PageAddress,
        shape: PageSpec<'_>,
        old: &Page<'_>,
        dirty: impl Iterator<Item = DirtyRecord<'d>>,
        seq: u64,
    ) {
        match self {
            PageContent::Records(records) => build(block, place, shape, records.iter(), seq),
            PageContent::Values(positions) => {
                let values = dirty.map(|record| record.value.unwrap_or_default());
                replace_values(block, old, positions.iter().copied().zip(values), place, seq);
            }
        }
    }
}

/// New content of the changed pages of a page pair; `None` leaves a page unchanged.
#[derive(Debug, Default)]
pub(crate) struct ChangedPages {
    pub(crate) base: Option<PageContent>,
    pub(crate) overflow: Option<PageContent>,
    /// Bytes of the base page's records after the change, to find underfull pages.
    pub(crate) base_bytes: usize,
    /// Records that were deleted.
    pub(crate) removed: usize,
}

/// Puts each dirty record into the page that has its key. New keys go into the base page while they fit, then into the
/// overflow page (tree-protocol.md, invariant 1).
pub(crate) fn write_out<'d>(
    base: &Page<'_>,
    overflow: Option<&Page<'_>>,
    dirty: impl Iterator<Item = DirtyRecord<'d>> + Clone,
) -> WriteOutResult {
    if let Some(positions) = positions(base, dirty.clone()) {
        let base_bytes = capacity(base.lower(), base.upper()) - base.room();
        return WriteOutResult::Pages(ChangedPages {
            base: Some(PageContent::Values(positions)),
            base_bytes,
            ..ChangedPages::default()
        });
    }
    let holds = |page: &Page<'_>, record: DirtyRecord<'_>| page.search(record.key).is_ok();
    let mut to_base = Vec::new();
    let mut to_overflow = Vec::new();
    let mut fresh = Vec::new();
    for record in dirty {
        match record {
            record if holds(base, record) => to_base.push(record),
            record if overflow.is_some_and(|overflow| holds(overflow, record)) => to_overflow.push(record),
            record if record.value.is_some() => fresh.push(record),
            _ => {}
        }
    }
    let room = capacity(base.lower(), base.upper());
    let Some(mut base_bytes) = bytes_after(base, base, &to_base, room) else { return WriteOutResult::Reorganise };
    let prefix = prefix_len(base.lower(), base.upper());
    let removed = to_base.iter().chain(&to_overflow).filter(|record| record.value.is_none()).count();
    for record in fresh {
        let bytes = record_bytes(prefix, record.key.len(), record.value.map_or(0, <[u8]>::len));
        if base_bytes + bytes <= room {
            base_bytes += bytes;
            to_base.push(record);
        } else {
            to_overflow.push(record);
        }
    }
    let overflow_base = overflow.unwrap_or(base);
    let stored = overflow.map(|overflow| (overflow, &to_overflow));
    let fits = match stored {
        Some((overflow, records)) => bytes_after(overflow, overflow_base, records, room).is_some(),
        None => to_overflow.iter().map(|record| new_bytes(prefix, *record)).sum::<usize>() <= room,
    };
    if !fits {
        return WriteOutResult::Reorganise;
    }
    WriteOutResult::Pages(ChangedPages {
        base: change(Some(base), to_base),
        overflow: change(overflow, to_overflow),
        base_bytes,
        removed,
    })
}

/// Positions of the dirty records in a page, if the page has all of their keys with values of the same lengths. The
/// values can then be replaced in place, which costs far less than to rebuild the page.
fn positions<'d>(page: &Page<'_>, dirty: impl Iterator<Item = DirtyRecord<'d>>) -> Option<Vec<usize>> {
    let position = |record: DirtyRecord<'_>| {
        let position = page.search(record.key).ok()?;
        let stored = page.entry(position).filter(|entry| entry.kind == RecordKind::Value)?;
        (record.value?.len() == stored.value.len()).then_some(position)
    };
    let mut positions = Vec::new();
    for record in dirty {
        positions.push(position(record)?);
    }
    Some(positions)
}

fn new_bytes(prefix: usize, record: DirtyRecord<'_>) -> usize {
    record.value.map_or(0, |value| record_bytes(prefix, record.key.len(), value.len()))
}

/// Bytes of a page's records after `records` are put in; `None` if they exceed `room`.
fn bytes_after(page: &Page<'_>, fences: &Page<'_>, records: &[DirtyRecord<'_>], room: usize) -> Option<usize> {
    let prefix = prefix_len(fences.lower(), fences.upper());
    let old = |record: DirtyRecord<'_>| {
        let stored = page.get(record.key);
        stored.map_or(0, |(_, value)| record_bytes(prefix, record.key.len(), value.len()))
    };
    let leaving: usize = records.iter().map(|record| old(*record)).sum();
    let coming: usize = records.iter().map(|record| new_bytes(prefix, *record)).sum();
    let bytes = (room - page.room()).saturating_sub(leaving) + coming;
    (bytes <= room).then_some(bytes)
}

fn change(page: Option<&Page<'_>>, mut dirty: Vec<DirtyRecord<'_>>) -> Option<PageContent> {
    if dirty.is_empty() {
        return None;
    }
    dirty.sort_unstable_by_key(|record| record.key);
    let mut merged = Records::default();
    let stored = page.iter().flat_map(|page| entries(page));
    overlay(&mut merged, stored, dirty.into_iter(), |_| ());
    Some(PageContent::Records(merged))
}

/// Kind and fences of a page to be built.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PageSpec<'a> {
    pub(crate) kind: PageKind,
    pub(crate) related: u32,
    pub(crate) lower: &'a [u8],
    pub(crate) upper: Option<&'a [u8]>,
}

/// Builds a page from records whose size was checked before.
///
/// # Panics
/// If the records do not fit.
pub(crate) fn build<'a>(
    buffer: &mut [u8],
    place: PageAddress,
    shape: PageSpec<'_>,
    records: impl Iterator<Item = (&'a [u8], &'a [u8])>,
    seq: u64,
) {
    let mut page = PageBuilder::new(buffer, place, shape.kind, shape.related, shape.lower, shape.upper);
    for (key, value) in records {
        assert!(page.push(RecordKind::Value, key, value), "records that were counted to fit do not");
    }
    page.finish(seq);
}

#[cfg(test)]
mod tests;
