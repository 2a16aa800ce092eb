//! What a tree asks of a layout (T9).

use ecotone_substrate::limits::PAGE;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::{
    Tree,
    index::Placement,
    layout::{Fill, Goals, Part, Planned, fill_up, spread},
    records::Records,
};

/// Percent of the fullest pages where they are not alike.
pub(crate) const FULL: u8 = 100;

/// How full pages are that are planned (A9).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum PageFill {
    /// All alike, as full as the option `fill` says.
    #[default]
    Even,
    /// From half full to full, so that those which grow alike are not full at one time.
    Spread,
}

impl Tree {
    /// Plans the segments of a range. If so many percent are to be `filled`, pages are filled one after the other and
    /// the last is left as it comes.
    pub(crate) fn plan(
        &self,
        records: &Records,
        lower: &[u8],
        upper: Option<&[u8]>,
        filled: Option<u8>,
    ) -> Vec<Planned> {
        let layout = if filled.is_some() { fill_up } else { spread };
        let fill = filled.map_or_else(|| self.fill(records, lower), Fill::Even);
        let goals = Goals { fill, most_pages: self.options.segment_pages, model: self.options.model };
        let mut planned = layout(records, lower, upper, &goals);
        if let Some(last) = planned.pop_if(|last| upper.is_none() && last.pages.len() > 1) {
            planned.extend(with_last_apart(records, &last, |records, lower, upper| {
                layout(records, lower, Some(upper), &goals)
            }));
        }
        planned
    }

    /// How full the pages of these records are to be. Where as many begin with the same fence they are as full.
    fn fill(&self, records: &Records, lower: &[u8]) -> Fill {
        match self.page_fill {
            PageFill::Even => Fill::Even(self.foretold(records, self.options.fill)),
            PageFill::Spread => {
                let seed = xxh3_64_with_seed(lower, records.len() as u64);
                Fill::Spread { most: self.foretold(records, FULL), seed }
            }
        }
    }

    /// Percent of a page that these records are to fill: less than `full` where inserts are expected (T14).
    fn foretold(&self, records: &Records, full: u8) -> u8 {
        let Some(last) = records.len().checked_sub(1) else { return full };
        // Pages are about three quarters full.
        let population = u64::from(self.store.space.used()) * (PAGE as u64 * 3 / 4) * records.len() as u64
            / records.bytes().max(1) as u64;
        self.forecast.fill(records.get(0).0, records.get(last).0, records.len(), population, full)
    }
}

/// Plans the last segment of all once more, so that its last page is a segment of its own: keys that only rise then
/// find one page to reorganise, not sixteen.
fn with_last_apart(
    records: &Records,
    last: &Planned,
    layout: impl Fn(&Records, &[u8], &[u8]) -> Vec<Planned>,
) -> Vec<Planned> {
    let [first, .., tail] = last.pages.as_slice() else { return vec![last.clone()] };
    let start = first.records.start;
    let mut planned = layout(&records.part(start..tail.records.start), &first.lower, &tail.lower);
    for part in planned.iter_mut().flat_map(|planned| &mut planned.pages) {
        part.records = start + part.records.start..start + part.records.end;
    }
    planned.push(Planned {
        placement: Placement::Single,
        pages: vec![Part { lower: tail.lower.clone(), records: tail.records.clone() }],
    });
    planned
}
