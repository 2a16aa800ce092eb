//! What a keyspace has on disk, and how that changes: tables are synced, with their names, then one log record says so,
//! then everybody sees it, and what goes is removed when that record is synced and nobody reads it (decision 11,
//! "Recovery and the order of deletion"; decision 12, invariants 16 to 18).

use std::{collections::BTreeSet, ops::Deref, sync::Arc};

use ecotone_substrate::{
    Error, Result, Seq, bug,
    limits::MAX_RUNS,
    storage::FileId,
    table::{File, Name},
};
use ecotone_sys::primitive::MutexGuard;

use super::{
    blob,
    clearing::{Clearing, Span},
    handle::{Handle, Loader},
    options::LsmOptions,
    structure::{Become, Change, CoverEdit, Structure},
    table::Table,
    table_cache::TableCache,
    version::{Ranged, Version},
};
use crate::{
    engine::{Context, Root},
    files::{Catalog, Numbers, RECORD, remove_strays},
};

/// What the files of one keyspace are made, named and removed by.
#[derive(Debug)]
pub(crate) struct Files {
    catalog: Catalog<State>,
    loader: Arc<Loader>,
    options: LsmOptions,
}

impl Deref for Files {
    type Target = Catalog<State>;

    fn deref(&self) -> &Catalog<State> {
        &self.catalog
    }
}

/// Its lock is the structure mutex: held while the record of a change is appended and a view is published, so that
/// roots have both or neither, and never across I/O.
#[derive(Debug)]
pub(crate) struct State {
    structure: Structure,
    /// Tables that the structure does not name any more, each with the sequence of the record that says so.
    dead: Vec<(Seq, Arc<Handle>)>,
    /// What was uncovered and is not cleared.
    clearing: Clearing<Version<Handle>>,
    numbers: Numbers,
}

impl State {
    /// The tables and covers of the keyspace.
    pub(crate) fn structure(&self) -> &Structure {
        &self.structure
    }
}

impl Files {
    /// Of a keyspace that has these tables, whose indexes and filters are in this cache.
    pub(super) fn new(context: Context, options: LsmOptions, structure: Structure, cache: &Arc<TableCache>) -> Files {
        let environment = context.shared.environment();
        let state = State { structure, dead: Vec::new(), clearing: Clearing::default(), numbers: Numbers::default() };
        let loader = Loader::new(&environment, cache);
        Files { catalog: Catalog::new(context, environment, state), loader, options }
    }

    /// What its tables load their indexes and filters with.
    pub(super) fn loader(&self) -> &Arc<Loader> {
        &self.loader
    }

    /// What was chosen for the keyspace.
    pub(crate) fn options(&self) -> &LsmOptions {
        &self.options
    }

    /// The structure mutex.
    pub(crate) fn structure(&self) -> MutexGuard<'_, State> {
        self.state()
    }

    /// A name for a table that is made next.
    pub(super) fn fresh_name(&self) -> Name {
        let mut state = self.state();
        let State { structure, dead, numbers, .. } = &mut *state;
        let is_dying = |number| dead.iter().any(|(_, handle)| handle.file().number == number);
        let file = numbers.next(self.context(), |number| structure.has_number(number) || is_dying(number));
        drop(state);
        self.name_of(file)
    }

    /// The ordinal of a run that comes next.
    ///
    /// # Errors
    /// If level 0 is full.
    pub(super) fn next_ordinal(&self) -> Result<u64> {
        let state = self.state();
        let runs = state.structure.places().filter(|(place, _)| place.is_run()).count();
        if runs < MAX_RUNS {
            return Ok(state.structure.next_ordinal());
        }
        Err(Error::Limit {
            what: "the runs in level 0 of an lsm keyspace",
            limit: MAX_RUNS as u64,
            actual: runs as u64 + 1,
        })
    }

    /// Makes a change, whose fresh tables are durable, in the log and in memory: `publish` gets the version that
    /// follows `before`, which gives the present one.
    ///
    /// # Errors
    /// If the log has no room, writing has stopped, or the keyspace was dropped. Then nothing has changed, and nothing
    /// was called.
    ///
    /// # Panics
    /// If the change does not fit.
    pub(super) fn change(
        &self,
        change: &Change,
        fresh: &[Arc<Handle>],
        before: impl FnOnce() -> Arc<Version<Handle>>,
        publish: impl FnOnce(Arc<Version<Handle>>),
    ) -> Result<()> {
        let (mut state, append) = self.begin(&change.encode())?;
        let (mut structure, before) = (state.structure.clone(), before());
        let applied = structure.apply(change).and_then(|()| before.after(&structure, fresh));
        let version = applied.unwrap_or_else(|what| panic!("{change:?}: {what}"));
        let record = append();
        let drops: BTreeSet<File> = change.drops().collect();
        let gone = before.tables().filter(|handle| drops.contains(&handle.file()));
        state.dead.extend(gone.map(|handle| (record, handle.clone())));
        state.structure = structure;
        if before.covers().iter().next().is_some() {
            state.clearing.replace(&before, record, change.covers.iter().filter_map(uncovered));
        }
        publish(Arc::new(version));
        Ok(())
    }

    /// Ranges that were uncovered and are not cleared.
    pub(super) fn uncovered(&self) -> Vec<Span> {
        self.state().clearing.spans().cloned().collect()
    }

    /// Those of them that nobody reads any more (decision 15, invariant 10).
    pub(super) fn ripe(&self) -> Vec<Span> {
        let synced = self.context().shared.wal.synced();
        self.state().clearing.ripe(synced).cloned().collect()
    }

    /// One of them was cleared.
    pub(super) fn end_clearing(&self, span: &Span) {
        self.state().clearing.end(span);
    }

    /// What a checkpoint leaves of the keyspace.
    pub(super) fn root(&self) -> Root {
        let state = self.state();
        Root { structure: self.context().shared.wal.tail(), blob: blob::encode(self.options, &state.structure) }
    }

    /// Has what was changed before durable, and removes what went by it.
    pub(super) fn conclude(&self) -> Result<()> {
        if !bug!(FreeSpaceEarly) {
            let wal = &self.context().shared.wal;
            wal.sync_through(wal.tail().saturating_sub(1))?;
        }
        self.bury()
    }

    /// Removes the tables whose end is durable and that no version has.
    pub(super) fn bury(&self) -> Result<()> {
        let synced = self.context().shared.wal.synced();
        let is_ripe = |(seq, handle): &mut (Seq, Arc<Handle>)| {
            (*seq < synced || bug!(FreeSpaceEarly)) && Arc::strong_count(handle) == 1
        };
        let dead: Vec<_> = self.state().dead.extract_if(.., is_ripe).collect();
        self.remove(dead.iter().map(|(_, handle)| handle.table().name().file()))
    }

    /// Reapplies a change from the log. What goes by it is removed with the strays.
    pub(crate) fn replay(&self, body: &[u8]) -> Result<()> {
        let change = Change::decode(body).map_err(|malformed| malformed.at(RECORD, 0))?;
        if !change.covers.is_empty() && self.context().part.is_none() {
            return Err(self.misfit("an lsm keyspace covers nothing"));
        }
        self.state().structure.apply(&change).map_err(|what| self.misfit(what))
    }

    /// Removes the files that nothing names, of an interrupted change, or dropped by one that was replayed, and opens
    /// the tables. Some files `beside` stay.
    pub(super) fn recover(&self, beside: &[FileId]) -> Result<Version<Handle>> {
        let structure = self.state().structure.clone();
        let keyspace = self.context().keyspace;
        let named: Vec<FileId> =
            structure.tables().map(|file| self.name_of(file).file()).chain(beside.iter().copied()).collect();
        remove_strays(&*self.environment().storage, keyspace, &named)?;
        self.state().numbers = Numbers::behind(structure.tables().map(|file| file.number).max());
        let open = |file| Ok(Arc::new(Handle::of(Table::open(self.environment(), self.name_of(file))?, &self.loader)));
        let tables: Vec<_> = structure.tables().map(open).collect::<Result<_>>()?;
        let overlap = |what| Error::corruption(format!("the tables of keyspace {keyspace}"), 0, what);
        Version::empty().after(&structure, &tables).map_err(overlap)
    }
}

fn uncovered(edit: &CoverEdit) -> Option<Span> {
    (edit.becomes == Become::Uncovered).then(|| (edit.lower.clone(), edit.upper.clone()))
}
