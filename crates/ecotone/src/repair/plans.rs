//! The keyspaces to restore, by the manifest or else by their files.

use std::collections::{BTreeMap, BTreeSet};

use ecotone_substrate::{
    manifest::{KeyspaceRecord, Manifest},
    storage::{Access, FileId, Storage},
};

use crate::{Engine, config::HASH};

/// The magic bytes of the hash engine's tables, behind a checksum.
const RUN: &[u8] = b"ECOhsrun";

/// A keyspace to restore.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) record: KeyspaceRecord,
    /// Whether the manifest names the keyspace.
    pub(super) is_known: bool,
}

/// The kinds of files of a keyspace.
#[derive(Debug, Default, Clone, Copy)]
struct Kinds {
    pages: bool,
    tables: bool,
    /// Segments, or tables of the hash engine.
    hashed: bool,
}

impl Kinds {
    /// The engine with such files. A keyspace without files has records in the log alone.
    fn engine(self) -> &'static str {
        match self {
            Kinds { hashed: true, .. } => HASH,
            Kinds { pages: true, tables: true, .. } => Engine::Adaptive.name(),
            Kinds { tables: true, .. } => Engine::Lsm.name(),
            _ => Engine::Tree.name(),
        }
    }
}

/// The keyspaces of the manifest, and those with files that the manifest does not know yet. Without a manifest: the
/// keyspaces of all files, and those with records in the log alone (`logged`).
pub(super) fn plans(
    manifest: Option<&Manifest>,
    storage: &dyn Storage,
    files: &[FileId],
    logged: &BTreeSet<u32>,
) -> Vec<Plan> {
    let known = manifest.iter().flat_map(|manifest| manifest.keyspaces.iter().cloned());
    let mut plans: Vec<Plan> = known.map(|record| Plan { record, is_known: true }).collect();
    let next = manifest.map_or(0, |manifest| manifest.next_keyspace);
    let mut unknown: BTreeMap<u32, Kinds> = BTreeMap::new();
    if manifest.is_none() {
        unknown.extend(logged.iter().map(|id| (*id, Kinds::default())));
    }
    for (id, file) in files.iter().filter_map(|file| file.keyspace().filter(|id| *id >= next).map(|id| (id, *file))) {
        let kinds = unknown.entry(id).or_default();
        match file {
            FileId::Pages(_) => kinds.pages = true,
            FileId::Table { .. } if !is_run(storage, file) => kinds.tables = true,
            _ => kinds.hashed = true,
        }
    }
    for (id, kinds) in unknown {
        let taken = |name: &str| plans.iter().any(|plan| plan.record.name == name);
        let mut name = format!("keyspace-{id}");
        while taken(&name) {
            name.push('-');
        }
        let engine = kinds.engine().to_owned();
        let record = KeyspaceRecord {
            id,
            name,
            engine,
            logged: true,
            unwritten: false,
            watermark: 0,
            structure_position: 0,
            blob: Vec::new(),
        };
        plans.push(Plan { record, is_known: false });
    }
    plans
}

/// Whether a table is one of the hash engine.
fn is_run(storage: &dyn Storage, file: FileId) -> bool {
    let mut magic = [0; 12];
    let read = storage.open(file, Access::Cached).and_then(|file| file.read(&mut magic, 0));
    read.is_ok() && magic.ends_with(RUN)
}
