//! What a tree asks of a layout (T9).

use super::{
    Tree,
    index::Placement,
    layout::{Part, Planned, fill_up, spread},
    records::Records,
};

impl Tree {
    /// Plans.
    pub(crate) fn plan(&self, records: &Records, lower: &[u8], upper: Option<&[u8]>, append: bool) -> Vec<Planned> {
        let parts: Vec<Part> = if append {
            fill_up(records, lower, upper, self.options.fill.into())
        } else {
            spread(records, lower, upper, self.options.fill.into())
        };
        let mut planned = Vec::new();
        for group in parts.chunks(3) {
            let fences: Vec<Vec<u8>> = group[1..].iter().map(|part| part.lower.clone()).collect();
            let bytes: usize = fences.iter().map(|fence| fence.len() + 2).sum();
            if group.len() > 1 && bytes < 600 {
                planned.push(Planned { placement: Placement::directory(b"", fences), pages: group.to_vec() });
            } else {
                planned.extend(group.iter().map(|part| Planned { placement: Placement::Single, pages: vec![part.clone()] }));
            }
        }
        planned
    }
}
