//! Deliberate faults of the null store, which test how bad stores are reported.

use std::{
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    thread,
    time::Duration,
};

use parking_lot::Mutex;

use super::contract::Options;
use crate::error::Result;

/// One read in this many takes `stall_us` longer.
const STALLS: u64 = 1000;
/// Bytes that each read allocates and keeps.
const HOARDED: usize = 1 << 20;
/// If no limit stops it, it stops at this many times the budget.
const ENOUGH: usize = 16;

/// A fault by its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    /// Reads claim that there is no record.
    Lie,
    /// Reads never end.
    Hang,
    /// Reads take memory and do not give it back.
    Hoard,
    /// Reads fail.
    Fail,
}

/// The settings `fault` and `stall_us`, which apply to reads of records.
#[derive(Debug)]
pub(super) struct Faults {
    fault: Option<Fault>,
    stall: Option<Duration>,
    memory: usize,
    reads: AtomicU64,
    hoard: Mutex<Vec<Vec<u8>>>,
}

impl Faults {
    /// `None` without these settings.
    pub(super) fn new(options: &Options<'_>) -> Result<Option<Self>> {
        let (mut fault, mut stall) = (None, None);
        for (name, value) in options.settings {
            match (name.as_str(), value.as_str()) {
                ("fault", "lie") => fault = Some(Fault::Lie),
                ("fault", "hang") => fault = Some(Fault::Hang),
                ("fault", "hoard") => fault = Some(Fault::Hoard),
                ("fault", "fail") => fault = Some(Fault::Fail),
                ("stall_us", number) => stall = Some(Duration::from_micros(number.parse()?)),
                _ => {
                    return Err(format!(
                        "the null store knows fault=lie, hang, hoard or fail and stall_us, not {name}={value}"
                    )
                    .into());
                }
            }
        }
        let (memory, reads, hoard) = (options.memory, AtomicU64::new(0), Mutex::default());
        Ok((fault.is_some() || stall.is_some()).then_some(Faults { fault, stall, memory, reads, hoard }))
    }

    /// Whether answers must be checked, so that a lie is detected.
    pub(super) fn lies(&self) -> bool {
        self.fault == Some(Fault::Lie)
    }

    /// Applies the fault at the start of a read.
    pub(super) fn strike(&self) -> Result<()> {
        if let Some(stall) = self.stall.filter(|_| self.reads.fetch_add(1, Relaxed) % STALLS == STALLS / 2) {
            thread::sleep(stall);
        }
        match self.fault {
            None | Some(Fault::Lie) => Ok(()),
            Some(Fault::Hang) => loop {
                thread::park();
            },
            Some(Fault::Hoard) => self.hoard(),
            Some(Fault::Fail) => Err("the null store was told to fail".into()),
        }
    }

    fn hoard(&self) -> Result<()> {
        let mut hoard = self.hoard.lock();
        if hoard.len() * HOARDED > self.memory.saturating_mul(ENOUGH) {
            return Err("nothing stopped the null store from taking memory".into());
        }
        hoard.push(vec![1; HOARDED]);
        Ok(())
    }
}
