//! Reads the tags of deltas in a hash range, and few others, with many requests in flight.

use std::ops::Range;

use ecotone_substrate::{
    Result,
    environment::Environment,
    limits::PAGE,
    memory::Component,
    storage::{Block, Queue, Reads},
    table::Pages,
};
use ecotone_sys::chunk::Size;

use super::{
    hash_range::HashRange,
    run::Run,
    tags::{Tags, TagsForm},
};

/// Maximum requests in flight.
const IN_FLIGHT: usize = 64;
/// Tags are found by interpolation. Hashes are uniform, so the number of hashes below a given one is known up to a
/// standard deviation of at most half the root of their number. Tags are read from this many deviations before the
/// expected beginning of the hash range to this many behind its expected end.
const DEVIATIONS: u64 = 4;
/// Factor by which the margin grows if that was not enough.
const WIDER: u64 = 4;

/// Pages of one delta that are being read.
#[derive(Debug)]
struct Window<'r> {
    run: &'r Run,
    /// Number of the delta.
    number: usize,
    /// Tags of margin around the hash range.
    margin: u64,
    pages: Range<u64>,
    frames: Vec<Option<Block>>,
}

/// Pages to read for the tags of a delta in a hash range, if these are where they should be.
pub(super) fn pages_of(run: &Run, hash_range: HashRange) -> u64 {
    let pages = Window::new(run, 0, hash_range).pages;
    pages.end - pages.start
}

/// The tags of deltas in a hash range. Some tags outside of it may be among them.
///
/// # Errors
/// If tags are damaged or cannot be read, or there is no memory for them.
pub(super) fn read_tags(environment: &Environment, hash_range: HashRange, runs: &[&Run]) -> Result<Vec<Tags>> {
    let mut windows: Vec<_> =
        runs.iter().enumerate().map(|(number, run)| Window::new(run, number, hash_range)).collect();
    let mut read: Vec<Option<Tags>> = runs.iter().map(|_| None).collect();
    let mut queue = environment.storage.queue()?;
    while !windows.is_empty() {
        fill(environment, &mut *queue, &mut windows)?;
        let mut wider = Vec::new();
        for window in windows {
            let (run, number, margin) = (window.run, window.number, window.margin);
            let tags = window.parse()?;
            if tags.lacks(hash_range, run.tag_count()).contains(&true) {
                wider.push(Window::around(run, number, hash_range, margin.saturating_mul(WIDER)));
            } else {
                read[number] = Some(tags);
            }
        }
        windows = wider;
    }
    Ok(read.into_iter().flatten().collect())
}

/// Reads the pages of all windows.
fn fill(environment: &Environment, queue: &mut dyn Queue, windows: &mut [Window<'_>]) -> Result<()> {
    let wanted: Vec<(usize, u64)> = windows
        .iter()
        .enumerate()
        .flat_map(|(number, window)| window.pages.clone().map(move |page| (number, page)))
        .collect();
    let (mut wanted, mut reads) = (wanted.into_iter(), Reads::<(usize, u64)>::new(queue));
    loop {
        let next = if reads.in_flight() < IN_FLIGHT { wanted.next() } else { None };
        if let Some((number, page)) = next {
            let block = environment.memory.lease_essential(Component::Frames, Size::Frame)?;
            let run = windows[number].run;
            reads.ask((number, page), run.file().clone(), run.tags_at() + page * PAGE as u64, PAGE, block);
        } else if let Some(((number, page), block)) = reads.wait()? {
            let window = &mut windows[number];
            let place = (page - window.pages.start) as usize;
            window.frames[place] = Some(block);
        } else {
            return Ok(());
        }
    }
}

impl Run {
    /// Reads all tags of a delta.
    ///
    /// # Errors
    /// If they are damaged or cannot be read, or there is no memory for them.
    pub fn tags(&self, environment: &Environment) -> Result<Tags> {
        Ok(read_tags(environment, HashRange::ALL, &[self])?.pop().unwrap_or_default())
    }
}

impl<'r> Window<'r> {
    fn new(run: &'r Run, number: usize, hash_range: HashRange) -> Window<'r> {
        Window::around(run, number, hash_range, DEVIATIONS * (run.tag_count().isqrt() / 2 + 1))
    }

    fn around(run: &'r Run, number: usize, hash_range: HashRange, margin: u64) -> Window<'r> {
        let (count, form) = (run.tag_count(), run.tags_form());
        let below = |hash: u64| ((u128::from(hash) * u128::from(count)) >> u64::BITS) as u64;
        let first = below(*hash_range.hashes().start()).saturating_sub(margin);
        let end = below(*hash_range.hashes().end()).saturating_add(1).saturating_add(margin).min(count);
        let pages = match form {
            // The tags have a single checksum, so all of them have to be read.
            TagsForm::Whole(_) => 0..form.pages(count),
            TagsForm::Paged => first / form.in_page()..form.pages(end),
        };
        let frames = pages.clone().map(|_| None).collect();
        Window { run, number, margin, pages, frames }
    }

    /// Parses the pages that were read.
    fn parse(self) -> Result<Tags> {
        let (run, form, first) = (self.run, self.run.tags_form(), self.pages.start);
        let frames: Vec<Block> = self.frames.into_iter().flatten().collect();
        let pages = match form {
            TagsForm::Whole(checksum) => Pages::checked(frames, run.file(), run.tags_at(), checksum)?,
            TagsForm::Paged => {
                let damaged = (first..).zip(&frames).find(|(page, frame)| !run.tag_pages().is_whole(*page, frame));
                if let Some((page, _)) = damaged {
                    return Err(run.damaged_tags(page, "the checksum of a page of tags does not match"));
                }
                Pages::in_frames(frames)
            }
        };
        let tags = Tags::parse(pages, form, first, run.tag_count());
        tags.map_err(|malformed| malformed.at(run.name().file(), run.tags_at() + first * PAGE as u64))
    }
}
