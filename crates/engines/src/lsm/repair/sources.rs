//! The tables of a keyspace as sources of a merge: each is open while the merge is within its range.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet, BinaryHeap},
};

use ecotone_substrate::{Result, environment::Environment, storage::FileId, table::File};

use super::{layout::Placed, standing::Standing};
use crate::{
    lsm::table::{Outline, Remains, Step},
    repair::{Findings, KeyRange},
};

/// A table that is read.
#[derive(Debug)]
pub(super) struct Table {
    pub(super) standing: Standing,
    remains: Remains,
    /// What cannot be read of it, and comes next.
    lost: Option<KeyRange>,
}

/// What comes next.
#[derive(Debug)]
pub(super) enum Head {
    /// A table may have had records of these keys.
    Lost(KeyRange),
    /// Tables have this key.
    Key(Vec<u8>),
}

/// All tables.
#[derive(Debug)]
pub(super) struct Sources {
    environment: Environment,
    /// Those that the merge has not come to; the one that begins last is the first.
    ahead: Vec<(Outline, Standing)>,
    open: BTreeMap<usize, Table>,
    opened: usize,
    /// Where each open table is: a key, whether it has a record of it, its number.
    heads: BinaryHeap<Reverse<(Vec<u8>, bool, usize)>>,
}

impl Table {
    /// The value of the present key; `None` for a tombstone.
    pub(super) fn value(&self) -> Option<&[u8]> {
        self.remains.value()
    }
}

impl Sources {
    /// Reads all headers. What is missing, or cannot be read at all, is told.
    pub(super) fn open(
        environment: &Environment,
        database: Option<u64>,
        keyspace: u32,
        placed: &Placed,
        findings: &mut Findings,
    ) -> Result<Sources> {
        let survey = Survey { environment, database, keyspace, placed };
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
        Ok(Sources {
            environment: environment.clone(),
            ahead,
            open: BTreeMap::new(),
            opened: 0,
            heads: BinaryHeap::new(),
        })
    }

    /// What comes next, if it is not above a key. What is lost is given once.
    pub(super) fn peek(&mut self, key: Option<&[u8]>, findings: &mut Findings) -> Result<Option<Head>> {
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

    /// Takes the tables that have a key, which comes next.
    pub(super) fn take(&mut self, key: &[u8]) -> BTreeSet<usize> {
        let mut group = BTreeSet::new();
        while self.heads.peek().is_some_and(|Reverse((next, is_record, _))| *is_record && next == key) {
            group.extend(self.heads.pop().map(|Reverse((_, _, number))| number));
        }
        group
    }

    /// One that was taken.
    pub(super) fn tables<'s>(&'s self, group: &'s BTreeSet<usize>) -> impl Iterator<Item = &'s Table> {
        group.iter().filter_map(|number| self.open.get(number))
    }

    /// Those that have not the key of a group, and have keys below and above it.
    pub(super) fn lacking<'s>(&'s self, group: &'s BTreeSet<usize>) -> impl Iterator<Item = &'s Table> {
        self.open.iter().filter(|(number, _)| !group.contains(number)).map(|(_, table)| table)
    }

    /// Has the tables of a group go on.
    pub(super) fn advance(&mut self, group: &BTreeSet<usize>, findings: &mut Findings) {
        group.iter().for_each(|number| self.step(*number, findings));
    }

    fn enter(&mut self, outline: Outline, standing: Standing, findings: &mut Findings) -> Result<()> {
        let remains = Remains::open(&self.environment, outline)?;
        self.open.insert(self.opened, Table { standing, remains, lost: None });
        self.opened += 1;
        self.step(self.opened - 1, findings);
        Ok(())
    }

    fn step(&mut self, number: usize, findings: &mut Findings) {
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

/// A look at the tables that there are.
struct Survey<'s> {
    environment: &'s Environment,
    database: Option<u64>,
    keyspace: u32,
    placed: &'s Placed,
}

impl Survey<'_> {
    /// The numbers of the tables that are needed, with their births if these are known. Where nobody knows which are
    /// needed, all files are.
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

    /// A table and its age; `None` if it is known not to count.
    fn table(&self, number: u32, birth: Option<u64>) -> Result<Option<(Outline, Standing)>> {
        let read = |birth| Outline::read(self.environment, (self.keyspace, number), self.database, birth);
        let mut outline = read(birth)?;
        if outline.header.is_none() && birth.is_some() && !self.placed.is_settled {
            // The number may be that of a later table, of which the log does not tell.
            let later = read(None)?;
            outline = if later.header.is_some() { later } else { outline };
        }
        let file = File { number, birth: outline.name.birth };
        let standing = Standing {
            place: self.placed.places.get(&file).copied(),
            sequences: outline.header.as_ref().map(|told| told.sequences),
            birth: file.birth,
        };
        Ok((!self.placed.gone.contains(&file)).then_some((outline, standing)))
    }
}
