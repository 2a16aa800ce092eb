//! Which of two tables is the newer one (decision 7, invariants 12 and 13).

use std::cmp::Ordering;

use ecotone_substrate::Seq;

use crate::lsm::structure::Place;

/// What is known of the age of a table's records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Standing {
    /// Where it is, if root or log tell.
    pub(super) place: Option<Place>,
    /// The smallest and the largest sequence, if its header is whole.
    pub(super) sequences: Option<(Seq, Seq)>,
    pub(super) birth: u64,
}

impl Standing {
    /// Whether this one is the newer one of two (greater), for every key that both have; `None` if nobody knows.
    pub(super) fn certain(&self, other: &Standing) -> Option<Ordering> {
        if let (Some(place), Some(others)) = (self.place, other.place)
            && place != others
        {
            return Some(others.cmp(&place));
        }
        match (self.sequences?, other.sequences?) {
            ((smallest, _), (_, largest)) if smallest > largest => Some(Ordering::Greater),
            ((_, largest), (smallest, _)) if largest < smallest => Some(Ordering::Less),
            _ => None,
        }
    }

    /// The same where it is not certain.
    pub(super) fn likely(&self, other: &Standing) -> Ordering {
        let age =
            |standing: &Standing| (standing.sequences.map(|(smallest, largest)| (largest, smallest)), standing.birth);
        self.certain(other).unwrap_or_else(|| age(self).cmp(&age(other)))
    }

    /// Whether this one may have come in the place of the other one. Then what the other one has, and it has not, may
    /// have been deleted.
    pub(super) fn may_replace(&self, other: &Standing) -> bool {
        let has_all = |((smallest, largest), (others_smallest, others_largest)): ((Seq, Seq), (Seq, Seq))| {
            smallest <= others_smallest && others_largest <= largest
        };
        self.birth > other.birth && self.sequences.zip(other.sequences).is_none_or(has_all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn standing(place: Option<Place>, sequences: (Seq, Seq), birth: u64) -> Standing {
        Standing { place, sequences: Some(sequences), birth }
    }

    #[test]
    fn places_decide_before_sequences() {
        let [upper, lower] =
            [(Place::Level(2), (1, 5)), (Place::Level(1), (1, 900))].map(|(at, told)| standing(Some(at), told, 1));
        assert_eq!((upper.certain(&lower), lower.certain(&upper)), (Some(Ordering::Greater), Some(Ordering::Less)));
    }

    #[test]
    fn without_places_sequences_decide_that_are_apart() {
        let [old, new, both] = [(1, 5), (6, 9), (1, 9)].map(|told| standing(None, told, told.1));
        assert_eq!((new.certain(&old), old.certain(&new)), (Some(Ordering::Greater), Some(Ordering::Less)));
        assert_eq!((both.certain(&old), both.likely(&old)), (None, Ordering::Greater));
        let unknown = Standing { sequences: None, ..both };
        assert_eq!((unknown.certain(&old), unknown.likely(&old)), (None, Ordering::Less));
    }

    #[test]
    fn what_was_made_later_and_spans_all_may_be_in_its_place() {
        let [input, output, older] =
            [((3, 5), 1), ((1, 9), 2), ((1, 9), 0)].map(|(told, birth)| standing(None, told, birth));
        assert!(output.may_replace(&input) && !input.may_replace(&output) && !older.may_replace(&input));
        let unknown = Standing { sequences: None, ..output };
        assert!(unknown.may_replace(&input));
    }
}
