//! Reports of superseded versions: a listener hears of each version of a key that is overwritten or dropped
//! (superseded.md).
//!
//! An engine reports in one of two ways:
//! - [`SupersededReports::report`] at once, where a write replaces a record in memory;
//! - a job collects what it leaves out in a [`LeftOut`], and [`SupersededReports::report_all`] reports it just before
//!   the job's result replaces the old records. A job that fails drops its buffer.

use std::{fmt, sync::Arc};

use ecotone_substrate::{Seq, wal::Wal};
use ecotone_sys::primitive::atomic::{AtomicBool, Ordering};

use crate::contract::Context;

/// Hears of each version that is overwritten or dropped.
///
/// It may be called under pins, in a slot of the log's writes in flight, and under locks: of keys, records, cache
/// shards, pages, structures, manifests and jobs (superseded.md, invariant 7). It allocates from the heap and takes
/// leaf locks; it does not wait, lease memory or call the database.
pub trait Superseded: Send + Sync + fmt::Debug {
    /// A version is about to become unreachable. A write with a sequence of at most `sequence` has hidden it.
    fn superseded(&self, keyspace: u32, key: &[u8], old: &[u8], sequence: Seq);
}

/// The reports of one keyspace. Without a listener it costs one branch.
#[derive(Debug, Clone, Default)]
pub struct SupersededReports(Option<Arc<Listening>>);

#[derive(Debug)]
struct Listening {
    keyspace: u32,
    listener: Arc<dyn Superseded>,
    wal: Arc<Wal>,
    /// Nothing is reported during recovery (superseded.md, invariant 5).
    is_recovered: AtomicBool,
}

impl SupersededReports {
    /// The reports of a keyspace that is created, or of one that is recovered first.
    pub fn new(context: &Context, is_created: bool) -> SupersededReports {
        let listening = |listener: &Arc<dyn Superseded>| Listening {
            keyspace: context.keyspace,
            listener: listener.clone(),
            wal: context.shared.wal.clone(),
            is_recovered: AtomicBool::new(is_created),
        };
        SupersededReports(context.shared.superseded.as_ref().map(|listener| Arc::new(listening(listener))))
    }

    /// Recovery is over: reports begin.
    pub fn begin(&self) {
        self.0.iter().for_each(|listening| listening.is_recovered.store(true, Ordering::Release));
    }

    fn listening(&self) -> Option<&Listening> {
        self.0.as_deref().filter(|listening| listening.is_recovered.load(Ordering::Acquire))
    }

    /// Whether a listener hears reports now.
    #[inline]
    pub fn is_on(&self) -> bool {
        self.listening().is_some()
    }

    /// The end of the log, as the sequence of an unlogged write; 0 without a listener.
    #[inline]
    pub fn tail(&self) -> Seq {
        self.listening().map_or(0, |listening| listening.wal.tail())
    }

    /// Reports a version that a write of this sequence, or an earlier one, has hidden.
    #[cold]
    pub fn report(&self, key: &[u8], old: &[u8], sequence: Seq) {
        if let Some(Listening { keyspace, listener, .. }) = self.listening() {
            listener.superseded(*keyspace, key, old, sequence);
        }
    }

    /// A buffer for what a job leaves out. It keeps nothing without a listener.
    pub fn left_out(&self) -> LeftOut {
        LeftOut(self.is_on().then(Buffer::default))
    }

    /// Reports what a job has left out. All of it was hidden by writes below the end of the log.
    pub fn report_all(&self, left_out: &LeftOut) {
        if let (Some(buffer), Some(listening)) = (&left_out.0, self.listening()) {
            let sequence = listening.wal.tail();
            buffer.versions.iter().for_each(|(key, old)| self.report(key, old, sequence));
        }
    }
}

/// The versions that a job leaves out of its result.
#[derive(Debug, Default)]
pub struct LeftOut(Option<Buffer>);

#[derive(Debug, Default)]
struct Buffer {
    /// Keys with their values. The memory is unbounded (superseded.md, "Limits").
    versions: Vec<(Vec<u8>, Vec<u8>)>,
    /// The value of the record that was passed last, if it has one. The memory is reused.
    younger: Vec<u8>,
    younger_is_value: bool,
}

impl Buffer {
    fn pass(&mut self, value: Option<&[u8]>) {
        self.younger.clear();
        self.younger.extend_from_slice(value.unwrap_or_default());
        self.younger_is_value = value.is_some();
    }
}

impl LeftOut {
    /// Whether a listener wants to know.
    #[inline]
    pub fn is_wanted(&self) -> bool {
        self.0.is_some()
    }

    /// Begins a key with its youngest record, which stays; without a value it is a tombstone.
    #[inline]
    pub fn newest(&mut self, value: Option<&[u8]>) {
        if let Some(buffer) = &mut self.0 {
            buffer.pass(value);
        }
    }

    /// Adds the next older record of the key, which is left out. A tombstone is no version, and neither is a copy of
    /// the next younger record (superseded.md, invariant 3).
    #[inline]
    pub fn hidden(&mut self, key: &[u8], value: Option<&[u8]>) {
        let Some(buffer) = &mut self.0 else { return };
        if let Some(old) = value.filter(|old| !buffer.younger_is_value || buffer.younger != *old) {
            buffer.versions.push((key.to_vec(), old.to_vec()));
        }
        buffer.pass(value);
    }

    /// Adds what another part of the job has left out.
    pub fn append(&mut self, other: LeftOut) {
        match (&mut self.0, other.0) {
            (Some(buffer), Some(other)) => buffer.versions.extend(other.versions),
            (empty, other) => *empty = empty.take().or(other),
        }
    }
}

impl FromIterator<LeftOut> for LeftOut {
    fn from_iter<I: IntoIterator<Item = LeftOut>>(parts: I) -> LeftOut {
        parts.into_iter().fold(LeftOut::default(), |mut all, part| {
            all.append(part);
            all
        })
    }
}

#[cfg(all(test, not(feature = "loom")))]
mod tests {
    use super::*;

    #[test]
    fn tombstones_and_adjacent_copies_are_no_versions() {
        let mut left_out = LeftOut(Some(Buffer::default()));
        left_out.newest(Some(b"3"));
        [Some("3"), Some("2"), Some("2"), None, Some("2"), Some("1")]
            .into_iter()
            .for_each(|value| left_out.hidden(b"k", value.map(str::as_bytes)));
        left_out.append(LeftOut::default());
        let values: Vec<_> = left_out.0.unwrap().versions.into_iter().map(|(_, old)| old).collect();
        assert_eq!(values, [b"2", b"2", b"1"]);
    }
}
