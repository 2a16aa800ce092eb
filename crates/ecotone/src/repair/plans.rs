//! Which keyspaces there are to be restored, by the manifest, and else by their files.

use std::collections::{BTreeMap, BTreeSet};

use ecotone_substrate::{
    manifest::{KeyspaceRecord, Manifest},
    storage::{Access, FileId, Storage},
};

use crate::Engine;

/// How tables of the hash engine begin, behind a checksum.
const RUN: &[u8] = b"ECOhsrun";
/// The name of the engine of hashed keyspaces.
pub(super) const HASH: &str = "hash";

/// A keyspace that is to be restored.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) record: KeyspaceRecord,
    /// Whether the manifest has it.
    pub(super) is_known: bool,
}

/// The kinds of files that a keyspace has.
#[derive(Debug, Default, Clone, Copy)]
struct Kinds {
    pages: bool,
    tables: bool,
    /// Segments, or tables of the hash engine.
    hashed: bool,
}

impl Kinds {
    /// The engine that has such files. Where there are none the log alone has records of the keyspace.
    fn engine(self) -> &'static str {
        match self {
            Kinds { hashed: true, .. } => HASH,
            Kinds { pages: true, tables: true, .. } => Engine::Adaptive.name(),
            Kinds { tables: true, .. } => Engine::Lsm.name(),
            _ => Engine::Tree.name(),
        }
    }
}

/// The keyspaces of the manifest, and those of files that it does not know yet; without one, those of all files, and
/// those that the log alone has (`logged`).
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
            structure: 0,
            blob: Vec::new(),
        };
        plans.push(Plan { record, is_known: false });
    }
    plans
}

/// Whether a table says that it is of the hash engine.
fn is_run(storage: &dyn Storage, file: FileId) -> bool {
    let mut magic = [0; 12];
    let read = storage.open(file, Access::Cached).and_then(|file| file.read(&mut magic, 0));
    read.is_ok() && magic.ends_with(RUN)
}
