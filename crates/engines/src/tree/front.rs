//! The record cache in front of what a keyspace has elsewhere too, of which nothing is dirty here (decision 15,
//! invariant 9).

use std::sync::Arc;

use ecotone_substrate::Result;

use super::{
    Tree, TreeFamily,
    cache::{self, Cache, Found, Purpose, Space},
};
use crate::{
    engine::{Shared, Stats},
    front::{Front, Fronts, Look, Ticket},
};

/// The part of one keyspace.
#[derive(Debug)]
struct Part {
    cache: Arc<Cache>,
    /// Of the keyspace within the cache.
    number: u16,
    /// Whether it keeps anything.
    keeps: bool,
}

/// The part of a keyspace that has this number in a cache.
pub(crate) fn part(cache: &Arc<Cache>, number: u16, keeps: bool) -> Arc<dyn Front> {
    Arc::new(Part { cache: cache.clone(), number, keeps })
}

impl Front for Part {
    fn look(&self, key: &[u8], value: &mut Vec<u8>) -> Look {
        match self.cache.get(self.number, key, Purpose::Read, |found| value.extend_from_slice(found)) {
            Found::Value(()) => Look::Found,
            Found::Missing(ticket) => Look::Missing(Ticket(ticket.words())),
            Found::Tombstone => unreachable!("nobody writes to the cache of such a keyspace"),
        }
    }

    fn admit(&self, key: &[u8], value: &[u8], Ticket(words): Ticket) {
        if self.keeps {
            self.cache.admit_clean(self.number, key, value, &cache::Ticket::of(words));
        }
    }

    fn refresh(&self, key: &[u8], value: Option<&[u8]>) {
        self.cache.refresh(self.number, key, value);
    }

    fn forget(&self) {
        self.cache.forget_keyspace(Space { number: self.number, logged: true });
    }

    fn stats(&self) -> Stats {
        self.cache.stats()
    }
}

impl Tree {
    /// The cache of its records, where these come from elsewhere.
    pub(crate) fn front(&self) -> Arc<dyn Front> {
        part(&self.cache, self.number, self.options.record_cache)
    }
}

impl Fronts for TreeFamily {
    fn front(&self, shared: &Shared) -> Result<Arc<dyn Front>> {
        let (cache, number) = self.part_of_cache(shared)?;
        Ok(part(&cache, number, true))
    }
}
