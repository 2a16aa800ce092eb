//! Memory that a decoder may take: a multiple of its input, never what a length in the input says.

use std::alloc::System;

use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

#[global_allocator]
static COUNTED: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const TIMES: usize = 16;
const BASE: usize = 1 << 20;

/// Runs `decode` on an input of `length` bytes.
///
/// # Panics
/// If it allocates more than 16 times the input and 1 MiB, freed or not.
pub fn bounded<T>(length: usize, decode: impl FnOnce() -> T) -> T {
    let region = Region::new(COUNTED);
    let decoded = decode();
    let bytes = region.change().bytes_allocated;
    assert!(bytes <= TIMES * length + BASE, "{bytes} bytes were allocated for an input of {length}");
    decoded
}
