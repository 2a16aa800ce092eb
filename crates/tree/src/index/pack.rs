//! Packs entries into nodes.

use std::{ops::Range, sync::Arc};

use ecotone_substrate::{
    Result,
    codec::Writer,
    limits::{MAX_KEY, PAGE},
    memory::{Component, Memory},
    page::{PageAddress, PageBuilder, PageKind, RecordKind, capacity, prefix_len, record_bytes},
};
use ecotone_sys::chunk::Size;

use super::node::{Entry, Item, Meter, Node};

/// An inner node is stored without its fences if these are longer than this together, and longer than the common prefix
/// saves in three keys. Otherwise long fences could leave space for a single child, and the height of the index would
/// grow without bound.
const LONGEST_INNER_FENCES: usize = 512;

/// Fill of a node, in percent, where entries are distributed over several nodes.
const FILL: usize = 95;

/// Bytes of the longest entry of an inner node, without its key.
const CHILD_BYTES: usize = record_bytes(0, 0, size_of::<u32>());

const _: () = assert!(
    PAGE - 64 >= LONGEST_INNER_FENCES + 3 * (CHILD_BYTES + MAX_KEY),
    "three children fit into an inner node, whatever their keys"
);

/// How to distribute entries over several nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fill {
    /// As evenly as possible.
    Evenly,
    /// Fills nodes from the left, with the rest in the last node: later entries are appended.
    Appending,
}

/// The fences with which a node of this range is stored.
pub(super) fn stored_fences<'a>(kind: PageKind, lower: &'a [u8], upper: Option<&'a [u8]>) -> Fences<'a> {
    let long = lower.len() + upper.map_or(0, <[u8]>::len) > LONGEST_INNER_FENCES + 3 * prefix_len(lower, upper);
    if kind == PageKind::IndexInner && long { (&[], None) } else { (lower, upper) }
}

/// A shortest separator: above `left` and not above `right`.
fn separator(left: &[u8], right: &[u8]) -> Vec<u8> {
    right[..right.len().min(prefix_len(left, Some(right)) + 1)].to_vec()
}

/// The plan of one node.
#[derive(Debug)]
pub(super) struct NodePlan {
    /// Its entries.
    pub(super) entries: Range<usize>,
    /// The lower fence.
    pub(super) lower: Vec<u8>,
    /// The upper fence.
    pub(super) upper: Option<Vec<u8>>,
}

/// Entries of one level over a range, to be packed into nodes.
#[derive(Debug)]
pub(super) struct Packing<'a> {
    kind: PageKind,
    entries: &'a [Entry],
    lower: &'a [u8],
    upper: Option<&'a [u8]>,
    /// Prefix sums of entry bytes, with whole keys.
    bytes_before: Vec<usize>,
}

impl<'a> Packing<'a> {
    /// Measures the entries of the range from `lower` to `upper`.
    pub(super) fn new(kind: PageKind, entries: &'a [Entry], lower: &'a [u8], upper: Option<&'a [u8]>) -> Packing<'a> {
        let mut bytes = 0;
        let mut bytes_before = vec![0];
        for entry in entries {
            bytes += record_bytes(0, entry.key.len(), entry.item.encoded_len());
            bytes_before.push(bytes);
        }
        Packing { kind, entries, lower, upper, bytes_before }
    }

    /// Bytes of all entries together, in percent of one node.
    pub(super) fn percent(&self) -> usize {
        let (lower, upper) = stored_fences(self.kind, self.lower, self.upper);
        (self.bytes(0..self.entries.len(), self.lower, self.upper) * 100).div_ceil(capacity(lower, upper))
    }

    /// Bytes of the entries in a node with these fences.
    fn bytes(&self, entries: Range<usize>, lower: &[u8], upper: Option<&[u8]>) -> usize {
        let (lower, upper) = stored_fences(self.kind, lower, upper);
        let whole = self.bytes_before[entries.end] - self.bytes_before[entries.start];
        whole - prefix_len(lower, upper) * entries.len()
    }

    /// The upper fence of a node that ends before this entry. Leaves get the shortest separator.
    fn fence(&self, position: usize) -> Option<Vec<u8>> {
        let entry = self.entries.get(position);
        match (entry, self.kind) {
            (None, _) => self.upper.map(<[u8]>::to_vec),
            (Some(entry), PageKind::Index) => Some(separator(&self.entries[position - 1].key, &entry.key)),
            (Some(entry), _) => Some(entry.key.clone()),
        }
    }

    fn fits(&self, entries: Range<usize>, lower: &[u8], upper: Option<&[u8]>) -> bool {
        let (stored_lower, stored_upper) = stored_fences(self.kind, lower, upper);
        self.bytes(entries, lower, upper) <= capacity(stored_lower, stored_upper)
    }

    /// Cuts the entries into nodes, left to right.
    pub(super) fn pieces(&self, fill: Fill) -> Vec<NodePlan> {
        let percent = self.percent();
        let target = match fill {
            Fill::Appending => FILL,
            Fill::Evenly => percent.div_ceil(percent.div_ceil(FILL).max(1)),
        };
        let mut pieces: Vec<NodePlan> = Vec::new();
        while pieces.last().map_or(0, |piece| piece.entries.end) < self.entries.len() {
            pieces.push(self.piece(pieces.last(), target));
        }
        pieces
    }

    /// Plans the next node: all remaining entries if they fit, else until it is filled to `target` percent.
    fn piece(&self, before: Option<&NodePlan>, target: usize) -> NodePlan {
        let (start, lower) = match before {
            Some(piece) => (piece.entries.end, piece.upper.clone().expect("only the last piece has no end")),
            None => (0, self.lower.to_vec()),
        };
        let end = self.entries.len();
        if self.fits(start..end, &lower, self.upper) {
            return NodePlan { entries: start..end, upper: self.upper.map(<[u8]>::to_vec), lower };
        }
        let mut piece = NodePlan { entries: start..start + 1, upper: self.fence(start + 1), lower };
        while piece.entries.end < end && self.percent_of(&piece) < target {
            let (entries, upper) = (start..piece.entries.end + 1, self.fence(piece.entries.end + 1));
            if !self.fits(entries.clone(), &piece.lower, upper.as_deref()) {
                break;
            }
            (piece.entries, piece.upper) = (entries, upper);
        }
        piece
    }

    fn percent_of(&self, piece: &NodePlan) -> usize {
        let (lower, upper) = (&piece.lower, piece.upper.as_deref());
        let (stored_lower, stored_upper) = stored_fences(self.kind, lower, upper);
        self.bytes(piece.entries.clone(), lower, upper) * 100 / capacity(stored_lower, stored_upper)
    }
}

/// Builds nodes.
#[derive(Debug)]
pub(super) struct Builder<'a> {
    pub(super) memory: &'a Memory,
    pub(super) meter: &'a Arc<Meter>,
}

impl Builder<'_> {
    /// Builds the node of a plan. Its page has no address yet. Fails only if memory is short.
    pub(super) fn node(&self, kind: PageKind, piece: &NodePlan, entries: &[Entry]) -> Result<Arc<Node>> {
        let mut page = self.memory.lease_essential(Component::PageIndex, Size::Frame)?;
        let fences = stored_fences(kind, &piece.lower, piece.upper.as_deref());
        write_page(&mut page, NOWHERE, 0, kind, fences, entries);
        let child = |entry: &Entry| match &entry.item {
            Item::Child(child) => Some(child.clone()),
            Item::Segment(_) => None,
        };
        let children = entries.iter().filter_map(child).collect();
        Ok(Node::new(page, children, None, self.meter))
    }
}

/// The address of a page that is not on disk yet.
const NOWHERE: PageAddress = PageAddress { file: 0, page: 0 };

/// The fences of a page.
pub(super) type Fences<'a> = (&'a [u8], Option<&'a [u8]>);

/// Writes the page of a node with its stored fences.
pub(super) fn write_page(
    buf: &mut [u8],
    place: PageAddress,
    seq: u64,
    kind: PageKind,
    fences: Fences<'_>,
    entries: &[Entry],
) {
    let (lower, upper) = fences;
    let mut builder = PageBuilder::new(buf, place, kind, 0, lower, upper);
    for (i, entry) in entries.iter().enumerate() {
        // The first key of an inner node is its lower fence, whether that is stored or not.
        let key = if i == 0 && kind == PageKind::IndexInner { lower } else { &entry.key };
        let mut value = Writer::new();
        entry.item.encode(&mut value);
        assert!(builder.push(RecordKind::Value, key, value.as_slice()), "the entries of a piece fit");
    }
    builder.finish(seq);
}
