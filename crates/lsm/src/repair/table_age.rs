//! The relative age of two tables (repair.md, invariants 12 and 13). A run decides first, then sequences, then birth.

use std::cmp::Ordering;

use ecotone_substrate::Seq;

use crate::manifest::RunId;

/// The known facts about the age of a table's records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TableAge {
    /// Its run, if the checkpoint or the log says it.
    pub(super) run_id: Option<RunId>,
    /// The smallest and the largest sequence, if the header is readable.
    pub(super) sequences: Option<(Seq, Seq)>,
    pub(super) birth: u64,
}

impl TableAge {
    /// Compares the age of two tables: greater if this one is newer for every key that both have; `None` if that is
    /// unknown.
    pub(super) fn certain(&self, other: &TableAge) -> Option<Ordering> {
        if let (Some(run_id), Some(others)) = (self.run_id, other.run_id)
            && run_id != others
        {
            return Some(others.cmp(&run_id));
        }
        match (self.sequences?, other.sequences?) {
            ((smallest, _), (_, largest)) if smallest > largest => Some(Ordering::Greater),
            ((_, largest), (smallest, _)) if largest < smallest => Some(Ordering::Less),
            _ => None,
        }
    }

    /// The likely order: [`certain`](Self::certain) if known, otherwise by sequences and birth.
    pub(super) fn likely(&self, other: &TableAge) -> Ordering {
        let age =
            |standing: &TableAge| (standing.sequences.map(|(smallest, largest)| (largest, smallest)), standing.birth);
        self.certain(other).unwrap_or_else(|| age(self).cmp(&age(other)))
    }

    /// Whether this table may have replaced the other one in a compaction. Then a key that only the other one has may
    /// have been deleted.
    pub(super) fn may_replace(&self, other: &TableAge) -> bool {
        let has_all = |((smallest, largest), (others_smallest, others_largest)): ((Seq, Seq), (Seq, Seq))| {
            smallest <= others_smallest && others_largest <= largest
        };
        self.birth > other.birth && self.sequences.zip(other.sequences).is_none_or(has_all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn standing(run_id: Option<RunId>, sequences: (Seq, Seq), birth: u64) -> TableAge {
        TableAge { run_id, sequences: Some(sequences), birth }
    }

    #[test]
    fn places_decide_before_sequences() {
        let [upper, lower] =
            [(RunId::at_depth(2), (1, 5)), (RunId::LAST, (1, 900))].map(|(at, told)| standing(Some(at), told, 1));
        assert_eq!((upper.certain(&lower), lower.certain(&upper)), (Some(Ordering::Greater), Some(Ordering::Less)));
    }

    #[test]
    fn without_places_sequences_decide_that_are_apart() {
        let [old, new, both] = [(1, 5), (6, 9), (1, 9)].map(|told| standing(None, told, told.1));
        assert_eq!((new.certain(&old), old.certain(&new)), (Some(Ordering::Greater), Some(Ordering::Less)));
        assert_eq!((both.certain(&old), both.likely(&old)), (None, Ordering::Greater));
        let unknown = TableAge { sequences: None, ..both };
        assert_eq!((unknown.certain(&old), unknown.likely(&old)), (None, Ordering::Less));
    }

    #[test]
    fn what_was_made_later_and_spans_all_may_be_in_its_place() {
        let [input, output, older] =
            [((3, 5), 1), ((1, 9), 2), ((1, 9), 0)].map(|(told, birth)| standing(None, told, birth));
        assert!(output.may_replace(&input) && !input.may_replace(&output) && !older.may_replace(&input));
        let unknown = TableAge { sequences: None, ..output };
        assert!(unknown.may_replace(&input));
    }
}
