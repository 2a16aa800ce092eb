//! Reading the tags that deltas have of a stretch, and few others, with many requests in flight.

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
    run::Run,
    stretch::Stretch,
    tags::{Tags, TagsForm},
};

/// Requests in flight at a time.
const IN_FLIGHT: usize = 64;
/// Hashes are uniform, so the number of those below one that is given is known but for its deviation, the root of their
/// number by two at most. Tags are read from so many deviations before the place where those of a stretch should begin,
/// and up to so many behind the one where they should end.
const DEVIATIONS: u64 = 4;
/// How many times as far one looks around if that was not enough.
const WIDER: u64 = 4;

/// Pages of one delta on their way.
#[derive(Debug)]
struct Window<'r> {
    run: &'r Run,
    /// Which of the deltas it is.
    number: usize,
    /// Tags around those of the stretch.
    margin: u64,
    pages: Range<u64>,
    frames: Vec<Option<Block>>,
}

/// How many pages are read for the tags that a delta has of a stretch, if these are where they should be.
pub(super) fn pages_of(run: &Run, stretch: Stretch) -> u64 {
    let pages = Window::new(run, 0, stretch).pages;
    pages.end - pages.start
}

/// The tags that deltas have of a stretch. Some of others may be among them.
///
/// # Errors
/// If tags are damaged or cannot be read, or there is no memory for them.
pub(super) fn read_tags(environment: &Environment, stretch: Stretch, runs: &[&Run]) -> Result<Vec<Tags>> {
    let mut windows: Vec<_> = runs.iter().enumerate().map(|(number, run)| Window::new(run, number, stretch)).collect();
    let mut read: Vec<Option<Tags>> = runs.iter().map(|_| None).collect();
    let mut queue = environment.storage.queue()?;
    while !windows.is_empty() {
        fill(environment, &mut *queue, &mut windows)?;
        let mut wider = Vec::new();
        for window in windows {
            let (run, number, margin) = (window.run, window.number, window.margin);
            let tags = window.parse()?;
            if tags.lacks(stretch, run.tag_count()).contains(&true) {
                wider.push(Window::around(run, number, stretch, margin.saturating_mul(WIDER)));
            } else {
                read[number] = Some(tags);
            }
        }
        windows = wider;
    }
    Ok(read.into_iter().flatten().collect())
}

/// Reads the pages of windows.
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

impl<'r> Window<'r> {
    fn new(run: &'r Run, number: usize, stretch: Stretch) -> Window<'r> {
        Window::around(run, number, stretch, DEVIATIONS * (run.tag_count().isqrt() / 2 + 1))
    }

    fn around(run: &'r Run, number: usize, stretch: Stretch, margin: u64) -> Window<'r> {
        let (count, form) = (run.tag_count(), run.tags_form());
        let below = |hash: u64| ((u128::from(hash) * u128::from(count)) >> u64::BITS) as u64;
        let first = below(*stretch.hashes().start()).saturating_sub(margin);
        let end = below(*stretch.hashes().end()).saturating_add(1).saturating_add(margin).min(count);
        let pages = match form {
            // All or none of them can be checked.
            TagsForm::Whole(_) => 0..form.pages(count),
            TagsForm::Paged => first / form.in_page()..form.pages(end),
        };
        let frames = pages.clone().map(|_| None).collect();
        Window { run, number, margin, pages, frames }
    }

    /// What was read.
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
