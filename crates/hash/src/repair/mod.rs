//! Salvages the records of a hash keyspace from its files, the oldest first (repair.md, "Hash keyspaces").

mod hot;
mod layout;

use ecotone_engine::repair::{FirstPage, SalvageReport};
use ecotone_substrate::{
    Result,
    environment::Environment,
    storage::FileId,
    table::{FileIdentity, FileRef},
};

use self::hot::Pages;
pub use self::{
    hot::Visit,
    layout::{Known, Layout},
};
use super::{
    cold::{HashRange, RunKind, RunSalvage},
    key::Key,
    log::{Address, PAGE},
    structure::{HashManifest, LogFile},
};

/// Gives all readable records to `visit`: base runs, then delta runs from old to new, then the hot log. `database` is
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
) -> Result<SalvageReport> {
    let mut salvage = Salvage { environment, database, keyspace, findings: SalvageReport::default(), visit };
    match known.is_settled {
        true => salvage.named(known)?,
        false => salvage.all(&known.manifest)?,
    }
    Ok(salvage.findings)
}

struct Salvage<'s, 'v> {
    environment: &'s Environment,
    database: Option<u64>,
    keyspace: u32,
    findings: SalvageReport,
    visit: &'s mut Visit<'v>,
}

impl Salvage<'_, '_> {
    /// Reads the visible records of the files that the known state names.
    fn named(&mut self, known: &Known) -> Result<()> {
        let HashManifest { partitions, deltas, segments, begin, durable, .. } = &known.manifest;
        for part in partitions.iter().map(|partition| partition.part) {
            if let Some(base) = part.base {
                self.run(base.number, Some(base.birth), &[part.hash_range])?;
            }
        }
        for delta in deltas {
            let counts = partitions.iter().filter(|partition| partition.merged_until < delta.until);
            let hash_ranges: Vec<HashRange> = counts.map(|partition| partition.part.hash_range).collect();
            self.run(delta.file.number, Some(delta.file.birth), &hash_ranges)?;
        }
        for segment in segments {
            self.segment(segment, (*begin, *durable), known.has_durable)?;
        }
        Ok(())
    }

    /// Reads all files in the directory, by their own headers. Which of their records are visible is not known for
    /// certain.
    fn all(&mut self, last_known: &HashManifest) -> Result<()> {
        let files = self.environment.storage.list()?;
        let mut runs: Vec<(Age, u32)> = Vec::new();
        let mut segments: Vec<(u64, u32, u64)> = Vec::new();
        let mut begin = last_known.begin;
        for file in files.into_iter().filter(|file| file.keyspace() == Some(self.keyspace)) {
            let Some(said) = self.findings.problems.survive(FirstPage::read(self.environment, file))? else { continue };
            match file {
                FileId::Table { number, .. } => {
                    let (birth, remains) =
                        (said.birth(), RunSalvage::open(self.environment, self.name(number, None, &said), said)?);
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
            self.run(number, None, &[HashRange::ALL])?;
        }
        segments.sort_unstable();
        for (_, number, birth) in segments {
            self.pages(FileRef { number, birth }, begin)?;
        }
        Ok(())
    }

    fn name(&self, number: u32, birth: Option<u64>, said: &FirstPage) -> FileIdentity {
        let (database, birth) = (self.database.unwrap_or(said.database()), birth.unwrap_or(said.birth()));
        FileIdentity { database, keyspace: self.keyspace, number, birth }
    }

    /// Reads the records of a run within some hash ranges.
    fn run(&mut self, number: u32, birth: Option<u64>, hash_ranges: &[HashRange]) -> Result<()> {
        let file = FileId::Table { keyspace: self.keyspace, number };
        let Some(said) = self.findings.problems.survive(FirstPage::read(self.environment, file))? else {
            self.findings.doubtful.add((Vec::new(), None));
            return Ok(());
        };
        let name = self.name(number, birth, &said);
        let mut remains = RunSalvage::open(self.environment, name, said)?;
        remains.problem.iter().for_each(|problem| self.findings.problems.add(problem));
        let hash_of = |key: &[u8]| Key::new(key, name.database).hash;
        let seen = remains.each(hash_ranges, &hash_of, &mut |entry| (self.visit)(entry.key, entry.value))?;
        self.findings.pages += seen.whole + seen.lost;
        self.findings.damaged += seen.lost;
        if let Some(error) = seen.error {
            self.findings.problems.add(format!("{error}; blocks that are lost there: {}", seen.lost));
            self.findings.doubtful.add((Vec::new(), None));
        }
        Ok(())
    }

    /// Reads the pages of a segment from `begin` up to `durable`, which must verify. Pages behind are read as far as
    /// they verify, unless they are known not to count.
    fn segment(&mut self, segment: &LogFile, (begin, durable): (Address, Address), has_durable: bool) -> Result<()> {
        let LogFile { file: FileRef { number, birth }, from, .. } = *segment;
        let name = FileIdentity { database: 0, keyspace: self.keyspace, number, birth };
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
    fn pages(&mut self, FileRef { number, birth }: FileRef, begin: Address) -> Result<()> {
        let name = FileIdentity { database: 0, keyspace: self.keyspace, number, birth };
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

/// Orders two runs that nothing names: the greater one is the newer. A run without a header is taken for the oldest.
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
