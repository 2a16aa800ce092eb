//! What a tree asks of a layout (T9).

use super::{
    Tree,
    index::Placement,
    layout::{Goals, Part, Planned, fill_up, spread},
    records::Records,
};

impl Tree {
    /// Plans the segments of a range. With `append` the pages are filled one after the other and the last is left as it comes.
    pub(crate) fn plan(&self, records: &Records, lower: &[u8], upper: Option<&[u8]>, append: bool) -> Vec<Planned> {
        let layout = if append { fill_up } else { spread };
        let goals = Goals { fill: self.options.fill, most_pages: self.options.segment_pages, model: self.options.model };
        let mut planned = layout(records, lower, upper, &goals);
        if let Some(last) = planned.pop_if(|last| upper.is_none() && last.pages.len() > 1) {
            planned.extend(with_last_apart(records, &last, |records, lower, upper| layout(records, lower, Some(upper), &goals)));
        }
        planned
    }
}

/// Plans the last segment of all once more, so that its last page is a segment of its own: keys that only rise then find one page to reorganise, not
/// sixteen.
fn with_last_apart(records: &Records, last: &Planned, layout: impl Fn(&Records, &[u8], &[u8]) -> Vec<Planned>) -> Vec<Planned> {
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
