//! Reorganisation: full segments and neighbours that are worth it become fresh pages (T10–T13; decisions 2 and 5).

use std::{collections::HashSet, ops::Range, sync::atomic::Ordering};

use ecotone_substrate::{
    Result, bug,
    limits::PAGE,
    page::{PageKind, Place},
};

use super::{
    PageFill, Tree, TreeOptions,
    cache::Stretch,
    claims::Claim,
    goals::FULL,
    index::{Change, Home, Placement, Segment, Snapshot},
    install::Replaced,
    layout::{Part, Planned},
    merge::{self, Shape},
    records::Records,
    share::Share,
    space::Cause,
    store::{Located, ascending, descending},
    structure::Structure,
};

/// Base pages that one round reads at most, so that it stays within its memory (64 in TreeLine).
pub(crate) const ROUND: usize = 64;

/// Stored records from which on the order tells how new ones have come.
const FEW: usize = 8;

/// What a write-out or a reorganisation came to.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    /// Whether anything was done, which is not so where others hold all claims.
    pub(crate) is_any: bool,
    /// Where there was more dirty than was taken.
    pub(crate) left: Vec<Stretch>,
}

impl Progress {
    pub(crate) fn add(&mut self, other: Progress) {
        self.is_any |= other.is_any;
        self.left.extend(other.left);
    }
}

/// How records that pages did not have come among those that they had.
#[derive(Debug, Default)]
struct Arrival {
    stored: usize,
    /// Runs of new ones.
    runs: usize,
    is_in_run: bool,
}

impl Arrival {
    fn note(&mut self, is_new: bool) {
        self.stored += usize::from(!is_new);
        self.runs += usize::from(is_new && !self.is_in_run);
        self.is_in_run = is_new;
    }

    /// Whether all have come at one place or two. Of many that come anywhere, some lie between others.
    fn is_in_order(&self) -> bool {
        self.stored >= FEW && (1..=2).contains(&self.runs)
    }
}

/// Contiguous segments that become other segments, and what their records are.
pub(crate) struct Neighbourhood<'t> {
    /// With what comes over their records.
    pub(crate) shares: Vec<Share<'t>>,
    /// Whether that which no page has is inserts, of which the forecast is told.
    pub(crate) inserts: bool,
    pub(crate) records: Records,
    /// How these come together.
    arrival: Arrival,
    /// Keys that no page had before.
    added: Vec<Vec<u8>>,
    pub(crate) plan: Vec<Planned>,
    /// The first page of each segment that is planned.
    pages: Vec<u32>,
}

impl<'t> Neighbourhood<'t> {
    pub(crate) fn new(shares: Vec<Share<'t>>) -> Self {
        let (records, arrival) = (Records::default(), Arrival::default());
        Neighbourhood {
            shares,
            inserts: true,
            records,
            arrival,
            added: Vec::new(),
            plan: Vec::new(),
            pages: Vec::new(),
        }
    }

    pub(crate) fn lower(&self) -> &[u8] {
        self.shares.first().map_or(&[], |share| &share.at.lower)
    }

    pub(crate) fn upper(&self) -> Option<&[u8]> {
        self.shares.last().and_then(|share| share.at.upper.as_deref())
    }

    fn base_count(&self) -> usize {
        self.shares.iter().map(Share::base_count).sum()
    }

    /// Whether what comes makes more pages of it than there are.
    fn grows(&self) -> bool {
        self.shares.iter().map(|share| share.records.bytes()).sum::<usize>() > self.base_count() * PAGE
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
        change.remove.extend(self.shares.iter().map(|share| share.begin().to_vec()));
        let kept = self.shares.iter().flat_map(|share| &share.kept);
        change.insert.extend(kept.map(|at| (at.lower.clone(), at.segment.clone())));
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
    /// Begins a neighbourhood, whatever room there is. The last of all takes no small neighbours: where keys only rise,
    /// it is reorganised again and again.
    fn begin(&mut self, hood: &Neighbourhood<'_>, most: u8) {
        let pages = hood.base_count();
        self.round = self.round.saturating_sub(pages);
        self.hood = if hood.upper().is_none() { 0 } else { usize::from(most).saturating_sub(pages) };
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
    /// Reorganises the segments of these keys, with their neighbours that have overflow pages or are small; `sparse`
    /// ones are put together with a neighbour.
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
            let plan = tree.plan(&hood.records, hood.lower(), hood.upper(), None);
            let pages: usize = plan.iter().map(|planned| planned.pages.len()).sum();
            // Pages that deletes left too empty are worth it only if there are much fewer of them then.
            if sparse && pages * 4 > hood.base_count() * 3 { None } else { Some(plan) }
        })?;
        Ok((done, Progress { is_any: true, left }))
    }

    /// Makes fresh segments of claimed ones that cannot take what goes into them. Gives keys of those that are to be
    /// tried with less at a time, for want of space.
    pub(crate) fn make_segments<'t>(
        &'t self,
        claim: &mut Claim<'_>,
        full: Vec<Share<'t>>,
        left: &mut Vec<Stretch>,
    ) -> Result<Vec<Vec<u8>>> {
        let (mut full, mut crowded) = (full.into_iter().peekable(), Vec::new());
        while full.peek().is_some() {
            let mut room = Room { round: ROUND, hood: 0 };
            let (mut shares, mut pages) = (Vec::new(), 0);
            while let Some(mut share) = full.next_if(|share| shares.is_empty() || pages + share.base_count() <= ROUND) {
                share.narrow();
                pages += share.base_count();
                shares.push(share);
            }
            let keys: Vec<Vec<u8>> = shares.iter().map(|share| share.at.lower.clone()).collect();
            let snapshot = self.store.index.snapshot();
            let mut hoods = self.hoods(shares, true);
            hoods.iter_mut().for_each(|hood| self.surround(claim, &snapshot, hood, false, &mut room));
            match self.rebuild(hoods, |tree, hood| Some(tree.plan_grown(hood))) {
                Ok(rest) => left.extend(rest),
                Err(error) if error.is_no_space() => crowded.extend(keys),
                Err(error) => return Err(error),
            }
        }
        Ok(crowded)
    }

    /// Where keys arrive in order nothing more comes between them: pages are filled one after the other, and to the
    /// last byte unless somebody wants room in them.
    fn plan_grown(&self, hood: &Neighbourhood<'_>) -> Vec<Planned> {
        let is_in_order = hood.grows() && hood.arrival.is_in_order() && !self.forecast.is_on();
        let is_packed = hood.shares.iter().all(|share| share.is_packed || share.records.is_empty());
        let wants_room = self.options.fill < TreeOptions::default().fill || self.page_fill == PageFill::Spread;
        let fill = if is_packed && !wants_room { FULL } else { self.options.fill };
        self.plan(&hood.records, hood.lower(), hood.upper(), is_in_order.then_some(fill))
    }

    /// Neighbours are planned together, unless there is a wall between them.
    pub(crate) fn hoods<'t>(&self, shares: Vec<Share<'t>>, inserts: bool) -> Vec<Neighbourhood<'t>> {
        let mut hoods: Vec<Neighbourhood<'t>> = Vec::new();
        for share in shares {
            let lower = &share.at.lower;
            let is_next = |hood: &&mut Neighbourhood<'t>| hood.upper() == Some(lower) && !self.store.walls.has(lower);
            match hoods.last_mut().filter(is_next) {
                Some(hood) => hood.shares.push(share),
                None => hoods.push(Neighbourhood { inserts, ..Neighbourhood::new(vec![share]) }),
            }
        }
        hoods
    }

    /// Range detection (T10): claims each key's segment and contiguous neighbours. Gives how many keys were looked at.
    fn detect(
        &self,
        claim: &mut Claim<'_>,
        keys: &[Vec<u8>],
        sparse: bool,
        mut room: Room,
    ) -> (usize, Vec<Neighbourhood<'_>>) {
        let snapshot = self.store.index.snapshot();
        let mut taken = HashSet::new();
        let mut hoods: Vec<Neighbourhood<'_>> = Vec::new();
        for (done, key) in keys.iter().enumerate() {
            let centre = self.store.locate(key);
            if taken.contains(&centre.segment.page) {
                continue;
            }
            if usize::from(centre.segment.base_count()) > room.round && !hoods.is_empty() {
                return (done, hoods);
            }
            let Some(centre) = self.claim_segment(claim, &centre) else { continue };
            let mut hood = Neighbourhood::new(vec![Share::empty(centre)]);
            self.surround(claim, &snapshot, &mut hood, sparse, &mut room);
            taken.extend(hood.shares.iter().map(|share| share.at.segment.page));
            hoods.push(hood);
        }
        (keys.len(), hoods)
    }

    /// Claims neighbours on both sides that are worth it, and at least one if the neighbourhood is `sparse`. What
    /// becomes more pages by itself needs none.
    fn surround(
        &self,
        claim: &mut Claim<'_>,
        snapshot: &Snapshot,
        hood: &mut Neighbourhood<'_>,
        sparse: bool,
        room: &mut Room,
    ) {
        let reach = usize::from(self.options.neighbours);
        room.begin(hood, self.options.segment_pages);
        if hood.grows() {
            return;
        }
        let left = self.extend_left(claim, snapshot, hood.lower(), reach, false, room);
        let right = hood.upper().map(|upper| self.extend_right(claim, snapshot, upper, reach, sparse, room));
        let mut shares: Vec<Share<'_>> = left.into_iter().map(Share::empty).collect();
        shares.append(&mut hood.shares);
        shares.extend(right.into_iter().flatten().map(Share::empty));
        hood.shares = shares;
        if sparse && hood.shares.len() == 1 {
            let left = self.extend_left(claim, snapshot, hood.lower(), 1, true, room);
            hood.shares.splice(0..0, left.into_iter().map(Share::empty));
        }
    }

    /// Neighbours to the left, in ascending order, while there is room for their pages and they are worth taking; with
    /// `any` whatever comes.
    fn extend_left(
        &self,
        claim: &mut Claim<'_>,
        snapshot: &Snapshot,
        lower: &[u8],
        reach: usize,
        any: bool,
        room: &mut Room,
    ) -> Vec<Located> {
        let before = descending(snapshot, Some(lower), false, reach);
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
        upper: &[u8],
        reach: usize,
        first: bool,
        room: &mut Room,
    ) -> Vec<Located> {
        let after = ascending(snapshot, upper, reach.max(usize::from(first)));
        let wanted = |i: usize, at: &Located, room: &Room| (first && i == 0) || room.wants(&at.segment);
        let next = |(i, at): (usize, Located)| {
            let mut left = *room;
            let claimed = if wanted(i, &at, room) { self.claim_within(claim, &at, &mut left) } else { None }?;
            // A wall may have come until the claim, and none comes any more that does not wait for it.
            if self.store.walls.has(&claimed.lower) {
                claim.release(claimed.segment.base_pages());
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

    /// Claims all base pages of a segment (decision 5, invariant 11); gives it as it is now. `None` if somebody has one
    /// of them, or if the index has moved on from it.
    pub(crate) fn claim_segment(&self, claim: &mut Claim<'_>, at: &Located) -> Option<Located> {
        if !claim.try_add(at.segment.base_pages()) {
            return None;
        }
        let current = self.store.current(at);
        if current.is_none() {
            claim.release(at.segment.base_pages());
        }
        current
    }

    /// Model building, write-out and index update (T11–T13) for claimed neighbourhoods. What is dirty of them is taken
    /// along; gives what was left of that. A neighbourhood without a plan stays as it is.
    pub(crate) fn rebuild<'t>(
        &'t self,
        mut hoods: Vec<Neighbourhood<'t>>,
        layout: impl Fn(&Tree, &Neighbourhood<'t>) -> Option<Vec<Planned>>,
    ) -> Result<Vec<Stretch>> {
        let left = self.take_along(&mut hoods);
        // Until what was taken is settled, nobody else takes anything of these keys.
        let mut claim = self.store.claims.claim();
        self.gather(&mut hoods)?;
        hoods.retain_mut(|hood| match layout(self, hood) {
            Some(plan) => {
                hood.plan = plan;
                true
            }
            None => false,
        });
        let replaced = self.carry_out(&mut hoods, &mut claim)?;
        hoods.iter_mut().flat_map(|hood| &mut hood.shares).for_each(Share::settle);
        drop(claim);
        self.forecast.observe(hoods.iter().flat_map(|hood| &hood.added).map(Vec::as_slice), 0);
        self.counters.reorganisations.add(hoods.len() as u64);
        replaced.iter().for_each(|replaced| self.give_back(replaced));
        Ok(left)
    }

    /// Takes what is dirty of segments into which nothing goes yet. Gives what was left of that.
    fn take_along<'t>(&'t self, hoods: &mut [Neighbourhood<'t>]) -> Vec<Stretch> {
        let drawn: usize = hoods.iter().flat_map(|hood| &hood.shares).map(|share| share.records.bytes()).sum();
        let (mut most, mut left) = (self.batch_bytes().saturating_sub(drawn), Vec::new());
        let shares = hoods.iter_mut().flat_map(|hood| &mut hood.shares);
        for share in shares.filter(|share| share.portions.is_empty()) {
            let (taken, rest) = self.take(share.at.clone(), most);
            most = most.saturating_sub(taken.records.bytes());
            left.extend(rest);
            *share = taken;
        }
        left
    }

    /// Writes the pages of all plans, claims their base pages, and installs them.
    pub(crate) fn carry_out(&self, hoods: &mut [Neighbourhood<'_>], claim: &mut Claim<'_>) -> Result<Option<Replaced>> {
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
            pages.iter().for_each(|page| claim.release(*page..*page + 1));
            self.store.space.free_now(&pages)?;
        }
        written.map(Some)
    }

    /// Reads all records that are not read yet, and puts what goes into the segments over them.
    fn gather(&self, hoods: &mut [Neighbourhood<'_>]) -> Result<()> {
        let missing: Vec<Home> = hoods.iter().flat_map(|hood| &hood.shares).flat_map(Share::missing).collect();
        let mut read = self.store.read(&missing, Cause::Reorganise)?.into_iter();
        for Neighbourhood { shares, records, arrival, added, inserts, .. } in hoods {
            let loaded = std::mem::take(records);
            let tells = *inserts && self.forecast.is_on();
            for share in shares {
                let stored = share.all_stored(&mut read);
                let pages = self.store.claimed_segment(&share.at, &stored)?;
                let mut portions = share.portions.iter().peekable();
                for (position, pages) in (0..).zip(&pages) {
                    let portion = portions.next_if(|portion| portion.position == position);
                    let dirty = portion.into_iter().flat_map(|portion| share.records_of(portion));
                    merge::visible(pages, dirty, records, |record| {
                        let new = record.filter(|record| record.value.is_some());
                        arrival.note(new.is_some());
                        added.extend(new.filter(|_| tells).map(|record| record.key.to_vec()));
                    });
                }
            }
            if loaded.len() > 0 {
                // Records of a bulk load come last and give way to what is there.
                *records = merge::union(records, &loaded);
            }
        }
        Ok(())
    }

    /// Takes pages for all plans. Where the file cannot grow and no free ones are neighbours, each page of the last
    /// neighbourhood becomes a segment of its own.
    fn take_pages(&self, hoods: &mut [Neighbourhood<'_>]) -> Result<()> {
        match self.take_runs(hoods) {
            Err(error) if error.is_no_space() && hoods.len() == 1 => {
                hoods[0].take_apart();
                self.take_runs(hoods)
            }
            taken => taken,
        }
    }

    fn take_runs(&self, hoods: &mut [Neighbourhood<'_>]) -> Result<()> {
        let runs: Vec<u8> = hoods.iter().flat_map(|hood| &hood.plan).map(|planned| planned.pages.len() as u8).collect();
        let mut pages = self.allocate(&runs)?.into_iter();
        for hood in hoods {
            hood.pages = pages.by_ref().take(hood.plan.len()).collect();
        }
        Ok(())
    }

    fn write_parts(&self, hoods: &[Neighbourhood<'_>], production: u32) -> Result<()> {
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
    fn of(hood: &'a Neighbourhood<'_>) -> Vec<Fresh<'a>> {
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
