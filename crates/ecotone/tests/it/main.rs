//! The library under the suites of the test kit. How to replay a seed is in `docs/reliability.md`.

#[cfg(not(feature = "bugs"))]
mod adaptive_engine;
#[cfg(not(feature = "bugs"))]
mod budgets;
#[cfg(feature = "bugs")]
mod bugs;
#[cfg(not(feature = "bugs"))]
mod closing;
#[cfg(not(feature = "bugs"))]
mod concurrent;
#[cfg(not(feature = "bugs"))]
mod damage;
#[cfg(not(feature = "bugs"))]
mod delays;
#[cfg(not(feature = "bugs"))]
mod hash_budgets;
mod hash_close;
#[cfg(not(feature = "bugs"))]
mod hash_disk;
#[cfg(not(feature = "bugs"))]
mod hash_engine;
#[cfg(not(feature = "bugs"))]
mod hash_failures;
#[cfg(not(feature = "bugs"))]
mod hash_keyspace;
#[cfg(not(feature = "bugs"))]
mod idle_space;
#[cfg(not(feature = "bugs"))]
mod in_time;
mod liveness;
#[cfg(not(feature = "bugs"))]
mod lsm_engine;
#[cfg(not(feature = "bugs"))]
mod many_iterators;
#[cfg(not(feature = "bugs"))]
mod many_keyspaces;
#[cfg(not(feature = "bugs"))]
mod mixed;
#[cfg(not(feature = "bugs"))]
mod nearly_full;
#[cfg(not(feature = "bugs"))]
mod no_big_lock;
#[cfg(not(feature = "bugs"))]
mod opening;
#[cfg(not(feature = "bugs"))]
mod overwrites;
#[cfg(not(feature = "bugs"))]
mod ownership;
#[cfg(not(feature = "bugs"))]
mod poisoned;
#[cfg(not(feature = "bugs"))]
mod queues;
#[cfg(not(feature = "bugs"))]
mod reclaim;
#[cfg(not(feature = "bugs"))]
mod record_cache;
#[cfg(not(feature = "bugs"))]
mod reentry;
#[cfg(not(feature = "bugs"))]
mod scans;
mod smaller_budget;
#[cfg(not(feature = "bugs"))]
mod space;
#[cfg(not(feature = "bugs"))]
mod suites;
#[cfg(not(feature = "bugs"))]
mod tables;
#[cfg(not(feature = "bugs"))]
mod traps;
#[cfg(not(feature = "bugs"))]
mod updates;

#[cfg(not(feature = "bugs"))]
mod each;
mod either;
mod store;

use std::sync::Arc;

use ecotone::internal::{engine::contract::EngineFactory, tree::TreeFamily};
use ecotone_testkit::{
    suite::Kind,
    tiny::{append_only::TinyAppendOnly, in_place::TinyInPlace},
};

use store::Simulated;

fn in_place() -> Simulated {
    Simulated::new(Kind::Ordered, || Arc::new(TinyInPlace) as Arc<dyn EngineFactory>)
}

fn append_only() -> Simulated {
    Simulated::new(Kind::Ordered, || Arc::new(TinyAppendOnly) as Arc<dyn EngineFactory>)
}

#[cfg(not(feature = "bugs"))]
fn hashed() -> Simulated {
    Simulated::new(Kind::Hashed, || Arc::new(ecotone_testkit::tiny::hashed::TinyHashed) as Arc<dyn EngineFactory>)
}

#[cfg(not(feature = "bugs"))]
fn hash() -> Simulated {
    Simulated::new(Kind::Hashed, || Arc::new(ecotone::internal::hash::HashFamily::tiny()) as Arc<dyn EngineFactory>)
}

/// An lsm engine behind a record cache, as in a database.
fn lsm() -> Simulated {
    let family = || {
        let tree = Arc::new(TreeFamily::default());
        Arc::new(ecotone::internal::lsm::LsmFamily::tiny().behind(tree)) as Arc<dyn EngineFactory>
    };
    Simulated::new(Kind::Ordered, family)
}

/// An adaptive engine that converts random ranges to pages.
fn adaptive() -> Simulated {
    let family = || Arc::new(ecotone_testkit::restless::RestlessFamily::tiny()) as Arc<dyn EngineFactory>;
    Simulated::new(Kind::Ordered, family)
}

/// A hash engine that compacts, merges deltas and grows all the time.
fn busy() -> Simulated {
    Simulated::new(Kind::Hashed, || Arc::new(ecotone::internal::hash::HashFamily::busy()) as Arc<dyn EngineFactory>)
}

fn tree() -> Simulated {
    Simulated::new(Kind::Ordered, || Arc::new(TreeFamily::default()) as Arc<dyn EngineFactory>)
}
