//! The key-value stores under test. Each has a file of its own, behind the contract of all.

#[cfg(feature = "bf-tree")]
mod bf_tree;
mod contract;
mod database;
mod f2_cold;
mod fault;
#[cfg(feature = "fjall")]
mod fjall;
#[cfg(any(feature = "lmdb", feature = "redb", feature = "fjall", feature = "sled"))]
mod group;
mod hash;
#[cfg(feature = "lmdb")]
mod lmdb;
mod map;
mod null;
mod ordered;
mod quiet;
#[cfg(feature = "redb")]
mod redb;
#[cfg(feature = "rocksdb")]
mod rocksdb;
#[cfg(feature = "sled")]
mod sled;
#[cfg(any(feature = "rocksdb", feature = "fjall", feature = "bf-tree"))]
mod stripes;
#[cfg(test)]
mod tests;
#[cfg(any(feature = "lmdb", feature = "redb"))]
mod write;

use std::fmt;

use ecotone::Engine;

pub(crate) use self::contract::{End, Options, Stats, Store, TABLE_CACHE};
use self::{f2_cold::F2Cold, hash::Hash, map::Map, null::Null, ordered::Ordered};
use crate::{error::Result, row::StoreKind};

/// Opens a store, or creates it. The error is [`Unavailable`] for a store that was not built in.
pub(crate) fn open(kind: StoreKind, options: &Options<'_>) -> Result<Box<dyn Store>> {
    let open = opener(kind).ok_or(Unavailable(kind))?;
    match options.settings.first() {
        Some((name, _)) if !kind.is_ours() && kind != StoreKind::Null => {
            Err(format!("{kind} takes no --set, and {name} is set").into())
        }
        _ => open(options),
    }
}

/// Opens a store of one kind.
pub(crate) type Opener = fn(&Options<'_>) -> Result<Box<dyn Store>>;

/// The opener for this kind, if it was built in.
pub(crate) fn opener(kind: StoreKind) -> Option<Opener> {
    match kind {
        StoreKind::Tree => Some(|options| Ok(Box::new(Ordered::open(Engine::Tree, options)?))),
        StoreKind::Hash => Some(|options| Ok(Box::new(Hash::open(options)?))),
        StoreKind::Lsm => Some(|options| Ok(Box::new(Ordered::open(Engine::Lsm, options)?))),
        StoreKind::Adaptive => Some(|options| Ok(Box::new(Ordered::open(Engine::Adaptive, options)?))),
        StoreKind::Map => Some(|options| Ok(Box::new(Map::open(options)?))),
        StoreKind::F2Cold => Some(|options| Ok(Box::new(F2Cold::open(options)?))),
        StoreKind::Null => Some(|options| Ok(Box::new(Null::open(options)?))),
        #[cfg(feature = "rocksdb")]
        StoreKind::Rocksdb => Some(self::rocksdb::open),
        #[cfg(feature = "lmdb")]
        StoreKind::Lmdb => Some(self::lmdb::open),
        #[cfg(feature = "redb")]
        StoreKind::Redb => Some(self::redb::open),
        #[cfg(feature = "fjall")]
        StoreKind::Fjall => Some(self::fjall::open),
        #[cfg(feature = "sled")]
        StoreKind::Sled => Some(self::sled::open),
        #[cfg(feature = "bf-tree")]
        StoreKind::BfTree => Some(self::bf_tree::open),
        #[allow(unreachable_patterns, reason = "with all features there is no other kind")]
        _ => None,
    }
}

/// The error for a store that was not built in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Unavailable(pub(crate) StoreKind);

impl fmt::Display for Unavailable {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = self.0;
        write!(formatter, "this benchmark was built without {kind}: build it with --features {kind}")
    }
}

impl std::error::Error for Unavailable {}
