//! The context that all phases and threads of a run share.

use super::{
    keys::Keys,
    store::Store,
    value::{self, Wrong},
    versions::{Ticket, Versions},
    workload::inserts::Inserts,
};
use crate::error::{Error, Result, WrongAnswer};

/// Whether an answer was right.
pub(crate) type Verdict = std::result::Result<(), Wrong>;

/// A store with its keys and values.
pub(crate) struct RunContext {
    pub(crate) store: Box<dyn Store>,
    /// Whether answers are checked; false only for the null store.
    pub(crate) checks: bool,
    pub(crate) keys: Keys,
    /// Bytes of every value.
    pub(crate) value_size: usize,
    /// The version of records that are written for the first time.
    pub(crate) base_version: u64,
    /// The newest acknowledged versions, if the workload makes new ones.
    pub(crate) versions: Option<Versions>,
    pub(crate) inserts: Inserts,
}

impl RunContext {
    /// A lower bound for the version that a read of this key may return, if the read starts now.
    pub(crate) fn acknowledged(&self, identity: u64) -> u64 {
        self.versions.as_ref().map_or(0, |versions| versions.acknowledged(identity))
    }

    /// Issues a version for a write of the key with this identity.
    pub(crate) fn begin_write(&self, identity: u64) -> (u64, Option<Ticket>) {
        match &self.versions {
            None => (self.base_version, None),
            Some(versions) => {
                let ticket = versions.begin(identity);
                (ticket.version, Some(ticket))
            }
        }
    }

    /// Records that the write was acknowledged.
    pub(crate) fn end_write(&self, ticket: Option<Ticket>) {
        if let (Some(versions), Some(ticket)) = (&self.versions, ticket) {
            versions.end(ticket);
        }
    }

    /// Checks the store's answer for a key with this identity.
    pub(crate) fn check(&self, value: Option<&[u8]>, key: &[u8], identity: u64, acknowledged: u64) -> Verdict {
        if self.checks { value::check(value, key, identity, self.value_size, acknowledged) } else { Ok(()) }
    }

    /// The verdict before the store has answered.
    pub(crate) fn unanswered(&self) -> Verdict {
        if self.checks { Err(Wrong::Missing) } else { Ok(()) }
    }
}

/// The error for a wrong answer.
fn wrong(key: &[u8], wrong: &Wrong) -> Error {
    let hex: String = key.iter().map(|byte| format!("{byte:02x}")).collect();
    Box::new(WrongAnswer(format!("the store lost or changed a record: key {hex}: {wrong}")))
}

/// Turns the verdict of one read into the run's result.
pub(crate) fn judge(key: &[u8], verdict: Verdict) -> Result<()> {
    verdict.map_err(|fault| wrong(key, &fault))
}
