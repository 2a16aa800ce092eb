//! Reorganisation: full segments and neighbours that are worth it become fresh pages (T10–T13; decisions 2 and 5).

use std::{collections::HashSet, ops::Range, sync::atomic::Ordering};

use ecotone_substrate::{
    Result, bug,
    page::{PageKind, Place},
};

use super::{
    Tree,
    cache::{DirtyRecord, Stretch},
    claims::Claim,
    index::{Change, Home, Placement, Segment, Snapshot},
    install::Replaced,
    layout::{Part, Planned},
    merge::{self, Shape},
    records::Records,
    space::Cause,
    store::{Located, Stored, ascending, descending},
    structure::Structure,
    write_out::PAGE_BYTES,
};

/// Base pages that one round reads at most, so that it stays within its memory (64 in TreeLine).
pub(crate) const ROUND: usize = 64;

/// Dirty bytes that the reorganisation of one page takes at most: the structural record must stay within a log record even
/// if every page gets the longest fences.
const MOST_BYTES: usize = 1 << 20;

/// What a write-out or a reorganisation came to.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    /// Whether anything was done, which is not so where others hold all claims.
    pub(crate) is_any: bool,
    /// The keys of pages that had more dirty records than were taken.
    pub(crate) left: Vec<Stretch>,
}

impl Progress {
    pub(crate) fn add(&mut self, other: Progress) {
        self.is_any |= other.is_any;
        self.left.extend(other.left);
    }
}

/// Contiguous segments that become other segments, and what their records are.
pub(crate) struct Neighbourhood {
    pub(crate) segments: Vec<Located>,
    /// Dirty records of the base pages, in their order, and the keys up to which they were taken of each.
    dirty: Vec<Vec<DirtyRecord>>,
    taken: Vec<Stretch>,
    /// Others that come over what the pages have, ascending. Where there are some, the cache has no dirty ones.
    pub(crate) given: Vec<DirtyRecord>,
    /// Whether those of which no page has the key are inserts, of which the forecast is told.
    pub(crate) inserts: bool,
    pub(crate) records: Records,
    /// Keys that no page had before.
    added: Vec<Vec<u8>>,
    pub(crate) plan: Vec<Planned>,
    /// The first page of each segment that is planned.
    pages: Vec<u32>,
}

impl Neighbourhood {
    pub(crate) fn new(segments: Vec<Located>) -> Self {
        Neighbourhood {
            segments,
            dirty: Vec::new(),
            taken: Vec::new(),
            given: Vec::new(),
            inserts: true,
            records: Records::default(),
            added: Vec::new(),
            plan: Vec::new(),
            pages: Vec::new(),
        }
    }

    pub(crate) fn lower(&self) -> &[u8] {
        self.segments.first().map_or(&[], |at| &at.lower)
    }

    pub(crate) fn upper(&self) -> Option<&[u8]> {
        self.segments.last().and_then(|at| at.upper.as_deref())
    }

    fn homes(&self) -> impl Iterator<Item = Home> {
        self.segments.iter().flat_map(|at| at.segment.homes())
    }

    fn base_count(&self) -> usize {
        self.segments.iter().map(|at| usize::from(at.segment.base_count())).sum()
    }

    fn stretches(&self) -> impl Iterator<Item = Stretch> {
        self.segments.iter().flat_map(Located::stretches)
    }

    /// The base pages that come, with their numbers.
    fn parts(&self) -> impl Iterator<Item = (u32, &Part)> {
        self.plan.iter().zip(&self.pages).flat_map(|(planned, first)| (*first..).zip(&planned.pages))
    }

    fn all_pages(&self) -> Vec<u32> {
        self.parts().map(|(page, _)| page).collect()
    }

    /// Makes single pages of all that is planned.
    fn take_apart(&mut self) {
        let parts = std::mem::take(&mut self.plan).into_iter().flat_map(|planned| planned.pages);
        self.plan = parts.map(|part| Planned { placement: Placement::Single, pages: vec![part] }).collect();
    }

    fn change(&self, change: &mut Change) {
        change.remove.extend(self.segments.iter().map(|at| at.lower.clone()));
        for (planned, page) in self.plan.iter().zip(&self.pages) {
            let segment = Segment::placed(*page, planned.pages.len() as u8, planned.placement.clone());
            change.insert.push((planned.pages[0].lower.clone(), segment));
        }
    }
}

/// A base page to be written.
struct Fresh<'a> {
    page: u32,
    lower: &'a [u8],
    upper: Option<&'a [u8]>,
    records: &'a Records,
    range: Range<usize>,
}

/// Base pages that may still be taken.
#[derive(Debug, Clone, Copy)]
struct Room {
    /// By the round.
    round: usize,
    /// By the neighbourhood, until it has as many as a segment may have.
    hood: usize,
}

impl Room {
    /// Begins a neighbourhood with a segment, whatever room there is. The last of all stays alone: where keys only rise, it is reorganised again and again.
    fn begin(&mut self, centre: &Located, most: u8) {
        let pages = usize::from(centre.segment.base_count());
        self.round = self.round.saturating_sub(pages);
        self.hood = if centre.upper.is_none() { 0 } else { usize::from(most).saturating_sub(pages) };
    }

    /// Whether a neighbour is worth taking: it has overflow pages, or all might become one segment.
    fn wants(&self, neighbour: &Segment) -> bool {
        neighbour.is_worth_taking() || usize::from(neighbour.base_count()) <= self.hood
    }

    /// Takes a neighbour; false if there is no room for it.
    fn take(&mut self, neighbour: &Segment) -> bool {
        let pages = usize::from(neighbour.base_count());
        let fits = pages <= self.round;
        if fits {
            self.round -= pages;
            self.hood = self.hood.saturating_sub(pages);
        }
        fits
    }
}

impl Tree {
    /// Reorganises the segments of these keys, with their neighbours that have overflow pages or are small; `sparse` ones are put together with a neighbour.
    pub(crate) fn reorganise(&self, keys: &[Vec<u8>], sparse: bool) -> Result<Progress> {
        let (mut progress, mut rest, mut round) = (Progress::default(), keys, ROUND);
        while !rest.is_empty() {
            match self.reorganise_round(rest, sparse, round) {
                // A segment at a time needs the least space, since each gives back what it replaces.
                Err(error) if error.is_no_space() && round > 1 => round = 1,
                ended => {
                    let (done, reorganised) = ended?;
                    progress.add(reorganised);
                    rest = &rest[done..];
                }
            }
        }
        Ok(progress)
    }

    /// Reorganises about `round` base pages. Gives how many of the keys were looked at, and what was done.
    fn reorganise_round(&self, keys: &[Vec<u8>], sparse: bool, round: usize) -> Result<(usize, Progress)> {
        let mut claim = self.store.claims.claim();
        let (done, hoods) = self.detect(&mut claim, keys, sparse, Room { round, hood: 0 });
        if hoods.is_empty() {
            return Ok((done, Progress::default()));
        }
        let left = self.rebuild(hoods, |tree, hood| {
            let plan = tree.plan(&hood.records, hood.lower(), hood.upper(), false);
            let pages: usize = plan.iter().map(|planned| planned.pages.len()).sum();
            // Pages that deletes left too empty are worth it only if there are much fewer of them then.
            if sparse && pages * 4 > hood.base_count() * 3 { None } else { Some(plan) }
        })?;
        Ok((done, Progress { is_any: true, left }))
    }

    /// Range detection (T10): claims each key's segment and contiguous neighbours. Gives how many keys were looked at.
    fn detect(&self, claim: &mut Claim<'_>, keys: &[Vec<u8>], sparse: bool, mut room: Room) -> (usize, Vec<Neighbourhood>) {
        let snapshot = self.store.index.snapshot();
        let reach = usize::from(self.options.neighbours);
        let mut taken = HashSet::new();
        let mut hoods: Vec<Neighbourhood> = Vec::new();
        for (done, key) in keys.iter().enumerate() {
            let centre = self.store.locate(key);
            if taken.contains(&centre.segment.page) {
                continue;
            }
            if usize::from(centre.segment.base_count()) > room.round && !hoods.is_empty() {
                return (done, hoods);
            }
            let Some(centre) = self.claim_segment(claim, &centre) else { continue };
            room.begin(&centre, self.options.segment_pages);
            let mut segments = self.extend_left(claim, &snapshot, &centre, reach, false, &mut room);
            segments.push(centre.clone());
            segments.extend(self.extend_right(claim, &snapshot, &centre, reach, sparse, &mut room));
            if sparse && segments.len() == 1 {
                segments.splice(0..0, self.extend_left(claim, &snapshot, &centre, 1, true, &mut room));
            }
            taken.extend(segments.iter().map(|at| at.segment.page));
            hoods.push(Neighbourhood::new(segments));
        }
        (keys.len(), hoods)
    }

    /// Neighbours to the left, in ascending order, while there is room for their pages and they are worth taking; with `any` whatever comes.
    fn extend_left(
        &self,
        claim: &mut Claim<'_>,
        snapshot: &Snapshot,
        centre: &Located,
        reach: usize,
        any: bool,
        room: &mut Room,
    ) -> Vec<Located> {
        let before = descending(snapshot, Some(&centre.lower), false, reach);
        let is_walled = |at: &Located| at.upper.as_ref().is_some_and(|upper| self.store.walls.has(upper));
        let wanted = |at: &Located, room: &Room| !is_walled(at) && (any || room.wants(&at.segment));
        let next = |at: Located| if wanted(&at, room) { self.claim_within(claim, &at, room) } else { None };
        let mut left: Vec<Located> = before.into_iter().map_while(next).collect();
        left.reverse();
        left
    }

    /// Neighbours to the right; with `first` the next one whatever it is.
    fn extend_right(
        &self,
        claim: &mut Claim<'_>,
        snapshot: &Snapshot,
        centre: &Located,
        reach: usize,
        first: bool,
        room: &mut Room,
    ) -> Vec<Located> {
        let Some(upper) = &centre.upper else { return Vec::new() };
        let after = ascending(snapshot, upper, reach.max(usize::from(first)));
        let wanted = |i: usize, at: &Located, room: &Room| (first && i == 0) || room.wants(&at.segment);
        let next = |(i, at): (usize, Located)| {
            let mut left = *room;
            let claimed = if wanted(i, &at, room) { self.claim_within(claim, &at, &mut left) } else { None }?;
            // A wall may have come until the claim, and none comes any more that does not wait for it.
            if self.store.walls.has(&claimed.lower) {
                claimed.segment.base_pages().for_each(|page| claim.release(page));
                return None;
            }
            *room = left;
            Some(claimed)
        };
        after.into_iter().enumerate().map_while(next).collect()
    }

    fn claim_within(&self, claim: &mut Claim<'_>, at: &Located, room: &mut Room) -> Option<Located> {
        let mut left = *room;
        if !left.take(&at.segment) {
            return None;
        }
        let claimed = self.claim_segment(claim, at)?;
        *room = left;
        Some(claimed)
    }

    /// Claims all base pages of a segment (decision 5, invariant 11); gives it as it is now. `None` if somebody has one of them, or if the index has
    /// moved on from it.
    pub(crate) fn claim_segment(&self, claim: &mut Claim<'_>, at: &Located) -> Option<Located> {
        let pages = at.segment.base_pages();
        let claimed = pages.clone().take_while(|page| claim.try_add(*page)).count();
        let current = if claimed == pages.len() { self.store.current(at) } else { None };
        if current.is_none() {
            pages.take(claimed).for_each(|page| claim.release(page));
        }
        current
    }

    /// Model building, write-out and index update (T11–T13) for claimed neighbourhoods. What is dirty of them is taken along; gives what was left of that. A neighbourhood
    /// without a plan stays as it is.
    pub(crate) fn rebuild(
        &self,
        mut hoods: Vec<Neighbourhood>,
        layout: impl Fn(&Tree, &Neighbourhood) -> Option<Vec<Planned>>,
    ) -> Result<Vec<Stretch>> {
        let most = self.dirty_bytes_of_a_page(&hoods);
        for hood in &mut hoods {
            let begin = |stretch| self.cache.begin_write(self.space(), &stretch, most);
            (hood.dirty, hood.taken) = hood.stretches().map(begin).unzip();
        }
        let of_pages = hoods.iter().flat_map(|hood| hood.stretches().zip(&hood.taken));
        let left: Vec<Stretch> = of_pages.filter_map(|(of_page, taken)| of_page.behind(taken)).collect();
        // Until what was taken is settled, nobody else takes anything of these keys.
        let mut claim = self.store.claims.claim();
        let rebuilt = self.gather(&mut hoods).and_then(|()| {
            self.leave_out(&mut hoods, layout);
            self.carry_out(&mut hoods, &mut claim)
        });
        for taken in hoods.iter().flat_map(|hood| &hood.taken) {
            match &rebuilt {
                Ok(_) => self.end_write(taken),
                Err(_) => self.abort_write(taken),
            }
        }
        drop(claim);
        if rebuilt.is_ok() {
            self.forecast.observe(hoods.iter().flat_map(|hood| &hood.added).map(Vec::as_slice), 0);
        }
        self.counters.reorganisations.add(hoods.len() as u64);
        rebuilt.map(|replaced| replaced.iter().for_each(|replaced| self.give_back(replaced)))?;
        Ok(left)
    }

    /// Bytes of what is dirty of a page that are taken. A single page may have much, as when keys come in ascending order: the more of it goes at once, the better.
    fn dirty_bytes_of_a_page(&self, hoods: &[Neighbourhood]) -> usize {
        let alone = hoods.iter().map(Neighbourhood::base_count).sum::<usize>() == 1;
        if alone { (self.context.shared.memory.budget() >> 5).clamp(PAGE_BYTES, MOST_BYTES) } else { PAGE_BYTES }
    }

    /// Plans all neighbourhoods, and gives up those that get no plan.
    fn leave_out(&self, hoods: &mut Vec<Neighbourhood>, layout: impl Fn(&Tree, &Neighbourhood) -> Option<Vec<Planned>>) {
        hoods.retain_mut(|hood| match layout(self, hood) {
            Some(plan) => {
                hood.plan = plan;
                true
            }
            None => {
                hood.taken.iter().for_each(|taken| self.abort_write(taken));
                false
            }
        });
    }

    /// Writes the pages of all plans, claims their base pages, and installs them.
    pub(crate) fn carry_out(&self, hoods: &mut [Neighbourhood], claim: &mut Claim<'_>) -> Result<Option<Replaced>> {
        if hoods.is_empty() {
            return Ok(None);
        }
        self.take_pages(hoods)?;
        let pages: Vec<u32> = hoods.iter().flat_map(Neighbourhood::all_pages).collect();
        if !bug!(UnclaimedPages) {
            pages.iter().for_each(|page| claim.add_new(*page));
        }
        let written = self.sync_log().and_then(|()| {
            let production = self.store.production.fetch_add(1, Ordering::Relaxed) + 1;
            self.write_parts(hoods, production)?;
            let mut change = Change::default();
            hoods.iter().for_each(|hood| hood.change(&mut change));
            self.install(&Structure { production, change })
        });
        if written.is_err() {
            pages.iter().for_each(|page| claim.release(*page));
            self.store.space.free_now(&pages)?;
        }
        written.map(Some)
    }

    /// Reads all records, with the dirty ones over them.
    fn gather(&self, hoods: &mut [Neighbourhood]) -> Result<()> {
        let homes: Vec<Home> = hoods.iter().flat_map(Neighbourhood::homes).collect();
        let mut stored = self.store.read(&homes, Cause::Reorganise)?.into_iter();
        for hood in hoods {
            let loaded = std::mem::take(&mut hood.records);
            let mut dirty = hood.dirty.iter();
            for at in &hood.segments {
                let stored: Vec<Stored> = stored.by_ref().take(at.segment.base_count().into()).collect();
                for (pages, dirty) in self.store.claimed_segment(at, &stored)?.iter().zip(&mut dirty) {
                    hood.added.extend(self.added(pages, dirty));
                    let visible = merge::visible(&pages.0, pages.1.as_ref(), dirty);
                    visible.iter().for_each(|(key, value)| hood.records.push(key, value));
                }
            }
            if !hood.given.is_empty() {
                if hood.inserts {
                    hood.added.extend(self.added_to(&hood.records, &hood.given));
                }
                hood.records = merge::overlay(&hood.records, hood.given.iter());
            }
            // Records of a bulk load come last and give way to what is there.
            hood.records = merge::union(&hood.records, &loaded);
        }
        Ok(())
    }

    /// The keys of records that are not among others, for the forecast.
    fn added_to(&self, records: &Records, given: &[DirtyRecord]) -> Vec<Vec<u8>> {
        if !self.forecast.is_on() {
            return Vec::new();
        }
        let is_new = |record: &&DirtyRecord| record.value.is_some() && !records.has(&record.key);
        given.iter().filter(is_new).map(|record| record.key.clone()).collect()
    }

    /// Takes pages for all plans. Where the file cannot grow and no free ones are neighbours, each page of the last neighbourhood becomes a segment of its own.
    fn take_pages(&self, hoods: &mut [Neighbourhood]) -> Result<()> {
        match self.take_runs(hoods) {
            Err(error) if error.is_no_space() && hoods.len() == 1 => {
                hoods[0].take_apart();
                self.take_runs(hoods)
            }
            taken => taken,
        }
    }

    fn take_runs(&self, hoods: &mut [Neighbourhood]) -> Result<()> {
        let runs: Vec<u8> = hoods.iter().flat_map(|hood| &hood.plan).map(|planned| planned.pages.len() as u8).collect();
        let mut pages = self.allocate(&runs)?.into_iter();
        for hood in hoods {
            hood.pages = pages.by_ref().take(hood.plan.len()).collect();
        }
        Ok(())
    }

    fn write_parts(&self, hoods: &[Neighbourhood], production: u32) -> Result<()> {
        self.context.begin_session()?;
        let fresh: Vec<Fresh<'_>> = hoods.iter().flat_map(Fresh::of).collect();
        let pages: Vec<u32> = fresh.iter().map(|fresh| fresh.page).collect();
        self.write_new(Cause::Reorganise, &pages, |n, place, block| {
            fresh[n].build(block, place, production, self.page_sequence());
        })
    }

    /// A few reorganisations of segments with overflow pages, for idle times. False if there are none left to do.
    pub(crate) fn tidy(&self) -> Result<bool> {
        if self.store.overflow_pages() == 0 {
            return Ok(false);
        }
        let mut from = self.counters.broom.lock();
        let snapshot = self.store.index.snapshot();
        let overflowing = snapshot.ascend(&from).filter(|(_, segment)| segment.overflow_pages() > 0);
        let keys: Vec<Vec<u8>> = overflowing.map(|(lower, _)| lower).take(ROUND / 4).collect();
        let wrapped = keys.is_empty() && !from.is_empty();
        *from = keys.last().cloned().unwrap_or_default();
        drop(from);
        Ok(wrapped || self.reorganise(&keys, false)?.is_any)
    }
}

impl<'a> Fresh<'a> {
    /// The pages of a neighbourhood.
    fn of(hood: &'a Neighbourhood) -> Vec<Fresh<'a>> {
        let parts: Vec<(u32, &Part)> = hood.parts().collect();
        let uppers = parts.iter().skip(1).map(|(_, part)| Some(part.lower.as_slice())).chain([hood.upper()]);
        let fresh = |(&(page, part), upper): (&(u32, &'a Part), Option<&'a [u8]>)| Fresh {
            page,
            lower: &part.lower,
            upper,
            records: &hood.records,
            range: part.records.clone(),
        };
        parts.iter().zip(uppers).map(fresh).collect()
    }

    fn build(&self, block: &mut [u8], place: Place, production: u32, seq: u64) {
        let shape = Shape { kind: PageKind::Base, related: production, lower: self.lower, upper: self.upper };
        merge::build(block, place, shape, self.range.clone().map(|position| self.records.get(position)), seq);
    }
}
