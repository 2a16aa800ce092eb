//! Records from elsewhere into pages: ascending, over what the pages have (decision 14, "Turning tables into pages").

use std::time::Duration;

use ecotone_substrate::Result;

use super::{
    Tree,
    bulk::CHUNK,
    claims::Claim,
    dirty::{DirtyRecord, DirtyRecords},
    reorganise::{Neighbourhood, ROUND},
    share::Share,
    write_out::Leftover,
};

/// A record to be absorbed; no value removes what the pages have of the key.
pub(crate) type Absorbed = (Vec<u8>, Option<Vec<u8>>);

impl Tree {
    /// Brings records into pages, over what these have. Their keys ascend, and nobody else writes any of them; they are
    /// durable when it returns, but for the log's tail. Gives their number. After an error some have come, from the
    /// first on, and some segments may have more. Whether those that the pages had not are `inserts` the forecast is to
    /// know: they may have been elsewhere.
    ///
    /// # Errors
    /// If the records end with one, memory or space on the disk is wanting, or something is damaged or cannot be read
    /// or written.
    pub fn absorb(&self, records: &mut dyn Iterator<Item = Result<Absorbed>>, inserts: bool) -> Result<u64> {
        let mut absorbed = 0;
        loop {
            let chunk = chunk(records)?;
            if chunk.is_empty() {
                return Ok(absorbed);
            }
            absorbed += chunk.len() as u64;
            self.absorb_chunk(&chunk, inserts)?;
        }
    }

    fn absorb_chunk(&self, records: &DirtyRecords, inserts: bool) -> Result<()> {
        let mut start = 0;
        while start < records.len() {
            self.check_live()?;
            let mut claim = self.store.claims.claim();
            let shares = self.take_shares(&mut claim, records, &mut start)?;
            let sparse = self.absorb_shares(shares, inserts)?;
            drop(claim);
            self.reorganise(&sparse, true)?;
        }
        Ok(())
    }

    /// Claims the segments of the records from `start` on, a round's pages at most, and deals out these. There is at
    /// least one.
    fn take_shares(&self, claim: &mut Claim<'_>, records: &DirtyRecords, start: &mut usize) -> Result<Vec<Share<'_>>> {
        let (mut shares, mut pages) = (Vec::new(), 0);
        while *start < records.len() {
            let at = self.store.locate(records.get(*start).key);
            pages += usize::from(at.segment.base_count());
            if pages > ROUND && !shares.is_empty() {
                break;
            }
            match self.claim_segment(claim, &at) {
                Some(at) => {
                    let end = records.count_below(at.upper.as_deref());
                    shares.push(Share::new(at, records.part(*start..end), None));
                    *start = end;
                }
                None if !shares.is_empty() => break,
                None => {
                    // Its holder is in the middle of something.
                    pages = 0;
                    self.context.shared.health.check()?;
                    ecotone_sys::primitive::thread::sleep(Duration::from_micros(100));
                }
            }
        }
        Ok(shares)
    }

    /// Writes records into their segments, in place where that is less. Gives keys of pages that deletes left too
    /// empty.
    fn absorb_shares(&self, shares: Vec<Share<'_>>, inserts: bool) -> Result<Vec<Vec<u8>>> {
        let (thin, mut thick): (Vec<_>, Vec<_>) = shares.into_iter().partition(Share::is_thin);
        let Leftover { full, failed, sparse } = self.write_shares(thin, inserts)?;
        thick.extend(full);
        thick.extend(self.together(&failed));
        thick.sort_unstable_by(|one, other| one.at.lower.cmp(&other.at.lower));
        if !thick.is_empty() {
            let plan = |tree: &Tree, hood: &Neighbourhood<'_>| {
                Some(tree.plan(&hood.records, hood.lower(), hood.upper(), None))
            };
            self.rebuild(self.hoods(thick, inserts), plan)?;
        }
        Ok(sparse)
    }

    /// One share for each segment, as that is now: others of its pages may have got overflow pages.
    fn together<'t>(&self, of_pages: &[Share<'t>]) -> impl Iterator<Item = Share<'t>> {
        of_pages.chunk_by(|one, next| one.at.segment.page == next.at.segment.page).map(|pages| {
            let records = pages.iter().flat_map(|page| page.records.iter()).collect();
            Share::new(self.store.locate(&pages[0].at.lower), records, None)
        })
    }
}

/// The next records, as many as are brought into pages together.
fn chunk(records: &mut dyn Iterator<Item = Result<Absorbed>>) -> Result<DirtyRecords> {
    let mut chunk = DirtyRecords::default();
    while chunk.memory() < CHUNK
        && let Some(record) = records.next()
    {
        let (key, value) = record?;
        chunk.push(DirtyRecord { key: &key, value: value.as_deref() });
    }
    Ok(chunk)
}

#[cfg(all(test, not(feature = "loom")))]
mod tests {
    use super::*;

    /// Records of nothing but short keys are mostly what says where they lie.
    #[test]
    fn a_chunk_of_short_records_has_no_more_memory_than_others() {
        let mut records = (0..1_000_000_u64).map(|number| Ok((number.to_be_bytes().to_vec(), None)));
        let chunk = chunk(&mut records).unwrap();
        let bytes = chunk.len() * (DirtyRecords::BESIDE + 8);
        assert!((CHUNK - 100..CHUNK + 100).contains(&bytes), "{} records", chunk.len());
    }
}
