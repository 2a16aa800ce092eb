//! Generates operations ahead of time, in blocks.

use rand::{SeedableRng, rngs::SmallRng};

use super::{
    distribution::Distribution,
    mix::{Kind, Mix, scan_length},
    trace::Trace,
};
use crate::{error::Result, measure::permutation::mix};

/// Operations of a full block: enough to amortise the cost of a block, few enough for the first-level cache.
pub(crate) const BLOCK: u64 = 512;

/// One operation.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Operation {
    /// The record; the number of a new record is assigned later.
    pub(crate) record: u64,
    pub(crate) kind: Kind,
    /// Records of a scan.
    pub(crate) length: u8,
}

/// The source of operations; shared by all threads.
#[derive(Debug)]
pub(crate) enum Plan {
    /// This operation on every record once, by record number; the keys are unordered.
    Each(Kind),
    /// A mix over a distribution.
    Drawn(Mix, Distribution),
    /// A mix over a trace, from an access on.
    Traced(Mix, Trace, u64),
}

impl Plan {
    /// Lets the next phase continue after this many operations. Drawn operations have no order to continue.
    pub(crate) fn go_on(&mut self, operations: u64) {
        if let Plan::Traced(_, _, start) = self {
            *start += operations;
        }
    }
}

/// The position of a block in its phase.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Position {
    /// Number of its first operation.
    pub(crate) first: u64,
    /// Its operations.
    pub(crate) count: u64,
    /// The elapsed fraction of the phase, 0 to 1.
    pub(crate) progress: f64,
    /// Every record below this exists.
    pub(crate) existing: u64,
}

/// One thread's generator.
#[derive(Debug)]
pub(crate) struct Generator<'a> {
    plan: &'a Plan,
    rng: SmallRng,
    block: Vec<Operation>,
    traced: Vec<u64>,
}

impl<'a> Generator<'a> {
    /// The generator of a thread; different threads and seeds draw differently.
    pub(crate) fn new(plan: &'a Plan, seed: u64, thread: usize) -> Self {
        let rng = SmallRng::seed_from_u64(mix(seed).wrapping_add(thread as u64));
        Generator { plan, rng, block: Vec::with_capacity(BLOCK as usize), traced: Vec::new() }
    }

    /// Draws a block.
    pub(crate) fn draw(&mut self, position: Position) -> Result<&[Operation]> {
        self.block.clear();
        let (block, rng) = (&mut self.block, &mut self.rng);
        match self.plan {
            Plan::Each(kind) => {
                let records = position.first..position.first + position.count;
                block.extend(records.map(|record| Operation { record, kind: *kind, length: 1 }));
            }
            Plan::Drawn(mix, distribution) => block.extend((0..position.count).map(|_| {
                let kind = mix.sample(rng);
                let record = match kind {
                    Kind::Insert | Kind::PushPop | Kind::PopFirst | Kind::PopLast | Kind::First => 0,
                    _ => distribution.sample(rng, position.progress, position.existing),
                };
                let length = if kind == Kind::Scan { scan_length(rng) } else { 1 };
                Operation { record, kind, length }
            })),
            Plan::Traced(mix, trace, start) => {
                self.traced.resize(usize::try_from(position.count)?, 0);
                trace.read(start + position.first, &mut self.traced)?;
                block.extend(self.traced.iter().map(|record| Operation {
                    record: *record,
                    kind: mix.sample(rng),
                    length: 1,
                }));
            }
        }
        Ok(&self.block)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::row::{Shape, Workload};

    #[test]
    fn a_plan_of_each_has_every_record_once() {
        let mut generator = Generator::new(&Plan::Each(Kind::Load), 1, 0);
        let mut records = Vec::new();
        for (first, count) in [(0, 512), (512, 488)] {
            let position = Position { first, count, progress: 0.0, existing: 0 };
            records.extend(generator.draw(position).unwrap().iter().map(|operation| operation.record));
        }
        assert!(records.into_iter().eq(0..1000));
    }

    #[test]
    fn a_trace_is_followed_block_by_block_with_the_mix_of_the_workload() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("accesses.u64");
        std::fs::write(&file, (0..1000u64).flat_map(|n| (n / 2).to_le_bytes()).collect::<Vec<_>>()).unwrap();
        let trace = Trace::open(&file, directory.path()).unwrap();
        let plan = Plan::Traced(Mix::new(Workload::A, 0.0), trace, 900);
        let mut generator = Generator::new(&plan, 1, 0);
        let position = Position { first: 50, count: 400, progress: 0.0, existing: 500 };
        let block = generator.draw(position).unwrap();
        let expected = (950..1000).chain(0..350).map(|access| access / 2);
        assert!(block.iter().map(|operation| operation.record).eq(expected));
        let updates = block.iter().filter(|operation| operation.kind == Kind::Update).count();
        assert!((140..260).contains(&updates), "{updates} of 400");
    }

    #[test]
    fn threads_draw_differently_and_seeds_repeat() {
        let plan = Plan::Drawn(Mix::new(Workload::C, 0.0), Distribution::new(Shape::Uniform, 1 << 40, 0.0));
        let position = Position { first: 0, count: 8, progress: 0.0, existing: 1 << 40 };
        let draw = |seed, thread| {
            let mut generator = Generator::new(&plan, seed, thread);
            generator.draw(position).unwrap().iter().map(|operation| operation.record).collect::<Vec<_>>()
        };
        assert_eq!(draw(1, 0), draw(1, 0));
        assert!(draw(1, 0) != draw(1, 1) && draw(1, 0) != draw(2, 0));
    }
}
