//! Repair: a new database from what can be read of one that is damaged (T18, `docs/decisions/0007-repair.md`).

mod report;

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::Arc,
};

use ecotone_engines::{
    engine::{Operation, Record as KeyAndValue},
    tree::repair::{Findings, Layout, Named, Salvage, Source},
};
use ecotone_substrate::{
    Seq,
    disk::Disk,
    double_write::SavedPages,
    environment::Environment,
    limits::PAGE,
    manifest::{KeyspaceRecord, Manifest},
    storage::{Access, FileId, Storage},
    wal::{Gap, LogRemains, LoggedOperation, Record, Replay},
};

pub use self::report::{KeyRange, Ranges, RepairProgress, RepairReport, RepairStep, RepairedKeyspace};
use crate::{
    Builder, Database, Engine, Error, Keyspace, KeyspaceOptions, Result,
    builder::{self, Parts},
    limits_check, recovery,
};

/// Operations, pages or records between two reports of progress.
const STRIDE: u64 = 1024;

/// Makes a new database from what can be read of a damaged one. The damaged one is not written to (but for its lock file), so nothing gets worse, and another
/// attempt is always possible.
///
/// ```
/// use ecotone::{Database, KeyspaceOptions, Repair};
/// # let directory = tempfile::tempdir()?;
/// # let (path, repaired) = (directory.path().join("towns.db"), directory.path().join("repaired.db"));
/// # let database = Database::builder(&path).memory_budget(16 << 20).open()?;
/// # database.keyspace("towns", KeyspaceOptions::default())?.insert("Zwolle", "52.51,6.09")?;
/// # database.close()?;
/// let report = Repair::new(&path, &repaired).memory_budget(16 << 20).run(&mut |_progress| {})?;
/// assert!(report.is_complete());
/// let database = Database::builder(&repaired).memory_budget(16 << 20).create(false).open()?;
/// assert_eq!(database.open_keyspace("towns")?.get("Zwolle")?.as_deref(), Some(&b"52.51,6.09"[..]));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct Repair {
    from: PathBuf,
    into: Builder,
}

impl Repair {
    /// A repair of the database at `from` into a new one at `to`, where there must be nothing yet, or an empty directory.
    pub fn new(from: impl AsRef<Path>, to: impl AsRef<Path>) -> Self {
        Repair { from: from.as_ref().to_owned(), into: Database::builder(to) }
    }

    /// The memory that the repair may use, in bytes, as for [`Builder::memory_budget`]. Four bytes for each page of the damaged files come on top.
    pub fn memory_budget(self, bytes: usize) -> Self {
        Repair { into: self.into.memory_budget(bytes), ..self }
    }

    /// Does it. What could not be restored is in the report; it is not an error. `progress` is called now and then.
    ///
    /// # Errors
    /// [`Error::NotADatabase`] and [`Error::Locked`] for the damaged database, [`Error::Invalid`] if the new place is not empty, [`Error::NewerFormat`],
    /// [`Error::Memory`], and what writing the new database gives. After an error the new database is incomplete: remove it.
    pub fn run(self, progress: &mut dyn FnMut(RepairProgress)) -> Result<RepairReport> {
        let from = Arc::new(Disk::open(&self.from, false)?);
        builder::check_vacant(self.into.path())?;
        let database = self.into.open()?;
        Work::run(from, database, progress)
    }

    #[doc(hidden)]
    pub fn run_parts(
        self,
        from: Arc<dyn Storage>,
        into: Parts,
        progress: &mut dyn FnMut(RepairProgress),
    ) -> Result<RepairReport> {
        let database = self.into.open_parts(into)?;
        Work::run(from, database, progress)
    }
}

/// A keyspace that is to be restored.
struct Plan {
    record: KeyspaceRecord,
    /// Whether the manifest has it.
    known: bool,
}

/// A repair while it runs.
struct Work<'a> {
    from: Arc<dyn Storage>,
    files: Vec<FileId>,
    database: Database,
    manifest: Option<Manifest>,
    log: LogRemains,
    saved: Option<Arc<SavedPages>>,
    report: RepairReport,
    progress: &'a mut dyn FnMut(RepairProgress),
}

impl<'a> Work<'a> {
    fn run(from: Arc<dyn Storage>, database: Database, progress: &'a mut dyn FnMut(RepairProgress)) -> Result<RepairReport> {
        let mut work = Work::begin(from, database, progress)?;
        let plans = work.plans();
        let mut named = work.named(&plans)?;
        let mut targets = BTreeMap::new();
        let mut pages = Pages { done: 0, total: work.pages(&plans) };
        for plan in &plans {
            let indexed = named.remove(&plan.record.id);
            if let Some(keyspace) = work.restore(plan, indexed, &mut pages)? {
                targets.insert(plan.record.id, (keyspace, plan.record.watermark));
            }
        }
        work.reapply(&targets)?;
        drop(targets);
        work.database.close()?;
        Ok(work.report)
    }

    /// Reads what is small: manifest, double-write area, headers of the log.
    fn begin(from: Arc<dyn Storage>, database: Database, progress: &'a mut dyn FnMut(RepairProgress)) -> Result<Self> {
        let mut report = RepairReport::default();
        let mut files = from.list()?;
        files.sort_unstable();
        let manifest = survive(Manifest::newest(&*from), &mut report.problems)?.flatten();
        if manifest.is_none() {
            let what = "no manifest can be read: keyspaces get new names and the default options, and none counts as unlogged";
            report.problems.push(what.into());
        }
        let memory = &database.inner.memory;
        let saved = survive(SavedPages::load(&*from, memory), &mut report.problems)?.map(Arc::new);
        let log = LogRemains::find(&*from, memory, manifest.as_ref().map(|manifest| manifest.database))?;
        // With a manifest it is known which part of the log must be there.
        let heard = if manifest.is_some() { &mut report.problems } else { &mut report.log_gaps };
        heard.extend_from_slice(log.problems());
        Ok(Work { from, files, database, manifest, log, saved, report, progress })
    }

    /// The keyspaces of the manifest, and those of page files that it does not know yet; without one, those of all page files. Pages beside tables are not all that
    /// their keyspace has (`docs/format/adaptive.md`).
    fn plans(&mut self) -> Vec<Plan> {
        let known = self.manifest.iter().flat_map(|manifest| manifest.keyspaces.iter().cloned());
        let mut plans: Vec<Plan> = known.map(|record| Plan { record, known: true }).collect();
        let next = self.manifest.as_ref().map_or(0, |manifest| manifest.next_keyspace);
        for id in self.files.iter().filter_map(|file| if let FileId::Pages(id) = file { Some(*id) } else { None }) {
            if id < next || self.has_tables(id) {
                continue;
            }
            let taken = |name: &str| plans.iter().any(|plan| plan.record.name == name);
            let mut name = format!("keyspace-{id}");
            while taken(&name) {
                name.push('-');
            }
            let engine = Engine::Tree.name().to_owned();
            let record =
                KeyspaceRecord { id, name, engine, logged: true, unwritten: false, watermark: 0, structure: 0, blob: Vec::new() };
            plans.push(Plan { record, known: false });
        }
        let is_left_out = |file: &&FileId| match file {
            FileId::Table { .. } => true,
            FileId::Pages(id) => self.has_tables(*id),
            _ => false,
        };
        let is_unknown = |file: &&FileId| self.manifest.is_none() || file.keyspace() >= Some(next);
        let left_out: Vec<FileId> = self.files.iter().filter(is_left_out).filter(is_unknown).copied().collect();
        for file in left_out {
            self.report.left_out = true;
            self.report.problems.push(format!("{file} is of an engine that cannot be repaired"));
        }
        plans
    }

    fn has_tables(&self, id: u32) -> bool {
        self.files.iter().any(|file| matches!(file, FileId::Table { .. }) && file.keyspace() == Some(id))
    }

    fn replay(&self) -> Option<Replay> {
        self.manifest.as_ref().map(recovery::replay_of)
    }

    /// What the indexes of the keyspaces say at the end of the log, of those that are whole.
    fn named(&mut self, plans: &[Plan]) -> Result<BTreeMap<u32, Named>> {
        let mut layouts = self.layouts(plans)?;
        let structure: BTreeMap<u32, Seq> = plans.iter().map(|plan| (plan.record.id, plan.record.structure)).collect();
        let mut failed = Vec::new();
        let gaps = self.log.read(self.replay(), &mut |position, record| {
            let Record::Structure { keyspace, body } = record else { return Ok(()) };
            let Some(layout) = layouts.get(&keyspace).filter(|_| structure.get(&keyspace).is_some_and(|from| position >= *from))
            else {
                return Ok(());
            };
            if survive(layout.replay(body), &mut failed)?.is_none() {
                layouts.remove(&keyspace);
            }
            Ok(())
        })?;
        if !gaps.is_empty() && !layouts.is_empty() {
            layouts.clear();
            failed.push(
                "the log has gaps, in which an index may have changed: pages are judged by what they say of themselves".into(),
            );
        }
        let mut named = BTreeMap::new();
        for (id, layout) in layouts {
            named.extend(survive(layout.named(), &mut failed)?.map(|named| (id, named)));
        }
        self.report.problems.append(&mut failed);
        Ok(named)
    }

    fn layouts(&mut self, plans: &[Plan]) -> Result<BTreeMap<u32, Layout>> {
        let mut layouts = BTreeMap::new();
        let Some(manifest) = &self.manifest else { return Ok(layouts) };
        let inner = &self.database.inner;
        let environment = Environment {
            database: manifest.database,
            storage: self.from.clone(),
            memory: inner.memory.clone(),
            scheduler: inner.scheduler.clone(),
            health: Arc::default(),
        };
        for Plan { record, .. } in plans.iter().filter(|plan| plan.known && plan.record.engine == Engine::Tree.name()) {
            if self.files.contains(&FileId::Pages(record.id)) {
                let layout = survive(Layout::open(&environment, record.id, &record.blob), &mut self.report.problems)?;
                layouts.extend(layout.map(|layout| (record.id, layout)));
            }
        }
        Ok(layouts)
    }

    /// Pages of all files together.
    fn pages(&self, plans: &[Plan]) -> u64 {
        let length =
            |plan: &Plan| Some(self.from.open(FileId::Pages(plan.record.id), Access::Direct).ok()?.len().ok()? / PAGE as u64);
        plans.iter().filter_map(length).sum()
    }

    /// Restores the records of one keyspace from its pages.
    fn restore(&mut self, plan: &Plan, named: Option<Named>, pages: &mut Pages) -> Result<Option<Keyspace>> {
        let KeyspaceRecord { id, name, engine, logged, .. } = &plan.record;
        if *engine != Engine::Tree.name() {
            self.report.left_out = true;
            self.report.problems.push(format!("the keyspace {name:?} has the engine {engine}, which cannot be repaired"));
            return Ok(None);
        }
        let plain = KeyspaceOptions::default();
        let options = if *logged { plain } else { plain.unlogged() };
        let keyspace = self.database.create_keyspace(name, options)?;
        let repaired = RepairedKeyspace::new(name, *id, named.is_some());
        let repaired = match self.files.contains(&FileId::Pages(*id)) {
            true => self.load(&keyspace, repaired, named, pages)?,
            false => {
                self.report.problems.push(format!("the file {} is missing", FileId::Pages(*id)));
                repaired.found(0, Findings::nothing())
            }
        };
        self.report.keyspaces.push(repaired);
        Ok(Some(keyspace))
    }

    fn load(
        &mut self,
        keyspace: &Keyspace,
        repaired: RepairedKeyspace,
        named: Option<Named>,
        pages: &mut Pages,
    ) -> Result<RepairedKeyspace> {
        let (inner, progress) = (&self.database.inner, &mut *self.progress);
        let (storage, saved) = (self.from.clone(), self.saved.clone());
        let source = Source { storage, scratch: inner.storage.clone(), memory: inner.memory.clone(), saved };
        let mut salvage = Salvage::begin(&source, repaired.id, named, &mut |count| pages.tell(count, progress))?;
        let mut loaded = 0;
        let mut records = salvage.by_ref().inspect(|_: &Result<KeyAndValue>| {
            loaded += 1;
            tell(progress, RepairStep::Records, loaded);
        });
        let records = keyspace.handle.engine.clone().bulk_load(&mut records)?;
        Ok(repaired.found(records, salvage.findings()))
    }

    /// Reapplies the operations of the log: those at or above the watermarks that the manifest knows, or all that lead to the end of the log.
    fn reapply(&mut self, targets: &BTreeMap<u32, (Keyspace, Seq)>) -> Result<()> {
        let replay = self.replay();
        let (report, progress) = (&mut self.report, &mut *self.progress);
        let gaps = self.log.read(replay, &mut |position, record| {
            let Record::Batch(operations) = record else { return Ok(()) };
            for (sequence, operation) in (position..).zip(operations) {
                let Some(operation) = survive(operation, &mut report.problems)? else { break };
                if apply(targets, sequence, operation)? {
                    report.log_operations += 1;
                    tell(progress, RepairStep::Log, report.log_operations);
                }
            }
            Ok(())
        })?;
        report.log_gaps.extend(gaps.iter().map(sentence));
        Ok(())
    }
}

/// Applies an operation of the log; false if it is in the pages already, or of no keyspace that is restored.
fn apply(targets: &BTreeMap<u32, (Keyspace, Seq)>, sequence: Seq, (id, key, value): LoggedOperation<'_>) -> Result<bool> {
    let Some((keyspace, _)) = targets.get(&id).filter(|(_, watermark)| sequence >= *watermark) else { return Ok(false) };
    if limits_check::operation(Operation { key, value }).is_err() {
        return Ok(false);
    }
    value.map_or_else(|| keyspace.remove(key), |value| keyspace.insert(key, value))?;
    Ok(true)
}

fn sentence(gap: &Gap) -> String {
    let Gap { file, offset, from, until } = gap;
    let place = file.map_or("in files that are missing or damaged".to_owned(), |file| format!("from byte {offset} of {file} on"));
    let until = until.map_or("its end".to_owned(), |until| format!("position {until}"));
    format!("the log from position {from} to {until} cannot be read, {place}")
}

/// Turns damage into a problem that is reported; other errors end the repair.
fn survive<T>(result: Result<T>, problems: &mut Vec<String>) -> Result<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error @ (Error::Corruption { .. } | Error::Io { .. })) => {
            problems.push(error.to_string());
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// The pages of all files, as they are read.
struct Pages {
    done: u64,
    total: u64,
}

impl Pages {
    fn tell(&mut self, count: u64, progress: &mut dyn FnMut(RepairProgress)) {
        self.done += count;
        if self.done.is_multiple_of(STRIDE) {
            progress(RepairProgress { step: RepairStep::Pages, done: self.done, total: Some(self.total) });
        }
    }
}

fn tell(progress: &mut dyn FnMut(RepairProgress), step: RepairStep, done: u64) {
    if done.is_multiple_of(STRIDE) {
        progress(RepairProgress { step, done, total: None });
    }
}
