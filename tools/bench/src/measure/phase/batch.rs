//! Runs the operations of one thread against the store in batches.

use super::{
    execute::{Executor, Outlook},
    pack::Pack,
};
use crate::{
    error::Result,
    measure::{
        context::judge,
        value,
        versions::Ticket,
        workload::{generator::Operation, mix::Kind},
    },
};

/// Buffers of a batch, reused for the next one.
#[derive(Debug, Default)]
pub(crate) struct Buffers {
    keys: Pack,
    values: Pack,
    /// The identity of each key, and its acknowledged version.
    expected: Vec<(u64, u64)>,
    tickets: Vec<Ticket>,
}

/// Whether this kind of operation runs in batches.
fn is_batched(kind: Kind) -> bool {
    matches!(kind, Kind::Read | Kind::Update | Kind::Load | Kind::Insert)
}

impl Executor<'_> {
    /// Runs several operations: the reads with one call, then the writes as one batch, then the rest one by one.
    pub(crate) fn batch(&mut self, operations: &[Operation], buffers: &mut Buffers) -> Result<Outlook> {
        self.read_many(operations, buffers)?;
        let outlook = self.write_many(operations, buffers)?;
        for operation in operations.iter().filter(|operation| !is_batched(operation.kind)) {
            self.single(*operation)?;
        }
        Ok(outlook)
    }

    fn read_many(&mut self, operations: &[Operation], buffers: &mut Buffers) -> Result<()> {
        let Buffers { keys, expected, .. } = buffers;
        let bench = self.bench;
        keys.clear();
        expected.clear();
        for operation in operations.iter().filter(|operation| operation.kind == Kind::Read) {
            bench.keys.write(operation.record, &mut self.key)?;
            keys.push(&self.key);
            let identity = value::identity(&self.key);
            expected.push((identity, bench.acknowledged(identity)));
        }
        if keys.len() == 0 {
            return Ok(());
        }
        let wanted: Vec<&[u8]> = keys.iter().collect();
        let (mut failure, mut bytes, mut answers) = (Ok(()), 0, 0);
        bench.store.multi_get(&wanted, &mut |number, value| {
            let key = wanted[number];
            let (identity, acknowledged) = expected[number];
            let verdict = bench.check(value, key, identity, acknowledged);
            failure = std::mem::replace(&mut failure, Ok(())).and_then(|()| judge(key, verdict));
            bytes += value.map_or(0, |value| (key.len() + value.len()) as u64);
            answers += 1;
        })?;
        self.traffic.read += bytes;
        failure.and_then(|()| if answers == wanted.len() { Ok(()) } else { judge(wanted[answers], bench.unanswered()) })
    }

    fn write_many(&mut self, operations: &[Operation], buffers: &mut Buffers) -> Result<Outlook> {
        let Buffers { keys, values, tickets, .. } = buffers;
        keys.clear();
        values.clear();
        let mut outlook = Outlook::GoOn;
        for operation in operations {
            let Some((identity, version)) = self.prepare(*operation, tickets, &mut outlook)? else { continue };
            value::fill(&mut self.value, &self.key, identity, version, self.bench.value_size);
            keys.push(&self.key);
            values.push(&self.value);
        }
        if keys.len() > 0 {
            let records: Vec<_> = keys.iter().zip(values.iter()).collect();
            self.bench.store.insert_batch(&records)?;
            self.traffic.written += keys.bytes() + values.bytes();
        }
        tickets.drain(..).for_each(|ticket| self.bench.end_write(Some(ticket)));
        self.bench.inserts.acknowledge(self.thread);
        Ok(outlook)
    }

    /// Builds the key of a write and returns its identity and version; `None` for a kind that is not written in
    /// batches.
    fn prepare(
        &mut self,
        operation: Operation,
        tickets: &mut Vec<Ticket>,
        outlook: &mut Outlook,
    ) -> Result<Option<(u64, u64)>> {
        let bench = self.bench;
        let record = match operation.kind {
            kind if kind == Kind::Read || !is_batched(kind) => return Ok(None),
            Kind::Update | Kind::Load => operation.record,
            _ => match bench.inserts.claim(self.thread) {
                Some(record) => record,
                None => {
                    *outlook = Outlook::KeysUsedUp;
                    return Ok(None);
                }
            },
        };
        bench.keys.write(record, &mut self.key)?;
        let identity = value::identity(&self.key);
        if operation.kind != Kind::Update {
            return Ok(Some((identity, bench.base_version)));
        }
        let (version, ticket) = bench.begin_write(identity);
        tickets.extend(ticket);
        Ok(Some((identity, version)))
    }
}
