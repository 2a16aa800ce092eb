//! An engine that writes pages in place: a table of buckets, each one page for a range of first bytes. When a bucket
//! would overflow, the table is doubled into fresh pages.

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
    double_write::{PageWrite, changed_sectors},
    memory::Component,
    page,
    storage::{Block, FileId},
    wal::{Durability, RecordKind, ReservationKind, encode_structure},
};
use parking_lot::Mutex;

use super::{
    Content, check_ascends, copy_found, cursor_over,
    pages::{Pages, Stored, push},
    refuse_settings,
    table::Table,
    unflushed::{self, Records, Unflushed},
};

/// Makes keyspaces whose pages are written in place.
#[derive(Debug, Default)]
pub struct TinyInPlace;

impl EngineFactory for TinyInPlace {
    fn name(&self) -> &'static str {
        "tiny-in-place"
    }

    fn check(&self, settings: &[(String, String)]) -> Result<()> {
        refuse_settings(settings)
    }

    fn create(&self, context: Context) -> Result<(AnyEngine, EngineCheckpoint)> {
        refuse_settings(&context.settings)?;
        let engine = InPlace::new(Pages::create(&context, FileId::Pages(context.keyspace))?, context, Table::FIRST);
        engine.pages.reserve(Table::FIRST.end())?;
        let empty = vec![Vec::new(); Table::FIRST.count as usize];
        engine.pages.write_fresh(&engine.build_table(Table::FIRST, &empty)?)?;
        engine.context.shared.storage.sync_dir().map_err(|error| engine.context.shared.health.poison(error))?;
        let checkpoint = engine.checkpoint()?;
        Ok((AnyEngine::Ordered(Arc::new(engine)), checkpoint))
    }

    fn open(&self, context: Context, checkpoint: &EngineCheckpoint) -> Result<AnyEngine> {
        let pages = Pages::open(&context, FileId::Pages(context.keyspace))?;
        let table =
            Table::decode(&checkpoint.blob).map_err(|malformed| malformed.at("the root of a tiny keyspace", 0))?;
        Ok(AnyEngine::Ordered(Arc::new(InPlace::new(pages, context, table))))
    }
}

/// One keyspace.
#[derive(Debug)]
struct InPlace {
    context: Context,
    pages: Pages,
    retired: AtomicBool,
    /// The job lock: the thread that writes pages holds it across its I/O.
    turn: Mutex<()>,
    /// Locked after the job lock, and never across I/O.
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    table: Table,
    unflushed: Unflushed,
    /// Bytes of the records on each bucket's page.
    stored: Vec<usize>,
    /// First byte and size of each operation that was admitted and neither applied nor dropped, by admission.
    admitted: std::collections::BTreeMap<u64, (u8, usize)>,
    admissions: u64,
}

impl State {
    /// Reserves space for a record, if its bucket has space even when the record replaces nothing.
    fn take_room(&mut self, key: &[u8], bytes: usize) -> Option<u64> {
        let bucket = self.table.bucket(first(key));
        let waiting = self.unflushed.iter().filter(|(key, _)| self.table.bucket(first(key)) == bucket);
        let unflushed: usize = waiting.filter_map(|(key, record)| Some(size(key, record.value.as_ref()?))).sum();
        let admitted = self.admitted.values().filter(|(byte, _)| self.table.bucket(*byte) == bucket);
        let taken = self.stored[bucket as usize] + unflushed + admitted.map(|(_, bytes)| bytes).sum::<usize>();
        (taken + bytes <= Table::capacity()).then(|| self.admit(key, bytes))
    }

    fn admit(&mut self, key: &[u8], bytes: usize) -> u64 {
        self.admissions += 1;
        self.admitted.insert(self.admissions, (first(key), bytes));
        self.admissions
    }
}

fn first(key: &[u8]) -> u8 {
    key.first().copied().unwrap_or(0)
}

/// The most bytes that a record takes of a page.
fn size(key: &[u8], value: &[u8]) -> usize {
    page::record_bytes(0, key.len(), value.len())
}

fn stored_size((key, value): &Stored) -> usize {
    size(key, value.as_deref().unwrap_or_default())
}

impl InPlace {
    fn new(pages: Pages, context: Context, table: Table) -> Self {
        let state = State {
            table,
            unflushed: Unflushed::default(),
            stored: vec![0; table.count as usize],
            admitted: std::collections::BTreeMap::new(),
            admissions: 0,
        };
        InPlace { context, pages, retired: AtomicBool::new(false), turn: Mutex::new(()), state: Mutex::new(state) }
    }

    fn check_open(&self) -> Result<()> {
        if self.retired.load(Ordering::Acquire) { Err(Error::Closed { what: "the keyspace" }) } else { Ok(()) }
    }

    /// Writes out the records of these buckets. The caller holds the job lock.
    fn write_out(&self, buckets: &[u32]) -> Result<()> {
        self.context.shared.health.check()?;
        let (table, records) = {
            let mut state = self.state.lock();
            let table = state.table;
            (table, state.unflushed.begin(|key| buckets.contains(&table.bucket(first(key)))))
        };
        let written = self.write_records(table, &records);
        let mut state = self.state.lock();
        match written {
            Ok(stored) => {
                state.unflushed.finish();
                stored.into_iter().for_each(|(bucket, bytes)| state.stored[bucket as usize] = bytes);
                Ok(())
            }
            Err(error) => {
                state.unflushed.undo();
                Err(error)
            }
        }
    }

    /// Merges records into their pages, in place. Gives the bytes of the records that each page now holds.
    fn write_records(&self, table: Table, records: &Records) -> Result<Vec<(u32, usize)>> {
        let mut buckets: Vec<u32> = records.keys().map(|key| table.bucket(first(key))).collect();
        buckets.dedup();
        let (mut writes, mut stored) = (Vec::new(), Vec::new());
        for bucket in buckets {
            let (write, bytes) = self.merge(table, bucket, records)?;
            writes.push(write);
            stored.push((bucket, bytes));
        }
        if let Some(newest) = unflushed::newest(records).filter(|_| self.context.logged) {
            self.context.shared.wal.sync_through(newest)?;
        }
        let mut queue = self.context.shared.storage.queue()?;
        self.context.shared.double_write.write(&mut *queue, writes)?;
        Ok(stored)
    }

    fn merge(&self, table: Table, bucket: u32, records: &Records) -> Result<(PageWrite, usize)> {
        let page = table.base + bucket;
        let old = self.pages.read(page)?;
        let sequence = self.pages.parse(page, &old)?.sequence();
        let mut content: Content = values(self.pages.records(page)?);
        for (key, record) in records.iter().filter(|(key, _)| table.bucket(first(key)) == bucket) {
            match &record.value {
                Some(value) => content.insert(key.clone(), value.clone()),
                None => content.remove(key),
            };
        }
        let stored: Vec<Stored> = content.into_iter().map(|(key, value)| (key, Some(value))).collect();
        let block = self.build_page(table, bucket, sequence + 1, &stored)?;
        let sectors = changed_sectors(&old, &block);
        let bytes = stored.iter().map(stored_size).sum();
        Ok((PageWrite { file: self.pages.file.clone(), page, sectors, block }, bytes))
    }

    fn build_page(&self, table: Table, bucket: u32, sequence: u64, records: &[Stored]) -> Result<Block> {
        let mut block = self.pages.frame()?;
        let (lower, upper) = table.fences(bucket);
        let mut builder = self.pages.build(&mut block, table.base + bucket, (&lower, upper.as_deref()));
        let fits = records.iter().all(|record| push(&mut builder, record));
        assert!(fits, "admission sees to it that a bucket's records fit its page");
        builder.finish(sequence);
        Ok(block)
    }

    fn build_table(&self, table: Table, content: &[Vec<Stored>]) -> Result<Vec<(u32, Block)>> {
        let page = |(bucket, records): (u32, &Vec<Stored>)| {
            Ok((table.base + bucket, self.build_page(table, bucket, 1, records)?))
        };
        (0..).zip(content).map(page).collect()
    }

    /// Doubles the table into fresh pages behind it. The caller holds the job lock.
    fn grow(&self) -> Result<()> {
        let old = self.state.lock().table;
        self.write_out(&(0..old.count).collect::<Vec<_>>())?;
        let Some(new) = old.doubled() else {
            let (limit, actual) = (u64::from(Table::MOST), u64::from(old.count) * 2);
            return Err(Error::Limit { what: "the number of buckets of a tiny engine", limit, actual });
        };
        let mut content = vec![Vec::new(); new.count as usize];
        for bucket in 0..old.count {
            for stored in self.pages.records(old.base + bucket)? {
                content[new.bucket(first(&stored.0)) as usize].push(stored);
            }
        }
        self.pages.reserve(new.end())?;
        self.pages.write_fresh(&self.build_table(new, &content)?)?;
        self.install(new, content.iter().map(|records| records.iter().map(stored_size).sum()).collect())
    }

    fn install(&self, table: Table, stored: Vec<usize>) -> Result<()> {
        let body = encode_structure(self.context.keyspace, &table.encode());
        let reservation = self.context.shared.wal.reserve(ReservationKind::Structure, body.len())?;
        let mut state = self.state.lock();
        self.context.shared.wal.append(reservation, RecordKind::Structure, &body, |_| ());
        state.table = table;
        state.stored = stored;
        Ok(())
    }

    /// Makes space for a record by writing out its bucket, else by growing the table.
    fn make_room(&self, key: &[u8], bytes: usize) -> Result<u64> {
        let _guard = self.turn.lock();
        let bucket = {
            let state = self.state.lock();
            state.table.bucket(first(key))
        };
        self.write_out(&[bucket])?;
        loop {
            if let Some(admission) = self.state.lock().take_room(key, bytes) {
                return Ok(admission);
            }
            self.grow()?;
        }
    }

    /// Loads one record of a bulk load, after all earlier buckets are in the file.
    fn load(&self, last: Option<&Vec<u8>>, (key, value): &Record) -> Result<()> {
        check_ascends(last, key)?;
        if last.is_some_and(|last| first(last) != first(key)) {
            self.flush(Seq::MAX)?;
        }
        let operation = Operation { key, value: Some(value) };
        let admission = self.admit(operation)?;
        self.apply(admission, self.context.shared.wal.tail(), operation);
        Ok(())
    }

    /// The whole content; the job lock keeps write-outs away.
    fn content(&self) -> Result<Content> {
        self.check_open()?;
        let _guard = self.turn.lock();
        let (table, unflushed) = {
            let state = self.state.lock();
            let copy = |(key, record): (&Vec<u8>, &unflushed::Record)| (key.clone(), record.value.clone());
            (state.table, state.unflushed.iter().map(copy).collect::<Vec<_>>())
        };
        let mut content = Content::new();
        for page in table.base..table.end() {
            content.extend(values(self.pages.records(page)?));
        }
        for (key, value) in unflushed {
            match value {
                Some(value) => content.insert(key, value),
                None => content.remove(&key),
            };
        }
        Ok(content)
    }

    /// Reads the bucket's page. The page may be torn while it is written; then the read waits for the job lock.
    fn read(&self, table: Table, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let page = table.base + table.bucket(first(key));
        let block = match self.pages.read(page) {
            Err(error) if error.is_corruption() => {
                let _guard = self.turn.lock();
                self.pages.read(page)?
            }
            read => read?,
        };
        let found = self.pages.parse(page, &block)?.get(key);
        Ok(found.map(|(_, value)| value.to_vec()))
    }
}

fn values(records: Vec<Stored>) -> Content {
    records.into_iter().filter_map(|(key, value)| Some((key, value?))).collect()
}

impl Release for InPlace {
    fn release(&self, reserved: u64) {
        self.state.lock().admitted.remove(&reserved);
    }
}

impl InPlace {
    /// The newest value of a key.
    fn find(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        self.check_open()?;
        let table = {
            let state = self.state.lock();
            if let Some(record) = state.unflushed.get(key) {
                return Ok(record.value.clone());
            }
            state.table
        };
        self.read(table, key)
    }
}

impl Engine for InPlace {
    fn read_into(&self, key: &[u8], _access: Access, value: &mut Vec<u8>) -> Result<bool> {
        self.find(key).map(|found| copy_found(found.as_deref(), value))
    }

    fn multi_get(&self, keys: &[&[u8]], found: &mut VisitValue<'_>) -> Result<()> {
        keys.iter()
            .enumerate()
            .try_for_each(|(number, key)| self.find(key).map(|value| found(number, value.as_deref())))
    }

    fn admit(&self, operation: Operation<'_>) -> Result<Admission<'_>> {
        self.check_open()?;
        let admission = |number| Admission::new(self, number);
        let Some(value) = operation.value else { return Ok(admission(self.state.lock().admit(operation.key, 0))) };
        let bytes = size(operation.key, value);
        let taken = self.state.lock().take_room(operation.key, bytes);
        taken.map_or_else(|| self.make_room(operation.key, bytes), Ok).map(admission)
    }

    fn apply(&self, admission: Admission<'_>, seq: Seq, operation: Operation<'_>) {
        let mut state = self.state.lock();
        state.admitted.remove(&admission.into_reserved());
        state.unflushed.put(operation.key, operation.value, seq);
    }

    fn first_unflushed(&self) -> Option<Seq> {
        self.state.lock().unflushed.first()
    }

    fn flush(&self, below: Seq) -> Result<()> {
        self.check_open()?;
        let _guard = self.turn.lock();
        let buckets: Vec<u32> = {
            let state = self.state.lock();
            let old = state.unflushed.iter().filter(|(_, record)| record.first < below);
            old.map(|(key, _)| state.table.bucket(first(key))).collect()
        };
        if buckets.is_empty() { Ok(()) } else { self.write_out(&buckets) }
    }

    fn checkpoint(&self) -> Result<EngineCheckpoint> {
        let state = self.state.lock();
        Ok(EngineCheckpoint { structure_position: self.context.shared.wal.tail(), blob: state.table.encode() })
    }

    fn checkpoint_is_durable(&self) {}

    fn verify(&self) -> Result<Check> {
        self.check_open()?;
        let _guard = self.turn.lock();
        let table = self.state.lock().table;
        let mut check = Check::default();
        for bucket in 0..table.count {
            check.pages += 1;
            match self.pages.records(table.base + bucket) {
                Ok(records) if records.iter().all(|(key, _)| table.bucket(first(key)) == bucket) => {
                    check.records += records.len() as u64
                }
                Ok(_) => check.problems.push(format!("the bucket {bucket} holds keys of another one")),
                Err(error) => check.problems.push(error.to_string()),
            }
        }
        Ok(check)
    }

    fn stats(&self) -> Stats {
        let state = self.state.lock();
        vec![("buckets", state.table.count.into()), ("unflushed", state.unflushed.len() as u64)]
    }

    fn mark_dropped(&self) {
        self.retired.store(true, Ordering::Release);
    }
}

impl Recover for InPlace {
    fn replay_structure(&self, _: Seq, body: &[u8]) -> Result<()> {
        let table = Table::decode(body).map_err(|malformed| malformed.at("the log's structural record", 0))?;
        let mut state = self.state.lock();
        if state.table.doubled() != Some(table) {
            return Err(self.pages.corruption(table.base, "the log does not fit the table of buckets"));
        }
        state.table = table;
        Ok(())
    }

    fn replay(&self, seq: Seq, operation: Operation<'_>) -> Result<()> {
        self.state.lock().unflushed.put(operation.key, operation.value, seq);
        Ok(())
    }

    fn structure_recovered(&self) -> Result<()> {
        let table = self.state.lock().table;
        let bytes = |page| Ok(self.pages.records(page)?.iter().map(stored_size).sum());
        let stored = (table.base..table.end()).map(bytes).collect::<Result<Vec<usize>>>()?;
        self.state.lock().stored = stored;
        Ok(())
    }
}

impl Ordered for InPlace {
    fn cursor_in(self: Arc<Self>, range: Range, memory: Component) -> Box<dyn Cursor> {
        cursor_over(self.content(), range, memory)
    }

    /// The records are loaded bucket by bucket, so that a crash leaves a prefix. Records loaded before an error stay.
    fn bulk_load(self: Arc<Self>, records: &mut dyn Iterator<Item = Result<Record>>) -> Result<u64> {
        let mut last = self.content()?.into_keys().next_back();
        let mut count = 0;
        let load = || {
            for record in records {
                let record = record?;
                self.load(last.as_ref(), &record)?;
                (last, count) = (Some(record.0), count + 1);
            }
            Ok(())
        };
        let loaded = load();
        self.flush(Seq::MAX)?;
        let wal = &self.context.shared.wal;
        wal.commit(wal.tail(), Durability::Sync)?;
        loaded.map(|()| count)
    }
}
