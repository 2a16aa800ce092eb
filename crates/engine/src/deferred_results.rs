//! Buffered results of a multi-get. A caller's closure may do anything, so results are delivered only after the engine
//! has released its locks.

use std::ops::Range;

use crate::contract::VisitValue;

/// Key numbers, each with its value if the key has one.
#[derive(Debug, Default)]
pub struct DeferredResults {
    values: Vec<u8>,
    answers: Vec<(usize, Option<Range<usize>>)>,
}

impl DeferredResults {
    /// Removes all results.
    pub fn clear(&mut self) {
        self.values.clear();
        self.answers.clear();
    }

    /// Adds one result.
    pub fn push(&mut self, number: usize, value: Option<impl AsRef<[u8]>>) {
        let start = self.values.len();
        let place = value.map(|value| {
            self.values.extend_from_slice(value.as_ref());
            start..self.values.len()
        });
        self.answers.push((number, place));
    }

    /// Delivers all results, in the order in which they were added.
    pub fn deliver(&self, found: &mut VisitValue<'_>) {
        self.answers.iter().for_each(|(number, place)| found(*number, place.clone().map(|place| &self.values[place])));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_told_in_their_order() {
        let mut answers = DeferredResults::default();
        for _ in 0..2 {
            answers.clear();
            answers.push(7, Some("seven"));
            answers.push(3, None::<&[u8]>);
            answers.push(9, Some(""));
            let mut told = Vec::new();
            answers.deliver(&mut |number, value| told.push((number, value.map(<[u8]>::to_vec))));
            assert_eq!(told, [(7, Some(b"seven".to_vec())), (3, None), (9, Some(Vec::new()))]);
        }
    }
}
