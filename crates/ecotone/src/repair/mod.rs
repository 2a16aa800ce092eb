//! Repair: builds a new database from the readable parts of a damaged one (T18, `docs/decisions/0007-repair.md`).

mod known;
mod load;
mod log_survey;
mod plans;
mod progress;
mod report;
mod target;

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::Arc,
};

use ecotone_engine::repair::{self, Problems, SalvageSource};
use ecotone_substrate::{
    Seq,
    disk::Disk,
    double_write::SavedPages,
    environment::Environment,
    limits::PAGE,
    manifest::Manifest,
    storage::{Access, FileId, Storage},
    wal::{LogSalvage, LoggedOperation, MissingLogRange, Record, Replay},
};

pub use self::report::{KeyRange, Ranges, RepairProgress, RepairReport, RepairStep, RepairedKeyspace};
use self::{
    known::{KeyspaceStart, Layout, SalvageInputs},
    load::Loading,
    log_survey::LogSurvey,
    plans::Plan,
    progress::Progress,
    target::Target,
};
use crate::{
    Builder, Database, Error, Result, config,
    core::{Components, recovery},
};

/// The position of the first record of a log.
const FIRST: Seq = 1;

/// The repair of a damaged database: builds a new one from its readable parts.
///
/// The damaged database is not written to, except for its lock file. So a repair makes nothing worse and can be
/// repeated. It saves the newest readable version of each key, with or without the manifest.
///
/// # Examples
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
    /// Returns a repair of the database at `from` into a new one at `to`.
    ///
    /// Nothing happens before [`run`](Self::run). Nothing may exist at `to`, or only an empty directory.
    pub fn new(from: impl AsRef<Path>, to: impl AsRef<Path>) -> Self {
        Repair { from: from.as_ref().to_owned(), into: Database::builder(to) }
    }

    /// Sets the memory that the repair may use, in bytes, as [`Builder::memory_budget`] does. Default 256 MiB.
    ///
    /// Four bytes for each page of the damaged files come on top.
    pub fn memory_budget(self, bytes: usize) -> Self {
        Repair { into: self.into.memory_budget(bytes), ..self }
    }

    /// Runs the repair and returns its report. Calls `progress` now and then.
    ///
    /// Records that could not be restored are listed in the report; they are no error.
    ///
    /// # Errors
    /// - [`Error::NotADatabase`] and [`Error::Locked`] for the damaged database.
    /// - [`Error::Invalid`] if the new directory is not empty.
    /// - [`Error::NewerFormat`] and [`Error::Memory`].
    /// - The errors of writing the new database.
    ///
    /// After an error the new database is incomplete: remove it.
    ///
    /// # Examples
    /// ```
    /// use ecotone::{Database, Repair};
    /// # let directory = tempfile::tempdir()?;
    /// # let (path, repaired) = (directory.path().join("towns.db"), directory.path().join("repaired.db"));
    /// # Database::builder(&path).open()?.close()?;
    /// let report = Repair::new(&path, &repaired).run(&mut |progress| println!("{:?}", progress.step))?;
    /// for problem in &report.problems {
    ///     println!("{problem}");
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn run(self, progress: &mut dyn FnMut(RepairProgress)) -> Result<RepairReport> {
        let from = Arc::new(Disk::open(&self.from, false)?);
        config::check_vacant(self.into.path())?;
        let database = self.into.open()?;
        Work::run(from, database, progress)
    }

    #[doc(hidden)]
    pub fn run_parts(
        self,
        from: Arc<dyn Storage>,
        into: Components,
        progress: &mut dyn FnMut(RepairProgress),
    ) -> Result<RepairReport> {
        let database = self.into.open_parts(into)?;
        Work::run(from, database, progress)
    }
}

/// A running repair.
struct Work<'a> {
    from: Arc<dyn Storage>,
    files: Vec<FileId>,
    database: Database,
    manifest: Option<Manifest>,
    log: LogSalvage,
    saved: Option<Arc<SavedPages>>,
    report: RepairReport,
    progress: Progress<'a>,
}

impl<'a> Work<'a> {
    fn run(
        from: Arc<dyn Storage>,
        database: Database,
        progress: &'a mut dyn FnMut(RepairProgress),
    ) -> Result<RepairReport> {
        let mut work = Work::begin(from, database, progress)?;
        let survey = work.survey()?;
        let plans = plans::plans(work.manifest.as_ref(), &*work.from, &work.files, &survey.keyspaces);
        let mut known = work.known(&plans, &survey)?;
        let mut targets = BTreeMap::new();
        work.progress.all_pages = work.pages(&plans);
        for plan in &plans {
            let known = known.remove(&plan.record.id);
            if let Some(keyspace) = work.restore(plan, known)? {
                targets.insert(plan.record.id, (keyspace, plan.record.watermark));
            }
        }
        work.reapply(&targets)?;
        drop(targets);
        work.database.close()?;
        Ok(work.report)
    }

    /// Reads the small files: manifest, double-write area, headers of the log.
    fn begin(from: Arc<dyn Storage>, database: Database, progress: &'a mut dyn FnMut(RepairProgress)) -> Result<Self> {
        let mut report = RepairReport::default();
        let mut files = from.list()?;
        files.sort_unstable();
        let manifest = survive(Manifest::newest(&*from), &mut report.problems)?.flatten();
        if manifest.is_none() {
            let what =
                "no manifest can be read: keyspaces get new names and the default options, and none counts as unlogged";
            report.problems.push(what.into());
        }
        let memory = &database.open.memory;
        let saved = survive(SavedPages::load(&*from, memory), &mut report.problems)?.map(Arc::new);
        let log = LogSalvage::find(&*from, memory, manifest.as_ref().map(|manifest| manifest.database))?;
        // Only with a manifest is it known which part of the log must exist.
        let heard = if manifest.is_some() { &mut report.problems } else { &mut report.log_gaps };
        heard.extend_from_slice(log.problems());
        Ok(Work { from, files, database, manifest, log, saved, report, progress: Progress::new(progress) })
    }

    fn replay(&self) -> Option<Replay> {
        self.manifest.as_ref().map(recovery::replay_of)
    }

    /// Passes over the log once. Damaged operations are reported later, when they are replayed.
    fn survey(&self) -> Result<LogSurvey> {
        let mut survey = LogSurvey::default();
        let mut first = None;
        let gaps = self.log.read(self.replay(), &mut |position, record| {
            first = first.or(Some(position));
            if let Record::Batch(operations) = record {
                survey.keyspaces.extend(operations.map_while(Result::ok).map(|(id, ..)| id));
            }
            Ok(())
        })?;
        survey.has_all = first == Some(FIRST);
        survey.gap = gaps.first().map(|gap| gap.from);
        Ok(survey)
    }

    /// The salvage inputs of all keyspaces, by engine checkpoint and log up to the first gap.
    fn known(&mut self, plans: &[Plan], survey: &LogSurvey) -> Result<BTreeMap<u32, SalvageInputs>> {
        let mut problems = Problems::default();
        let environment = self.manifest.is_some().then(|| self.environment());
        let beginning = KeyspaceStart { environment: environment.as_ref(), files: &self.files, log: survey };
        let mut layouts: BTreeMap<u32, (&Plan, Layout)> = BTreeMap::new();
        for plan in plans {
            let layout = beginning.layout(plan, &mut problems)?;
            layouts.extend(layout.map(|layout| (plan.record.id, (plan, layout))));
        }
        self.log.read(self.replay(), &mut |position, record| {
            let Record::Structure { keyspace, body } = record else { return Ok(()) };
            let there = layouts.get_mut(&keyspace).filter(|(plan, _)| position >= plan.record.structure_position);
            match there.filter(|_| survey.gap.is_none_or(|gap| position < gap)) {
                Some((plan, layout)) => beginning.replay(plan, layout, body, &mut problems),
                None => Ok(()),
            }
        })?;
        if survey.gap.is_some() && !layouts.is_empty() {
            problems.add(
                "the log has gaps, in which indexes may have changed: files are judged by what they say of themselves",
            );
        }
        let known = beginning.known(layouts, survey.gap.is_none(), &mut problems)?;
        self.report.problems.extend(problems.sentences("the log"));
        Ok(known)
    }

    /// The environment that the damaged files are read with.
    fn environment(&self) -> Environment {
        let open = &self.database.open;
        Environment {
            database: self.manifest.as_ref().map_or(0, |manifest| manifest.database),
            storage: self.from.clone(),
            memory: open.memory.clone(),
            scheduler: open.scheduler.clone(),
            health: Arc::default(),
        }
    }

    /// The number of pages of all files together.
    fn pages(&self, plans: &[Plan]) -> u64 {
        let length = |plan: &Plan| {
            Some(self.from.open(FileId::Pages(plan.record.id), Access::Direct).ok()?.len().ok()? / PAGE as u64)
        };
        plans.iter().filter_map(length).sum()
    }

    /// Restores the records of one keyspace from its files.
    fn restore(&mut self, plan: &Plan, known: Option<SalvageInputs>) -> Result<Option<Target>> {
        let (name, id, engine) = (&plan.record.name, plan.record.id, &plan.record.engine);
        let Some(known) = known else {
            self.report.left_out = true;
            self.report
                .problems
                .push(format!("the keyspace {name:?} has the engine {engine}, which cannot be repaired"));
            return Ok(None);
        };
        let target = Target::create(&self.database, plan)?;
        let repaired = RepairedKeyspace::new(name, id, known.is_whole());
        let (records, findings) = self.loading(&target, id).load(known)?;
        self.report.problems.extend(findings.problems.clone().sentences(&format!("the keyspace {name:?}")));
        self.report.keyspaces.push(repaired.found(records, findings));
        Ok(Some(target))
    }

    fn loading<'l>(&'l mut self, target: &'l Target, id: u32) -> Loading<'l, 'a> {
        let (environment, open) = (self.environment(), &self.database.open);
        let (storage, memory, saved) = (self.from.clone(), open.memory.clone(), self.saved.clone());
        let source = SalvageSource { storage, scratch: open.storage.clone(), memory, saved };
        let database = self.manifest.as_ref().map(|manifest| manifest.database);
        Loading { environment, database, source, id, target, progress: &mut self.progress }
    }

    /// Replays operations of the log: those at or above the watermarks of the manifest; without a manifest, all that
    /// lead to the end of the log.
    fn reapply(&mut self, targets: &BTreeMap<u32, (Target, Seq)>) -> Result<()> {
        let replay = self.replay();
        let (report, progress) = (&mut self.report, &mut self.progress);
        let gaps = self.log.read(replay, &mut |position, record| {
            let Record::Batch(operations) = record else { return Ok(()) };
            for (sequence, operation) in (position..).zip(operations) {
                let Some(operation) = survive(operation, &mut report.problems)? else { break };
                if apply(targets, sequence, operation)? {
                    report.log_operations += 1;
                    progress.tell(RepairStep::Log, report.log_operations);
                }
            }
            Ok(())
        })?;
        report.log_gaps.extend(gaps.iter().map(sentence));
        Ok(())
    }
}

/// Applies an operation of the log. False if the pages have it already, or if its keyspace is not restored.
fn apply(targets: &BTreeMap<u32, (Target, Seq)>, sequence: Seq, (id, key, value): LoggedOperation<'_>) -> Result<bool> {
    let target = targets.get(&id).filter(|(_, watermark)| sequence >= *watermark);
    target.map_or(Ok(false), |(target, _)| target.write(key, value))
}

fn sentence(gap: &MissingLogRange) -> String {
    let MissingLogRange { file, offset, from, until } = gap;
    let place = file
        .map_or("in files that are missing or damaged".to_owned(), |file| format!("from byte {offset} of {file} on"));
    let until = until.map_or("its end".to_owned(), |until| format!("position {until}"));
    format!("the log from position {from} to {until} cannot be read, {place}")
}

/// Turns corruption into a reported problem. Other errors end the repair.
fn survive<T>(result: Result<T>, problems: &mut Vec<String>) -> Result<Option<T>> {
    Ok(repair::separate_damage(result)?.map_err(|damage: Error| problems.push(damage.to_string())).ok())
}
