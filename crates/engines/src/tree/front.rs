//! The record cache in front of what an adaptive keyspace has elsewhere too, of which nothing is dirty here (decision 15, invariant 9).

use super::{
    Tree,
    cache::{Found, Purpose, Ticket},
};

impl Tree {
    /// Looks for a key in the cache alone, whose value is appended to `value`; or gives the ticket of the miss.
    pub(crate) fn look_in_cache(&self, key: &[u8], value: &mut Vec<u8>) -> Option<Ticket> {
        match self.cache.get(self.number, key, Purpose::Read, |found| value.extend_from_slice(found)) {
            Found::Value(()) => None,
            Found::Missing(ticket) => Some(ticket),
            Found::Tombstone => unreachable!("nobody writes to the cache of such a keyspace"),
        }
    }

    /// A record of the keyspace is about to be replaced by this one, or to go.
    pub(crate) fn refresh_cache(&self, key: &[u8], value: Option<&[u8]>) {
        self.cache.refresh(self.number, key, value);
    }
}
