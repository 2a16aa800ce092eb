//! Lock stripes that order the writers of a key. Their versions let a conditional write notice another write.

use std::hash::BuildHasher;

use ecotone_substrate::lock_rank::{self, HeldRank, LockRank};
use ecotone_sys::primitive::{Mutex, MutexGuard, unless_shuttle};
use foldhash::fast::FixedState;

/// Enough that two unrelated writers rarely meet, few enough to stay in the processor's cache (64 KiB). Under shuttle
/// each stripe is one more scheduling point, so there are few.
const STRIPES: usize = unless_shuttle(4096, 16);

/// The stripes of a database. A key's stripe is locked from before its record gets a log position until the record is
/// applied.
#[derive(Debug)]
pub(crate) struct Stripes {
    versions: Box<[Mutex<u64>]>,
}

/// Locked stripes. Dropping the guard increments their versions and unlocks them.
pub(crate) struct StripeGuard<'a> {
    guards: LockSet<'a>,
    _held: Option<HeldRank>,
}

impl<'a> StripeGuard<'a> {
    fn new(guards: LockSet<'a>) -> Self {
        StripeGuard { guards, _held: Some(lock_rank::hold(LockRank::Stripes)) }
    }

    /// The guard of a write that needs no stripe.
    pub(crate) fn of_none() -> Self {
        StripeGuard { guards: LockSet::None, _held: None }
    }
}

enum LockSet<'a> {
    None,
    One(MutexGuard<'a, u64>),
    Many(Vec<MutexGuard<'a, u64>>),
}

/// The hash of a key, the same in every process.
pub(crate) fn hash(keyspace: u32, key: &[u8]) -> u64 {
    FixedState::with_seed(0).hash_one((keyspace, key))
}

impl Stripes {
    pub(crate) fn new() -> Self {
        Stripes { versions: (0..STRIPES).map(|_| Mutex::new(0)).collect() }
    }

    /// The stripe of a key.
    pub(crate) fn of(&self, keyspace: u32, key: &[u8]) -> usize {
        usize::try_from(hash(keyspace, key) >> 32).expect("32 bits") % STRIPES
    }

    /// The version of a stripe, to compare later.
    pub(crate) fn version(&self, stripe: usize) -> u64 {
        *self.versions[stripe].lock()
    }

    /// Locks one stripe.
    pub(crate) fn lock(&self, stripe: usize) -> StripeGuard<'_> {
        StripeGuard::new(LockSet::One(self.versions[stripe].lock()))
    }

    /// Locks one stripe if its version is still `version`.
    pub(crate) fn lock_if(&self, stripe: usize, version: u64) -> Option<StripeGuard<'_>> {
        let guard = self.versions[stripe].lock();
        (*guard == version).then(|| StripeGuard::new(LockSet::One(guard)))
    }

    /// Waits until every stripe that is locked now has been unlocked once.
    pub(crate) fn pass(&self) {
        self.versions.iter().for_each(|version| drop(version.lock()));
    }

    /// Locks several stripes, each once, in ascending order, so that no two batches wait for each other.
    pub(crate) fn lock_all(&self, mut stripes: Vec<usize>) -> StripeGuard<'_> {
        stripes.sort_unstable();
        stripes.dedup();
        StripeGuard::new(LockSet::Many(stripes.into_iter().map(|stripe| self.versions[stripe].lock()).collect()))
    }
}

impl StripeGuard<'_> {
    /// Unlocks without a change of versions, since nothing was written.
    pub(crate) fn unchanged(mut self) {
        self.guards = LockSet::None;
    }
}

impl Drop for StripeGuard<'_> {
    fn drop(&mut self) {
        match &mut self.guards {
            LockSet::None => {}
            LockSet::One(version) => **version += 1,
            LockSet::Many(versions) => versions.iter_mut().for_each(|version| **version += 1),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_write_moves_the_version_and_a_batch_locks_each_stripe_once() {
        let stripes = Stripes::new();
        let before = stripes.version(7);
        drop(stripes.lock_all(vec![9, 7, 7, 8]));
        assert_eq!(stripes.version(7), before + 1);
        assert!(stripes.lock_if(7, before).is_none());
        assert!(stripes.lock_if(7, before + 1).is_some());
        stripes.lock(7).unchanged();
        assert_eq!(stripes.version(7), before + 2);
    }

    /// Unrelated writers would wait for each other, and conditional writes fail for each other, if the records of a
    /// keyspace, or one key of many keyspaces, crowded into few stripes.
    #[test]
    fn unrelated_keys_are_spread_over_all_stripes() {
        const EACH: u32 = 4;
        let (stripes, count) = (Stripes::new(), EACH * STRIPES as u32);
        let numbered = |number: u32| stripes.of(0, &number.to_be_bytes());
        let named = |number: u32| stripes.of(0, format!("user/{number:010}/name").as_bytes());
        let of_keyspace = |number: u32| stripes.of(number, b"key");
        for place in [&numbered as &dyn Fn(u32) -> usize, &named, &of_keyspace] {
            let mut keys = vec![0; STRIPES];
            (0..count).for_each(|number| keys[place(number)] += 1);
            let (empty, most) = (keys.iter().filter(|keys| **keys == 0).count(), keys.iter().max().unwrap());
            // Of random stripes one in e^4 would be empty, and the fullest would have about 15 keys.
            assert!(empty <= STRIPES / 25 && *most <= 5 * EACH, "{empty} stripes are empty, {most} keys are in one");
        }
    }
}
