//! Ranges that were converted to tables and whose pages may still be read. Their pages are freed when the log record of
//! the conversion is synced and no older version is in use (adaptive-protocol.md, invariant 10).

use std::sync::{Arc, Weak};

use ecotone_substrate::Seq;

/// A range of keys, the upper bound excluded.
pub(crate) type KeySpan = (Vec<u8>, Vec<u8>);

/// Pages to free, and the versions that may still read them. Under the structure mutex, and in memory alone: an opening
/// clears all pages outside of paged ranges.
#[derive(Debug)]
pub(crate) struct PendingFrees<V> {
    /// Replaced versions with paged ranges, while they are in use.
    replaced: Vec<Weak<V>>,
    left: Vec<PendingFree<V>>,
}

/// A range whose pages are not freed yet.
#[derive(Debug)]
struct PendingFree<V> {
    span: KeySpan,
    /// The sequence of the log record that converted it.
    record: Seq,
    /// The versions from before the conversion.
    before: Vec<Weak<V>>,
}

impl<V> Default for PendingFrees<V> {
    fn default() -> PendingFrees<V> {
        PendingFrees { replaced: Vec::new(), left: Vec::new() }
    }
}

impl<V> PendingFrees<V> {
    /// A version with paged ranges is about to be replaced, by an edit with this log record that ends these paged
    /// ranges.
    pub(crate) fn version_replaced(&mut self, version: &Arc<V>, record: Seq, uncovered: impl Iterator<Item = KeySpan>) {
        self.replaced.retain(is_held);
        self.replaced.push(Arc::downgrade(version));
        let before = &self.replaced;
        self.left.extend(uncovered.map(|span| PendingFree { span, record, before: before.clone() }));
    }

    /// All ranges that are not freed.
    pub(crate) fn ranges(&self) -> impl Iterator<Item = &KeySpan> {
        self.left.iter().map(|left| &left.span)
    }

    /// Ranges that may be freed, if the log is synced up to `synced`.
    pub(crate) fn freeable(&self, synced: Seq) -> impl Iterator<Item = &KeySpan> {
        let is_freeable = move |left: &&PendingFree<V>| left.record < synced && !left.before.iter().any(is_held);
        self.left.iter().filter(is_freeable).map(|left| &left.span)
    }

    /// The pages of a range were freed.
    pub(crate) fn freed(&mut self, span: &KeySpan) {
        self.left.retain(|left| left.span != *span);
    }
}

/// Whether a version is in use. A replaced version that is not in use cannot come into use again.
fn is_held<V>(version: &Weak<V>) -> bool {
    version.strong_count() > 0
}

#[cfg(all(test, not(feature = "loom")))]
mod tests {
    use super::*;

    fn span(lower: u8, upper: u8) -> KeySpan {
        (vec![lower], vec![upper])
    }

    #[test]
    fn a_range_is_ripe_when_its_record_is_synced_and_no_version_from_before_is_held() {
        let mut pending_frees = PendingFrees::default();
        let freeable =
            |pending_frees: &PendingFrees<u8>, synced| pending_frees.freeable(synced).cloned().collect::<Vec<_>>();
        let [first, second, third] = [1_u8, 2, 3].map(Arc::new);
        pending_frees.version_replaced(&first, 10, [].into_iter());
        pending_frees.version_replaced(&second, 20, [span(1, 2)].into_iter());
        pending_frees.version_replaced(&third, 30, [span(4, 5), span(2, 3)].into_iter());
        drop((second, third));
        assert_eq!(freeable(&pending_frees, 100), [], "the first one is held");
        drop(first);
        assert_eq!((freeable(&pending_frees, 20), freeable(&pending_frees, 21)), (vec![], vec![span(1, 2)]));
        assert_eq!(freeable(&pending_frees, 31), [span(1, 2), span(4, 5), span(2, 3)]);
        pending_frees.freed(&span(4, 5));
        assert!(pending_frees.ranges().eq([&span(1, 2), &span(2, 3)]));
    }

    #[test]
    fn who_holds_a_version_from_after_keeps_nothing() {
        let mut pending_frees = PendingFrees::default();
        let [first, second] = [1_u8, 2].map(Arc::new);
        pending_frees.version_replaced(&first, 10, [span(1, 2)].into_iter());
        pending_frees.version_replaced(&second, 20, [span(3, 4)].into_iter());
        drop(first);
        assert!(pending_frees.freeable(100).eq([&span(1, 2)]));
    }
}
