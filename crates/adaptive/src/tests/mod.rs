//! Tests of the adaptive engine, which convert ranges and check all reads against a model.

mod beside;
mod controller;
mod cursors;
mod deletes;
mod failures;
mod fixture;
mod flushes;
mod hints;
mod idle;
mod inserts;
mod ledger;
mod modes;
mod paged_ranges;
mod parts;
mod places;
mod readers;
mod record_cache;
mod root;
mod shapes;
mod sharing;
mod throttle;
