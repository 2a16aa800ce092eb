//! Operations, drawn ahead in blocks.

use rand::{SeedableRng, rngs::SmallRng};

use crate::{
    distribution::Distribution,
    permutation::{Permutation, mix},
    workload::{Kind, Workload, scan_length},
};

/// Operations of a full block: enough that the cost of a block is spread, few enough to stay in the processor's first cache.
pub(crate) const BLOCK: u64 = 512;
/// Seed of the order in which records are loaded.
const SHUFFLE: u64 = 0x5eed_0003;

/// One operation.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Operation {
    /// The record; a new one's number is handed out later.
    pub(crate) record: u64,
    pub(crate) kind: Kind,
    /// Records of a scan.
    pub(crate) length: u8,
}

/// Where operations come from; shared by all threads.
#[derive(Debug)]
pub(crate) enum Plan {
    /// Every record once, in shuffled order.
    Load(Permutation),
    /// A mix over a distribution.
    Mix { workload: Workload, distribution: Distribution },
}

impl Plan {
    /// The load of `records` records.
    pub(crate) fn load(records: u64) -> Self {
        Plan::Load(Permutation::new(records, SHUFFLE))
    }
}

/// Where a block stands in its phase.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Position {
    /// Number of its first operation.
    pub(crate) first: u64,
    /// Its operations.
    pub(crate) count: u64,
    /// The part of the phase that is over, 0 to 1.
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
}

impl<'a> Generator<'a> {
    /// The generator of a thread; different threads and seeds draw differently.
    pub(crate) fn new(plan: &'a Plan, seed: u64, thread: usize) -> Self {
        let rng = SmallRng::seed_from_u64(mix(seed).wrapping_add(thread as u64));
        Generator { plan, rng, block: Vec::with_capacity(BLOCK as usize) }
    }

    /// Draws a block.
    pub(crate) fn draw(&mut self, position: Position) -> &[Operation] {
        self.block.clear();
        let (block, rng) = (&mut self.block, &mut self.rng);
        match self.plan {
            Plan::Load(order) => {
                let records = position.first..position.first + position.count;
                block.extend(records.map(|number| Operation { record: order.apply(number), kind: Kind::Load, length: 1 }));
            }
            Plan::Mix { workload, distribution } => block.extend((0..position.count).map(|_| {
                let kind = workload.sample(rng);
                let record = match kind {
                    Kind::Insert => 0,
                    _ => distribution.sample(rng, position.progress, position.existing),
                };
                let length = if kind == Kind::Scan { scan_length(rng) } else { 1 };
                Operation { record, kind, length }
            })),
        }
        &self.block
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::distribution::Shape;

    #[test]
    fn a_load_has_every_record_once_in_no_order() {
        let plan = Plan::load(1000);
        let mut generator = Generator::new(&plan, 1, 0);
        let mut records = Vec::new();
        for (first, count) in [(0, 512), (512, 488)] {
            let position = Position { first, count, progress: 0.0, existing: 0 };
            records.extend(generator.draw(position).iter().map(|operation| operation.record));
        }
        let rising = records.windows(2).filter(|pair| pair[0] < pair[1]).count();
        assert!((400..600).contains(&rising), "{rising} of 999 neighbours rise");
        records.sort_unstable();
        assert!(records.into_iter().eq(0..1000));
    }

    #[test]
    fn threads_draw_differently_and_seeds_repeat() {
        let plan = Plan::Mix { workload: Workload::C, distribution: Distribution::new(Shape::Uniform, 1 << 40, 0.0) };
        let position = Position { first: 0, count: 8, progress: 0.0, existing: 1 << 40 };
        let draw = |seed, thread| {
            Generator::new(&plan, seed, thread).draw(position).iter().map(|operation| operation.record).collect::<Vec<_>>()
        };
        assert_eq!(draw(1, 0), draw(1, 0));
        assert!(draw(1, 0) != draw(1, 1) && draw(1, 0) != draw(2, 0));
    }
}
