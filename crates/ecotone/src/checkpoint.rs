//! Keeping the log short: flush by age, checkpoint, recycle.

use std::{collections::BTreeMap, sync::Arc};

use ecotone_engines::engine::Root;
use ecotone_substrate::{
    Seq, bug,
    held::{self, Kind},
    manifest::{KeyspaceRecord, Manifest},
    scheduler::Priority,
};

use crate::{Durability, Result, database::Inner, space::Space};

/// Has the log call for relief when it is half full.
pub(crate) fn watch_log(inner: &Arc<Inner>) {
    let weak = Arc::downgrade(inner);
    inner.wal.on_half_full(Box::new(move || {
        if let Some(inner) = weak.upgrade() {
            inner.call_for_relief();
        }
    }));
}

/// When a checkpoint is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Checkpoint {
    /// While the database is in use.
    InUse,
    /// When nobody writes any more, the background included: nothing will follow it.
    AtShutdown,
}

/// A keyspace that is in use, as one checkpoint saw it.
struct Taken {
    space: Arc<Space>,
    watermark: Seq,
    root: Root,
}

impl Taken {
    /// Where the log must be kept from.
    fn needs_log_from(&self) -> Seq {
        self.watermark.min(self.root.structure)
    }
}

/// The keyspaces in use by their numbers, and the position below which no other has anything in the log.
struct View {
    taken: BTreeMap<u32, Taken>,
    applied: Seq,
}

impl View {
    /// Looks at all keyspaces. What one that is not in use will write to the log comes behind the position, since that
    /// is looked at before.
    fn take(spaces: Vec<Arc<Space>>, applied: Seq, last: &Manifest) -> Result<View> {
        let (mut taken, last) = (BTreeMap::new(), last.keyspaces.iter().map(|record| (record.id, record.watermark)));
        let last: BTreeMap<u32, Seq> = last.collect();
        for space in spaces {
            if let Some(in_use) = take(&space, applied, last.get(&space.id).copied().unwrap_or_default())? {
                taken.insert(space.id, in_use);
            }
        }
        Ok(View { taken, applied })
    }

    /// The first position that the manifest must not know before the log is synced so far.
    fn known(&self) -> Seq {
        self.taken.values().map(|taken| taken.watermark.max(taken.root.structure)).fold(self.applied, Seq::max)
    }

    /// Where replay begins.
    fn replay(&self) -> Seq {
        self.taken.values().map(Taken::needs_log_from).fold(self.applied, Seq::min)
    }

    /// Writes down what is known of a keyspace.
    fn describe(&self, record: &mut KeyspaceRecord) {
        let Some(Taken { watermark, root, .. }) = self.taken.get(&record.id) else {
            (record.watermark, record.structure) = (self.applied, self.applied);
            return;
        };
        (record.unwritten, record.watermark, record.structure) = (false, *watermark, root.structure);
        record.blob.clone_from(&root.blob);
    }
}

impl Inner {
    /// Has the log relieved in the background.
    fn call_for_relief(self: &Arc<Self>) {
        if self.relief.job.call() {
            self.schedule_relief();
        }
    }

    fn schedule_relief(self: &Arc<Self>) {
        let weak = Arc::downgrade(self);
        self.scheduler.spawn(Priority::Checkpoint, "relieve the log", move || {
            let Some(inner) = weak.upgrade() else { return };
            inner.relief.job.begin();
            if let Err(error) = inner.relieve_log() {
                inner.wal.relief_failed(inner.health.postpone("relieving the log", error));
            }
            if inner.relief.job.end() {
                inner.schedule_relief();
            }
            inner.scheduler.notify();
        });
    }

    /// Flushes what is oldest, so that a slice of the log comes free. The log calls again while more than half of its
    /// limit is used: writers that are slowed down get room slice by slice, and whatever is dirty stays so for as long
    /// as the log allows, to be written with what its page gets until then.
    fn relieve_log(&self) -> Result<()> {
        let (used, began) = (self.wal.used(), self.shared.clock.now());
        let slice = self.relief.slice(used, self.wal.options().limit_bytes);
        let begin = self.wal.tail().saturating_sub(used);
        let spaces: Vec<_> = self.all_spaces().into_iter().filter(|space| space.logged).collect();
        spaces.iter().for_each(|space| space.engine().begin_flush(begin + slice));
        spaces.iter().try_for_each(|space| space.engine().flush(begin + slice))?;
        self.checkpoint(Checkpoint::InUse)?;
        let freed = self.wal.kept_from().saturating_sub(begin);
        let took = self.shared.clock.since(began);
        tracing::debug!(used, freed, ?took, "relieved the log");
        self.relief.took(slice, freed, took);
        Ok(())
    }

    /// Brings everything into the files, unlogged keyspaces included, and checkpoints.
    pub(crate) fn flush_all(&self) -> Result<()> {
        self.flushes.run(|| {
            self.flush_spaces()?;
            self.health.unless_panics("a flush", || self.checkpoint(Checkpoint::InUse))
        })
    }

    /// Flushes, ends background work, and makes a checkpoint after which nothing is written. Where nothing was written
    /// since a clean shutdown, nothing is. What has no space in the files on a full disk stays in the log, which the
    /// next opening replays.
    pub(crate) fn shut_down_cleanly(&self) -> Result<()> {
        let flushed = self
            .health
            .check()
            .and_then(|()| self.before_close())
            .and_then(|()| self.patiently(|| self.flush_spaces()));
        self.scheduler.stop();
        let last = || {
            self.health
                .unless_panics("the last checkpoint", || self.patiently(|| self.checkpoint(Checkpoint::AtShutdown)))
        };
        match flushed.and_then(|()| last()) {
            Err(error) if error.is_no_space() && self.all_spaces().iter().all(|space| space.logged) => {
                tracing::warn!(%error, "closed on a full disk: the next opening replays the log");
                self.wal.commit(self.wal.tail(), Durability::Sync)
            }
            done => done,
        }
    }

    /// Brings everything into the files, unlogged keyspaces included.
    fn flush_spaces(&self) -> Result<()> {
        if self.is_untouched(&self.manifest.lock()) {
            return Ok(());
        }
        // This is the caller's thread; what panics on the scheduler's is seen to there.
        self.health.unless_panics("a flush", || {
            self.wal.commit(self.wal.tail(), Durability::Sync)?;
            self.all_spaces().into_iter().try_for_each(|space| space.engine().flush(Seq::MAX))
        })
    }

    /// Whether nothing was written since a clean shutdown.
    fn is_untouched(&self, manifest: &Manifest) -> bool {
        manifest.clean && !self.wal.has_begun()
    }

    /// Has engines do what makes the next opening short.
    fn before_close(&self) -> Result<()> {
        if self.is_untouched(&self.manifest.lock()) {
            return Ok(());
        }
        self.health.unless_panics("the work before closing", || {
            self.all_spaces().into_iter().try_for_each(|space| space.engine().before_close())
        })
    }

    /// Has recovery replay nothing of a keyspace that was written before now. Loaded records are not in the log, so a
    /// delete of one of their keys that came before them and is replayed would take them away.
    pub(crate) fn settle(&self, space: &Space) -> Result<()> {
        if !space.logged {
            return Ok(());
        }
        self.health.unless_panics("the flush before a bulk load", || {
            space.engine().flush(Seq::MAX)?;
            self.checkpoint(Checkpoint::InUse)
        })
    }

    /// Makes all structure durable, stores a manifest that says so, and recycles the log that it makes unneeded.
    pub(crate) fn checkpoint(&self, when: Checkpoint) -> Result<()> {
        let mut manifest = self.manifest.lock();
        let _held = held::hold(Kind::Manifest);
        if self.is_untouched(&manifest) {
            return Ok(());
        }
        let (kept_from, began) = (self.wal.kept_from(), self.shared.clock.now_for_log());
        let applied = self.wal.applied();
        let view = View::take(self.all_spaces(), applied, &manifest)?;
        // A manifest must not know more than the log does after a power failure: its positions would be given out
        // again.
        self.wal.commit(view.known(), Durability::Sync)?;
        let replay = view.replay();
        let next = Manifest { clean: when == Checkpoint::AtShutdown, ..self.describe(&manifest, &view) };
        self.store(&mut manifest, next)?;
        view.taken.values().for_each(|taken| taken.space.engine().checkpoint_is_durable());
        self.wal.truncate(replay);
        tracing::debug!(
            truncated = self.wal.kept_from().saturating_sub(kept_from),
            to_replay = self.wal.used(),
            took = ?self.shared.clock.since(began),
            "made a checkpoint"
        );
        Ok(())
    }

    fn describe(&self, manifest: &Manifest, view: &View) -> Manifest {
        let mut next = manifest.next();
        next.replay = view.replay();
        next.synced = self.wal.synced();
        next.incarnation = self.wal.incarnation();
        next.segment = self.wal.segment_at(next.replay);
        next.keyspaces.iter_mut().for_each(|record| view.describe(record));
        next
    }

    pub(crate) fn all_spaces(&self) -> Vec<Arc<Space>> {
        self.spaces.read().values().cloned().collect()
    }
}

/// The watermark first: what is flushed meanwhile only makes it more careful than it need be. It never goes back: below
/// the last one everything was in files, and an engine may tell of a write that came later by a position before it.
fn take(space: &Arc<Space>, applied: Seq, last: Seq) -> Result<Option<Taken>> {
    let unflushed = space.engine().first_unflushed().filter(|_| space.logged && !bug!(WatermarkTooHigh));
    let watermark = unflushed.map_or(applied, |first| first.min(applied)).max(last);
    let root = space.lazy.take()?;
    Ok(root.map(|root| Taken { space: space.clone(), watermark, root }))
}
