//! Runs the operations of one thread against the store, one by one.

use crate::{
    error::Result,
    measure::{
        context::{RunContext, judge},
        store::End,
        value::{self, Wrong},
        workload::{generator::Operation, mix::Kind},
    },
};

/// Bytes of keys and values that passed between the store and its user.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Traffic {
    pub(crate) read: u64,
    pub(crate) written: u64,
}

/// Whether a run can continue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outlook {
    GoOn,
    /// No keys are left for new records.
    KeysUsedUp,
}

/// Runs operations and checks every answer.
pub(crate) struct Executor<'a> {
    pub(super) bench: &'a RunContext,
    pub(super) thread: usize,
    pub(super) key: Vec<u8>,
    pub(super) value: Vec<u8>,
    pub(crate) traffic: Traffic,
}

impl<'a> Executor<'a> {
    pub(crate) fn new(bench: &'a RunContext, thread: usize) -> Self {
        Executor { bench, thread, key: Vec::new(), value: Vec::new(), traffic: Traffic::default() }
    }

    /// Whether announcing operations helps: versions are tracked, and keys are cheap to compute.
    pub(crate) fn is_forewarned(&self) -> bool {
        self.bench.versions.is_some() && self.bench.keys.are_computed()
    }

    /// Announces an operation, so that its record's version is prefetched.
    pub(crate) fn announce(&mut self, operation: Operation) -> Result<()> {
        self.bench.keys.write(operation.record, &mut self.key)?;
        if let Some(versions) = &self.bench.versions {
            versions.expect(value::identity(&self.key));
        }
        Ok(())
    }

    /// Runs one operation.
    pub(crate) fn single(&mut self, operation: Operation) -> Result<Outlook> {
        match operation.kind {
            Kind::Read => self.read(operation.record)?,
            Kind::Update => self.update(operation.record)?,
            Kind::Modify => self.modify(operation.record)?,
            Kind::Scan => self.scan(operation.record, usize::from(operation.length))?,
            Kind::Load => self.create(operation.record)?,
            Kind::PopFirst => self.pop(End::First)?,
            Kind::PopLast => self.pop(End::Last)?,
            Kind::First => self.look_at(End::First)?,
            Kind::Insert => return self.insert(),
            Kind::PushPop => {
                let outlook = self.insert()?;
                if outlook == Outlook::GoOn {
                    self.pop(End::First)?;
                }
                return Ok(outlook);
            }
        }
        Ok(Outlook::GoOn)
    }

    fn read(&mut self, record: u64) -> Result<()> {
        let (bench, key) = (self.bench, &mut self.key);
        bench.keys.write(record, key)?;
        let identity = value::identity(key);
        let acknowledged = bench.acknowledged(identity);
        let (mut verdict, mut bytes) = (bench.unanswered(), 0);
        bench.store.get(key, &mut |value| {
            if bench.checks {
                verdict = bench.check(value, key, identity, acknowledged);
            }
            bytes = value.map_or(0, |value| (key.len() + value.len()) as u64);
        })?;
        self.traffic.read += bytes;
        judge(key, verdict)
    }

    fn update(&mut self, record: u64) -> Result<()> {
        let bench = self.bench;
        bench.keys.write(record, &mut self.key)?;
        let identity = value::identity(&self.key);
        let (version, ticket) = bench.begin_write(identity);
        self.write(identity, version)?;
        bench.end_write(ticket);
        Ok(())
    }

    fn create(&mut self, record: u64) -> Result<()> {
        self.bench.keys.write(record, &mut self.key)?;
        self.write(value::identity(&self.key), self.bench.base_version)
    }

    fn insert(&mut self) -> Result<Outlook> {
        let Some(record) = self.bench.inserts.claim(self.thread) else { return Ok(Outlook::KeysUsedUp) };
        self.create(record)?;
        self.bench.inserts.acknowledge(self.thread);
        Ok(Outlook::GoOn)
    }

    /// Writes the value of the current key, which has this identity, at `version`.
    fn write(&mut self, identity: u64, version: u64) -> Result<()> {
        value::fill(&mut self.value, &self.key, identity, version, self.bench.value_size);
        self.traffic.written += (self.key.len() + self.value.len()) as u64;
        self.bench.store.insert(&self.key, &self.value)
    }

    fn modify(&mut self, record: u64) -> Result<()> {
        let (bench, key) = (self.bench, &mut self.key);
        bench.keys.write(record, key)?;
        let identity = value::identity(key);
        let acknowledged = bench.acknowledged(identity);
        let (version, ticket) = bench.begin_write(identity);
        let mut verdict = bench.unanswered();
        bench.store.update(key, &mut |value| {
            verdict = bench.check(value, key, identity, acknowledged);
            let mut new = Vec::with_capacity(bench.value_size);
            value::fill(&mut new, key, identity, version, bench.value_size);
            new
        })?;
        bench.end_write(ticket);
        let bytes = (key.len() + bench.value_size) as u64;
        self.traffic.read += bytes;
        self.traffic.written += bytes;
        judge(key, verdict)
    }

    /// Copies the first or last record into `key` and `value`, and checks it. The record exists.
    fn look_at(&mut self, end: End) -> Result<()> {
        let (bench, key, value, mut is_there) = (self.bench, &mut self.key, &mut self.value, false);
        key.clear();
        bench.store.end(end, &mut |of_end, at_end| {
            key.clear();
            key.extend_from_slice(of_end);
            value.clear();
            value.extend_from_slice(at_end);
            is_there = true;
        })?;
        let verdict =
            if is_there { bench.check(Some(value), key, value::identity(key), 0) } else { bench.unanswered() };
        self.traffic.read += (key.len() + value.len()) as u64;
        judge(key, verdict)
    }

    /// Removes the first or last record. If another thread removes it first, tries the next one.
    fn pop(&mut self, end: End) -> Result<()> {
        loop {
            self.look_at(end)?;
            if self.bench.store.take(&self.key, &self.value)? || !self.bench.checks {
                return Ok(());
            }
        }
    }

    fn scan(&mut self, record: u64, length: usize) -> Result<()> {
        let (bench, start, last) = (self.bench, &mut self.key, &mut self.value);
        bench.keys.write(record, start)?;
        last.clear();
        let (mut failure, mut bytes, mut count) = (Ok(()), 0, 0);
        bench.store.scan(start, length, &mut |key, value| {
            let in_order = if count == 0 { key == &start[..] } else { key > &last[..] };
            let verdict =
                if in_order { bench.check(Some(value), key, value::identity(key), 0) } else { Err(Wrong::Order) };
            failure = std::mem::replace(&mut failure, Ok(())).and_then(|()| judge(key, verdict));
            bytes += (key.len() + value.len()) as u64;
            count += 1;
            last.clear();
            last.extend_from_slice(key);
        })?;
        self.traffic.read += bytes;
        if count == 0 {
            // The record at the start of the scan exists.
            failure = judge(start, bench.unanswered());
        }
        failure
    }
}
