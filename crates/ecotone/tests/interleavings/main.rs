//! The library's own modules with shuttle's primitives, which let a test choose which thread goes on at every lock and
//! atomic, on the simulated disk.
//!
//! A schedule is a function of its seed. `ECOTONE_SCHEDULES` sets their number, `ECOTONE_SEED` the first: a failure
//! names its seed.

mod adaptive_crews;
#[cfg(feature = "bugs")]
mod bugs;
#[path = "../it/either.rs"]
mod either;
mod hash_crews;
mod lsm_crews;
mod schedules;
#[path = "../it/store.rs"]
mod store;
mod strides;

use std::sync::{Arc, Mutex, RwLock};

use ecotone::internal::{engine::contract::EngineFactory, tree::TreeFamily};
use ecotone_testkit::suite::{
    Counters, Kind, add,
    crew::{
        self, Crew, Image,
        Role::{Batcher, Churner, Dropper, Evicter, Flusher, Reader, Scanner, Writer},
    },
};

use store::Simulated;

/// Held by who switches bugs, which count for the whole process, against those who want none.
static SWITCH: RwLock<()> = RwLock::new(());

fn tree(workers: usize) -> Simulated {
    Simulated::new(Kind::Ordered, || Arc::new(TreeFamily::default()) as Arc<dyn EngineFactory>).workers(workers)
}

/// What opens databases of one engine, with so many threads for the background.
type Engine = fn(usize) -> Simulated;

/// The image that a crew begins with, made in a schedule of its own, so that it is the same for every seed.
fn image(engine: Engine, registers: usize) -> Image {
    let made = Arc::new(Mutex::new(None));
    let image = made.clone();
    let failed = strides::run(0..1, move |_| {
        *image.lock().expect("nobody panics with it") = Some(Image::new(&engine(0), registers)?);
        Ok(())
    });
    assert_eq!(failed, None);
    let image = made.lock().expect("nobody panics with it").take();
    image.expect("it was made")
}

/// Tries schedules until one goes wrong; gives what went wrong, seed included, and what engines have counted in all of
/// them.
fn wrong(
    engine: Engine,
    image: &Image,
    crew: &'static Crew,
    seeds: std::ops::Range<u64>,
) -> (Option<String>, Counters) {
    let (image, counters) = (image.clone(), Arc::new(Mutex::new(Counters::new())));
    let counted = counters.clone();
    let wrong = strides::run(seeds, move |seed| {
        let done = crew::run(&engine(1), &image, crew, seed)?;
        add(&mut counted.lock().expect("nobody panics with it"), &done.counters);
        Ok(())
    });
    let counters = counters.lock().expect("nobody panics with it").clone();
    (wrong, counters)
}

/// Reads that come late: a page read before a write-out, and admitted after it (trap 1).
const READS: Crew =
    Crew { threads: &[(Reader, 8), (Reader, 8), (Churner, 4), (Writer, 1)], registers: 2, crash: false };
/// Scans between cache and disk (trap 2), and over pages that are being reorganised.
const SCANS: Crew = Crew {
    threads: &[(Scanner, 5), (Scanner, 5), (Writer, 6), (Flusher, 3), (Evicter, 2)],
    registers: 8,
    crash: false,
};
/// Two who write out and reorganise, with writers of the same keys.
const REORGANISATION: Crew = Crew {
    threads: &[(Flusher, 6), (Flusher, 6), (Writer, 12), (Batcher, 6), (Reader, 12)],
    registers: 12,
    crash: false,
};
/// Pages that have just come are written out again at once.
const NEW_PAGES: Crew = Crew {
    threads: &[(Flusher, 6), (Flusher, 6), (Flusher, 6), (Batcher, 8), (Batcher, 8), (Scanner, 12), (Scanner, 12)],
    registers: 24,
    crash: false,
};
/// Checkpoints while records are written and the index changes, and a crash.
const CHECKPOINTS: Crew =
    Crew { threads: &[(Flusher, 3), (Flusher, 2), (Writer, 6), (Writer, 6), (Batcher, 4)], registers: 8, crash: true };
/// Scans that learn where there are no records, and jump, against records that come there.
const GAPS: Crew = Crew {
    threads: &[(Scanner, 16), (Scanner, 16), (Writer, 12), (Writer, 12), (Batcher, 3)],
    registers: 12,
    crash: false,
};
/// Keyspaces that are dropped while they are written out, beside others that take what they had. Every engine has this
/// one.
const DROPS: Crew =
    Crew { threads: &[(Dropper, 8), (Flusher, 8), (Writer, 12), (Evicter, 2)], registers: 8, crash: false };
/// The same, and a crash.
const CRASHED_DROPS: Crew = Crew { crash: true, ..DROPS };
