//! Blocks written once: records are collected in memory and flushed as a sorted run; several runs are compacted to one, and the blocks of
//! the old ones are used again.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use ecotone_engines::engine::{Admission, Check, Context, Cursor, Engine, Family, Operation, Range, Record, Root, Stats};
use ecotone_substrate::{
    Error, Result, Seq,
    storage::Block,
    wal::{Durability, RecordKind, Room, encode_structure},
};
use parking_lot::Mutex;

use super::{
    Content, check_ascends, cursor_over,
    pages::{Pages, Stored, push},
    refuse_settings,
    runs::{Change, Free, Run, Runs, decode_runs, encode_runs, install},
    unflushed::{self, Unflushed},
};

/// Runs at which they are compacted.
const MOST_RUNS: usize = 3;
/// Blocks by which the file grows.
const GROWTH: u32 = 8;
/// Records in one run of a bulk load.
const BULK_RUN: usize = 64;

/// Makes keyspaces whose blocks are never overwritten while anything needs them.
#[derive(Debug, Default)]
pub struct TinyAppendOnly;

impl Family for TinyAppendOnly {
    fn name(&self) -> &'static str {
        "tiny-append-only"
    }

    fn create(&self, context: Context) -> Result<(Arc<dyn Engine>, Root)> {
        refuse_settings(&context)?;
        let engine = AppendOnly::new(Pages::create(&context)?, context, Runs::new());
        engine.context.shared.storage.sync_dir().map_err(|error| engine.context.shared.health.poison(error))?;
        let root = engine.checkpoint()?;
        Ok((Arc::new(engine), root))
    }

    fn open(&self, context: Context, root: &Root) -> Result<Arc<dyn Engine>> {
        let runs = decode_runs(&root.blob).map_err(|malformed| malformed.at("the root of a tiny keyspace", 0))?;
        Ok(Arc::new(AppendOnly::new(Pages::open(&context)?, context, runs)))
    }
}

/// One keyspace.
#[derive(Debug)]
struct AppendOnly {
    context: Context,
    pages: Pages,
    retired: AtomicBool,
    /// Held by the one that writes blocks, across its I/O.
    turn: Mutex<Free>,
    /// Locked after the turn, and never across I/O.
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    runs: Runs,
    unflushed: Unflushed,
}

impl AppendOnly {
    fn new(pages: Pages, context: Context, runs: Runs) -> Self {
        let state = State { runs, unflushed: Unflushed::default() };
        AppendOnly { context, pages, retired: AtomicBool::new(false), turn: Mutex::default(), state: Mutex::new(state) }
    }

    fn check_open(&self) -> Result<()> {
        if self.retired.load(Ordering::Acquire) { Err(Error::Closed { what: "the keyspace" }) } else { Ok(()) }
    }

    /// Writes everything in memory as the newest run.
    fn flush_memory(&self, free: &mut Free) -> Result<()> {
        let records = self.state.lock().unflushed.begin(|_| true);
        let newest = unflushed::newest(&records).filter(|_| self.context.logged);
        let stays = |value: &Option<Vec<u8>>| value.is_some() || !ecotone_substrate::bug!(DropTombstone);
        let stored = records.into_iter().map(|(key, record)| (key, record.value)).filter(|(_, value)| stays(value)).collect();
        let flushed = newest.map_or(Ok(()), |newest| self.context.shared.wal.sync_through(newest));
        let flushed = flushed.and_then(|()| self.add_run(free, Vec::new(), stored));
        match flushed {
            Ok(()) => self.state.lock().unflushed.finish(),
            Err(_) => self.state.lock().unflushed.undo(),
        }
        flushed
    }

    /// Replaces all runs by one. Below it there is nothing, so it needs no tombstones.
    fn compact(&self, free: &mut Free) -> Result<()> {
        let runs = self.state.lock().runs.clone();
        let out = runs.iter().filter_map(|run| run.blocks.first().copied()).collect();
        let content = self.stored(&runs)?;
        self.add_run(free, out, content.into_iter().map(|(key, value)| (key, Some(value))).collect())
    }

    /// Writes a run of these records, syncs it, and installs it in place of the runs that go out.
    fn add_run(&self, free: &mut Free, out: Vec<u32>, records: Vec<Stored>) -> Result<()> {
        let mut parts = self.split(&records)?;
        let blocks = self.take(free, parts.len())?;
        let lowers: Vec<Vec<u8>> = parts.iter().map(|part| part.0.clone()).collect();
        let written = self.build(&mut parts, &blocks).and_then(|fresh| self.pages.write_fresh(&fresh));
        let installed = written.and_then(|()| self.install(free, &Change { out, come: blocks.clone() }, lowers));
        installed.inspect_err(|_| free.give_back(blocks))
    }

    /// The records in as many parts as there are blocks needed, each with its smallest key.
    fn split<'a>(&self, mut records: &'a [Stored]) -> Result<Vec<(Vec<u8>, &'a [Stored])>> {
        let (mut parts, mut scratch) = (Vec::new(), self.pages.frame()?);
        while let Some((lower, _)) = records.first() {
            let mut builder = self.pages.build(&mut scratch, 0, (lower, None));
            let fit = records.iter().take_while(|record| push(&mut builder, record)).count();
            let (part, rest) = records.split_at(fit);
            parts.push((lower.clone(), part));
            records = rest;
        }
        Ok(parts)
    }

    fn build(&self, parts: &mut [(Vec<u8>, &[Stored])], numbers: &[u32]) -> Result<Vec<(u32, Block)>> {
        let block = |((lower, records), number): (&mut (Vec<u8>, &[Stored]), &u32)| {
            let mut block = self.pages.frame()?;
            let mut builder = self.pages.build(&mut block, *number, (lower, None));
            assert!(records.iter().all(|record| push(&mut builder, record)), "they fitted when they were split");
            builder.finish(1);
            Ok((*number, block))
        };
        parts.iter_mut().zip(numbers).map(block).collect()
    }

    fn take(&self, free: &mut Free, count: usize) -> Result<Vec<u32>> {
        let synced = self.context.shared.wal.synced();
        if let Some(blocks) = free.take(count, synced) {
            return Ok(blocks);
        }
        let end = free.end + GROWTH.max(count as u32);
        self.pages.reserve(end)?;
        free.extend_to(end);
        Ok(free.take(count, synced).expect("the file has just grown by as many blocks"))
    }

    fn install(&self, free: &mut Free, change: &Change, lowers: Vec<Vec<u8>>) -> Result<()> {
        let wal = &self.context.shared.wal;
        let body = encode_structure(self.context.keyspace, &change.encode());
        let reservation = wal.reserve(Room::Structure, body.len())?;
        let mut state = self.state.lock();
        let placed = wal.append(reservation, RecordKind::Structure, &body, |_| ());
        let gone = install(&mut state.runs, change, lowers).expect("the runs that go out are there");
        free.free_later(gone, placed.seq);
        Ok(())
    }

    /// What the runs hold together.
    fn stored(&self, runs: &Runs) -> Result<Content> {
        let mut content = Content::new();
        for block in runs.iter().flat_map(|run| &run.blocks) {
            for (key, value) in self.pages.records(*block)? {
                match value {
                    Some(value) => content.insert(key, value),
                    None => content.remove(&key),
                };
            }
        }
        Ok(content)
    }

    /// Everything, with no flush on its way.
    fn content(&self) -> Result<Content> {
        self.check_open()?;
        let _turn = self.turn.lock();
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

    /// Looks into these runs, newest first.
    fn read(&self, runs: &Runs, key: &[u8]) -> Result<Option<Vec<u8>>> {
        for number in runs.iter().rev().filter_map(|run| run.find(key)) {
            let block = self.pages.read(number)?;
            if let Some((kind, value)) = self.pages.parse(number, &block)?.get(key) {
                return Ok((kind == ecotone_substrate::page::RecordKind::Value).then(|| value.to_vec()));
            }
        }
        Ok(None)
    }

    fn is_current(&self, runs: &Runs) -> bool {
        let state = self.state.lock();
        state.runs.len() == runs.len() && state.runs.iter().zip(runs).all(|(a, b)| Arc::ptr_eq(a, b))
    }

    fn check_run(&self, run: &Run, check: &mut Check) {
        let mut last = None;
        for (number, lower) in run.blocks.iter().zip(&run.lowers) {
            check.pages += 1;
            match self.pages.records(*number) {
                Ok(records) => {
                    check.records += records.iter().filter(|(_, value)| value.is_some()).count() as u64;
                    if records.first().is_none_or(|(key, _)| key != lower || last.as_ref() >= Some(key)) {
                        check.problems.push(format!("block {number} does not follow the one before it"));
                    }
                    last = records.into_iter().next_back().map(|(key, _)| key);
                }
                Err(error) => check.problems.push(error.to_string()),
            }
        }
    }
}

impl Engine for AppendOnly {
    /// A compaction may put other records into a block that is being looked at; then the runs are others, and the look is taken again.
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        self.check_open()?;
        loop {
            let runs = {
                let state = self.state.lock();
                if let Some(record) = state.unflushed.get(key) {
                    return Ok(record.value.clone());
                }
                state.runs.clone()
            };
            let found = self.read(&runs, key);
            if self.is_current(&runs) {
                return found;
            }
        }
    }

    fn multi_get(&self, keys: &[&[u8]]) -> Result<Vec<Option<Vec<u8>>>> {
        keys.iter().map(|key| self.get(key)).collect()
    }

    fn cursor(self: Arc<Self>, range: Range) -> Cursor {
        cursor_over(self.content(), &range)
    }

    fn admit(&self, _: Operation<'_>) -> Result<Admission> {
        self.check_open()?;
        Ok(Admission(0))
    }

    fn apply(&self, _: Admission, seq: Seq, operation: Operation<'_>) {
        self.state.lock().unflushed.put(operation.key, operation.value, seq);
    }

    fn cancel(&self, _: Admission) {}

    fn first_unflushed(&self) -> Option<Seq> {
        self.state.lock().unflushed.first()
    }

    fn flush(&self, below: Seq) -> Result<()> {
        self.check_open()?;
        let mut free = self.turn.lock();
        self.context.shared.health.check()?;
        if self.first_unflushed().is_some_and(|first| first < below) {
            self.flush_memory(&mut free)?;
        }
        let runs = self.state.lock().runs.len();
        if runs > MOST_RUNS { self.compact(&mut free) } else { Ok(()) }
    }

    fn checkpoint(&self) -> Result<Root> {
        let state = self.state.lock();
        Ok(Root { structure: self.context.shared.wal.tail(), blob: encode_runs(&state.runs) })
    }

    fn checkpoint_is_durable(&self) {}

    fn replay_structure(&self, _: Seq, body: &[u8]) -> Result<()> {
        let change = Change::decode(body).map_err(|malformed| malformed.at("the log's structural record", 0))?;
        let installed = install(&mut self.state.lock().runs, &change, Vec::new());
        installed.map(drop).ok_or_else(|| self.pages.corruption(0, "the log does not fit the runs"))
    }

    fn replay(&self, seq: Seq, operation: Operation<'_>) -> Result<()> {
        self.state.lock().unflushed.put(operation.key, operation.value, seq);
        Ok(())
    }

    fn structure_recovered(&self) -> Result<()> {
        let mut free = self.turn.lock();
        let mut runs = self.state.lock().runs.clone();
        for run in &mut runs {
            let lower = |block: &u32| Ok(self.pages.parse(*block, &self.pages.read(*block)?)?.lower().to_vec());
            let lowers = run.blocks.iter().map(lower).collect::<Result<_>>()?;
            *run = Arc::new(Run { blocks: run.blocks.clone(), lowers });
        }
        *free = Free::beside(&runs, self.pages.count()?);
        self.state.lock().runs = runs;
        Ok(())
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

    fn verify(&self) -> Result<Check> {
        self.check_open()?;
        let _turn = self.turn.lock();
        let runs = self.state.lock().runs.clone();
        let mut check = Check::default();
        runs.iter().for_each(|run| self.check_run(run, &mut check));
        Ok(check)
    }

    fn stats(&self) -> Stats {
        let state = self.state.lock();
        vec![("runs", state.runs.len() as u64), ("unflushed", state.unflushed.len() as u64)]
    }

    fn retire(&self) {
        self.retired.store(true, Ordering::Release);
    }
}
