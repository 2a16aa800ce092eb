//! Calls of a client: drawing them, making them, and recording their answers.

use ecotone_engine::contract::Hint;
use ecotone_substrate::Result;
use rand::{RngExt, rngs::SmallRng};

use super::{
    Act, Event, Tick, Ticks, Value,
    registers::{Registers, read_value, value_of},
};
use crate::{
    model::{Change, Level},
    suite::{Store, Verdict},
};

/// A call of a client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::suite) enum Call {
    Get(usize),
    MultiGet(u32, Vec<usize>),
    /// Registers `from..to` of a keyspace.
    Scan {
        keyspace: u32,
        slots: (usize, usize),
        reverse: bool,
    },
    /// One write, or a batch.
    Write(Vec<(usize, Value)>, Level),
    /// An atomic update to this value.
    Update(usize, Value),
    Swap {
        register: usize,
        expected: Value,
        new: Value,
    },
    /// A hint how registers `from..to` of a keyspace, and the records between them, will be used.
    Hint(u32, (usize, usize), Hint),
    /// A read of records that never change.
    Cold(Vec<u32>),
    Sync,
    Flush,
    /// One background job, where a test has to run them.
    Background,
    /// Limits caches to so many bytes beside dirty data.
    Squeeze(usize),
}

/// The weight with which each kind of call is drawn.
#[derive(Debug, Clone, Copy)]
pub(in crate::suite) struct Mix {
    pub(in crate::suite) get: u32,
    pub(in crate::suite) multi_get: u32,
    pub(in crate::suite) scan: u32,
    pub(in crate::suite) write: u32,
    pub(in crate::suite) batch: u32,
    pub(in crate::suite) update: u32,
    pub(in crate::suite) swap: u32,
    pub(in crate::suite) cold: u32,
    pub(in crate::suite) sync: u32,
    pub(in crate::suite) flush: u32,
    pub(in crate::suite) background: u32,
    pub(in crate::suite) squeeze: u32,
    /// Does nothing where keys have no order.
    pub(in crate::suite) hint: u32,
    /// Bytes that a squeeze leaves to caches.
    pub(in crate::suite) spare: usize,
}

impl Mix {
    /// Draws nothing.
    pub(in crate::suite) const NONE: Mix = Mix {
        get: 0,
        multi_get: 0,
        scan: 0,
        write: 0,
        batch: 0,
        update: 0,
        swap: 0,
        cold: 0,
        sync: 0,
        flush: 0,
        background: 0,
        squeeze: 0,
        hint: 0,
        spare: 0,
    };
}

/// What a client calls and sees.
pub(in crate::suite) struct Caller<'a> {
    pub(in crate::suite) store: &'a dyn Store,
    pub(in crate::suite) registers: Registers,
    pub(in crate::suite) ticks: &'a Ticks,
    pub(in crate::suite) events: Vec<Event>,
    /// Calls of `sync` and `flush` that were answered.
    pub(in crate::suite) syncs: Vec<Tick>,
}

impl<'a> Caller<'a> {
    pub(in crate::suite) fn new(store: &'a dyn Store, registers: Registers, ticks: &'a Ticks) -> Self {
        Caller { store, registers, ticks, events: Vec::new(), syncs: Vec::new() }
    }

    /// Draws a call.
    pub(in crate::suite) fn draw(&self, random: &mut SmallRng, mix: &Mix) -> Call {
        let kinds = [
            mix.get,
            mix.multi_get,
            mix.scan,
            mix.write,
            mix.batch,
            mix.update,
            mix.swap,
            mix.cold,
            mix.sync,
            mix.flush,
            mix.background,
            mix.squeeze,
            mix.hint,
        ];
        let mut left = random.random_range(0..kinds.iter().sum());
        let kind = kinds.iter().position(|parts| left.checked_sub(*parts).inspect(|rest| left = *rest).is_none());
        match kind.expect("the draw lies below the sum") {
            0 => Call::Get(self.register(random)),
            1 => self.draw_multi_get(random),
            2 => self.draw_scan(random),
            3 => Call::Write(vec![(self.register(random), self.value(random))], level(random)),
            4 => self.draw_batch(random),
            5 => Call::Update(self.register(random), self.value(random)),
            6 => self.draw_swap(random),
            7 => Call::Cold((0..24).map(|_| random.random_range(0..self.registers.cold)).collect()),
            8 => Call::Sync,
            9 => Call::Flush,
            10 => Call::Background,
            11 => Call::Squeeze(mix.spare),
            _ => self.draw_hint(random),
        }
    }

    fn register(&self, random: &mut SmallRng) -> usize {
        random.random_range(0..self.registers.count)
    }

    /// A new value, or a delete.
    fn value(&self, random: &mut SmallRng) -> Value {
        let number = u32::try_from(self.ticks.next()).expect("a history is short");
        (!random.random_ratio(1, 4)).then_some(number)
    }

    fn draw_multi_get(&self, random: &mut SmallRng) -> Call {
        let keyspace = random.random_range(1..=2);
        let of = self.registers.of(keyspace);
        Call::MultiGet(keyspace, (0..random.random_range(1..6)).map(|_| of[random.random_range(0..of.len())]).collect())
    }

    fn draw_scan(&self, random: &mut SmallRng) -> Call {
        let (keyspace, slots) = self.draw_slots(random);
        Call::Scan { keyspace, slots, reverse: random.random() }
    }

    fn draw_hint(&self, random: &mut SmallRng) -> Call {
        let (keyspace, slots) = self.draw_slots(random);
        let hint = [Hint::ReadMostly, Hint::WriteMostly, Hint::Auto][random.random_range(0..3)];
        Call::Hint(keyspace, slots, hint)
    }

    /// A hint for all registers of a keyspace. It alternates: both keyspaces are read, then both are written.
    pub(in crate::suite) fn hint_of(&self, turn: u32) -> Call {
        let (keyspace, is_read) = (1 + turn % 2, (turn / 2).is_multiple_of(2));
        let hint = if is_read { Hint::ReadMostly } else { Hint::WriteMostly };
        Call::Hint(keyspace, (0, self.registers.of(keyspace).len()), hint)
    }

    /// A few registers of a keyspace.
    fn draw_slots(&self, random: &mut SmallRng) -> (u32, (usize, usize)) {
        let keyspace = random.random_range(1..=2);
        let count = self.registers.of(keyspace).len();
        let from = random.random_range(0..count);
        (keyspace, (from, (from + random.random_range(1..6)).min(count)))
    }

    fn draw_batch(&self, random: &mut SmallRng) -> Call {
        let mut changes: Vec<(usize, Value)> = Vec::new();
        for _ in 0..random.random_range(2..5) {
            let register = self.register(random);
            if changes.iter().all(|(other, _)| *other != register) {
                changes.push((register, self.value(random)));
            }
        }
        Call::Write(changes, level(random))
    }

    /// Expects the value that this client saw last in the register, which often is right.
    fn draw_swap(&self, random: &mut SmallRng) -> Call {
        let register = self.register(random);
        let saw = |event: &Event| match event.act {
            Act::Read(value) | Act::Write(value) => value,
            Act::Replace { after, .. } => after,
            Act::Refused(_) => None,
        };
        let expected = self.events.iter().rfind(|event| event.register == register).and_then(saw);
        Call::Swap { register, expected, new: self.value(random) }
    }

    /// Makes a call and records its result. The inner result is the store's; the outer one reports an answer that no
    /// history could explain.
    pub(in crate::suite) fn make(&mut self, call: &Call) -> Verdict<Result<()>> {
        let invoked = self.ticks.next();
        match call {
            Call::Get(register) => self.get(invoked, *register),
            Call::MultiGet(keyspace, registers) => self.multi_get(invoked, *keyspace, registers),
            Call::Scan { keyspace, slots, reverse } => self.scan(invoked, *keyspace, *slots, *reverse),
            Call::Write(changes, level) => Ok(self.write(invoked, changes, *level)),
            Call::Update(register, new) => self.update(invoked, *register, *new),
            Call::Swap { register, expected, new } => Ok(self.swap(invoked, *register, (*expected, *new))),
            Call::Hint(keyspace, slots, hint) => Ok(self.registers.hint(self.store, *keyspace, *slots, *hint)),
            Call::Cold(numbers) => self.registers.look_at_cold(self.store, numbers),
            Call::Sync => Ok(self.store.sync().map(|()| self.syncs.push(invoked))),
            Call::Flush => Ok(self.store.flush().map(|()| self.syncs.push(invoked))),
            Call::Background => Ok(Ok(_ = self.store.background())),
            Call::Squeeze(spare) => {
                self.store.squeeze(*spare);
                Ok(Ok(()))
            }
        }
    }

    /// Gets every register, from the cache and from the pages.
    pub(in crate::suite) fn look_at_all(&mut self) -> Verdict {
        for spare in [usize::MAX, 0] {
            self.store.squeeze(spare);
            for register in 0..self.registers.count {
                let looked = self.make(&Call::Get(register))?;
                looked.map_err(|error| format!("the last look failed on a sound disk: {error}"))?;
            }
        }
        Ok(())
    }

    /// Records the events of acts, and whether they were answered.
    fn note(&mut self, invoked: Tick, acts: impl IntoIterator<Item = (usize, Act)>, promise: Level) {
        let answered = (promise != Level::InDoubt).then(|| self.ticks.next());
        self.events.extend(acts.into_iter().map(|(register, act)| Event { register, act, invoked, answered, promise }));
    }

    fn note_reads(&mut self, invoked: Tick, registers: &[usize], values: Vec<Value>) {
        let acts = registers.iter().copied().zip(values.into_iter().map(Act::Read));
        self.note(invoked, acts, Level::None);
    }

    fn get(&mut self, invoked: Tick, register: usize) -> Verdict<Result<()>> {
        let (keyspace, key) = self.registers.key(register);
        match self.store.get(keyspace, &key) {
            Ok(value) => self.note_reads(invoked, &[register], vec![read_value(value.as_deref())?]),
            Err(error) => return Ok(Err(error)),
        }
        Ok(Ok(()))
    }

    fn multi_get(&mut self, invoked: Tick, keyspace: u32, registers: &[usize]) -> Verdict<Result<()>> {
        let keys: Vec<Vec<u8>> = registers.iter().map(|register| self.registers.key(*register).1).collect();
        match self.store.multi_get(keyspace, &keys) {
            Ok(values) => {
                let values =
                    values.iter().map(|value| read_value(value.as_deref())).collect::<Verdict<Vec<Value>>>()?;
                self.note_reads(invoked, registers, values);
            }
            Err(error) => return Ok(Err(error)),
        }
        Ok(Ok(()))
    }

    fn scan(&mut self, invoked: Tick, keyspace: u32, slots: (usize, usize), reverse: bool) -> Verdict<Result<()>> {
        match self.registers.try_scan(self.store, keyspace, slots, reverse)? {
            Ok(values) => self.note_reads(invoked, &self.registers.of(keyspace)[slots.0..slots.1], values),
            Err(error) => return Ok(Err(error)),
        }
        Ok(Ok(()))
    }

    /// An answer gives the promise; without an answer the write is in doubt.
    fn wrote(
        &mut self,
        invoked: Tick,
        acts: impl IntoIterator<Item = (usize, Act)>,
        level: Level,
        answer: Result<()>,
    ) -> Result<()> {
        self.note(invoked, acts, if answer.is_ok() { level } else { Level::InDoubt });
        answer
    }

    fn write(&mut self, invoked: Tick, changes: &[(usize, Value)], level: Level) -> Result<()> {
        let change =
            |(register, value): &(usize, Value)| -> Change { (self.registers.key(*register), value.map(value_of)) };
        let bytes: Vec<Change> = changes.iter().map(change).collect();
        let answer = self.store.write(&bytes, level);
        self.wrote(invoked, changes.iter().map(|(register, value)| (*register, Act::Write(*value))), level, answer)
    }

    fn update(&mut self, invoked: Tick, register: usize, new: Value) -> Verdict<Result<()>> {
        let (keyspace, key) = self.registers.key(register);
        match self.store.update(keyspace, &key, &mut |_| new.map(value_of)) {
            Ok(before) => {
                let before = read_value(before.as_deref())?;
                self.note(invoked, [(register, replaced(before, new))], Level::Buffered);
                Ok(Ok(()))
            }
            Err(error) => Ok(self.wrote(invoked, [(register, Act::Write(new))], Level::InDoubt, Err(error))),
        }
    }

    fn swap(&mut self, invoked: Tick, register: usize, (expected, new): (Value, Value)) -> Result<()> {
        let (keyspace, key) = self.registers.key(register);
        let bytes = (expected.map(value_of), new.map(value_of));
        let answer = self.store.swap(keyspace, &key, bytes.0.as_deref(), bytes.1.as_deref());
        let act = match answer {
            Ok(false) => Act::Refused(expected),
            Ok(true) => replaced(expected, new),
            Err(_) => Act::Replace { before: expected, after: new },
        };
        self.wrote(invoked, [(register, act)], Level::Buffered, answer.map(drop))
    }
}

/// The act of an acknowledged update. An update from nothing to nothing writes nothing, so it promises no more than a
/// read.
fn replaced(before: Value, after: Value) -> Act {
    if (before, after) == (None, None) { Act::Read(None) } else { Act::Replace { before, after } }
}

fn level(random: &mut SmallRng) -> Level {
    if random.random_ratio(1, 5) { Level::Sync } else { Level::Buffered }
}
