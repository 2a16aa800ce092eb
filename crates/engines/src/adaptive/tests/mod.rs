//! Keyspaces of which tests cover ranges.

mod beside;
mod covers;
mod cursors;
mod deletes;
mod failures;
mod flushes;
mod front;
mod idle;
mod inserts;
mod ledger;
mod modes;
mod parts;
mod places;
mod rate;
mod readers;
mod root;
mod shapes;
mod sharing;
mod upkeep;
mod world;
