//! Ranges that were uncovered, until nobody reads any more what is below the tables of them (decision 15, invariant
//! 10).

use std::sync::{Arc, Weak};

use ecotone_substrate::Seq;

/// A range of keys, the upper bound excluded.
pub(super) type Span = (Vec<u8>, Vec<u8>);

/// What is to be cleared, and who may still read it. Kept under the structure mutex, and in memory alone: an opening
/// clears what nothing covers.
#[derive(Debug)]
pub(super) struct Clearing<V> {
    /// Versions with covers that were replaced, as long as somebody has them.
    replaced: Vec<Weak<V>>,
    left: Vec<Left<V>>,
}

/// A range that is not cleared.
#[derive(Debug)]
struct Left<V> {
    span: Span,
    /// The sequence of the record that uncovered it.
    record: Seq,
    /// The versions from before.
    before: Vec<Weak<V>>,
}

impl<V> Default for Clearing<V> {
    fn default() -> Clearing<V> {
        Clearing { replaced: Vec::new(), left: Vec::new() }
    }
}

impl<V> Clearing<V> {
    /// A version with covers is about to be replaced, by a change that uncovers these ranges and has this record.
    pub(super) fn replace(&mut self, version: &Arc<V>, record: Seq, uncovered: impl Iterator<Item = Span>) {
        self.replaced.retain(is_held);
        self.replaced.push(Arc::downgrade(version));
        let before = &self.replaced;
        self.left.extend(uncovered.map(|span| Left { span, record, before: before.clone() }));
    }

    /// What is not cleared.
    pub(super) fn spans(&self) -> impl Iterator<Item = &Span> {
        self.left.iter().map(|left| &left.span)
    }

    /// What of it may be, where the log is synced up to here.
    pub(super) fn ripe(&self, synced: Seq) -> impl Iterator<Item = &Span> {
        let is_ripe = move |left: &&Left<V>| left.record < synced && !left.before.iter().any(is_held);
        self.left.iter().filter(is_ripe).map(|left| &left.span)
    }

    /// A range was cleared.
    pub(super) fn end(&mut self, span: &Span) {
        self.left.retain(|left| left.span != *span);
    }
}

/// Whether somebody has a version. Nobody comes to one that nobody has.
fn is_held<V>(version: &Weak<V>) -> bool {
    version.strong_count() > 0
}

#[cfg(all(test, not(feature = "loom")))]
mod tests {
    use super::*;

    fn span(lower: u8, upper: u8) -> Span {
        (vec![lower], vec![upper])
    }

    #[test]
    fn a_range_is_ripe_when_its_record_is_synced_and_no_version_from_before_is_held() {
        let mut clearing = Clearing::default();
        let ripe = |clearing: &Clearing<u8>, synced| clearing.ripe(synced).cloned().collect::<Vec<_>>();
        let [first, second, third] = [1_u8, 2, 3].map(Arc::new);
        clearing.replace(&first, 10, [].into_iter());
        clearing.replace(&second, 20, [span(1, 2)].into_iter());
        clearing.replace(&third, 30, [span(4, 5), span(2, 3)].into_iter());
        drop((second, third));
        assert_eq!(ripe(&clearing, 100), [], "the first one is held");
        drop(first);
        assert_eq!((ripe(&clearing, 20), ripe(&clearing, 21)), (vec![], vec![span(1, 2)]));
        assert_eq!(ripe(&clearing, 31), [span(1, 2), span(4, 5), span(2, 3)]);
        clearing.end(&span(4, 5));
        assert!(clearing.spans().eq([&span(1, 2), &span(2, 3)]));
    }

    #[test]
    fn who_holds_a_version_from_after_keeps_nothing() {
        let mut clearing = Clearing::default();
        let [first, second] = [1_u8, 2].map(Arc::new);
        clearing.replace(&first, 10, [span(1, 2)].into_iter());
        clearing.replace(&second, 20, [span(3, 4)].into_iter());
        drop(first);
        assert!(clearing.ripe(100).eq([&span(1, 2)]));
    }
}
