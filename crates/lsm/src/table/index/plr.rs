//! An index by greedy piecewise linear regression: lines map digests to positions, with a bounded error in bytes (L3).

use std::result;

use ecotone_substrate::{
    codec::{Malformed, Reader, Writer},
    limits::PAGE,
    model::{Fitter, GreedyPlr, digest},
    search::partition_near,
    table::Pages,
};

use crate::table::{
    boundaries::Bounds,
    index::{Built, Candidates, IndexKind, Shape},
};

/// Bytes of the header, and of each segment.
const HEAD: usize = 16;
const SEGMENT: usize = 16;
/// An index with a larger error bound, in blocks, is not built.
const MOST_BLOCKS: u64 = 16;

/// A line, from one point on.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Segment {
    digest: u64,
    block: u32,
    /// Bytes per step of the digest.
    slope: f32,
}

impl Segment {
    /// The predicted position of a digest, at most `most`. Building and lookup share this one evaluator. Conversion,
    /// product and sum keep the order of digests.
    #[inline]
    fn position(self, digest: u64, block: usize, most: u64) -> u64 {
        let steps = digest.saturating_sub(self.digest) as f64;
        (u64::from(self.block) * block as u64).saturating_add((steps * f64::from(self.slope)) as u64).min(most)
    }
}

/// The index, if its error bound is small enough.
pub(super) fn build(blocks: &[Bounds], block: usize, error: u32) -> Option<Built> {
    let segments = segments(blocks, block, error.into());
    let errors = errors(blocks, block, &segments);
    let bound = errors.iter().copied().max().unwrap_or(0);
    if bound > MOST_BLOCKS * block as u64 {
        return None;
    }
    // A key between the beginning of its block and the prediction for that beginning is looked for in a neighbour
    // first.
    let missed: u64 = errors.iter().map(|error| (*error).min(block as u64)).sum();
    let in_vain = missed as f64 / (blocks.len() * block) as f64;
    let mut w = Writer::new();
    w.u32(segments.len() as u32).u32(bound as u32).u64(0);
    for segment in segments {
        w.u64(segment.digest).u32(segment.block).u32(segment.slope.to_bits());
    }
    Some(Built::whole(IndexKind::Plr, w.finish(), in_vain))
}

fn segments(blocks: &[Bounds], block: usize, error: u64) -> Vec<Segment> {
    let mut segments: Vec<Segment> = Vec::new();
    let (mut fitter, mut last) = (GreedyPlr::default(), None);
    for (number, bounds) in (0..).zip(blocks) {
        // Blocks with equal digests are one point.
        if last.replace(bounds.first) == Some(bounds.first) {
            continue;
        }
        let position = u64::from(number) * block as u64;
        // As high as the error, so that the first interval's middle is the point itself.
        let begins = segments.is_empty() || !fitter.push(bounds.first, position, position + 2 * error);
        if begins {
            fitter = GreedyPlr::default();
            fitter.push(bounds.first, position, position + 2 * error);
            segments.push(Segment { digest: bounds.first, block: number, slope: 0.0 });
        }
        if let (Some(segment), Some(fit)) = (segments.last_mut(), fitter.fit()) {
            segment.slope = fit.slope.max(0.0) as f32;
        }
    }
    segments
}

/// The error of the lines for each block, in bytes.
fn errors(blocks: &[Bounds], block: usize, segments: &[Segment]) -> Vec<u64> {
    let mut number = 0;
    let errors = (0..).zip(blocks).map(|(at, bounds): (u64, &Bounds)| {
        while segments.get(number + 1).is_some_and(|next| next.digest <= bounds.first) {
            number += 1;
        }
        let most = segments.get(number + 1).map_or(blocks.len() as u64 - 1, |next| next.block.into()) * block as u64;
        segments[number].position(bounds.first, block, most).abs_diff(at * block as u64)
    });
    errors.collect()
}

/// The lines of a table, in memory.
#[derive(Debug)]
pub(super) struct Plr {
    pages: Pages,
    segments: usize,
    bound: u64,
}

impl Plr {
    /// Parses and checks the index of a file.
    pub(super) fn parse(pages: Pages, len: usize, shape: Shape) -> result::Result<Plr, Malformed> {
        let Some(page) = pages.iter().next() else { return Err(Malformed::new(0, "the index has no bytes")) };
        let mut r = Reader::new(page);
        let (segments, bound, reserved) = (r.u32()? as usize, r.u32()?.into(), r.u64()?);
        if segments == 0 || HEAD + segments.saturating_mul(SEGMENT) != len || reserved != 0 {
            return Err(Malformed::new(0, "the index has another number of segments than its bytes say"));
        }
        let plr = Plr { pages, segments, bound };
        plr.check(shape)?;
        Ok(plr)
    }

    fn check(&self, shape: Shape) -> result::Result<(), Malformed> {
        let mut last: Option<Segment> = None;
        for number in 0..self.segments {
            let segment = self.segment(number);
            let follows =
                last.map_or(segment.block == 0, |last| last.digest < segment.digest && last.block < segment.block);
            if !follows || segment.block >= shape.blocks || !(segment.slope.is_finite() && segment.slope >= 0.0) {
                return Err(Malformed::new(
                    HEAD + SEGMENT * number,
                    "a segment does not follow the one before, or falls",
                ));
            }
            last = Some(segment);
        }
        Ok(())
    }

    fn segment(&self, number: usize) -> Segment {
        let at = HEAD + SEGMENT * number;
        let [a, b, c, d, e, f, g, h, rest @ ..] = *self.pages.get::<SEGMENT>(at / PAGE, at % PAGE);
        let [i, j, k, l, m, n, o, p] = rest;
        let digest = u64::from_le_bytes([a, b, c, d, e, f, g, h]);
        Segment {
            digest,
            block: u32::from_le_bytes([i, j, k, l]),
            slope: f32::from_bits(u32::from_le_bytes([m, n, o, p])),
        }
    }

    /// The blocks that can have a key.
    pub(super) fn locate(&self, key: &[u8], shape: Shape) -> Candidates {
        let (digest, block) = (digest(key, shape.skip), shape.block as u64);
        let (low, high) = (self.segment(0).digest, self.segment(self.segments - 1).digest);
        let guess = digest.saturating_sub(low) as f64 / (high - low) as f64 * self.segments as f64;
        let number = partition_near(self.segments, guess as usize, |number| self.segment(number).digest <= digest)
            .saturating_sub(1);
        let next = if number + 1 < self.segments { self.segment(number + 1).block } else { shape.blocks - 1 };
        let position = self.segment(number).position(digest, shape.block, u64::from(next) * block);
        let low = position.saturating_sub(self.bound).div_ceil(block).saturating_sub(1);
        let high = ((position + self.bound) / block).min(u64::from(shape.blocks) - 1);
        Candidates::new((position / block) as u32, low.min(high) as u32, high as u32)
    }
}
