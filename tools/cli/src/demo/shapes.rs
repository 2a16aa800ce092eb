//! Ranges of an adaptive keyspace that change their shape while it is written: the victim has them do so, and its
//! parent is told what was seen last.

use std::sync::atomic::{AtomicBool, Ordering};

use ecotone::{Hint, Keyspace};

use crate::{
    demo::{
        key_bits::KeyBits,
        world::{World, check},
    },
    failure::Failure,
    kept::Kept,
};

/// Stretches of the taxa that change their shape in turn: half of them become pages while the others become tables
/// again.
const STRETCHES: usize = 8;

/// What was going on, in bits, as it stands in a message.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Shapes(pub(crate) u32);

impl Shapes {
    const COVERED: u32 = 1;
    /// Since the look before.
    const ABSORBED: u32 = 2;
    const UNCOVERED: u32 = 4;
    const OPENED: u32 = 8;

    /// What it is called, where there was something.
    pub(crate) fn words(self) -> String {
        let names = [
            (Self::COVERED, "covered"),
            (Self::ABSORBED, "absorbing"),
            (Self::UNCOVERED, "uncovering"),
            (Self::OPENED, "opening"),
        ];
        names.iter().filter(|(bit, _)| self.0 & bit != 0).map(|(_, name)| *name).collect::<Vec<_>>().join(" ")
    }
}

/// Looks again and again at what was done with ranges.
#[derive(Debug, Default)]
struct Look {
    before: [u64; 3],
}

impl Look {
    fn at(&mut self, keyspace: &Keyspace) -> Shapes {
        let counters = keyspace.stats().counters;
        let counter = |wanted| counters.iter().find(|(name, _)| *name == wanted).map_or(0, |(_, count)| *count);
        let now = ["absorbed_pieces", "uncovered_pieces", "opened_ranges"].map(counter);
        let bits = [Shapes::ABSORBED, Shapes::UNCOVERED, Shapes::OPENED];
        let done =
            bits.iter().zip(now).zip(self.before).filter(|((_, now), before)| now > before).map(|((bit, _), _)| bit);
        let covered = if counter("covers") > 0 { Shapes::COVERED } else { 0 };
        let shapes = Shapes(done.sum::<u32>() | covered);
        self.before = now;
        shapes
    }
}

/// Hints and scans stretches of the taxa in turn until it is told to stop, and tells after each scan what was going on.
pub(crate) fn change(
    world: &World<'_>,
    stop: &AtomicBool,
    tell: impl Fn(Shapes) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let Kept::Ordered(taxa) = &world.taxa else { return Ok(()) };
    let (keys, mut look) = (&world.universe.taxa, Look::default());
    if !taxa.stats().counters.iter().any(|(name, _)| *name == "covers") {
        // Another engine has nothing to change.
        return Ok(());
    }
    for turn in (0..).take_while(|_| !stop.load(Ordering::Relaxed)) {
        let stretch = turn % STRETCHES;
        // The stretch beside it is told the contrary.
        let hint = if (turn / STRETCHES + stretch).is_multiple_of(2) { Hint::ReadMostly } else { Hint::WriteMostly };
        let bounds = [stretch, stretch + 1].map(|end| bound(keys, end));
        taxa.hint(bounds[0]..bounds[1], hint)?;
        scan(taxa, world, bounds)?;
        tell(look.at(taxa))?;
    }
    Ok(())
}

/// Where a stretch begins.
fn bound(keys: &KeyBits, stretch: usize) -> [u8; 8] {
    let index = (keys.len() * stretch / STRETCHES).min(keys.len() - 1);
    keys.key(index).to_be_bytes()
}

/// Every record of a stretch is one of its key, and keys ascend.
fn scan(taxa: &Keyspace, world: &World<'_>, [from, to]: [[u8; 8]; 2]) -> Result<(), Failure> {
    let mut last = None;
    for record in taxa.range(from..to) {
        let (key, value) = record?;
        let key = key.as_slice().try_into().map_or(0, u64::from_be_bytes);
        if last.is_some_and(|last| last >= key) {
            return Err(Failure::Told(format!("a scan gives the key {key} behind one that is not below it")));
        }
        check(&world.taxa, key, Some(&value))?;
        last = Some(key);
    }
    Ok(())
}
