//! Range conversions of an adaptive keyspace under writes. The victim provokes them with hints and scans, and reports
//! to its parent what it last saw.

use std::sync::atomic::{AtomicBool, Ordering};

use ecotone::{Hint, Keyspace};

use crate::{
    demo::{
        key_bits::KeyBits,
        keyspaces::{DemoKeyspaces, check},
    },
    failure::Failure,
    open_keyspace::OpenKeyspace,
};

/// Sub-ranges of the taxa that convert in turn: half of them become pages while the others become tables again.
const RANGES: usize = 8;

/// The observed conversions, as bits; the content of a message.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Shapes(pub(crate) u32);

impl Shapes {
    const PAGED: u32 = 1;
    /// Since the previous observation.
    const TO_PAGES: u32 = 2;
    const TO_TABLES: u32 = 4;
    const REACTIVATED: u32 = 8;

    /// The conversions in words; for a report.
    pub(crate) fn words(self) -> String {
        let names = [
            (Self::PAGED, "paged"),
            (Self::TO_PAGES, "converting-to-pages"),
            (Self::TO_TABLES, "converting-to-tables"),
            (Self::REACTIVATED, "reactivating"),
        ];
        names.iter().filter(|(bit, _)| self.0 & bit != 0).map(|(_, name)| *name).collect::<Vec<_>>().join(" ")
    }
}

/// Observes the conversions of ranges, one observation after the other.
#[derive(Debug, Default)]
struct ShapeObserver {
    before: [u64; 3],
}

impl ShapeObserver {
    fn at(&mut self, keyspace: &Keyspace) -> Shapes {
        let stats = keyspace.stats();
        let counter = |name| stats.counter(name).unwrap_or(0);
        let now = ["ranges_to_pages", "ranges_to_tables", "reactivated_ranges"].map(counter);
        let bits = [Shapes::TO_PAGES, Shapes::TO_TABLES, Shapes::REACTIVATED];
        let done =
            bits.iter().zip(now).zip(self.before).filter(|((_, now), before)| now > before).map(|((bit, _), _)| bit);
        let paged = if counter("paged_ranges") > 0 { Shapes::PAGED } else { 0 };
        let shapes = Shapes(done.sum::<u32>() | paged);
        self.before = now;
        shapes
    }
}

/// Hints and scans sub-ranges of the taxa in turn until it is told to stop, and reports the conversions after each
/// scan.
pub(crate) fn change(
    keyspaces: &DemoKeyspaces<'_>,
    stop: &AtomicBool,
    tell: impl Fn(Shapes) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let OpenKeyspace::Ordered(taxa) = &keyspaces.taxa else { return Ok(()) };
    let (keys, mut look) = (&keyspaces.universe.taxa, ShapeObserver::default());
    if taxa.stats().counter("paged_ranges").is_none() {
        // Other engines have no shapes to change.
        return Ok(());
    }
    for turn in (0..).take_while(|_| !stop.load(Ordering::Relaxed)) {
        let range = turn % RANGES;
        // The neighbouring sub-range gets the opposite hint.
        let hint = if (turn / RANGES + range).is_multiple_of(2) { Hint::ReadMostly } else { Hint::WriteMostly };
        let bounds = [range, range + 1].map(|end| bound(keys, end));
        taxa.hint(bounds[0]..bounds[1], hint)?;
        scan(taxa, keyspaces, bounds)?;
        tell(look.at(taxa))?;
    }
    Ok(())
}

/// The start of a sub-range.
fn bound(keys: &KeyBits, range: usize) -> [u8; 8] {
    let index = (keys.len() * range / RANGES).min(keys.len() - 1);
    keys.key(index).to_be_bytes()
}

/// Scans a sub-range, and checks that every value belongs to its key and that keys ascend.
fn scan(taxa: &Keyspace, keyspaces: &DemoKeyspaces<'_>, [from, to]: [[u8; 8]; 2]) -> Result<(), Failure> {
    let mut last = None;
    for record in taxa.range(from..to) {
        let (key, value) = record?;
        let key = key.as_slice().try_into().map_or(0, u64::from_be_bytes);
        if last.is_some_and(|last| last >= key) {
            return Err(Failure::Told(format!("a scan gives the key {key} behind one that is not below it")));
        }
        check(&keyspaces.taxa, key, Some(&value))?;
        last = Some(key);
    }
    Ok(())
}
