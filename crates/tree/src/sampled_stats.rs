//! Sampled statistics of a tree: its segments by kind and size, and how full a sample of its pages is.

use std::collections::BTreeMap;

use ecotone_engine::contract::{SampledStats, SegmentCount, SegmentPlacement};
use ecotone_substrate::{Result, limits::PAGE, memory::Component, page::Page};

use super::{
    index::{Placement, Segment},
    page_allocator::IoPurpose,
    store::Store,
};

/// Pages of the sample.
const SAMPLE: u64 = 256;
/// Pages of the sample that are read at once.
const WINDOW: usize = 32;

/// Walks over the index, and reads pages that are spread evenly over the key space.
pub(crate) fn sample(store: &Store) -> Result<SampledStats> {
    let mut survey = SampledStats::default();
    let mut kinds: BTreeMap<(SegmentPlacement, u8), u64> = BTreeMap::new();
    let snapshot = store.index.snapshot();
    for (_, segment) in snapshot.ascend(&[]) {
        *kinds.entry(kind(&segment)).or_default() += 1;
        survey.pages += segment.all_pages().count() as u64;
    }
    let count = |((placement, pages), segments)| SegmentCount { placement, pages, segments };
    survey.segments = kinds.into_iter().map(count).collect();
    let step = survey.pages.div_ceil(SAMPLE).max(1) as usize;
    let pages = snapshot.ascend(&[]).flat_map(|(_, segment)| segment.all_pages().collect::<Vec<_>>());
    let sample: Vec<u32> = pages.skip(step / 2).step_by(step).collect();
    sample.chunks(WINDOW).try_for_each(|pages| look_at(store, pages, &mut survey))?;
    Ok(survey)
}

fn look_at(store: &Store, pages: &[u32], survey: &mut SampledStats) -> Result<()> {
    let mut blocks = store.file.read_pages(pages, Component::Frames, IoPurpose::Check)?;
    for (&number, block) in pages.iter().zip(&mut blocks) {
        store.amend(number, block);
        // A page that is being written, or was replaced since the walk, is left out.
        if let Ok(page) = store.parse(block, number) {
            count(&page, survey);
        }
    }
    Ok(())
}

fn count(page: &Page<'_>, survey: &mut SampledStats) {
    survey.sampled_pages += 1;
    survey.sampled_fill_bytes += (PAGE - page.room()) as u64;
    for entry in page.iter() {
        survey.sampled_records += 1;
        survey.sampled_record_bytes += (page.prefix().len() + entry.suffix.len() + entry.value.len()) as u64;
    }
}

/// How a segment places its keys, and its number of base pages.
fn kind(segment: &Segment) -> (SegmentPlacement, u8) {
    let kind = match segment.placement {
        Placement::Single => SegmentPlacement::Single,
        Placement::Line { .. } => SegmentPlacement::Line,
        Placement::Directory { .. } => SegmentPlacement::Directory,
    };
    (kind, segment.base_count())
}
