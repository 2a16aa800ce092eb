//! An engine that only appends. Records are collected in memory and flushed as a sorted run, which is a table of its
//! own. Several runs are compacted to one, and the tables of the old runs are removed
//! (commit-and-recovery.md, "Structural records").

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use ecotone_engine::contract::{
    Access, Admission, AnyEngine, Check, Context, Cursor, Engine, EngineCheckpoint, EngineFactory, Operation, Ordered,
    Range, Record, Recover, Release, Stats, VisitValue,
};
use ecotone_substrate::{
    Error, Result, Seq,
    memory::Component,
    storage::FileId,
    wal::{Durability, RecordKind, ReservationKind, encode_structure},
};
use parking_lot::Mutex;

use super::{
    Content, check_ascends, copy_found, cursor_over,
    pages::Stored,
    refuse_settings,
    run::Run,
    runs::{Change, Numbers, Runs},
    unflushed::{self, Unflushed},
};

/// The number of runs that triggers a compaction.
const MOST_RUNS: usize = 3;
/// Records in one run of a bulk load.
const BULK_RUN: usize = 64;

/// Makes keyspaces whose files are never changed once they are written.
#[derive(Debug, Default)]
pub struct TinyAppendOnly;

impl EngineFactory for TinyAppendOnly {
    fn name(&self) -> &'static str {
        "tiny-append-only"
    }

    fn check(&self, settings: &[(String, String)]) -> Result<()> {
        refuse_settings(settings)
    }

    fn create(&self, context: Context) -> Result<(AnyEngine, EngineCheckpoint)> {
        let engine = AppendOnly::create(context)?;
        let checkpoint = engine.checkpoint()?;
        Ok((AnyEngine::Ordered(Arc::new(engine)), checkpoint))
    }

    fn open(&self, context: Context, checkpoint: &EngineCheckpoint) -> Result<AnyEngine> {
        Ok(AnyEngine::Ordered(Arc::new(AppendOnly::open(context, checkpoint)?)))
    }
}

/// One keyspace.
#[derive(Debug)]
pub(super) struct AppendOnly {
    context: Context,
    retired: AtomicBool,
    /// The job lock: the thread that writes and removes tables holds it across its I/O.
    turn: Mutex<Dead>,
    /// Locked after the job lock, and never across I/O.
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    numbers: Numbers,
    /// The runs of `numbers`, once replay is over.
    runs: Runs,
    unflushed: Unflushed,
}

/// Obsolete tables, each with the sequence of the structural record that removed it. A table is deleted when that
/// record is synced.
type Dead = Vec<(Seq, u32)>;

impl AppendOnly {
    pub(super) fn create(context: Context) -> Result<Self> {
        refuse_settings(&context.settings)?;
        Ok(Self::new(context, Numbers::default()))
    }

    pub(super) fn open(context: Context, checkpoint: &EngineCheckpoint) -> Result<Self> {
        let numbers =
            Numbers::decode(&checkpoint.blob).map_err(|malformed| malformed.at("the root of a tiny keyspace", 0))?;
        Ok(Self::new(context, numbers))
    }

    fn new(context: Context, numbers: Numbers) -> Self {
        let state = State { numbers, runs: Runs::new(), unflushed: Unflushed::default() };
        AppendOnly { context, retired: AtomicBool::new(false), turn: Mutex::default(), state: Mutex::new(state) }
    }

    fn check_open(&self) -> Result<()> {
        if self.retired.load(Ordering::Acquire) { Err(Error::Closed { what: "the keyspace" }) } else { Ok(()) }
    }

    /// Writes all records in memory as the newest run.
    fn flush_memory(&self, dead: &mut Dead) -> Result<()> {
        let records = self.state.lock().unflushed.begin(|_| true);
        let newest = unflushed::newest(&records).filter(|_| self.context.logged);
        let stays = |value: &Option<Vec<u8>>| value.is_some() || !ecotone_substrate::bug!(DropTombstone);
        let stored =
            records.into_iter().map(|(key, record)| (key, record.value)).filter(|(_, value)| stays(value)).collect();
        let flushed = newest.map_or(Ok(()), |newest| self.context.shared.wal.sync_through(newest));
        let flushed = flushed.and_then(|()| self.add_run(dead, Vec::new(), stored));
        match flushed {
            Ok(()) => self.state.lock().unflushed.finish(),
            Err(_) => self.state.lock().unflushed.undo(),
        }
        flushed
    }

    /// Replaces all runs by one. There is nothing below the new run, so it needs no tombstones.
    fn compact(&self, dead: &mut Dead) -> Result<()> {
        let runs = self.state.lock().runs.clone();
        let out = runs.iter().map(|run| run.number).collect();
        let content = self.stored(&runs)?;
        self.add_run(dead, out, content.into_iter().map(|(key, value)| (key, Some(value))).collect())
    }

    /// Writes a run of these records, syncs it with its name, and installs it in place of the runs `out`.
    fn add_run(&self, dead: &mut Dead, out: Vec<u32>, records: Vec<Stored>) -> Result<()> {
        if records.is_empty() {
            return if out.is_empty() { Ok(()) } else { self.install(dead, out, None) };
        }
        let number = self.state.lock().numbers.next;
        let written = Run::write(&self.context, number, &records);
        let installed = written.and_then(|run| self.install(dead, out, Some(Arc::new(run))));
        installed.inspect_err(|_| {
            // The caller needs the first error. A table that stays is removed at the next open.
            let _ = self.context.shared.storage.remove(Run::file(&self.context, number));
        })
    }

    fn install(&self, dead: &mut Dead, out: Vec<u32>, run: Option<Arc<Run>>) -> Result<()> {
        let wal = &self.context.shared.wal;
        let change = Change { out, come: run.as_ref().map(|run| run.number) };
        let body = encode_structure(self.context.keyspace, &change.encode());
        let reservation = wal.reserve(ReservationKind::Structure, body.len())?;
        let mut state = self.state.lock();
        let placed = wal.append(reservation, RecordKind::Structure, &body, |_| ());
        assert!(state.numbers.install(&change), "the runs that go out are there");
        state.runs.retain(|run| !change.out.contains(&run.number));
        state.runs.extend(run);
        dead.extend(change.out.iter().map(|number| (placed.seq, *number)));
        Ok(())
    }

    /// Deletes the tables whose removal is durable. A reader of such a table has it open.
    fn delete_obsolete(&self, dead: &mut Dead) -> Result<()> {
        let synced = self.context.shared.wal.synced();
        let ripe = |(seq, _): &mut (Seq, u32)| *seq < synced || ecotone_substrate::bug!(FreeSpaceEarly);
        for (_, number) in dead.extract_if(.., ripe) {
            let removed = self.context.shared.storage.remove(Run::file(&self.context, number));
            removed.map_err(|error| self.context.shared.health.poison(error))?;
        }
        Ok(())
    }

    /// Removes the orphans of this keyspace: tables of an interrupted flush or compaction, which no run names.
    fn remove_orphans(&self, numbers: &Numbers) -> Result<()> {
        let storage = &self.context.shared.storage;
        let is_orphan = |file: &FileId| match file {
            FileId::Table { keyspace, number } => *keyspace == self.context.keyspace && !numbers.runs.contains(number),
            _ => false,
        };
        let orphans: Vec<FileId> = storage.list()?.into_iter().filter(is_orphan).collect();
        orphans.iter().try_for_each(|file| storage.remove(*file))?;
        if orphans.is_empty() { Ok(()) } else { storage.sync_dir() }
    }

    /// The merged content of the runs.
    fn stored(&self, runs: &Runs) -> Result<Content> {
        let mut content = Content::new();
        for run in runs {
            for page in 0..run.pages.count()? {
                for (key, value) in run.pages.records(page)? {
                    match value {
                        Some(value) => content.insert(key, value),
                        None => content.remove(&key),
                    };
                }
            }
        }
        Ok(content)
    }

    /// How often a key was written in this session.
    pub(super) fn writes_of(&self, key: &[u8]) -> u64 {
        self.state.lock().unflushed.writes_of(key)
    }

    /// Applies an operation that is not logged, if its key was written exactly so often; false if it was not.
    pub(super) fn put_if(&self, writes: u64, operation: Operation<'_>) -> Result<bool> {
        self.check_open()?;
        let mut state = self.state.lock();
        let unchanged = state.unflushed.writes_of(operation.key) == writes;
        if unchanged {
            state.unflushed.put(operation.key, operation.value, self.context.shared.wal.tail());
        }
        Ok(unchanged)
    }

    /// The whole content; the job lock keeps flushes away.
    pub(super) fn content(&self) -> Result<Content> {
        self.check_open()?;
        let _guard = self.turn.lock();
        let (runs, unflushed) = {
            let state = self.state.lock();
            let copy = |(key, record): (&Vec<u8>, &unflushed::Record)| (key.clone(), record.value.clone());
            (state.runs.clone(), state.unflushed.iter().map(copy).collect::<Vec<_>>())
        };
        let mut content = self.stored(&runs)?;
        for (key, value) in unflushed {
            match value {
                Some(value) => content.insert(key, value),
                None => content.remove(&key),
            };
        }
        Ok(content)
    }

    fn check_run(run: &Run, check: &mut Check) {
        let mut last = None;
        for (page, lower) in (0..).zip(&run.lowers) {
            check.pages += 1;
            match run.pages.records(page) {
                Ok(records) => {
                    check.records += records.iter().filter(|(_, value)| value.is_some()).count() as u64;
                    if records.first().is_none_or(|(key, _)| key != lower || last.as_ref() >= Some(key)) {
                        check
                            .problems
                            .push(format!("page {page} of run {} does not follow the one before it", run.number));
                    }
                    last = records.into_iter().next_back().map(|(key, _)| key);
                }
                Err(error) => check.problems.push(error.to_string()),
            }
        }
    }
}

/// Searches these runs, newest first.
fn read(runs: &Runs, key: &[u8]) -> Result<Option<Vec<u8>>> {
    for (run, page) in runs.iter().rev().filter_map(|run| Some((run, run.find(key)?))) {
        let block = run.pages.read(page)?;
        if let Some((kind, value)) = run.pages.parse(page, &block)?.get(key) {
            return Ok((kind == ecotone_substrate::page::RecordKind::Value).then(|| value.to_vec()));
        }
    }
    Ok(None)
}

impl Release for AppendOnly {
    fn release(&self, _: u64) {}
}

impl AppendOnly {
    /// The newest value of a key.
    fn find(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        self.check_open()?;
        let runs = {
            let state = self.state.lock();
            if let Some(record) = state.unflushed.get(key) {
                return Ok(record.value.clone());
            }
            state.runs.clone()
        };
        read(&runs, key)
    }
}

impl Engine for AppendOnly {
    fn read_into(&self, key: &[u8], _access: Access, value: &mut Vec<u8>) -> Result<bool> {
        self.find(key).map(|found| copy_found(found.as_deref(), value))
    }

    fn multi_get(&self, keys: &[&[u8]], found: &mut VisitValue<'_>) -> Result<()> {
        keys.iter()
            .enumerate()
            .try_for_each(|(number, key)| self.find(key).map(|value| found(number, value.as_deref())))
    }

    fn admit(&self, _: Operation<'_>) -> Result<Admission<'_>> {
        self.check_open()?;
        Ok(Admission::new(self, 0))
    }

    fn apply(&self, _: Admission<'_>, seq: Seq, operation: Operation<'_>) {
        self.state.lock().unflushed.put(operation.key, operation.value, seq);
    }

    fn try_apply(&self, operation: Operation<'_>) -> Result<bool> {
        self.check_open()?;
        self.state.lock().unflushed.put(operation.key, operation.value, self.context.shared.wal.tail());
        Ok(true)
    }

    fn first_unflushed(&self) -> Option<Seq> {
        self.state.lock().unflushed.first()
    }

    fn flush(&self, below: Seq) -> Result<()> {
        self.check_open()?;
        let mut dead = self.turn.lock();
        self.context.shared.health.check()?;
        if self.first_unflushed().is_some_and(|first| first < below) {
            self.flush_memory(&mut dead)?;
        }
        let runs = self.state.lock().runs.len();
        if runs > MOST_RUNS {
            self.compact(&mut dead)?;
        }
        self.delete_obsolete(&mut dead)
    }

    fn checkpoint(&self) -> Result<EngineCheckpoint> {
        let state = self.state.lock();
        Ok(EngineCheckpoint { structure_position: self.context.shared.wal.tail(), blob: state.numbers.encode() })
    }

    fn checkpoint_is_durable(&self) {}

    fn verify(&self) -> Result<Check> {
        self.check_open()?;
        let _guard = self.turn.lock();
        let runs = self.state.lock().runs.clone();
        let mut check = Check::default();
        runs.iter().for_each(|run| Self::check_run(run, &mut check));
        Ok(check)
    }

    fn stats(&self) -> Stats {
        let state = self.state.lock();
        vec![("runs", state.runs.len() as u64), ("unflushed", state.unflushed.len() as u64)]
    }

    fn mark_dropped(&self) {
        self.retired.store(true, Ordering::Release);
    }
}

impl Recover for AppendOnly {
    fn replay_structure(&self, _: Seq, body: &[u8]) -> Result<()> {
        let malformed = |malformed: ecotone_substrate::codec::Malformed| malformed.at("the log's structural record", 0);
        let change = Change::decode(body).map_err(malformed)?;
        let fits = self.state.lock().numbers.install(&change);
        if fits { Ok(()) } else { Err(Error::corruption("the log", 0, "it does not fit the runs of a tiny keyspace")) }
    }

    fn replay(&self, seq: Seq, operation: Operation<'_>) -> Result<()> {
        self.state.lock().unflushed.put(operation.key, operation.value, seq);
        Ok(())
    }

    fn structure_recovered(&self) -> Result<()> {
        let numbers = self.state.lock().numbers.clone();
        self.remove_orphans(&numbers)?;
        let open = |number: &u32| Run::open(&self.context, *number).map(Arc::new);
        self.state.lock().runs = numbers.runs.iter().map(open).collect::<Result<_>>()?;
        Ok(())
    }
}

impl Ordered for AppendOnly {
    fn cursor_in(self: Arc<Self>, range: Range, memory: Component) -> Box<dyn Cursor> {
        cursor_over(self.content(), range, memory)
    }

    fn bulk_load(self: Arc<Self>, records: &mut dyn Iterator<Item = Result<Record>>) -> Result<u64> {
        let mut last = self.content()?.into_keys().next_back();
        let (mut count, mut waiting, wal) = (0, Vec::new(), &self.context.shared.wal);
        for record in records {
            let (key, value) = record?;
            check_ascends(last.as_ref(), &key)?;
            waiting.push((key.clone(), Some(value)));
            (last, count) = (Some(key), count + 1);
            if waiting.len() == BULK_RUN {
                self.add_run(&mut self.turn.lock(), Vec::new(), std::mem::take(&mut waiting))?;
            }
        }
        self.add_run(&mut self.turn.lock(), Vec::new(), waiting)?;
        wal.commit(wal.tail(), Durability::Sync)?;
        Ok(count)
    }
}
