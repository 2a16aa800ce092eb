//! Having all tables count again in ranges that are covered (decision 14, "Turning tables into pages"; decision 15,
//! invariants 11 and 13): for a job that would else bring records to where they do not count, and before pages become
//! tables.

use std::{iter, ops::Bound, sync::Arc};

use ecotone_substrate::{Result, bug, table::File};

use super::{
    base::{Base, Based},
    clearing::Span,
    compact::{
        cuts::Cuts,
        drops::Drops,
        job::mean,
        merge::{Merge, merge},
        pick::Piece,
    },
    handle::Handle,
    output::{self, Output},
    records::Lsm,
    structure::{Become, Change, Cover, CoverEdit, Covers, Place},
    table::Options,
    version::{Ranged, Run, Version},
};
use crate::rest::Rest;

/// A table where it is.
pub(super) type Placed = (Place, Arc<Handle>);

/// What of a cover a job would bring to where it does not count.
pub(super) struct Sinking<'v> {
    cover: &'v Cover,
    /// From the first key of the tables that have it, to behind the last.
    pub(super) from: &'v [u8],
    pub(super) upper: Vec<u8>,
}

/// What it takes to have all tables count in some ranges.
#[derive(Debug, Default)]
pub(super) struct Opening {
    pub(super) edits: Vec<CoverEdit>,
    /// Tables that have records there which do not count, and others. They are written again, each in its place,
    /// without the first.
    pub(super) edges: Vec<Placed>,
}

impl Lsm {
    /// Has all tables count in what is covered of a range, rounded outward.
    pub(crate) fn open(self: &Arc<Self>, lower: &[u8], upper: &[u8]) -> Result<()> {
        let Some(base) = self.base().filter(|_| lower < upper) else { return Ok(()) };
        let turn = self.compacting.lock();
        let opened = self.open_in_turn(base, lower, upper);
        self.keep_apart();
        self.end_turn(turn);
        opened?;
        self.files.conclude()
    }

    fn open_in_turn(&self, base: &Arc<dyn Base>, lower: &[u8], upper: &[u8]) -> Result<()> {
        let version = self.version();
        let within = |cover: &Cover| cover.floor().is_some() && cover.bounds().0 < upper && cover.bounds().1 > lower;
        let parts = version
            .covers()
            .iter()
            .filter(|cover| within(cover))
            .map(|cover| (cover, lower.max(cover.bounds().0), upper));
        let opening = self.opening(base, &version, parts, &[])?;
        if opening.edits.is_empty() {
            return Ok(());
        }
        let stripped = self.strip(&version, &opening.edges)?;
        self.install_stripped(Change { covers: opening.edits, ..Change::default() }, &[], &opening.edges, &stripped)
    }

    /// Sees to it that a job brings no record that counts to where it does not. Gives what it has to open for that,
    /// whichever has fewer bytes written; nothing if a piece was absorbed instead: then the tables are others, and the
    /// job is to be chosen again. The turn is held.
    pub(super) fn make_way(
        self: &Arc<Self>,
        version: &Version<Handle>,
        piece: &Piece<Handle>,
    ) -> Result<Option<Opening>> {
        let Some(base) = self.base().filter(|_| !bug!(SinkBelowFloor)) else { return Ok(Some(Opening::default())) };
        let sinking = sinking(version.covers(), &piece.inputs, piece.target);
        let Some(first) = sinking.first() else { return Ok(Some(Opening::default())) };
        let files = piece.files();
        let open = || {
            self.opening(
                base,
                version,
                sinking.iter().map(|part| (part.cover, part.from, part.upper.as_slice())),
                &files,
            )
        };
        let opening = open()?;
        // Of a large cover there is a piece a turn, so its pages are counted only as far as that decides.
        let bytes = opening.bytes() + counting_bytes(&sinking, &piece.inputs);
        let pages: u64 = opening.edits.iter().map(|edit| base.extent(&edit.lower, &edit.upper, bytes + 1).1).sum();
        if bytes < pages {
            return Ok(Some(opening));
        }
        match self.absorb_before(base, version, first) {
            // It was given up. An opening writes less before it gives anything back; what was kept apart for the other
            // one is so no more.
            Err(error) if error.is_no_space() => open().map(Some),
            absorbed => absorbed.map(|()| None),
        }
    }

    /// What it takes to open parts of covers, rounded outward to fences, by a job that replaces these tables anyway.
    fn opening<'v>(
        &self,
        base: &Arc<dyn Base>,
        version: &'v Version<Handle>,
        parts: impl Iterator<Item = (&'v Cover, &'v [u8], &'v [u8])>,
        replaced: &[File],
    ) -> Result<Opening> {
        let covers = version.covers();
        let rounded = |(cover, from, end)| Ok((cover, self.rounded(base, covers, cover, (from, end))?));
        let mut parts = parts.map(rounded).collect::<Result<Vec<(&Cover, Span)>>>()?;
        let edits = |parts: &[(&Cover, Span)]| -> Vec<CoverEdit> {
            let edit = |(_, (lower, upper)): &(_, Span)| CoverEdit {
                lower: lower.clone(),
                upper: upper.clone(),
                becomes: Become::Open,
            };
            parts.iter().map(edit).collect()
        };
        if Covers::clone(covers).apply(&edits(&parts)).is_err() {
            // There would be too many.
            parts.iter_mut().for_each(|(cover, part)| *part = whole(cover));
        }
        let edges = without_twins(parts.iter().flat_map(|(_, part)| version.edges(part, replaced)).collect());
        Ok(Opening { edits: edits(&parts), edges })
    }

    /// A part of a cover, rounded outward to fences: all of it where covers cannot be cut any more.
    pub(super) fn rounded(
        &self,
        base: &Arc<dyn Base>,
        covers: &Covers,
        cover: &Cover,
        (from, end): (&[u8], &[u8]),
    ) -> Result<Span> {
        if !covers.has_room() {
            return Ok(whole(cover));
        }
        let (_, upper) = cover.bounds();
        Ok((base.fence_before(from)?, if end < upper { base.fence_behind(end)? } else { upper.to_vec() }))
    }

    /// The first piece of a part of a cover between fences: as much of what is below as goes together with one edit,
    /// however little counts above.
    pub(super) fn first_piece(&self, base: &Arc<dyn Base>, covers: &Covers, (lower, upper): Span) -> Result<Span> {
        let (reach, _) = base.extent(&lower, &upper, self.piece_bytes());
        let is_cut = covers.has_room() && reach < upper;
        Ok((lower, if is_cut { base.fence_behind(&reach)? } else { upper }))
    }

    /// Has bounds alone kept apart that are some: those of covers, and of what is not cleared yet. The turn is held.
    pub(super) fn keep_apart(&self) {
        let Some(base) = self.base() else { return };
        let (version, left) = (self.version(), self.files.uncovered());
        let left = left.iter().flat_map(|(lower, upper)| [lower.as_slice(), upper.as_slice()]);
        base.keep_apart(&mut version.covers().bounds().chain(left));
    }

    /// Writes what counts of tables again, each for where it is. They are not installed yet.
    pub(super) fn strip(&self, version: &Version<Handle>, edges: &[Placed]) -> Result<Vec<Placed>> {
        let mut stripped = Vec::new();
        for (place, table) in edges {
            let tables = self.strip_table(version, *place, table).inspect_err(|_| self.remove(&stripped))?;
            stripped.extend(tables.into_iter().map(|table| (*place, table)));
        }
        Ok(stripped)
    }

    fn strip_table(&self, version: &Version<Handle>, place: Place, table: &Arc<Handle>) -> Result<Vec<Arc<Handle>>> {
        let options = self.table_options(place, mean(iter::once(table)) as usize, iter::once(&**table), version);
        let cuts = self.cuts_at(place, version);
        let (inputs, drops) = ([(place, Run::part(vec![table.clone()]))], Drops::of(version, &[table.file()]));
        self.merge_all(&inputs, None, drops, (options, cuts))
    }

    /// Merges all of some tables, with what is below them if that is given. It is not installed yet.
    pub(super) fn merge_all(
        &self,
        inputs: &[(Place, Run<Handle>)],
        below: Option<Based>,
        drops: Drops<Handle>,
        (options, cuts): (Options, Cuts<Handle>),
    ) -> Result<Vec<Arc<Handle>>> {
        let work = Merge {
            inputs,
            below,
            range: &Rest::new((Bound::Unbounded, Bound::Unbounded)),
            hash_of: &|key| self.hash(key),
            looks: &mut |_| self.check_live(),
        };
        self.files.context().begin_session()?;
        let name = &mut || self.files.fresh_name();
        merge(work, drops, Output::new(self.files.loader(), options, cuts, name))
    }

    /// Makes a change by which besides these tables come, and what was stripped comes in the place of edges.
    pub(super) fn install_stripped(
        &self,
        mut change: Change,
        tables: &[Placed],
        edges: &[Placed],
        stripped: &[Placed],
    ) -> Result<()> {
        let fresh = [tables, stripped].concat();
        change.goes.extend(edges.iter().map(|(_, handle)| handle.file()));
        change.comes.extend(fresh.iter().map(|(place, handle)| (*place, handle.file())));
        let handles: Vec<_> = fresh.iter().map(|(_, handle)| handle.clone()).collect();
        let installed = self.install(&change, &handles, |version| self.present.installed(version));
        installed.inspect_err(|_| self.remove(&fresh))?;
        self.adapted.add(stripped.iter().map(|(_, handle)| handle.bytes()).sum());
        self.opened.add(change.covers.iter().filter(|edit| edit.becomes == Become::Open).count() as u64);
        edges.iter().for_each(|(_, handle)| self.let_go(handle));
        handles.iter().for_each(|handle| handle.table().warm());
        Ok(())
    }

    /// A table has gone: what it had of the block cache is free for what comes in its place.
    pub(super) fn let_go(&self, handle: &Handle) {
        self.files.loader().heat.forget(handle);
        handle.table().forget_blocks();
    }

    /// Removes tables that nothing names yet.
    pub(super) fn remove(&self, tables: &[Placed]) {
        let handles: Vec<_> = tables.iter().map(|(_, handle)| handle.clone()).collect();
        output::remove(self.files.environment(), &handles);
    }
}

impl Opening {
    /// Bytes of what is written again.
    fn bytes(&self) -> u64 {
        self.edges.iter().map(|(_, handle)| handle.bytes()).sum()
    }
}

impl Version<Handle> {
    /// Tables that have records of a range which do not count, but for those that are replaced anyway. They reach out
    /// of the covers that hide them: else they would have gone when floors rose.
    pub(super) fn edges(&self, (lower, upper): &Span, replaced: &[File]) -> Vec<Placed> {
        let mut edges = Vec::new();
        for cover in self.covers().iter() {
            let part = (cover.bounds().0.max(lower), cover.bounds().1.min(upper));
            let hidden = self.runs().filter(|(place, _)| part.0 < part.1 && !cover.counts(*place));
            edges.extend(
                hidden.flat_map(|(place, run)| run.within(part).iter().map(move |handle| (place, handle.clone()))),
            );
        }
        edges.retain(|(_, handle)| !replaced.contains(&handle.file()));
        without_twins(edges)
    }
}

/// One table may be at the edges of two parts, or covers.
fn without_twins(mut edges: Vec<Placed>) -> Vec<Placed> {
    edges.sort_by_key(|(place, handle)| (*place, handle.file()));
    edges.dedup_by_key(|(_, handle)| handle.file());
    edges
}

fn whole(cover: &Cover) -> Span {
    let (lower, upper) = cover.bounds();
    (lower.to_vec(), upper.to_vec())
}

/// What a job that has tables of these places would bring to one where it does not count.
fn sinking<'v>(covers: &'v Covers, inputs: &'v [(Place, Run<Handle>)], to: Place) -> Vec<Sinking<'v>> {
    let hidden = covers.iter().filter(|cover| !cover.counts(to));
    let part = |cover: &'v Cover| {
        let (lower, upper) = cover.bounds();
        let tables = counting(cover, inputs);
        let first = tables.clone().map(|table| table.first()).min()?;
        let behind = [tables.map(|table| table.last()).max()?, &[0]].concat();
        Some(Sinking { cover, from: first.max(lower), upper: if *behind < *upper { behind } else { upper.to_vec() } })
    };
    hidden.filter_map(part).collect()
}

/// Tables of a job that have records which count in a cover.
fn counting<'v>(cover: &'v Cover, inputs: &'v [(Place, Run<Handle>)]) -> impl Iterator<Item = &'v Arc<Handle>> + Clone {
    inputs.iter().filter(move |(place, _)| cover.counts(*place)).flat_map(move |(_, run)| run.within(cover.bounds()))
}

/// Bytes of all tables of a job that have something of this.
fn counting_bytes(sinking: &[Sinking<'_>], inputs: &[(Place, Run<Handle>)]) -> u64 {
    let mut tables: Vec<_> = sinking.iter().flat_map(|part| counting(part.cover, inputs)).collect();
    tables.sort_by_key(|table| table.file());
    tables.dedup_by_key(|table| table.file());
    tables.iter().map(|table| table.bytes()).sum()
}
