//! Reads what can be read of the files of a hash keyspace, the oldest records first (decision 7, "Hash keyspaces").

mod hot;
mod layout;

use ecotone_substrate::{
    Result,
    environment::Environment,
    storage::FileId,
    table::{File, Name},
};

use self::hot::Pages;
pub use self::layout::{Known, Layout};
use super::{
    cold::{Remains, RunKind, Stretch},
    key::Key,
    log::{Address, PAGE},
    structure::{LogFile, Structure},
};
use crate::repair::{Beginning, Findings};

/// Gets a key and its value; no value if it was deleted. What comes later of a key is newer.
pub type Visit<'v> = dyn FnMut(&[u8], Option<&[u8]>) -> Result<()> + 'v;

/// Gives all records that can be read to `visit`: bases, then deltas from old to new, then the hot log. `database` is
/// the identity that files must have, if it is known.
///
/// # Errors
/// Those of `visit`; `NewerFormat`, `Memory`, and `Io` if the directory cannot be listed. Not for damage.
pub fn salvage(
    environment: &Environment,
    database: Option<u64>,
    keyspace: u32,
    known: &Known,
    visit: &mut Visit<'_>,
) -> Result<Findings> {
    let mut salvage = Salvage { environment, database, keyspace, findings: Findings::default(), visit };
    match known.is_settled {
        true => salvage.named(known)?,
        false => salvage.all(&known.structure)?,
    }
    Ok(salvage.findings)
}

struct Salvage<'s, 'v> {
    environment: &'s Environment,
    database: Option<u64>,
    keyspace: u32,
    findings: Findings,
    visit: &'s mut Visit<'v>,
}

impl Salvage<'_, '_> {
    /// Reads what a structure names, and of that what counts.
    fn named(&mut self, known: &Known) -> Result<()> {
        let Structure { partitions, deltas, segments, begin, durable, .. } = &known.structure;
        for part in partitions.iter().map(|partition| partition.part) {
            if let Some(base) = part.base {
                self.run(base.number, Some(base.birth), &[part.stretch])?;
            }
        }
        for delta in deltas {
            let counts = partitions.iter().filter(|partition| partition.folded < delta.until);
            let stretches: Vec<Stretch> = counts.map(|partition| partition.part.stretch).collect();
            self.run(delta.file.number, Some(delta.file.birth), &stretches)?;
        }
        for segment in segments {
            self.segment(segment, (*begin, *durable), known.has_durable)?;
        }
        Ok(())
    }

    /// Reads all files that there are, by what they say of themselves. What of them counts is not known for certain.
    fn all(&mut self, last_known: &Structure) -> Result<()> {
        let files = self.environment.storage.list()?;
        let mut runs: Vec<(Age, u32)> = Vec::new();
        let mut segments: Vec<(u64, u32, u64)> = Vec::new();
        let mut begin = last_known.begin;
        for file in files.into_iter().filter(|file| file.keyspace() == Some(self.keyspace)) {
            let Some(said) = self.findings.problems.survive(Beginning::read(self.environment, file))? else { continue };
            match file {
                FileId::Table { number, .. } => {
                    let (birth, remains) =
                        (said.birth(), Remains::open(self.environment, self.name(number, None, &said), said)?);
                    if let Some(RunKind::Delta { until, .. }) = remains.kind {
                        begin = begin.max(Address::new(until / PAGE * PAGE));
                    }
                    runs.push((Age::of(remains.kind, birth), number));
                }
                FileId::Segment { number, .. } => segments.push((said.word(64), number, said.birth())),
                _ => {}
            }
        }
        if !runs.is_empty() || !segments.is_empty() {
            self.findings.problems.add("which of its files count is not known for certain");
            self.findings.doubtful.add((Vec::new(), None));
        }
        runs.sort_unstable();
        for (_, number) in runs {
            self.run(number, None, &[Stretch::ALL])?;
        }
        segments.sort_unstable();
        for (_, number, birth) in segments {
            self.pages(File { number, birth }, begin)?;
        }
        Ok(())
    }

    fn name(&self, number: u32, birth: Option<u64>, said: &Beginning) -> Name {
        let (database, birth) = (self.database.unwrap_or(said.database()), birth.unwrap_or(said.birth()));
        Name { database, keyspace: self.keyspace, number, birth }
    }

    /// Reads of a run what lies in some stretches.
    fn run(&mut self, number: u32, birth: Option<u64>, stretches: &[Stretch]) -> Result<()> {
        let file = FileId::Table { keyspace: self.keyspace, number };
        let Some(said) = self.findings.problems.survive(Beginning::read(self.environment, file))? else {
            self.findings.doubtful.add((Vec::new(), None));
            return Ok(());
        };
        let name = self.name(number, birth, &said);
        let mut remains = Remains::open(self.environment, name, said)?;
        remains.problem.iter().for_each(|problem| self.findings.problems.add(problem));
        let hash_of = |key: &[u8]| Key::new(key, name.database).hash;
        let seen = remains.each(stretches, &hash_of, &mut |entry| (self.visit)(entry.key, entry.value))?;
        self.findings.pages += seen.whole + seen.lost;
        self.findings.damaged += seen.lost;
        if let Some(error) = seen.error {
            self.findings.problems.add(format!("{error}; blocks that are lost there: {}", seen.lost));
            self.findings.doubtful.add((Vec::new(), None));
        }
        Ok(())
    }

    /// Reads the pages of a segment from `begin` up to `durable`, which must verify; and those behind as far as they
    /// do, unless it is known that they do not count.
    fn segment(&mut self, segment: &LogFile, (begin, durable): (Address, Address), has_durable: bool) -> Result<()> {
        let LogFile { file: File { number, birth }, from, .. } = *segment;
        let name = Name { database: 0, keyspace: self.keyspace, number, birth };
        let Some(mut pages) = self.findings.problems.survive(Pages::open(self.environment, name))? else {
            if from < durable {
                self.findings.doubtful.add((Vec::new(), None));
            }
            return Ok(());
        };
        let mut at = begin.max(from);
        while at < segment.end() && (at < durable || !has_durable) {
            match pages.each(Pages::offset(from, at), at, self.visit)? {
                Ok(()) => {}
                Err(error) if at < durable => {
                    self.findings.damaged += 1;
                    self.findings.problems.add(error);
                    self.findings.doubtful.add((Vec::new(), None));
                }
                Err(_) => break,
            }
            self.findings.pages += 1;
            at = at.plus(PAGE);
        }
        Ok(())
    }

    /// Reads all pages of a segment that verify and are not below `begin`.
    fn pages(&mut self, File { number, birth }: File, begin: Address) -> Result<()> {
        let name = Name { database: 0, keyspace: self.keyspace, number, birth };
        let Some(mut pages) = self.findings.problems.survive(Pages::open(self.environment, name))? else {
            return Ok(());
        };
        let length = self.findings.problems.survive(pages.length())?.unwrap_or(0);
        let mut whole = 0;
        for offset in (PAGE..length / PAGE * PAGE).step_by(PAGE as usize) {
            whole += u64::from(pages.at_least(offset, begin, self.visit)?);
        }
        self.findings.pages += whole;
        Ok(())
    }
}

/// What decides between two runs that nothing names: the greater one is the newer. One without a header is taken for
/// the oldest.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Age {
    Unknown,
    Base { birth: u64 },
    Delta { until: u64, birth: u64 },
}

impl Age {
    fn of(kind: Option<RunKind>, birth: u64) -> Age {
        match kind {
            None => Age::Unknown,
            Some(RunKind::Base(_)) => Age::Base { birth },
            Some(RunKind::Delta { until, .. }) => Age::Delta { until, birth },
        }
    }
}
