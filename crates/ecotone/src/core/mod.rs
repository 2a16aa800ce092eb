//! The inside of an open database, below the public handles.
//!
//! [`DatabaseState`] is what all handles share: the log, the manifest, the memory budget and the keyspaces. The other
//! files add one task each: `commit` writes records, `checkpoint` and `reclaim` keep the log short, `clear_log` works
//! while nothing is written, `recovery` opens a database and `close` closes it. A keyspace is a [`KeyspaceState`]. Its
//! engine is opened on first use (`lazy`).

mod batch_gate;
mod checkpoint;
mod clear_log;
mod close;
pub(crate) mod commit;
mod components;
mod files;
pub(crate) mod gaps;
mod idle;
mod keyspace_state;
mod keyspaces;
pub(crate) mod lazy;
pub(crate) mod limits_check;
mod opened;
mod reclaim;
pub(crate) mod recovery;
mod retry;
mod shared_work;
mod state;
mod stripes;

pub use self::components::Components;
pub(crate) use self::{keyspace_state::KeyspaceState, opened::OpenDatabase, state::DatabaseState};
