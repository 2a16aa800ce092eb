//! Reorganisation: full segments and their neighbours with overflow pages become fresh pages (T10–T13 without models; decision 2).

use std::collections::HashSet;

use ecotone_substrate::Result;

use super::{
    Tree,
    cache::DirtyRecord,
    claims::Claim,
    index::{Change, Segment, Snapshot},
    merge,
    records::Records,
    space::Cause,
    spread::{Part, spread},
    store::{Located, Stored, ascending, descending},
    write_out::CHAIN_BYTES,
};

/// Segments that one round reads at most, so that it stays within its memory.
const ROUND: usize = 64;

/// Bytes of a chain that the reorganisation of one neighbourhood takes at most: the structural record must stay within a log record even
/// if every page gets the longest fences.
const LONG_CHAIN_BYTES: usize = 1 << 20;

/// Contiguous segments that become other pages, and what their records are.
pub(crate) struct Neighbourhood {
    pub(crate) segments: Vec<Located>,
    pub(crate) dirty: Vec<Vec<DirtyRecord>>,
    pub(crate) records: Records,
    pub(crate) parts: Vec<Part>,
    pub(crate) pages: Vec<u32>,
}

impl Neighbourhood {
    pub(crate) fn new(segments: Vec<Located>) -> Self {
        Neighbourhood { segments, dirty: Vec::new(), records: Records::default(), parts: Vec::new(), pages: Vec::new() }
    }

    pub(crate) fn lower(&self) -> &[u8] {
        self.segments.first().map_or(&[], |at| &at.lower)
    }

    pub(crate) fn upper(&self) -> Option<&[u8]> {
        self.segments.last().and_then(|at| at.upper.as_deref())
    }

    /// The i-th new segment.
    fn part(&self, i: usize) -> Located {
        let upper = self.parts.get(i + 1).map(|part| part.lower.as_slice()).or(self.upper());
        Located { lower: self.parts[i].lower.clone(), upper: upper.map(<[u8]>::to_vec), segment: Segment::new(self.pages[i]) }
    }

    fn change(&self, change: &mut Change) {
        change.remove.extend(self.segments.iter().map(|at| at.lower.clone()));
        change.insert.extend((0..self.parts.len()).map(|i| (self.parts[i].lower.clone(), Segment::new(self.pages[i]))));
    }
}

impl Tree {
    /// Reorganises the segments of these keys, with their neighbours that have overflow pages; `sparse` ones are put together with a neighbour. False
    /// if others hold them all.
    pub(crate) fn reorganise(&self, keys: &[Vec<u8>], sparse: bool) -> Result<bool> {
        let mut progress = false;
        for round in keys.chunks(ROUND / 4) {
            progress |= self.reorganise_round(round, sparse)?;
        }
        Ok(progress)
    }

    fn reorganise_round(&self, keys: &[Vec<u8>], sparse: bool) -> Result<bool> {
        let mut claim = self.store.claims.claim();
        let hoods = self.detect(&mut claim, keys, sparse);
        if hoods.is_empty() {
            return Ok(false);
        }
        self.rebuild(hoods, |tree, hood| spread(&hood.records, hood.lower(), hood.upper(), tree.options.fill.into()))?;
        Ok(true)
    }

    /// Range detection (T10): claims each key's segment and contiguous neighbours.
    fn detect(&self, claim: &mut Claim<'_>, keys: &[Vec<u8>], sparse: bool) -> Vec<Neighbourhood> {
        let snapshot = self.store.index.snapshot();
        let reach = usize::from(self.options.neighbours);
        let mut taken = HashSet::new();
        let mut hoods: Vec<Neighbourhood> = Vec::new();
        for key in keys {
            let centre = self.store.locate(key);
            let total: usize = hoods.iter().map(|hood| hood.segments.len()).sum();
            if total + 2 * reach + 2 > ROUND && !hoods.is_empty() {
                break;
            }
            if taken.contains(&centre.segment.page) || !self.claim_current(claim, &centre) {
                continue;
            }
            let mut segments = self.extend_left(claim, &snapshot, &centre, reach, false);
            segments.push(centre.clone());
            segments.extend(self.extend_right(claim, &snapshot, &centre, reach, sparse));
            if sparse && segments.len() == 1 {
                segments.splice(0..0, self.extend_left(claim, &snapshot, &centre, 1, true));
            }
            taken.extend(segments.iter().map(|at| at.segment.page));
            hoods.push(Neighbourhood::new(segments));
        }
        hoods
    }

    /// Neighbours to the left, in ascending order: those with overflow pages, or with `any` whatever comes.
    fn extend_left(&self, claim: &mut Claim<'_>, snapshot: &Snapshot, centre: &Located, reach: usize, any: bool) -> Vec<Located> {
        let before = descending(snapshot, Some(&centre.lower), false, reach);
        let wanted = |at: &Located| any || at.segment.overflow != Segment::NONE;
        let mut left: Vec<Located> = before.into_iter().take_while(|at| wanted(at) && self.claim_current(claim, at)).collect();
        left.reverse();
        left
    }

    /// Neighbours to the right: those with overflow pages; with `first` the next one whatever it is.
    fn extend_right(
        &self,
        claim: &mut Claim<'_>,
        snapshot: &Snapshot,
        centre: &Located,
        reach: usize,
        first: bool,
    ) -> Vec<Located> {
        let Some(upper) = &centre.upper else { return Vec::new() };
        let after = ascending(snapshot, upper, reach.max(usize::from(first)));
        let wanted = |(i, at): &(usize, Located)| (first && *i == 0) || at.segment.overflow != Segment::NONE;
        let claimed = after.into_iter().enumerate().take_while(|next| wanted(next) && self.claim_current(claim, &next.1));
        claimed.map(|(_, at)| at).collect()
    }

    /// Claims a segment; false if somebody has it, or if the index has moved on from it.
    pub(crate) fn claim_current(&self, claim: &mut Claim<'_>, at: &Located) -> bool {
        if !claim.try_add(at.segment.page) {
            return false;
        }
        let current = self.store.is_current(at) && self.store.locate(&at.lower).upper == at.upper;
        if !current {
            claim.release(at.segment.page);
        }
        current
    }

    /// Model building, write-out and index update (T11–T13) for claimed neighbourhoods. Their chains are taken along.
    pub(crate) fn rebuild(
        &self,
        mut hoods: Vec<Neighbourhood>,
        layout: impl Fn(&Tree, &Neighbourhood) -> Vec<Part>,
    ) -> Result<()> {
        // A single segment may have a long chain, as when keys come in ascending order: the more of it goes at once, the better.
        let chain = if hoods.len() == 1 {
            (self.context.shared.memory.budget() >> 5).clamp(CHAIN_BYTES, LONG_CHAIN_BYTES)
        } else {
            CHAIN_BYTES
        };
        for hood in &mut hoods {
            hood.dirty = hood.segments.iter().map(|at| self.cache.begin_write(self.number, at.segment.page, chain)).collect();
        }
        let rebuilt = self.gather(&mut hoods).and_then(|()| self.place(&mut hoods, layout)).and_then(|()| {
            let written = self.sync_log().and_then(|()| self.write_parts(&hoods)).and_then(|()| {
                let mut change = Change::default();
                hoods.iter().for_each(|hood| hood.change(&mut change));
                self.install(&change)
            });
            if written.is_err() {
                hoods.iter().try_for_each(|hood| self.store.space.free_now(&hood.pages))?;
            }
            written
        });
        for at in hoods.iter().flat_map(|hood| &hood.segments) {
            match &rebuilt {
                Ok(_) => self.cache.end_write(self.number, at.segment.page),
                Err(_) => self.cache.abort_write(self.number, at.segment.page),
            }
        }
        self.counters.reorganisations.add(hoods.len() as u64);
        // Only now: until the chains are done with, their pages must not come to stand for other segments.
        rebuilt.map(|replaced| self.give_back(&replaced))
    }

    /// Reads all records, with the dirty ones over them.
    fn gather(&self, hoods: &mut [Neighbourhood]) -> Result<()> {
        let located = hoods.iter().flat_map(|hood| hood.segments.iter().cloned()).collect();
        let mut stored = self.store.read(located, Cause::Reorganise)?.into_iter();
        for hood in hoods {
            let loaded = std::mem::take(&mut hood.records);
            for (dirty, stored) in hood.dirty.iter().zip(&mut stored) {
                self.gather_one(&stored, dirty, &mut hood.records)?;
            }
            // Records of a bulk load come last and give way to what is there.
            hood.records = merge::union(&hood.records, &loaded);
        }
        Ok(())
    }

    fn gather_one(&self, stored: &Stored, dirty: &[DirtyRecord], records: &mut Records) -> Result<()> {
        let (base, overflow) = self.store.claimed_pages(stored)?;
        merge::visible(&base, overflow.as_ref(), dirty).iter().for_each(|(key, value)| records.push(key, value));
        Ok(())
    }

    fn place(&self, hoods: &mut [Neighbourhood], layout: impl Fn(&Tree, &Neighbourhood) -> Vec<Part>) -> Result<()> {
        for hood in hoods.iter_mut() {
            hood.parts = layout(self, hood);
        }
        let wanted = hoods.iter().map(|hood| hood.parts.len()).sum();
        let mut pages = self.allocate(wanted)?.into_iter();
        for hood in hoods {
            hood.pages = pages.by_ref().take(hood.parts.len()).collect();
        }
        Ok(())
    }

    fn write_parts(&self, hoods: &[Neighbourhood]) -> Result<()> {
        let parts: Vec<(&Neighbourhood, usize)> =
            hoods.iter().flat_map(|hood| (0..hood.parts.len()).map(move |i| (hood, i))).collect();
        let pages: Vec<u32> = parts.iter().map(|(hood, i)| hood.pages[*i]).collect();
        self.store.file.writing()?.pages(Cause::Reorganise, &pages, |n, place, block| {
            let (hood, i) = parts[n];
            let at = hood.part(i);
            let records = hood.parts[i].records.clone().map(|position| hood.records.get(position));
            self.build(block, place, &at, None, records);
        })
    }

    /// A few reorganisations of segments with overflow pages, for idle times. False if there are none left to do.
    pub(crate) fn tidy(&self) -> Result<bool> {
        if self.store.overflow_pages() == 0 {
            return Ok(false);
        }
        let mut from = self.counters.broom.lock();
        let snapshot = self.store.index.snapshot();
        let overflowing = snapshot.ascend(&from).filter(|(_, segment)| segment.overflow != Segment::NONE);
        let keys: Vec<Vec<u8>> = overflowing.map(|(lower, _)| lower).take(ROUND / 4).collect();
        let wrapped = keys.is_empty() && !from.is_empty();
        *from = keys.last().cloned().unwrap_or_default();
        drop(from);
        Ok(wrapped || self.reorganise(&keys, false)?)
    }
}
