//! Bringing what was written into tables (decision 11, "Immutable memtables and flush").

use std::{
    iter,
    sync::{Arc, Weak},
};

use ecotone_substrate::{Result, Seq, table::Answer};

use super::{
    divert::Diverted,
    handle::Handle,
    lift::lifts,
    memtable::Memtable,
    output::{self, Output},
    records::Lsm,
    structure::{Change, Place},
    table::{Options, block_size},
    version::{Ranged, Version},
    view::Member,
};

/// Records of a memtable by which the size of a block is chosen.
const SAMPLE: usize = 1000;

impl Lsm {
    /// Has everything in tables, durable, that was applied before and has a sequence below `below`.
    pub(super) fn flush(self: &Arc<Self>, below: Seq) -> Result<()> {
        if let Some(youngest) = self.youngest_below(below)? {
            while self.is_there(&youngest) {
                self.flush_if(|| self.is_there(&youngest))?;
            }
        }
        self.files.bury()
    }

    /// Has the background flush what has a sequence below this one.
    pub(crate) fn begin_flush(self: &Arc<Self>, below: Seq) -> Result<()> {
        if self.youngest_below(below)?.is_some() {
            self.call_flush();
        }
        Ok(())
    }

    /// The youngest memtable with a sequence below this one. If it is active, it is no more.
    fn youngest_below(&self, below: Seq) -> Result<Option<Weak<Member>>> {
        let reaches = |member: &Arc<Member>| member.memtable.smallest().is_some_and(|first| first < below);
        let youngest = {
            let pin = self.present.pin();
            let memtables = &self.present.load(&pin).memtables;
            memtables.iter().position(reaches).map(|age| (age, Arc::downgrade(&memtables[age])))
        };
        let Some((age, youngest)) = youngest else { return Ok(None) };
        if age == 0 {
            self.put_by(&youngest)?;
        }
        Ok(Some(youngest))
    }

    /// Whether a memtable is one of the present view.
    pub(super) fn is_there(&self, member: &Weak<Member>) -> bool {
        let pin = self.present.pin();
        self.present.load(&pin).memtables.iter().any(|there| Arc::as_ptr(there) == member.as_ptr())
    }

    /// Makes a run of the oldest memtable, if that is still `needed` when others have flushed.
    pub(super) fn flush_if(self: &Arc<Self>, needed: impl FnOnce() -> bool) -> Result<()> {
        self.make_place()?;
        let turn = self.flushing.lock();
        let flushed = if needed() { self.flush_oldest() } else { Ok(false) };
        drop(turn);
        self.call_flush();
        self.call_compaction();
        flushed.map(drop)
    }

    /// Makes runs of all memtables that wait, unless another flushes: he calls for the job that does this when he has
    /// ended.
    pub(super) fn flush_waiting(self: &Arc<Self>) -> Result<()> {
        while self.memtables_wait() {
            self.make_place()?;
            let Some(_turn) = self.flushing.try_lock() else { return Ok(()) };
            self.flush_oldest()?;
            self.call_compaction();
        }
        Ok(())
    }

    /// Whether a memtable waits for its flush.
    pub(super) fn memtables_wait(&self) -> bool {
        self.present.load(&self.present.pin()).memtables.len() > 1
    }

    /// Makes a run of level 0 of the oldest memtable, but for what goes below the tables at once, if it is not the
    /// active one. Whether there was one. The caller has the turn.
    fn flush_oldest(&self) -> Result<bool> {
        let Some(oldest) = self.present.oldest_sealed() else { return Ok(false) };
        let context = self.files.context();
        let began = context.shared.clock.now_for_log();
        let run = Place::Run(self.files.next_ordinal()?);
        self.files.context().sync_log()?;
        let diverted = self.divert(&oldest.memtable)?;
        let tables = self.write_out(&oldest.memtable, &diverted)?;
        if tables.is_empty() && diverted.is_empty() {
            let _structure = self.files.structure();
            self.present.flushed(&oldest, self.version());
            self.room.trim();
            return Ok(true);
        }
        // Without tables too: what left the memtable changes the version (decision 15, invariant 8).
        let change = self.change_of(run, &tables, (&oldest.memtable, &diverted));
        let installed = self.install(&change, &tables, |version| self.present.flushed(&oldest, version));
        installed.inspect_err(|_| output::remove(self.files.environment(), &tables))?;
        self.flushes.increment();
        tracing::debug!(
            keyspace = context.keyspace,
            tables = tables.len(),
            written = tables.iter().map(|table| table.bytes()).sum::<u64>(),
            took = ?context.shared.clock.since(began),
            "flushed a memtable"
        );
        self.room.trim();
        Ok(true)
    }

    /// By which these tables come as a run, if there are some, and floors are lifted to it.
    fn change_of(&self, run: Place, tables: &[Arc<Handle>], flushed: (&Memtable, &Diverted)) -> Change {
        let comes = tables.iter().map(|handle| (run, handle.file())).collect();
        let covers = if tables.is_empty() { Vec::new() } else { lifts(&self.version(), flushed, run) };
        Change { comes, covers, ..Change::default() }
    }

    /// Makes a change of the tables; `publish` gets the version that follows.
    pub(super) fn install(
        &self,
        change: &Change,
        fresh: &[Arc<Handle>],
        publish: impl FnOnce(Arc<Version<Handle>>),
    ) -> Result<()> {
        self.files.change(change, fresh, || self.version(), publish)?;
        self.look_behind();
        self.pool.count(fresh.iter().map(|handle| u64::from(handle.table().blocks())).sum());
        self.written.add(fresh.iter().map(|handle| handle.table().bytes()).sum());
        Ok(())
    }

    /// Writes the records of a sealed memtable into tables, but for what was diverted; they are durable then.
    fn write_out(&self, memtable: &Memtable, diverted: &Diverted) -> Result<Vec<Arc<Handle>>> {
        self.files.context().begin_session()?;
        let name = &mut || self.files.fresh_name();
        let version = self.version();
        let place = Place::Run(0);
        let options = self.table_options(place, mean(memtable), iter::empty(), &version);
        let cuts = self.cuts_at(place, &version);
        let mut output = Output::new(self.files.loader(), options, cuts, name);
        let (mut cursor, mut key, mut value) = (memtable.cursor(), Vec::new(), Vec::new());
        while diverted.advance(&mut cursor, &mut key) {
            let (answer, seq) = cursor.read(&mut value);
            let value = (answer == Answer::Value).then_some(&value[..]);
            self.front().into_iter().for_each(|front| front.refresh(&key, value));
            output.push(self.hash(&key), &key, value, (seq, seq))?;
        }
        output.finish()
    }

    /// What tables at a place of records with so many bytes are like, which come of those tables of the version.
    pub(super) fn table_options<'t>(
        &self,
        place: Place,
        mean: usize,
        inputs: impl Iterator<Item = &'t Handle>,
        version: &Version<Handle>,
    ) -> Options {
        let (options, heat) = (self.files.options(), self.files.loader().heat.of(inputs, version));
        let (filter_bits, compression) = (options.filter_bits_at(place), options.compression);
        Options { block: block_size(mean), filter_bits, compression, index: options.wanted(heat) }
    }
}

/// Bytes of the key and the value of a record in the mean of some.
fn mean(memtable: &Memtable) -> usize {
    let (mut cursor, mut key, mut value) = (memtable.cursor(), Vec::new(), Vec::new());
    let (mut records, mut bytes) = (0, 0);
    while records < SAMPLE && cursor.advance() {
        cursor.read_key(&mut key);
        cursor.read(&mut value);
        records += 1;
        bytes += key.len() + value.len();
    }
    bytes / records.max(1)
}
