//! A keyspace with ranges, or one without.

use ecotone::{HashKeyspace, Keyspace};

/// A keyspace of either kind.
pub(crate) enum Either {
    Ordered(Keyspace),
    Hashed(HashKeyspace),
}

/// The same call on either kind.
macro_rules! either {
    ($either:expr, $keyspace:ident => $call:expr) => {
        match $either {
            Either::Ordered($keyspace) => $call,
            Either::Hashed($keyspace) => $call,
        }
    };
}

pub(crate) use either;
