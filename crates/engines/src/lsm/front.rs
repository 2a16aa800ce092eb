//! What the cache in front of all tables says of many keys.

use std::ops::Range;

use super::records::Lsm;
use crate::front::{Front, Look, Ticket};

/// For each key.
#[derive(Debug, Default)]
pub(super) struct Looks {
    values: Vec<u8>,
    /// A value is in this place.
    looks: Vec<(Look, Range<usize>)>,
}

impl Looks {
    /// The value of a key, by its number.
    pub(super) fn value(&self, number: usize) -> Option<&[u8]> {
        let (look, place) = self.looks.get(number)?;
        (*look == Look::Found).then(|| &self.values[place.clone()])
    }

    /// What it takes to offer a value.
    pub(super) fn ticket(&self, number: usize) -> Option<Ticket> {
        match self.looks.get(number)?.0 {
            Look::Found => None,
            Look::Missing(ticket) => Some(ticket),
        }
    }
}

impl Lsm {
    /// The cache.
    pub(super) fn front(&self) -> Option<&dyn Front> {
        self.around.front.as_deref()
    }

    /// Looks for many keys there.
    pub(super) fn look_in_front(&self, keys: &[&[u8]]) -> Looks {
        let Some(front) = self.front() else { return Looks::default() };
        let mut values = Vec::new();
        let look = |key: &&[u8]| {
            let start = values.len();
            (front.look(key, &mut values), start..values.len())
        };
        let looks = keys.iter().map(look).collect();
        Looks { values, looks }
    }
}
