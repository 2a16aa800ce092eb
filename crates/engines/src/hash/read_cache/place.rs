//! Where a copy is: a word of one of the two queues, as the links of entries and copies name it.

use crate::hash::log::Link;

/// The two queues of S3-FIFO.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    /// For what was read once.
    Small,
    /// For what is read again and again.
    Main,
}

impl Part {
    pub(super) const BOTH: [Part; 2] = [Part::Small, Part::Main];
}

/// Where a copy is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) part: Part,
    /// Modulo [`Place::WORDS`].
    pub(super) word: u64,
}

impl Place {
    /// Words of a queue that places tell apart: 4 TiB, of which it has the last few hundred MiB.
    pub(super) const WORDS: u64 = 1 << 39;

    /// The place at a word of a queue.
    pub(super) fn new(part: Part, word: u64) -> Place {
        Place { part, word: word % Self::WORDS }
    }

    /// The place that a link names, if it names a copy.
    #[inline]
    pub(super) fn of(link: Link) -> Option<Place> {
        let bits = link.copy()?;
        let part = if bits < Self::WORDS { Part::Small } else { Part::Main };
        Some(Place::new(part, bits))
    }

    /// The link that names it.
    pub(super) fn link(self) -> Link {
        let part = if self.part == Part::Main { Self::WORDS } else { 0 };
        Link::to_copy(part | self.word)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_to_a_copy_names_its_place() {
        for part in Part::BOTH {
            for word in [0, 1, Place::WORDS - 1] {
                let place = Place::new(part, word);
                assert_eq!(Place::of(place.link()), Some(place));
                assert_eq!(Place::new(part, word + 5 * Place::WORDS), place);
            }
        }
        assert_eq!(Place::of(Link::NONE), None);
    }
}
