//! Tests of trees whose records are ingested, as by the adaptive engine.

mod arrivals;
mod cached_pages;
mod clear_range;
mod fill;
mod fixture;
mod ingest;
mod lines;
