//! How a tree plans segments and how full it makes their pages: the fill policy of a layout (T9).
//!
//! Pages are filled to the option `fill`, or from half to full with [`PageFill::Spread`]; less where the forecast
//! expects inserts; and completely where keys arrive in order.

use std::sync::Arc;

use ecotone_engine::option_value;
use ecotone_substrate::limits::PAGE;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::{
    TreeOptions,
    forecast::Forecast,
    index::Placement,
    layout::{FillFactor, FillPolicy, PagePlan, SegmentPlan, fill_up, spread},
    records::Records,
    reorganise::ReorganisationUnit,
    store::Store,
};

/// Fill percent of the fullest pages under [`PageFill::Spread`].
const FULL: u8 = 100;

// A9.
/// How full pages are.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum PageFill {
    /// All pages are equally full, as the option `fill` says.
    #[default]
    Even,
    /// Pages are from half full to full, so that pages that grow at the same rate do not all overflow at the same time.
    Spread,
}

impl PageFill {
    /// Both, in the order of their numbers on disk.
    #[doc(hidden)]
    pub const ALL: [PageFill; 2] = [PageFill::Even, PageFill::Spread];

    /// Returns its name among the options.
    pub fn name(self) -> &'static str {
        match self {
            PageFill::Even => "even",
            PageFill::Spread => "spread",
        }
    }
}

option_value!(PageFill, "page_fill");

/// Plans the segments that replace a reorganisation unit.
#[derive(Debug)]
pub(crate) struct SegmentPlanner {
    store: Arc<Store>,
    forecast: Arc<Forecast>,
    pub(crate) options: TreeOptions,
    page_fill: PageFill,
}

impl SegmentPlanner {
    pub(crate) fn new(store: Arc<Store>, forecast: Arc<Forecast>, options: TreeOptions, page_fill: PageFill) -> Self {
        SegmentPlanner { store, forecast, options, page_fill }
    }

    /// Plans a unit whose segments are full. Keys that arrive in order get no later keys between them, so their pages
    /// are filled one after the other, and completely unless an option asks for free space in them.
    pub(crate) fn plan_grown(&self, unit: &ReorganisationUnit<'_>) -> Vec<SegmentPlan> {
        let is_in_order = unit.grows_in_order() && !self.forecast.is_on();
        let wants_room = self.options.fill < TreeOptions::default().fill || self.page_fill == PageFill::Spread;
        let fill = if unit.is_packed() && !wants_room { FULL } else { self.options.fill };
        self.plan(unit, is_in_order.then_some(fill))
    }

    /// Plans the segments of a unit. With `filled`, each page is filled to that percentage in turn, and the last page
    /// takes the remainder.
    pub(crate) fn plan(&self, unit: &ReorganisationUnit<'_>, filled: Option<u8>) -> Vec<SegmentPlan> {
        let (records, lower, upper) = (&unit.records, unit.lower(), unit.upper());
        let layout = if filled.is_some() { fill_up } else { spread };
        let fill = filled.map_or_else(|| self.fill(records, lower), FillFactor::Even);
        let policy = FillPolicy { fill, most_pages: self.options.segment_pages, model: self.options.model };
        let mut planned = layout(records, lower, upper, &policy);
        if let Some(last) = planned.pop_if(|last| upper.is_none() && last.pages.len() > 1) {
            planned.extend(with_last_apart(records, &last, |records, lower, upper| {
                layout(records, lower, Some(upper), &policy)
            }));
        }
        planned
    }

    /// The fill factor for the pages of these records. The result is the same for the same lower fence and number of
    /// records.
    fn fill(&self, records: &Records, lower: &[u8]) -> FillFactor {
        match self.page_fill {
            PageFill::Even => FillFactor::Even(self.predicted_fill(records, self.options.fill)),
            PageFill::Spread => {
                let seed = xxh3_64_with_seed(lower, records.len() as u64);
                FillFactor::Spread { most: self.predicted_fill(records, FULL), seed }
            }
        }
    }

    /// Predicted fill: the percentage of a page that these records should take. Less than `full` where inserts are
    /// expected (T14).
    fn predicted_fill(&self, records: &Records, full: u8) -> u8 {
        let Some(last) = records.len().checked_sub(1) else { return full };
        // Pages are about three quarters full.
        let population = u64::from(self.store.space.used()) * (PAGE as u64 * 3 / 4) * records.len() as u64
            / records.bytes().max(1) as u64;
        self.forecast.fill(records.get(0).0, records.get(last).0, records.len(), population, full)
    }
}

/// Plans the last segment of the tree again, so that the last page is a segment of its own. Ascending inserts then
/// reorganise one page, not sixteen.
fn with_last_apart(
    records: &Records,
    last: &SegmentPlan,
    layout: impl Fn(&Records, &[u8], &[u8]) -> Vec<SegmentPlan>,
) -> Vec<SegmentPlan> {
    let [first, .., tail] = last.pages.as_slice() else { return vec![last.clone()] };
    let start = first.records.start;
    let mut planned = layout(&records.part(start..tail.records.start), &first.lower, &tail.lower);
    for part in planned.iter_mut().flat_map(|planned| &mut planned.pages) {
        part.records = start + part.records.start..start + part.records.end;
    }
    planned.push(SegmentPlan {
        placement: Placement::Single,
        pages: vec![PagePlan { lower: tail.lower.clone(), records: tail.records.clone() }],
    });
    planned
}
