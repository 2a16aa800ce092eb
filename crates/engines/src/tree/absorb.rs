//! Records from elsewhere into pages: ascending, over what the pages have (decision 14, "Turning tables into pages").

use std::{collections::VecDeque, iter, time::Duration};

use ecotone_substrate::Result;

use super::{
    Tree,
    bulk::CHUNK,
    cache::DirtyRecord,
    claims::Claim,
    reorganise::{Neighbourhood, ROUND},
    store::Located,
    write_out::{Detached, Leftover},
};

/// A record to be absorbed; no value removes what the pages have of the key.
pub(crate) type Absorbed = (Vec<u8>, Option<Vec<u8>>);

/// A segment, claimed, and the records that go into it.
struct Share {
    at: Located,
    records: Vec<DirtyRecord>,
}

impl Share {
    /// Whether less than half of the pages get records: these are written in place then, and else the segment anew.
    fn is_thin(&self) -> bool {
        2 * self.by_page().count() < usize::from(self.at.segment.base_count())
    }

    /// The records of each page that gets some, with its position.
    fn by_page(&self) -> impl Iterator<Item = (u8, &[DirtyRecord])> {
        let position = move |record: &DirtyRecord| self.at.segment.position_of(&self.at.lower, &record.key);
        let pages = self.records.chunk_by(move |one, next| position(one) == position(next));
        pages.filter_map(move |records| Some((position(records.first()?), records)))
    }

    /// The same, to be written in place.
    fn detached(self) -> Vec<Detached> {
        let homes: Vec<_> = self.by_page().map(|(position, records)| (self.at.segment.home(position), records.len())).collect();
        let mut records = self.records.into_iter();
        homes
            .into_iter()
            .map(|(home, count)| Detached { home, dirty: records.by_ref().take(count).collect(), taken: None })
            .collect()
    }
}

impl Tree {
    /// Brings records into pages, over what these have. Their keys ascend, and nobody else writes any of them; they are durable when it returns, but for the log's
    /// tail. Gives their number. After an error some have come, from the first on, and some segments may have more. Whether those that the pages had not are `inserts`
    /// the forecast is to know: they may have been elsewhere.
    ///
    /// # Errors
    /// If the records end with one, memory or space on the disk is wanting, or something is damaged or cannot be read or written.
    pub fn absorb(&self, records: &mut dyn Iterator<Item = Result<Absorbed>>, inserts: bool) -> Result<u64> {
        let mut absorbed = 0;
        loop {
            let chunk = chunk(records)?;
            if chunk.is_empty() {
                return Ok(absorbed);
            }
            absorbed += chunk.len() as u64;
            self.absorb_chunk(chunk, inserts)?;
        }
    }

    fn absorb_chunk(&self, mut records: VecDeque<DirtyRecord>, inserts: bool) -> Result<()> {
        while !records.is_empty() {
            self.check_live()?;
            let mut claim = self.store.claims.claim();
            let shares = self.take_shares(&mut claim, &mut records)?;
            let sparse = self.absorb_shares(shares, inserts)?;
            drop(claim);
            self.reorganise(&sparse, true)?;
        }
        Ok(())
    }

    /// Claims the segments of the next records, a round's pages at most, and deals out these. There is at least one.
    fn take_shares(&self, claim: &mut Claim<'_>, records: &mut VecDeque<DirtyRecord>) -> Result<Vec<Share>> {
        let (mut shares, mut pages) = (Vec::new(), 0);
        while let Some(first) = records.front() {
            let at = self.store.locate(&first.key);
            pages += usize::from(at.segment.base_count());
            if pages > ROUND && !shares.is_empty() {
                break;
            }
            match self.claim_segment(claim, &at) {
                Some(at) => {
                    let upper = at.upper.as_deref();
                    let count = upper.map_or(records.len(), |upper| records.partition_point(|record| *record.key < *upper));
                    shares.push(Share { at, records: records.drain(..count).collect() });
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

    /// Writes records into their segments, in place where that is less. Gives keys of pages that deletes left too empty.
    fn absorb_shares(&self, shares: Vec<Share>, inserts: bool) -> Result<Vec<Vec<u8>>> {
        let segments: Vec<Located> = shares.iter().map(|share| share.at.clone()).collect();
        let (thin, mut thick): (Vec<_>, Vec<_>) = shares.into_iter().partition(Share::is_thin);
        let mut leftover = Leftover::default();
        if !thin.is_empty() {
            leftover = self.write_detached(thin.into_iter().flat_map(Share::detached).collect(), inserts)?;
        }
        for unwritten in leftover.unwritten.chunk_by(|one, next| one.home.segment == next.home.segment) {
            let at = segments.iter().find(|at| unwritten.first().is_some_and(|first| at.segment.page == first.home.segment));
            let records = unwritten.iter().flat_map(|detached| &detached.dirty).cloned().collect();
            thick.extend(at.map(|at| Share { at: at.clone(), records }));
        }
        thick.sort_unstable_by(|one, other| one.at.lower.cmp(&other.at.lower));
        if !thick.is_empty() {
            let plan = |tree: &Tree, hood: &Neighbourhood| Some(tree.plan(&hood.records, hood.lower(), hood.upper(), false));
            self.rebuild(self.hoods(thick, inserts), plan)?;
        }
        Ok(leftover.sparse)
    }

    /// Neighbours are planned together, unless there is a wall between them.
    fn hoods(&self, shares: Vec<Share>, inserts: bool) -> Vec<Neighbourhood> {
        let mut hoods: Vec<Neighbourhood> = Vec::new();
        for Share { at, records } in shares {
            let is_next =
                |hood: &&mut Neighbourhood| hood.upper() == Some(at.lower.as_slice()) && !self.store.walls.has(&at.lower);
            match hoods.last_mut().filter(is_next) {
                Some(hood) => {
                    hood.segments.push(at);
                    hood.given.extend(records);
                }
                None => {
                    let mut hood = Neighbourhood::new(vec![at]);
                    hood.given = records;
                    hood.inserts = inserts;
                    hoods.push(hood);
                }
            }
        }
        hoods
    }
}

/// The next records, as many as are brought into pages together.
fn chunk(records: &mut dyn Iterator<Item = Result<Absorbed>>) -> Result<VecDeque<DirtyRecord>> {
    let mut bytes = 0;
    let next = || {
        let next = if bytes < CHUNK { records.next()? } else { return None };
        Some(next.map(|(key, value)| {
            bytes += size_of::<DirtyRecord>() + key.len() + value.as_ref().map_or(0, Vec::len);
            DirtyRecord { key, value }
        }))
    };
    iter::from_fn(next).collect()
}

#[cfg(all(test, not(feature = "loom")))]
mod tests {
    use super::*;

    /// Records of nothing but short keys are mostly what holds them.
    #[test]
    fn a_chunk_of_short_records_has_no_more_memory_than_others() {
        let mut records = (0..1_000_000_u64).map(|number| Ok((number.to_be_bytes().to_vec(), None)));
        let chunk = chunk(&mut records).unwrap();
        let bytes = chunk.len() * (size_of::<DirtyRecord>() + 8);
        assert!((CHUNK - 100..CHUNK + 100).contains(&bytes), "{} records", chunk.len());
    }
}
