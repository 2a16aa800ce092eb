//! Opening: creates a new database or recovers an existing one. If opening is interrupted, the next open repeats it.

use std::{
    collections::{BTreeMap, HashSet},
    sync::Arc,
};

use ecotone_engine::contract::{EngineCheckpoint, EngineFactory, Operation, Shared};
use ecotone_substrate::{
    bug,
    double_write::DoubleWrite,
    environment::Environment,
    limits,
    manifest::{KeyspaceRecord, Manifest},
    storage::{Access, File, FileId, Storage},
    wal::{Record, Replay, ReplayRange, Wal, WalOptions},
};

use super::{
    checkpoint, clear_log, commit,
    components::Components,
    files,
    gaps::GapSlots,
    keyspace_state::KeyspaceState,
    keyspaces::{context, family},
    lazy::{LazyEngine, RecoveryPhase},
    state::DatabaseState,
};
use crate::{
    Error, Result,
    config::{DatabaseOptions, Settings},
};

/// Opens or creates the database in `parts.storage`.
pub(crate) fn open(options: &DatabaseOptions, parts: Components) -> Result<Arc<DatabaseState>> {
    let manifest = Manifest::load(&*parts.storage)?;
    let (state, fresh) = match manifest {
        Some(manifest) => (recover(options, parts, manifest)?, false),
        None => (make(options, parts)?, true),
    };
    let state = Arc::new(state);
    checkpoint::watch_log(&state);
    clear_log::watch_writes(&state);
    if !fresh {
        tracing::info!(keyspaces = state.spaces.read().len(), tail = state.wal.tail(), "recovered");
    }
    Ok(state)
}

/// Size of the first segments of a log, in bytes.
const FIRST_SEGMENT: u64 = 256 << 10;

/// Sizes of the log for a memory budget: the limit of commit-and-recovery.md ("Log reclaim"), and eight segments once
/// the log is long.
fn wal_options(budget: usize) -> WalOptions {
    let limit_bytes = limits::log_limit(budget);
    let segment_bytes = (limit_bytes / 8).next_power_of_two().clamp(1 << 20, 64 << 20);
    WalOptions {
        first_bytes: FIRST_SEGMENT,
        segment_bytes,
        limit_bytes,
        longest_bytes: limits::log_length_limit(budget),
    }
}

fn make(options: &DatabaseOptions, parts: Components) -> Result<DatabaseState> {
    let files = parts.storage.list()?;
    if let Some(data) = files.iter().find(|file| file.keyspace().is_some()) {
        if let Some(manifest) = files.iter().find(|file| Manifest::FILES.contains(file)) {
            let what = format!(
                "it is damaged, there is no other copy, and there is the data file {data}; restore a copy of the \
                manifest"
            );
            return Err(Error::corruption(*manifest, 0, what));
        }
        let why = format!(
            "it has no manifest, though it has the data file {data}; restore the newest manifest files, or save \
             what can be read with \
             `repair`"
        );
        return Err(Error::NotADatabase { path: options.path.clone(), why });
    }
    if !options.create {
        return Err(Error::NotADatabase { path: options.path.clone(), why: "it has no manifest".into() });
    }
    // Files of a creation that was interrupted before its manifest was durable.
    files.iter().try_for_each(|file| parts.storage.remove(*file))?;
    let environment = parts.environment(options.memory_budget, parts.clock.random());
    let Environment { database, storage, memory, health, .. } = &environment;
    let double_write = Arc::new(DoubleWrite::create(storage, memory, health)?);
    let wal = Wal::create(environment.clone(), wal_options(options.memory_budget))?;
    let mut manifest = Manifest::new(*database);
    manifest.replay = wal.tail();
    manifest.synced = wal.synced();
    manifest.incarnation = wal.incarnation();
    manifest.segment = wal.segment_at(manifest.replay);
    manifest.store(&*parts.storage)?;
    let shared = Shared::new(environment, wal, double_write, parts.clock);
    Ok(DatabaseState::new(shared, parts.families, manifest, Vec::new(), Arc::default(), options))
}

fn recover(options: &DatabaseOptions, parts: Components, manifest: Manifest) -> Result<DatabaseState> {
    remove_files_of_unknown_keyspaces(&*parts.storage, &manifest)?;
    let environment = parts.environment(options.memory_budget, manifest.database);
    let Environment { storage, memory, health, .. } = &environment;
    let double_write = Arc::new(DoubleWrite::open(storage, memory, health)?);
    let repaired = double_write.repair(&mut pages_of(&**storage, &manifest))?;
    if repaired.repaired > 0 {
        tracing::info!(pages = repaired.repaired, "repaired torn pages from the double-write area");
    }
    let wal = Wal::open(environment.clone(), wal_options(options.memory_budget))?;
    let shared = Shared::new(environment, wal, double_write, parts.clock);
    let (progress, places) = (Arc::default(), Arc::default());
    let spaces = keyspaces_of(&shared, &parts.families, &manifest, &progress, &places)?;
    open_unknown(&spaces)?;
    let replay_range = recover_structure(&shared.wal, &spaces, &manifest)?;
    if !replay_range.is_clean() {
        shared.double_write.settle(&mut pages_of(&*shared.storage, &manifest))?;
    }
    remove_orphans_of_unopened(&*shared.storage, &spaces)?;
    spaces.values().try_for_each(|opened| opened.space.engine().structure_recovered())?;
    progress.structure_is_recovered();
    replay_operations(&shared.wal, &spaces, &replay_range)?;
    spaces.values().try_for_each(|opened| opened.space.engine().recovered())?;
    progress.is_over();
    let spaces = spaces.into_values().map(|opened| opened.space).collect();
    Ok(DatabaseState::new(shared, parts.families, manifest, spaces, places, options))
}

/// Removes the files of keyspaces that the manifest does not know, of an interrupted creation or drop, and the scratch
/// files of earlier sessions.
///
/// A manifest that allocates an id is durable before a file gets the id. So a file whose id this manifest has not
/// allocated belongs to a later manifest, which was lost. Then nothing is removed (commit-and-recovery.md, "Structural
/// records").
fn remove_files_of_unknown_keyspaces(storage: &dyn Storage, manifest: &Manifest) -> Result<()> {
    let is_later = |file: &FileId| file.keyspace().is_some_and(|keyspace| keyspace >= manifest.next_keyspace);
    if let Some(later) = storage.list()?.into_iter().filter(is_later).min() {
        let what = format!(
            "it is older than {later} and does not know its keyspace; restore the newest manifest files, or all \
             files of one backup, or move {later} \
             away to do without it"
        );
        return Err(Error::corruption(Manifest::FILES[0], 0, what));
    }
    let known: HashSet<u32> = manifest.keyspaces.iter().map(|keyspace| keyspace.id).collect();
    files::remove(storage, |file| match file.keyspace() {
        Some(keyspace) => !known.contains(&keyspace),
        None => matches!(file, FileId::Scratch(_)),
    })
}

/// Opens the keyspaces whose files only their engines know.
fn open_unknown(spaces: &BTreeMap<u32, Opened>) -> Result<()> {
    spaces.values().try_for_each(|opened| match opened.space.lazy.files()? {
        None => opened.space.lazy.look(),
        Some(_) => Ok(()),
    })
}

/// Removes the orphans of keyspaces that are not open: from a first write that was interrupted before its log record
/// (memory-and-keyspaces.md, invariant 5), or from another change. Open engines remove their own.
fn remove_orphans_of_unopened(storage: &dyn Storage, spaces: &BTreeMap<u32, Opened>) -> Result<()> {
    let mut named = BTreeMap::new();
    for (id, opened) in spaces {
        named.extend(opened.space.lazy.files()?.map(|files| (*id, files)));
    }
    let is_orphan = |file: FileId| named.get(&file.keyspace()?).map(|files| !files.contains(&file));
    files::remove(storage, |file| is_orphan(file) == Some(true))
}

/// Opens page files by identity; `None` for a missing one.
fn pages_of(storage: &dyn Storage, manifest: &Manifest) -> impl FnMut(u64) -> Option<Arc<dyn File>> {
    let ids = manifest.keyspaces.iter().map(|keyspace| FileId::Pages(keyspace.id));
    let files: BTreeMap<u64, FileId> = ids.map(|id| (id.identity(), id)).collect();
    move |identity| storage.open(*files.get(&identity)?, Access::Direct).ok()
}

/// A keyspace and the position where its replay begins.
struct Opened {
    space: KeyspaceState,
    watermark: u64,
    structure_position: u64,
}

/// The keyspaces of the manifest. Their engines are opened on first use.
fn keyspaces_of(
    shared: &Shared,
    families: &[Arc<dyn EngineFactory>],
    manifest: &Manifest,
    progress: &Arc<RecoveryPhase>,
    places: &Arc<GapSlots>,
) -> Result<BTreeMap<u32, Opened>> {
    let opened = |record: &KeyspaceRecord| {
        let KeyspaceRecord { id, name, engine, logged, unwritten, watermark, structure_position, blob } = record;
        let family = family(families, engine)?;
        let with = |settings: &[(String, String)]| context(shared, *id, *logged, settings);
        let lazy = if *unwritten {
            let settings = Settings::decode(blob).map_err(|malformed| malformed.at(Manifest::FILES[0], 0))?;
            LazyEngine::unwritten(family.clone(), with(&settings), progress.clone())
        } else {
            LazyEngine::stored(
                family.clone(),
                with(&[]),
                progress.clone(),
                EngineCheckpoint { structure_position: *structure_position, blob: blob.clone() },
            )
        };
        let space = KeyspaceState::new(*id, name, &**family, *logged, lazy, places);
        Ok((*id, Opened { space, watermark: *watermark, structure_position: *structure_position }))
    };
    manifest.keyspaces.iter().map(opened).collect()
}

/// The manifest's knowledge of the log.
pub(crate) fn replay_of(manifest: &Manifest) -> Replay {
    let Manifest { replay: from, synced, incarnation, segment, clean, .. } = *manifest;
    Replay { from, synced, incarnation, segment, clean }
}

/// Finds the end of the log and replays structural records at or above each keyspace's structure position. Operations
/// are checked too, so that a log that cannot be replayed is refused before anything is written.
fn recover_structure(wal: &Wal, spaces: &BTreeMap<u32, Opened>, manifest: &Manifest) -> Result<ReplayRange> {
    let from = replay_of(manifest);
    wal.recover(from, &mut |position, record| match record {
        Record::Structure { keyspace, body } => match spaces.get(&keyspace) {
            Some(opened) if position >= opened.structure_position => {
                opened.space.engine().replay_structure(position, body)
            }
            _ => Ok(()),
        },
        Record::Batch(mut operations) => operations.try_for_each(|operation| operation.map(drop)),
        Record::Synced(_) => Ok(()),
    })
}

/// Replays operations at or above each keyspace's watermark, in order. The structure is up to date by now, so engines
/// may write out.
fn replay_operations(wal: &Wal, spaces: &BTreeMap<u32, Opened>, replay_range: &ReplayRange) -> Result<()> {
    wal.replay(replay_range, &mut |position, record| {
        let Record::Batch(operations) = record else { return Ok(()) };
        let count = if bug!(SkipBatchTail) { 1 } else { usize::MAX };
        for (seq, operation) in (position..).zip(operations).take(count) {
            let (keyspace, key, value) = operation?;
            match spaces.get(&keyspace) {
                Some(opened) if seq >= opened.watermark => {
                    commit::weigh(wal, seq, keyspace, Operation { key, value });
                    opened.space.engine().replay(seq, Operation { key, value })?;
                }
                _ => {}
            }
        }
        Ok(())
    })
}
