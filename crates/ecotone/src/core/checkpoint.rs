//! Keeps the log short: flushes the oldest writes, stores checkpoints and recycles the log.

use std::{collections::BTreeMap, sync::Arc};

use ecotone_engine::contract::EngineCheckpoint;
use ecotone_substrate::{
    Seq, bug,
    lock_rank::{self, LockRank},
    manifest::{KeyspaceRecord, Manifest},
    scheduler::Priority,
};

use super::{keyspace_state::KeyspaceState, state::DatabaseState};
use crate::{Durability, Result};

/// Starts log reclaim whenever the log is half full.
pub(crate) fn watch_log(state: &Arc<DatabaseState>) {
    let weak = Arc::downgrade(state);
    state.wal.on_half_full(Box::new(move || {
        if let Some(state) = weak.upgrade() {
            state.request_reclaim();
        }
    }));
}

/// The occasion of a checkpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Checkpoint {
    /// While the database is in use.
    InUse,
    /// Nothing writes any more, background work included. No checkpoint follows.
    AtShutdown,
}

/// The checkpoint of one keyspace in use.
struct KeyspaceCheckpoint {
    space: Arc<KeyspaceState>,
    watermark: Seq,
    checkpoint: EngineCheckpoint,
}

impl KeyspaceCheckpoint {
    /// The first log position that the keyspace needs.
    fn needs_log_from(&self) -> Seq {
        self.watermark.min(self.checkpoint.structure_position)
    }
}

/// The checkpoints of the keyspaces in use, by id. No other keyspace needs the log below `applied`.
struct KeyspacesSnapshot {
    taken: BTreeMap<u32, KeyspaceCheckpoint>,
    applied: Seq,
}

impl KeyspacesSnapshot {
    /// Takes the checkpoints of all keyspaces. The position is read first, so a keyspace that comes into use later logs
    /// everything behind the position.
    fn take(spaces: Vec<Arc<KeyspaceState>>, applied: Seq, last: &Manifest) -> Result<KeyspacesSnapshot> {
        let (mut taken, last) = (BTreeMap::new(), last.keyspaces.iter().map(|record| (record.id, record.watermark)));
        let last: BTreeMap<u32, Seq> = last.collect();
        for space in spaces {
            if let Some(in_use) = take(&space, applied, last.get(&space.id).copied().unwrap_or_default())? {
                taken.insert(space.id, in_use);
            }
        }
        Ok(KeyspacesSnapshot { taken, applied })
    }

    /// The position up to which the log must be synced before the manifest is stored.
    fn known(&self) -> Seq {
        self.taken
            .values()
            .map(|taken| taken.watermark.max(taken.checkpoint.structure_position))
            .fold(self.applied, Seq::max)
    }

    /// The position where replay begins.
    fn replay(&self) -> Seq {
        self.taken.values().map(KeyspaceCheckpoint::needs_log_from).fold(self.applied, Seq::min)
    }

    /// Writes the checkpoint of a keyspace into its record.
    fn describe(&self, record: &mut KeyspaceRecord) {
        let Some(KeyspaceCheckpoint { watermark, checkpoint, .. }) = self.taken.get(&record.id) else {
            (record.watermark, record.structure_position) = (self.applied, self.applied);
            return;
        };
        (record.unwritten, record.watermark, record.structure_position) =
            (false, *watermark, checkpoint.structure_position);
        record.blob.clone_from(&checkpoint.blob);
    }
}

impl DatabaseState {
    /// Schedules log reclaim in the background.
    fn request_reclaim(self: &Arc<Self>) {
        let weak = Arc::downgrade(self);
        self.reclaim.job.request(&self.scheduler, Priority::Checkpoint, "reclaim the log", move || {
            let Some(state) = weak.upgrade() else { return };
            if let Err(error) = state.reclaim_log() {
                state.wal.reclaim_failed(state.health.postpone("reclaiming the log", error));
            }
        });
    }

    /// Flushes the oldest writes, so that a slice of the log becomes free. The log asks again while more than half of
    /// its limit is used. So throttled writers get log space slice by slice, and dirty records stay in memory as long
    /// as the log allows: later writes to the same page are then flushed together.
    fn reclaim_log(&self) -> Result<()> {
        let (used, began) = (self.wal.used(), self.shared.clock.now());
        let slice = self.reclaim.slice(used, self.wal.options().limit_bytes);
        let begin = self.wal.tail().saturating_sub(used);
        let spaces: Vec<_> = self.keyspaces_in_use().into_iter().filter(|space| space.logged).collect();
        spaces.iter().filter_map(|space| space.maintenance()).for_each(|engine| engine.begin_flush(begin + slice));
        spaces.iter().try_for_each(|space| space.engine().flush(begin + slice))?;
        self.checkpoint(Checkpoint::InUse)?;
        let freed = self.wal.kept_from().saturating_sub(begin);
        let took = self.shared.clock.since(began);
        tracing::debug!(used, freed, ?took, "reclaimed the log");
        self.reclaim.took(slice, freed, took);
        Ok(())
    }

    /// Flushes everything to the files, unlogged keyspaces included, and stores a checkpoint.
    pub(crate) fn flush_all(&self) -> Result<()> {
        self.flushes.run(|| {
            self.flush_spaces()?;
            self.health.unless_panics("a flush", || self.checkpoint(Checkpoint::InUse))
        })
    }

    /// Flushes everything to the files, unlogged keyspaces included.
    pub(super) fn flush_spaces(&self) -> Result<()> {
        if self.is_untouched(&self.manifest.lock()) {
            return Ok(());
        }
        // This runs on the caller's thread. The scheduler handles panics on its own threads.
        self.health.unless_panics("a flush", || {
            self.wal.commit(self.wal.tail(), Durability::Sync)?;
            self.keyspaces_in_use().into_iter().try_for_each(|space| space.engine().flush(Seq::MAX))
        })
    }

    /// Whether nothing was written since a clean shutdown.
    pub(super) fn is_untouched(&self, manifest: &Manifest) -> bool {
        manifest.clean && !self.wal.has_begun()
    }

    /// Flushes a keyspace before a bulk load, so that recovery replays nothing older than the load. Loaded records are
    /// not in the log, so a replayed older delete of a loaded key would remove the record.
    pub(crate) fn flush_before_load(&self, space: &KeyspaceState) -> Result<()> {
        if !space.logged {
            return Ok(());
        }
        self.health.unless_panics("the flush before a bulk load", || {
            space.engine().flush(Seq::MAX)?;
            self.checkpoint(Checkpoint::InUse)
        })
    }

    /// Makes all structure durable, stores a manifest of it, and recycles the part of the log that is no longer needed.
    pub(crate) fn checkpoint(&self, when: Checkpoint) -> Result<()> {
        let mut manifest = self.manifest.lock();
        let _held = lock_rank::hold(LockRank::Manifest);
        if self.is_untouched(&manifest) {
            return Ok(());
        }
        let (kept_from, began) = (self.wal.kept_from(), self.shared.clock.now_for_log());
        let applied = self.wal.applied();
        let snapshot = KeyspacesSnapshot::take(self.keyspaces_in_use(), applied, &manifest)?;
        // The manifest must not know positions that the log may lose in a power failure, since those positions would be
        // given out again.
        self.wal.commit(snapshot.known(), Durability::Sync)?;
        let replay = snapshot.replay();
        let next = Manifest { clean: when == Checkpoint::AtShutdown, ..self.describe(&manifest, &snapshot) };
        self.store(&mut manifest, next)?;
        snapshot.taken.values().for_each(|taken| taken.space.engine().checkpoint_is_durable());
        self.wal.truncate(replay);
        tracing::debug!(
            truncated = self.wal.kept_from().saturating_sub(kept_from),
            to_replay = self.wal.used(),
            took = ?self.shared.clock.since(began),
            "made a checkpoint"
        );
        Ok(())
    }

    fn describe(&self, manifest: &Manifest, snapshot: &KeyspacesSnapshot) -> Manifest {
        let mut next = manifest.next();
        next.replay = snapshot.replay();
        next.synced = self.wal.synced();
        next.incarnation = self.wal.incarnation();
        next.segment = self.wal.segment_at(next.replay);
        next.keyspaces.iter_mut().for_each(|record| snapshot.describe(record));
        next
    }

    pub(crate) fn keyspaces_in_use(&self) -> Vec<Arc<KeyspaceState>> {
        self.spaces.read().values().cloned().collect()
    }
}

/// Takes the checkpoint of a keyspace. The watermark is read first: a flush in between only makes it too low, which is
/// safe. The watermark never goes back. Everything below the last one is in files, although an engine may report a
/// lower position for a later write.
fn take(space: &Arc<KeyspaceState>, applied: Seq, last: Seq) -> Result<Option<KeyspaceCheckpoint>> {
    let unflushed = space.engine().first_unflushed().filter(|_| space.logged && !bug!(WatermarkTooHigh));
    let watermark = unflushed.map_or(applied, |first| first.min(applied)).max(last);
    let checkpoint = space.lazy.take()?;
    Ok(checkpoint.map(|checkpoint| KeyspaceCheckpoint { space: space.clone(), watermark, checkpoint }))
}
