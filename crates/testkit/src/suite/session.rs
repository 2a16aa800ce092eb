//! One session of a database: opened, driven step by step beside its expectations, ended.

use std::{collections::BTreeMap, sync::Arc};

use ecotone_engine::{
    contract::{Hint, Range, Record},
    merge::Merge,
};
use ecotone_substrate::{Error, Result, Seq, limits::MAX_RECORD};

use super::{Counters, Kind, Opener, ReportRecorder, Store, UNLOGGED, Verdict, add, expect::Expect, step::Step};
use crate::{
    model::{Change, Ending, Key, Level},
    sim::SimStorage,
};

/// Why a session stopped.
#[derive(Debug)]
pub(super) enum Interruption {
    /// A call gave an error, which is right if the disk was told to fail.
    Failed(Error),
    /// The database gave a wrong answer.
    Wrong(String),
}

impl From<String> for Interruption {
    fn from(wrong: String) -> Self {
        Interruption::Wrong(wrong)
    }
}

impl From<Error> for Interruption {
    fn from(error: Error) -> Self {
        Interruption::Failed(error)
    }
}

impl Interruption {
    /// The description of the failure, where the disk was not told to fail.
    pub(super) fn unexpected(self) -> String {
        match self {
            Interruption::Failed(error) => format!("failed on a sound disk: {error}"),
            Interruption::Wrong(wrong) => wrong,
        }
    }
}

/// An open database and its expected content.
pub(super) struct Session<'a> {
    opener: &'a dyn Opener,
    pub(super) disk: SimStorage,
    /// Always open, except inside a reopen.
    store: Option<Box<dyn Store>>,
    pub(super) expect: Expect,
    seed: u64,
    /// Calls that were refused because the disk was full.
    pub(super) refused: u64,
    /// Counters of the engines when the database was closed last.
    counted: Counters,
    /// Whether no job can stop half-way, so that each superseded version is reported at most once.
    pub(super) reports_once: bool,
}

impl Drop for Session<'_> {
    /// A session that is not closed dies: nothing more reaches the disk.
    fn drop(&mut self) {
        self.disk.power_off();
    }
}

impl<'a> Session<'a> {
    /// Opens the database on `disk` after `ending`, and judges it.
    pub(super) fn begin(
        opener: &'a dyn Opener,
        disk: SimStorage,
        seed: u64,
        expect: Expect,
        ending: Ending,
    ) -> std::result::Result<Self, Interruption> {
        let store = opener.open(&disk, seed)?;
        let mut session = Session {
            opener,
            disk,
            store: Some(store),
            expect,
            seed,
            refused: 0,
            counted: Counters::new(),
            reports_once: false,
        };
        session.judge(ending)?;
        Ok(session)
    }

    /// A new database with these keyspaces.
    pub(super) fn fresh(opener: &'a dyn Opener, seed: u64, keyspaces: &[u32]) -> Verdict<Self> {
        let disk = SimStorage::new(seed);
        let mut session =
            Self::begin(opener, disk, seed, Expect::default(), Ending::Closed).map_err(Interruption::unexpected)?;
        keyspaces
            .iter()
            .try_for_each(|keyspace| session.step(&Step::Create(*keyspace)))
            .map_err(Interruption::unexpected)?;
        Ok(session)
    }

    /// A database with these keyspaces that was reopened until its log had used every file that it has.
    pub(super) fn aged(opener: &'a dyn Opener, seed: u64, keyspaces: &[u32]) -> Verdict<Self> {
        let mut session = Self::fresh(opener, seed, keyspaces)?;
        session.run(&[Step::Reopen, Step::Reopen, Step::Reopen]).map_err(Interruption::unexpected)?;
        Ok(session)
    }

    pub(super) fn store(&self) -> &dyn Store {
        self.store.as_deref().expect("the database is open")
    }

    pub(super) fn kind(&self) -> Kind {
        self.opener.kind()
    }

    /// Counters of the engines, without those of keyspaces that were dropped.
    pub(super) fn counters(&self) -> Counters {
        let mut counters = self.counted.clone();
        self.store.iter().for_each(|store| add(&mut counters, &store.counters()));
        counters
    }

    /// Compares the whole content with the expectation after `ending`.
    fn judge(&mut self, ending: Ending) -> std::result::Result<(), Interruption> {
        let store = self.store.as_deref().expect("the database is open");
        self.expect.restart(ending, store, self.opener.kind()).map_err(|wrong| match self.disk.is_off() {
            true => Interruption::Failed(Error::Invalid(wrong)),
            false => Interruption::Wrong(wrong),
        })
    }

    pub(super) fn run(&mut self, steps: &[Step]) -> std::result::Result<(), Interruption> {
        steps.iter().try_for_each(|step| self.step(step))
    }

    /// Ends the session: nothing more reaches the disk. Gives the disk, to be crashed in any way, and the expectation.
    pub(super) fn kill(mut self) -> (SimStorage, Expect) {
        self.disk.power_off();
        self.store = None;
        (self.disk.clone(), std::mem::take(&mut self.expect))
    }

    /// Closes the database. Gives the disk as the next session finds it.
    pub(super) fn close(mut self) -> Verdict<(SimStorage, Expect)> {
        self.close_store().map_err(|error| format!("closing failed: {}", error.unexpected()))?;
        Ok((self.disk.crash(crate::sim::Crash::KeepAll), std::mem::take(&mut self.expect)))
    }

    /// Closes on a disk that may be full. Where there is no space for the last writes, the session ends as if it was
    /// killed.
    pub(super) fn close_if_it_fits(mut self) -> Verdict<(SimStorage, Expect, Ending)> {
        let ending = match self.store.take().expect("the database is open").close() {
            Ok(()) => Ending::Closed,
            Err(error) if error.is_no_space() => Ending::ProcessDeath,
            Err(error) => return Err(format!("closing failed: {error}")),
        };
        Ok((self.disk.crash(crate::sim::Crash::KeepAll), std::mem::take(&mut self.expect), ending))
    }

    pub(super) fn step(&mut self, step: &Step) -> std::result::Result<(), Interruption> {
        let log_end = self.store().log_end();
        self.expect.versions.begin_step(log_end);
        self.take_step(step)?;
        self.judge_reports()
    }

    /// Judges the versions that were reported as superseded.
    fn judge_reports(&mut self) -> std::result::Result<(), Interruption> {
        let (recorder, log_end) = (self.store().recorder(), self.store().log_end());
        Ok(self.judge_recorded(recorder, log_end)?)
    }

    fn judge_recorded(&mut self, recorder: Option<Arc<ReportRecorder>>, log_end: Seq) -> Verdict {
        let reports = recorder.map(|recorder| recorder.take()).unwrap_or_default();
        self.expect.versions.judge(reports, log_end, self.reports_once)
    }

    /// Closes the database, and judges the reports until then.
    fn close_store(&mut self) -> std::result::Result<(), Interruption> {
        let store = self.store.take().expect("the database is open");
        let recorder = store.recorder();
        store.close()?;
        Ok(self.judge_recorded(recorder, Seq::MAX)?)
    }

    /// Removes all superseded versions, and checks that all of them were reported. Returns their number, or `None` if
    /// the engine keeps some.
    pub(super) fn purge(&mut self) -> std::result::Result<Option<u64>, Interruption> {
        let is_purged = self.store().purge()?;
        self.judge_reports()?;
        Ok(is_purged.then(|| self.expect.versions.settle()).transpose()?)
    }

    fn take_step(&mut self, step: &Step) -> std::result::Result<(), Interruption> {
        match step {
            Step::Write(changes, level) => Ok(self.write(changes, *level)?),
            Step::Get((keyspace, key)) => self.get(*keyspace, key),
            Step::MultiGet(keyspace, keys) => self.multi_get(*keyspace, keys),
            Step::Walk(keyspace) => self.walk(*keyspace),
            Step::Scan(keyspace, range, reverse) => self.scan(*keyspace, range, *reverse),
            Step::Prefix(keyspace, prefix) => self.prefix(*keyspace, prefix),
            Step::Update(key, add) => self.update(key, add.as_deref()),
            Step::Swap(key, new, right) => self.swap(key, new.as_deref(), *right),
            Step::Add(key, amount) => self.merge(key, Merge::Add(*amount)),
            Step::Append(key, bytes) => self.merge(key, Merge::Append(bytes)),
            Step::BulkLoad(keyspace, records) => Ok(self.bulk_load(*keyspace, records)?),
            Step::Hint(keyspace, range, hint) => Ok(self.hint(*keyspace, range, *hint)?),
            Step::Flush => Ok(self.flush()?),
            Step::Sync => Ok(self.sync()?),
            Step::Background => Ok(_ = self.store().background()),
            Step::Idle => {
                while self.store().background() {}
                Ok(())
            }
            Step::Reopen => self.reopen(),
            Step::Drop(keyspace) => Ok(self.drop_keyspace(*keyspace)?),
            Step::Create(keyspace) => Ok(self.create(*keyspace)?),
        }
    }

    fn write(&mut self, changes: &[Change], level: Level) -> Result<()> {
        let changes: Vec<Change> =
            changes.iter().filter(|((keyspace, _), _)| self.expect.has(*keyspace)).cloned().collect();
        if changes.is_empty() {
            return Ok(());
        }
        let answer = self.store().write(&changes, level);
        self.answered(&changes, level, answer)
    }

    /// Notes the answer to a write. A write that is refused has no effect; a write is in doubt after an error that
    /// stops all writing.
    fn answered(&mut self, changes: &[Change], level: Level, answer: Result<()>) -> Result<()> {
        match answer {
            Ok(()) => self.expect.wrote(changes, level),
            Err(Error::NoSpace { .. }) => self.refused += 1,
            // A tiny engine may be full.
            Err(Error::Limit { .. }) => {}
            Err(error) => {
                if self.store().failure().is_some() {
                    self.expect.wrote(changes, Level::InDoubt);
                }
                return Err(error);
            }
        }
        Ok(())
    }

    fn get(&mut self, keyspace: u32, key: &[u8]) -> std::result::Result<(), Interruption> {
        if !self.expect.has(keyspace) {
            return Ok(());
        }
        let (got, want) = (self.store().get(keyspace, key)?, self.expect.get(keyspace, key));
        Ok(agree("get", key, got.as_ref(), want)?)
    }

    fn multi_get(&mut self, keyspace: u32, keys: &[Vec<u8>]) -> std::result::Result<(), Interruption> {
        if !self.expect.has(keyspace) {
            return Ok(());
        }
        let values = self.store().multi_get(keyspace, keys)?;
        if values.len() != keys.len() {
            return Err(Interruption::Wrong(format!("multi_get of {} keys gave {} values", keys.len(), values.len())));
        }
        let wants = keys.iter().map(|key| self.expect.get(keyspace, key));
        Ok(keys
            .iter()
            .zip(values.iter().zip(wants))
            .try_for_each(|(key, (got, want))| agree("multi_get", key, got.as_ref(), want))?)
    }

    fn walk(&mut self, keyspace: u32) -> std::result::Result<(), Interruption> {
        if !self.expect.has(keyspace) {
            return Ok(());
        }
        let mut got = self.store().walk(keyspace)?;
        got.sort_unstable();
        Ok(same_records("the walk", got, self.expect.content(keyspace), |_| true)?)
    }

    fn scan(&mut self, keyspace: u32, range: &Range, reverse: bool) -> std::result::Result<(), Interruption> {
        if !self.expect.has(keyspace) {
            return Ok(());
        }
        let mut got = self.store().scan(keyspace, range.clone(), reverse)?;
        if reverse {
            got.reverse();
        }
        let inside = |key: &Vec<u8>| std::ops::RangeBounds::contains(range, key);
        Ok(same_records(&format!("the scan of {range:?}"), got, self.expect.content(keyspace), inside)?)
    }

    fn prefix(&mut self, keyspace: u32, prefix: &[u8]) -> std::result::Result<(), Interruption> {
        if !self.expect.has(keyspace) {
            return Ok(());
        }
        let got = self.store().prefix(keyspace, prefix)?;
        Ok(same_records(&format!("prefix {prefix:?}"), got, self.expect.content(keyspace), |key| {
            key.starts_with(prefix)
        })?)
    }

    fn update(&mut self, key: &Key, add: Option<&[u8]>) -> std::result::Result<(), Interruption> {
        if !self.expect.has(key.0) {
            return Ok(());
        }
        let before = self.expect.get(key.0, &key.1).cloned();
        let make = |old: Option<&[u8]>| {
            add.map(|add| [add, &old.unwrap_or_default()[..old.map_or(0, |old| old.len().min(8))]].concat())
        };
        let after = make(before.as_deref());
        let answer = self.store().update(key.0, &key.1, &mut |old| make(old));
        let wrong = answer.as_ref().is_ok_and(|got| *got != before);
        if before.is_some() || after.is_some() || answer.is_err() {
            self.answered(&[(key.clone(), after)], Level::Buffered, answer.map(drop))?;
        }
        if wrong { Err(Interruption::Wrong(format!("an update of {key:?} did not see {before:?}"))) } else { Ok(()) }
    }

    fn swap(&mut self, key: &Key, new: Option<&[u8]>, right: bool) -> std::result::Result<(), Interruption> {
        if !self.expect.has(key.0) {
            return Ok(());
        }
        let mut expected = self.expect.get(key.0, &key.1).cloned();
        if !right {
            expected = Some(b"never written".to_vec());
        }
        let answer = self.store().swap(key.0, &key.1, expected.as_deref(), new);
        match answer {
            Ok(swapped) if swapped != right => {
                Err(Interruption::Wrong(format!("a swap of {key:?} answered {swapped}")))
            }
            Ok(false) => Ok(()),
            answer => {
                Ok(self.answered(&[(key.clone(), new.map(<[u8]>::to_vec))], Level::Buffered, answer.map(drop))?)
            }
        }
    }

    fn merge(&mut self, key: &Key, merge: Merge<'_>) -> std::result::Result<(), Interruption> {
        if !self.expect.has(key.0) {
            return Ok(());
        }
        let after = merged(self.expect.get(key.0, &key.1), merge);
        let answer = self.store().merge(key.0, &key.1, merge);
        let fits = after.as_ref().is_some_and(|after| key.1.len() + after.len() <= MAX_RECORD);
        match (after, answer) {
            (_, Ok(())) if !fits => Err(Interruption::Wrong(format!("{merge:?} to {key:?} was not refused"))),
            (None, Err(Error::Invalid(_))) => Ok(()),
            (after, answer) => Ok(self.answered(&[(key.clone(), after)], Level::Buffered, answer)?),
        }
    }

    /// Each record of a bulk load is a write of its own, so a prefix of the records survives. After an error that does
    /// not stop writing, a prefix is visible.
    fn bulk_load(&mut self, keyspace: u32, records: &[Record]) -> Result<()> {
        if !self.expect.has(keyspace) || keyspace == UNLOGGED {
            return Ok(());
        }
        let last = self.expect.content(keyspace).into_keys().next_back();
        let records: Vec<Record> =
            records.iter().filter(|(key, _)| last.as_ref().is_none_or(|last| last < key)).cloned().collect();
        let (level, loaded, answer) = match self.store().bulk_load(keyspace, records.clone()) {
            Ok(_) => (Level::Sync, records.len(), Ok(())),
            Err(Error::NoSpace { .. } | Error::Limit { .. }) => {
                (Level::InDoubt, self.count_loaded(keyspace, &records)?, Ok(()))
            }
            Err(error) => (Level::InDoubt, records.len(), Err(error)),
        };
        for (key, value) in records.into_iter().take(loaded) {
            self.expect.wrote(&[((keyspace, key), Some(value))], level);
        }
        answer
    }

    fn count_loaded(&self, keyspace: u32, records: &[Record]) -> Result<usize> {
        let keys: Vec<Vec<u8>> = records.iter().map(|(key, _)| key.clone()).collect();
        let values = self.store().multi_get(keyspace, &keys)?;
        Ok(values.iter().take_while(|value| value.is_some()).count())
    }

    /// A hint changes no answer. The work that it asks for is left to the background.
    fn hint(&self, keyspace: u32, range: &Range, hint: Hint) -> Result<()> {
        if !self.expect.has(keyspace) {
            return Ok(());
        }
        match self.store().hint(keyspace, range.clone(), hint) {
            // The table of hints is full.
            Err(Error::Limit { .. }) => Ok(()),
            answer => answer,
        }
    }

    fn flush(&mut self) -> Result<()> {
        match self.store().flush() {
            Ok(()) => self.expect.flushed(),
            Err(Error::NoSpace { .. }) => self.refused += 1,
            Err(error) => return Err(error),
        }
        Ok(())
    }

    fn sync(&mut self) -> Result<()> {
        self.store().sync()?;
        self.expect.synced();
        Ok(())
    }

    fn reopen(&mut self) -> std::result::Result<(), Interruption> {
        self.counted = self.counters();
        self.close_store()?;
        self.expect.flushed();
        self.seed = self.seed.wrapping_add(1);
        self.store = Some(self.opener.open(&self.disk, self.seed)?);
        self.judge(Ending::Closed)
    }

    fn create(&mut self, keyspace: u32) -> Result<()> {
        if self.expect.has(keyspace) {
            return Ok(());
        }
        match self.store().create(keyspace) {
            Ok(()) => self.expect.created(keyspace),
            Err(Error::NoSpace { .. }) => self.refused += 1,
            Err(error) => {
                self.expect.doubt(keyspace);
                return Err(error);
            }
        }
        Ok(())
    }

    fn drop_keyspace(&mut self, keyspace: u32) -> Result<()> {
        if !self.expect.has(keyspace) {
            return Ok(());
        }
        match self.store().drop_keyspace(keyspace) {
            Ok(()) => self.expect.dropped(keyspace),
            Err(Error::NoSpace { .. }) => self.refused += 1,
            Err(error) => {
                self.expect.doubt(keyspace);
                return Err(error);
            }
        }
        Ok(())
    }
}

/// The result of a merge with a value, or `None` if the merge must be refused.
fn merged(before: Option<&Vec<u8>>, merge: Merge<'_>) -> Option<Vec<u8>> {
    let before = before.map_or(&[][..], Vec::as_slice);
    match merge {
        Merge::Append(bytes) => Some([before, bytes].concat()),
        Merge::Add(amount) if before.is_empty() => Some(amount.to_le_bytes().to_vec()),
        Merge::Add(amount) => {
            Some(i64::from_le_bytes(before.try_into().ok()?).wrapping_add(amount).to_le_bytes().to_vec())
        }
    }
}

fn agree(what: &str, key: &[u8], got: Option<&Vec<u8>>, want: Option<&Vec<u8>>) -> Verdict {
    if got == want { Ok(()) } else { Err(format!("{what} of {} gave {got:?}, not {want:?}", key.escape_ascii())) }
}

fn same_records(
    what: &str,
    got: Vec<Record>,
    content: BTreeMap<Vec<u8>, Vec<u8>>,
    inside: impl Fn(&Vec<u8>) -> bool,
) -> Verdict {
    let want: Vec<Record> = content.into_iter().filter(|(key, _)| inside(key)).collect();
    if got == want {
        return Ok(());
    }
    let differs = got.iter().zip(&want).position(|(got, want)| got != want).unwrap_or(got.len().min(want.len()));
    let show = |records: &[Record]| records.get(differs).map(|(key, _)| key.escape_ascii().to_string());
    let (counts, keys) = ((got.len(), want.len()), (show(&got), show(&want)));
    Err(format!(
        "{what} gave {} records, not {}; the first that differs is {:?}, not {:?}",
        counts.0, counts.1, keys.0, keys.1
    ))
}
