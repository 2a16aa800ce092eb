//! A merge over the tables of a keyspace. A table is open only while the merge is within its key range.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet, BinaryHeap},
};

use ecotone_engine::repair::{KeyRange, SalvageReport};
use ecotone_substrate::{Result, environment::Environment, storage::FileId, table::FileRef};

use crate::{
    repair::{layout::TablePlacement, table_age::TableAge},
    table::{SalvageHeader, SalvageReader, Step},
};

/// An open table.
#[derive(Debug)]
pub(super) struct Table {
    pub(super) standing: TableAge,
    remains: SalvageReader,
    /// The lost range that comes next, if one does.
    lost: Option<KeyRange>,
}

/// The next item of the merge.
#[derive(Debug)]
pub(super) enum Head {
    /// A table may have lost records in this range.
    Lost(KeyRange),
    /// Tables have this key.
    Key(Vec<u8>),
}

/// The merge over all tables.
#[derive(Debug)]
pub(super) struct SalvageMerge {
    environment: Environment,
    /// Tables that the merge has not reached, by first key in descending order.
    ahead: Vec<(SalvageHeader, TableAge)>,
    open: BTreeMap<usize, Table>,
    opened: usize,
    /// The position of each open table: a key, whether the table has a record of the key (otherwise a lost range begins
    /// there), the table's number.
    heads: BinaryHeap<Reverse<(Vec<u8>, bool, usize)>>,
}

impl Table {
    /// The value of the present key; `None` for a tombstone.
    pub(super) fn value(&self) -> Option<&[u8]> {
        self.remains.value()
    }
}

impl SalvageMerge {
    /// Reads all headers. Missing and unreadable tables go to `findings`.
    pub(super) fn open(
        environment: &Environment,
        database: Option<u64>,
        keyspace: u32,
        placed: &TablePlacement,
        findings: &mut SalvageReport,
    ) -> Result<SalvageMerge> {
        let survey = TableList { environment, database, keyspace, placed };
        let mut ahead = Vec::new();
        for (number, birth) in survey.wanted()? {
            match findings.problems.survive(survey.table(number, birth))? {
                Some(Some((outline, standing))) => {
                    outline.problem.iter().for_each(|problem| findings.problems.add(problem));
                    ahead.push((outline, standing));
                }
                Some(None) => {}
                None => findings.doubtful.add((Vec::new(), None)),
            }
        }
        ahead.sort_by(|(a, _), (b, _)| b.first().cmp(a.first()));
        Ok(SalvageMerge {
            environment: environment.clone(),
            ahead,
            open: BTreeMap::new(),
            opened: 0,
            heads: BinaryHeap::new(),
        })
    }

    /// The next item, if it is not above a key. A lost range is given once.
    pub(super) fn peek(&mut self, key: Option<&[u8]>, findings: &mut SalvageReport) -> Result<Option<Head>> {
        while self
            .ahead
            .last()
            .is_some_and(|(outline, _)| self.heads.peek().is_none_or(|Reverse(head)| outline.first() <= &head.0))
        {
            let Some((outline, standing)) = self.ahead.pop() else { break };
            self.enter(outline, standing, findings)?;
        }
        let Some(Reverse((next, is_record, number))) = self.heads.peek() else { return Ok(None) };
        if key.is_some_and(|key| key < next.as_slice()) {
            return Ok(None);
        }
        if *is_record {
            return Ok(Some(Head::Key(next.clone())));
        }
        let number = *number;
        self.heads.pop();
        let range = self.open.get_mut(&number).and_then(|table| table.lost.take()).unwrap_or_default();
        self.step(number, findings);
        Ok(Some(Head::Lost(range)))
    }

    /// Takes the tables that have the next key.
    pub(super) fn take(&mut self, key: &[u8]) -> BTreeSet<usize> {
        let mut group = BTreeSet::new();
        while self.heads.peek().is_some_and(|Reverse((next, is_record, _))| *is_record && next == key) {
            group.extend(self.heads.pop().map(|Reverse((_, _, number))| number));
        }
        group
    }

    /// The tables of a group.
    pub(super) fn tables<'s>(&'s self, group: &'s BTreeSet<usize>) -> impl Iterator<Item = &'s Table> {
        group.iter().filter_map(|number| self.open.get(number))
    }

    /// The open tables outside a group: they lack the group's key, and have keys below and above it.
    pub(super) fn lacking<'s>(&'s self, group: &'s BTreeSet<usize>) -> impl Iterator<Item = &'s Table> {
        self.open.iter().filter(|(number, _)| !group.contains(number)).map(|(_, table)| table)
    }

    /// Advances the tables of a group.
    pub(super) fn advance(&mut self, group: &BTreeSet<usize>, findings: &mut SalvageReport) {
        group.iter().for_each(|number| self.step(*number, findings));
    }

    fn enter(&mut self, outline: SalvageHeader, standing: TableAge, findings: &mut SalvageReport) -> Result<()> {
        let remains = SalvageReader::open(&self.environment, outline)?;
        self.open.insert(self.opened, Table { standing, remains, lost: None });
        self.opened += 1;
        self.step(self.opened - 1, findings);
        Ok(())
    }

    fn step(&mut self, number: usize, findings: &mut SalvageReport) {
        let Some(table) = self.open.get_mut(&number) else { return };
        match table.remains.advance() {
            Step::Record => self.heads.push(Reverse((table.remains.key().to_vec(), true, number))),
            Step::Lost { range, blocks, error } => {
                findings.damaged += u64::from(blocks);
                findings.problems.add(format!("{error}; blocks that are lost there: {blocks}"));
                self.heads.push(Reverse((range.0.clone(), false, number)));
                table.lost = Some(range);
            }
            Step::End => {
                findings.pages += table.remains.whole;
                self.open.remove(&number);
            }
        }
    }
}

/// The list of the tables to read.
struct TableList<'s> {
    environment: &'s Environment,
    database: Option<u64>,
    keyspace: u32,
    placed: &'s TablePlacement,
}

impl TableList<'_> {
    /// The numbers of the needed tables, with their births if these are known. If the layout is not settled, all table
    /// files of the keyspace are needed.
    fn wanted(&self) -> Result<BTreeMap<u32, Option<u64>>> {
        let mut wanted: BTreeMap<u32, Option<u64>> = BTreeMap::new();
        if !self.placed.is_settled {
            let number = |file| {
                if let FileId::Table { keyspace, number } = file {
                    (keyspace == self.keyspace).then_some(number)
                } else {
                    None
                }
            };
            wanted.extend(self.environment.storage.list()?.into_iter().filter_map(number).map(|number| (number, None)));
        }
        wanted.extend(self.placed.places.keys().map(|file| (file.number, Some(file.birth))));
        Ok(wanted)
    }

    /// A table and its age; `None` if it is known to be obsolete.
    fn table(&self, number: u32, birth: Option<u64>) -> Result<Option<(SalvageHeader, TableAge)>> {
        let read = |birth| SalvageHeader::read(self.environment, (self.keyspace, number), self.database, birth);
        let mut outline = read(birth)?;
        if outline.header.is_none() && birth.is_some() && !self.placed.is_settled {
            // A later table may have taken the number, without a record in the log.
            let later = read(None)?;
            outline = if later.header.is_some() { later } else { outline };
        }
        let file = FileRef { number, birth: outline.name.birth };
        let standing = TableAge {
            run_id: self.placed.places.get(&file).copied(),
            sequences: outline.header.as_ref().map(|told| told.sequences),
            birth: file.birth,
        };
        Ok((!self.placed.gone.contains(&file)).then_some((outline, standing)))
    }
}
