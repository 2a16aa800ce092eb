//! An in-memory node of the index: one immutable slotted page, and for inner nodes their children.

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering},
};

use ecotone_substrate::{
    codec::{Reader, Writer},
    limits::PAGE,
    page::{self, Page, PageKind, Resident},
    storage::Block,
};

use super::{
    segment::{self, PagePair, Segment},
    segment_pages::SegmentPages,
};

/// The item of an entry.
#[derive(Debug, Clone)]
pub(super) enum Item {
    /// A segment, in a leaf.
    Segment(Segment),
    /// A child node, in an inner node.
    Child(Arc<Node>),
}

impl Item {
    /// Bytes of its value in a page.
    pub(super) fn encoded_len(&self) -> usize {
        match self {
            Item::Segment(segment) => segment.encoded_len(),
            Item::Child(_) => size_of::<u32>(),
        }
    }

    /// Appends its value. A child without a page gets a placeholder, which a checkpoint replaces.
    pub(super) fn encode(&self, w: &mut Writer) {
        match self {
            Item::Segment(segment) => segment.encode(w),
            Item::Child(child) => {
                w.u32(child.page_number().unwrap_or(NOT_WRITTEN));
            }
        }
    }
}

/// A key with its item.
#[derive(Debug, Clone)]
pub(super) struct Entry {
    pub(super) key: Vec<u8>,
    pub(super) item: Item,
}

const NOT_WRITTEN: u32 = u32::MAX;

/// A node. Its content never changes; an edit of the index builds new nodes.
#[derive(Debug)]
pub(super) struct Node {
    page: Block,
    resident: Resident,
    /// The children in the order of the entries; empty for a leaf.
    children: Box<[Arc<Node>]>,
    /// The page on disk, or `NOT_WRITTEN`.
    written: AtomicU32,
    /// Set, under the lock of the retired list, when the node is no longer in the index.
    retired: AtomicBool,
    meter: Arc<Meter>,
}

impl Node {
    /// Creates a node from a page that was built here or verified. `written` is the page that it was read from.
    pub(super) fn new(page: Block, children: Vec<Arc<Node>>, written: Option<u32>, meter: &Arc<Meter>) -> Arc<Node> {
        let children = children.into_boxed_slice();
        let written = AtomicU32::new(written.unwrap_or(NOT_WRITTEN));
        let resident = Resident::new(&Page::reparse(&page).expect("a node was built or verified"));
        let node = Node { page, resident, children, written, retired: AtomicBool::new(false), meter: meter.clone() };
        meter.bytes.fetch_add(node.bytes(), Ordering::Relaxed);
        Arc::new(node)
    }

    /// Its page.
    pub(super) fn page(&self) -> Page<'_> {
        self.resident.page(&self.page)
    }

    /// The bytes of its page.
    pub(super) fn bytes_of_page(&self) -> &[u8] {
        &self.page
    }

    /// The children.
    pub(super) fn children(&self) -> &[Arc<Node>] {
        &self.children
    }

    /// The kind of its page.
    pub(super) fn kind(&self) -> PageKind {
        if self.children.is_empty() { PageKind::Index } else { PageKind::IndexInner }
    }

    /// The position of the greatest key that is not above `key`, which lies in the node's range.
    pub(super) fn floor(&self, key: &[u8]) -> Option<usize> {
        match self.resident.search(&self.page, key) {
            Ok(position) => Some(position),
            Err(position) => position.checked_sub(1),
        }
    }

    /// The position of the greatest key below `key`.
    pub(super) fn below(&self, key: &[u8]) -> Option<usize> {
        let (Ok(position) | Err(position)) = self.page().search(key);
        position.checked_sub(1)
    }

    /// The key at a position.
    pub(super) fn key(&self, position: usize) -> Option<Vec<u8>> {
        let mut key = Vec::new();
        self.page().key_into(position, &mut key).then_some(key)
    }

    /// The segment at a position of a leaf.
    pub(super) fn segment(&self, position: usize) -> Option<Segment> {
        segment(&self.page(), position)
    }

    /// The pages of the segment at a position of a leaf.
    pub(super) fn walk(&self, position: usize) -> Option<SegmentPages<'_>> {
        Some(SegmentPages::new(self.page().entry(position)?.value))
    }

    /// The page pair of `key` in the segment at a position of a leaf.
    pub(super) fn pair(&self, position: usize, key: &[u8]) -> Option<PagePair> {
        let page = self.page();
        let entry = page.entry(position)?;
        Some(segment::pair(page.prefix(), entry.suffix, entry.value, key))
    }

    /// All entries. `lower` is the node's lower fence: the first key of an inner node, even if it is not stored.
    pub(super) fn entries(&self, lower: &[u8]) -> Vec<Entry> {
        let page = self.page();
        let item = |position: usize| match self.children.get(position) {
            Some(child) => Item::Child(child.clone()),
            None => Item::Segment(segment(&page, position).expect("the position exists")),
        };
        let key = |suffix: &[u8]| [page.prefix(), suffix].concat();
        let entry =
            |(position, entry): (usize, page::Entry<'_>)| Entry { key: key(entry.suffix), item: item(position) };
        let mut entries: Vec<_> = page.iter().enumerate().map(entry).collect();
        if let (PageKind::IndexInner, Some(first)) = (self.kind(), entries.first_mut()) {
            lower.clone_into(&mut first.key);
        }
        entries
    }

    /// The number of its page on disk.
    pub(super) fn page_number(&self) -> Option<u32> {
        let page = self.written.load(Ordering::Acquire);
        (page != NOT_WRITTEN).then_some(page)
    }

    /// Assigns the page that a checkpoint will write the node to. Called under the lock of the retired list; true if
    /// the node is retired already.
    pub(super) fn assign(&self, page: u32) -> bool {
        self.written.store(page, Ordering::Release);
        self.retired.load(Ordering::Relaxed)
    }

    /// Marks the node as no longer in the index, under the lock of the retired list; returns the page on
    /// disk that it leaves behind.
    pub(super) fn retire(&self) -> Option<u32> {
        self.retired.store(true, Ordering::Relaxed);
        self.page_number()
    }

    fn bytes(&self) -> usize {
        PAGE + size_of::<Node>() + 2 * size_of::<usize>() + size_of_val(&*self.children)
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.meter.bytes.fetch_sub(self.bytes(), Ordering::Relaxed);
    }
}

fn segment(page: &Page<'_>, position: usize) -> Option<Segment> {
    let entry = page.entry(position)?;
    Some(Segment::decode(&mut Reader::new(entry.value)).expect("a node was built or verified"))
}

/// Counts the bytes of all nodes of an index, including those only in snapshots.
#[derive(Debug, Default)]
pub(super) struct Meter {
    bytes: AtomicUsize,
}

impl Meter {
    pub(super) fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }
}
