//! Ingests ascending records into pages, over the records that the pages hold. The adaptive engine converts tables to
//! pages this way (adaptive.md, "Converting to pages").

use std::time::Duration;

use ecotone_substrate::Result;

use super::{
    Tree,
    bulk::CHUNK,
    claims::Claim,
    dirty::{DirtyRecord, DirtyRecords},
    reorganise::{ROUND, ReorganisationUnit},
    segment_update::SegmentUpdate,
    write_out::Leftover,
};

/// A record to be ingested. Without a value it removes the key from the pages.
pub(crate) type IngestRecord = (Vec<u8>, Option<Vec<u8>>);

impl Tree {
    /// Writes records into pages, over those that the pages hold. The keys ascend, and no other thread writes any of
    /// them. The records are durable on return, except for the log's tail. Returns their number. After an error a
    /// prefix of the records has been written, and some segments may hold more. `inserts` says whether the forecast
    /// counts keys that are new to the pages as inserts; they may have been in another tier.
    ///
    /// # Errors
    /// If the iterator ends with an error, memory or disk space is short, or something is damaged or cannot be read or
    /// written.
    pub fn ingest(&self, records: &mut dyn Iterator<Item = Result<IngestRecord>>, inserts: bool) -> Result<u64> {
        let mut ingested = 0;
        loop {
            let chunk = chunk(records)?;
            if chunk.is_empty() {
                return Ok(ingested);
            }
            ingested += chunk.len() as u64;
            self.ingest_chunk(&chunk, inserts)?;
        }
    }

    fn ingest_chunk(&self, records: &DirtyRecords, inserts: bool) -> Result<()> {
        let mut start = 0;
        while start < records.len() {
            self.check_live()?;
            let mut claim = self.store.claims.claim();
            let updates = self.take_updates(&mut claim, records, &mut start)?;
            let sparse = self.ingest_updates(updates, inserts)?;
            drop(claim);
            self.reorganiser.reorganise(&sparse, true)?;
        }
        Ok(())
    }

    /// Claims the segments of the records from `start` on, at most one round's pages, and divides the records among
    /// them. Returns at least one segment update.
    fn take_updates(
        &self,
        claim: &mut Claim<'_>,
        records: &DirtyRecords,
        start: &mut usize,
    ) -> Result<Vec<SegmentUpdate<'_>>> {
        let (mut updates, mut pages) = (Vec::new(), 0);
        while *start < records.len() {
            let at = self.store.locate(records.get(*start).key);
            pages += usize::from(at.segment.base_count());
            if pages > ROUND && !updates.is_empty() {
                break;
            }
            match self.store.claim_segment(claim, &at) {
                Some(at) => {
                    let end = records.count_below(at.upper.as_deref());
                    updates.push(SegmentUpdate::new(at, records.part(*start..end), None));
                    *start = end;
                }
                None if !updates.is_empty() => break,
                None => {
                    // Another operation holds the claim.
                    pages = 0;
                    self.context.shared.health.check()?;
                    ecotone_sys::primitive::thread::sleep(Duration::from_micros(100));
                }
            }
        }
        Ok(updates)
    }

    /// Writes records into their segments, in place where few pages get records. Returns a key of each page that
    /// deletes left underfull.
    fn ingest_updates(&self, updates: Vec<SegmentUpdate<'_>>, inserts: bool) -> Result<Vec<Vec<u8>>> {
        let (thin, mut thick): (Vec<_>, Vec<_>) = updates.into_iter().partition(SegmentUpdate::is_thin);
        let Leftover { full, failed, sparse } = self.write_out.write_updates(thin, inserts)?;
        thick.extend(full);
        thick.extend(self.merge_by_segment(&failed));
        thick.sort_unstable_by(|one, other| one.at.lower.cmp(&other.at.lower));
        if !thick.is_empty() {
            let units = ReorganisationUnit::group(thick, inserts, &self.store.pinned);
            self.reorganiser.rebuild(units, |unit| Some(self.reorganiser.planner.plan(unit, None)))?;
        }
        Ok(sparse)
    }

    /// Merges updates of single pages into one update for each segment. The segments are looked up again, since other
    /// pages of them may have got overflow pages.
    fn merge_by_segment<'t>(&self, of_pages: &[SegmentUpdate<'t>]) -> impl Iterator<Item = SegmentUpdate<'t>> {
        of_pages.chunk_by(|one, next| one.at.segment.page == next.at.segment.page).map(|pages| {
            let records = pages.iter().flat_map(|page| page.records.iter()).collect();
            SegmentUpdate::new(self.store.locate(&pages[0].at.lower), records, None)
        })
    }
}

/// The next chunk of records, which are ingested together.
fn chunk(records: &mut dyn Iterator<Item = Result<IngestRecord>>) -> Result<DirtyRecords> {
    let mut chunk = DirtyRecords::default();
    while chunk.memory() < CHUNK
        && let Some(record) = records.next()
    {
        let (key, value) = record?;
        chunk.push(DirtyRecord { key: &key, value: value.as_deref(), page_reported: false });
    }
    Ok(chunk)
}

#[cfg(all(test, not(feature = "loom")))]
mod tests {
    use super::*;

    /// For records with short keys, most of the memory is their offsets.
    #[test]
    fn a_chunk_of_short_records_has_no_more_memory_than_others() {
        let mut records = (0..1_000_000_u64).map(|number| Ok((number.to_be_bytes().to_vec(), None)));
        let chunk = chunk(&mut records).unwrap();
        let bytes = chunk.len() * (DirtyRecords::BESIDE + 8);
        assert!((CHUNK - 100..CHUNK + 100).contains(&bytes), "{} records", chunk.len());
    }
}
