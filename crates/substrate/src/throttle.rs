//! Write throttle: slows writers down while a resource fills up, a little and early, so that no writer has to stop for
//! long.
//!
//! The delay of a write depends on the fullness alone: the fuller, the slower the writers. So the fullness settles
//! where writers are as fast as the job that frees space, and the speed of that job need not be measured.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

/// Delays are collected to this many nanoseconds, since a sleep costs two switches of the thread and is never much
/// shorter than 100 µs.
const PORTION: u64 = 500_000;
/// Longest sleep, in nanoseconds: one thread does not pay for all others (compaction-pace.md, invariant 16).
const LONGEST_SLEEP: u64 = 20_000_000;
/// Longest delay of one write, in nanoseconds.
const LONGEST: f64 = 10_000_000.0;
/// Twice the delay at fullness 0.5, in nanoseconds.
const SCALE: f64 = 100_000.0;
/// A larger write counts as several: a batch counts as one write per this many bytes, however many records it has.
const LARGE: usize = 1 << 10;
/// Longest delay of a batch, in nanoseconds. The batch waits for space separately.
const LONGEST_OF_A_BATCH: u64 = 100_000_000;

/// The delays that the writers of one resource have not slept yet.
#[derive(Debug, Default)]
pub struct WriteThrottle {
    owed: AtomicU64,
}

impl WriteThrottle {
    /// Charges a write of `bytes` bytes at this fullness, from 0 (no delay) to 1 (full). Returns how long the caller
    /// should sleep: mostly not at all, and then once for several writes, its own or those of other threads. Delay
    /// above 20 ms is left to the next writers.
    pub fn charge(&self, fullness: f64, bytes: usize) -> Option<Duration> {
        let writes = (bytes / LARGE).max(1) as u64;
        let delay = (delay(fullness) * writes).min(LONGEST_OF_A_BATCH);
        let owed = self.owed.fetch_add(delay, Ordering::Relaxed).saturating_add(delay);
        if owed < PORTION {
            return None;
        }
        let pay = |owed: u64| Some(owed.saturating_sub(LONGEST_SLEEP));
        let owed = self.owed.fetch_update(Ordering::Relaxed, Ordering::Relaxed, pay).expect("whatever is owed is paid");
        (owed > 0).then(|| Duration::from_nanos(owed.min(LONGEST_SLEEP)))
    }
}

/// The mean delay of a write, in nanoseconds. It is small in the first half and grows without bound towards the end, so
/// that any number of writers settles somewhere.
fn delay(fullness: f64) -> u64 {
    let full = fullness.clamp(0.0, 1.0);
    (SCALE * full * full / (1.0 - full)).min(LONGEST) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fuller_the_slower_and_never_endless() {
        let delays: Vec<u64> = (0..=100).map(|percent| delay(f64::from(percent) / 100.0)).collect();
        assert!(delays.is_sorted() && delays[0] == 0 && delays[25] < 10_000 && delays[50] == 50_000);
        assert_eq!((delays[100], delay(7.0), delay(-1.0)), (10_000_000, 10_000_000, 0));
    }

    #[test]
    fn small_delays_are_paid_together_and_none_is_lost() {
        let pace = WriteThrottle::default();
        let paid: Vec<Duration> = (0..1000).filter_map(|_| pace.charge(0.5, 100)).collect();
        assert_eq!(paid, [Duration::from_micros(500); 100]);
        assert_eq!(pace.charge(1.0, 0), Some(Duration::from_millis(10)));
        assert_eq!(pace.charge(0.0, 0), None);
    }

    #[test]
    fn a_batch_counts_by_its_bytes_and_is_not_held_up_for_long() {
        let pace = WriteThrottle::default();
        assert_eq!(pace.charge(0.5, 20 << 10), Some(Duration::from_millis(1)), "as twenty writes");
        let paid: Duration = std::iter::successors(pace.charge(1.0, 1 << 20), |_| pace.charge(0.0, 0)).sum();
        assert_eq!(paid, Duration::from_millis(100));
    }

    #[test]
    fn no_sleep_is_long_whatever_many_threads_owe_and_none_is_lost() {
        const THREADS: u64 = 64;
        const WRITES: u64 = 50;
        let pace = WriteThrottle::default();
        let write = || {
            (0..WRITES)
                .filter_map(|_| pace.charge(1.0, 1000))
                .inspect(|sleep| assert!(sleep.as_millis() <= 20))
                .sum::<Duration>()
        };
        let mut paid: Duration = std::thread::scope(|scope| {
            let writers: Vec<_> = (0..THREADS).map(|_| scope.spawn(write)).collect();
            writers.into_iter().map(|writer| writer.join().unwrap()).sum()
        });
        pace.owed.fetch_add(640_000_000, Ordering::Relaxed);
        let rest: Vec<Duration> = std::iter::from_fn(|| pace.charge(0.0, 0)).collect();
        assert!(rest.len() >= 32 && rest.iter().all(|sleep| sleep.as_millis() <= 20), "{rest:?}");
        paid += rest.into_iter().sum::<Duration>();
        assert_eq!(paid, Duration::from_millis(10 * THREADS * WRITES + 640));
    }

    /// A writer beside a job that frees what each write takes, at any speed of the job.
    #[test]
    fn a_writer_settles_at_the_speed_of_the_job_evenly_and_before_all_is_full() {
        const SPACE: f64 = 10_000.0;
        const WINDOW: u64 = 100_000_000;
        for job in [5_000, 50_000, 500_000] {
            let (throttle, mut used, mut now) = (WriteThrottle::default(), 0.0_f64, 0);
            let mut written = vec![0_u64; 200];
            while now / WINDOW < written.len() as u64 {
                written[(now / WINDOW) as usize] += 1;
                used += 1.0;
                assert!(used < SPACE, "a writer has to stop, {job} ns");
                let took = 1000 + throttle.charge(used / SPACE, 0).map_or(0, |sleep| sleep.as_nanos() as u64);
                now += took;
                used = (used - took as f64 / job as f64).max(0.0);
            }
            let expected = WINDOW / job;
            let (settled, usual) = (&written[written.len() / 2..], expected * 9 / 10..=expected * 11 / 10);
            assert!(settled.iter().all(|count| usual.contains(count)), "{job} ns: {settled:?}");
        }
    }
}
