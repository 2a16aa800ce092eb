//! A summary of a page that stays in memory. With it a search touches few cache lines: neither the header nor the
//! fences, and only the slots near the result.

use super::{
    layout::{HEADER, PageKind, SLOT, head},
    read::{Page, slot_head},
};
use crate::limits::PAGE;

/// Number of sampled slot heads: one cache line.
const SAMPLES: usize = 16;

/// The checked header of a page, and the heads of slots at regular steps.
#[derive(Debug, Clone)]
pub struct Resident {
    /// The heads of the slots 0, `step`, 2 * `step` and so on. Behind the last slot the largest possible head.
    heads: [u32; SAMPLES],
    step: u16,
    count: u16,
    heap: u16,
    lower: u16,
    upper: Option<u16>,
    prefix: u16,
    kind: PageKind,
    related: u32,
    sequence: u64,
}

impl Resident {
    /// Summarizes `page`.
    pub fn new(page: &Page<'_>) -> Self {
        let step = page.len().div_ceil(SAMPLES).max(1);
        let sample = |i: usize| page.slots.get(i * step).map_or(u32::MAX, slot_head);
        let length = |bytes: usize| u16::try_from(bytes).expect("lengths in a page have 16 bits");
        Resident {
            heads: std::array::from_fn(sample),
            step: length(step),
            count: length(page.len()),
            heap: length(page.heap),
            lower: length(page.lower().len()),
            upper: page.upper().map(|upper| length(upper.len())),
            prefix: length(page.prefix().len()),
            kind: page.kind(),
            related: page.related(),
            sequence: page.sequence(),
        }
    }

    /// The page of the same bytes.
    ///
    /// # Panics
    /// If `bytes` is no page.
    pub fn page<'a>(&self, bytes: &'a [u8]) -> Page<'a> {
        let bytes: &[u8; PAGE] = bytes.try_into().expect("the bytes of a page");
        let [lower, prefix, heap] = [self.lower, self.prefix, self.heap].map(usize::from);
        let fences = &bytes[PAGE - lower - usize::from(self.upper.unwrap_or(0))..];
        let upper = self.upper.map(|_| &fences[lower..]);
        let slots = bytes[HEADER..HEADER + usize::from(self.count) * SLOT].as_chunks().0;
        let Resident { kind, sequence, related, .. } = *self;
        Page { bytes, slots, heap, kind, sequence, related, lower: &fences[..lower], upper, prefix: &fences[..prefix] }
    }

    /// Like [`Page::search`], for a key that the page covers.
    pub fn search(&self, bytes: &[u8], key: &[u8]) -> Result<usize, usize> {
        let page = self.page(bytes);
        debug_assert!(page.covers(key), "the key lies within the fences, so it has the prefix");
        let suffix = key.get(usize::from(self.prefix)..).unwrap_or_default();
        let wanted = head(suffix);
        let below = self.heads.iter().filter(|head| **head < wanted).count();
        let end = (below * usize::from(self.step)).min(page.len());
        // The slot of the last sample below `wanted` is itself below `wanted`.
        let start = (below.saturating_sub(1) * usize::from(self.step)).min(end);
        let near = page.slots.get(start..end).unwrap_or_default();
        page.search_behind(start + near.partition_point(|slot| slot_head(slot) < wanted), wanted, suffix)
    }
}
