//! Edits of the index: segments removed and inserted. An edit builds the new tree beside the old one.

use std::{collections::BTreeMap, iter::Peekable, sync::Arc};

use ecotone_substrate::{Error, Result, page::PageKind};

use super::{
    node::{Entry, Item, Node},
    pack::{Builder, Fill, Packing},
    segment::Segment,
    snapshot::{IndexTree, NodeRange, Snapshot},
};

/// A node that loses entries and is less full than this, in percent, is merged with a neighbour.
const UNDERFULL: usize = 33;

/// One edit of the structure, in any order. A fence that is both removed and inserted keeps its entry with another
/// segment.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct IndexEdit {
    /// Lower fences of removed segments.
    pub remove: Vec<Vec<u8>>,
    /// Inserted segments with their lower fences.
    pub insert: Vec<(Vec<u8>, Segment)>,
    /// Overflow pages attached to base pages of segments that stay.
    pub attach: Vec<Attach>,
}

/// Attaches an overflow page to a base page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attach {
    /// Lower fence of its segment.
    pub lower: Vec<u8>,
    /// The base page.
    pub page: u32,
    /// The overflow page.
    pub overflow: u32,
}

/// The operation on each key of a level: a new item, or removal.
type Operations = BTreeMap<Vec<u8>, Option<Item>>;

impl IndexEdit {
    /// The edit as operations on the leaves. Fails if the edit does not fit the index.
    fn operations(&self, snapshot: &Snapshot) -> Result<Operations> {
        let mut operations = Operations::new();
        for key in &self.remove {
            if snapshot.get(key).is_none() || operations.insert(key.clone(), None).is_some() {
                return Err(invalid_edit("removes a segment that is not there"));
            }
        }
        for (key, segment) in &self.insert {
            let before = operations.insert(key.clone(), Some(Item::Segment(segment.clone())));
            if matches!(before, Some(Some(_))) || (before.is_none() && snapshot.get(key).is_some()) {
                return Err(invalid_edit("inserts a segment that is there already"));
            }
        }
        for Attach { lower, page, overflow } in &self.attach {
            let segment = match operations.remove(lower) {
                Some(Some(Item::Segment(segment))) => Some(segment),
                Some(_) => None,
                None => snapshot.get(lower),
            };
            let mut segment = segment.ok_or_else(|| invalid_edit("gives a page to a segment that is not there"))?;
            if !segment.attach(*page, *overflow) {
                return Err(invalid_edit("gives a page to a segment that has one there"));
            }
            operations.insert(lower.clone(), Some(Item::Segment(segment)));
        }
        if matches!(operations.get(&[][..]), Some(None)) {
            return Err(invalid_edit("removes the first segment without another one"));
        }
        Ok(operations)
    }
}

fn invalid_edit(what: &str) -> Error {
    Error::Invalid(format!("a change of the segment index {what}"))
}

/// An edit that can no longer fail.
#[derive(Debug)]
#[must_use = "a prepared change does nothing until it is installed"]
pub struct Prepared {
    /// The tree that the edit was built against.
    pub(super) base: Arc<IndexTree>,
    pub(super) tree: Arc<IndexTree>,
    /// Nodes of `base` that are not in `tree`.
    pub(super) replaced: Vec<Arc<Node>>,
}

/// Adjacent nodes of one level that are replaced together.
struct Run {
    lower: Vec<u8>,
    upper: Option<Vec<u8>>,
    old: Vec<Arc<Node>>,
    /// Lower fences of the old nodes.
    old_keys: Vec<Vec<u8>>,
    /// Number of entries of the old nodes.
    old_entries: usize,
    /// The new content.
    entries: Vec<Entry>,
}

impl Run {
    /// A node with the operations in its range.
    fn new(at: NodeRange, operations: &mut Peekable<impl Iterator<Item = (Vec<u8>, Option<Item>)>>) -> Run {
        let old = at.node.entries(&at.lower);
        let old_entries = old.len();
        let mut entries = Vec::with_capacity(old_entries + 1);
        let mut old = old.into_iter().peekable();
        while let Some((key, item)) = operations.next_if(|(key, _)| at.upper.as_ref().is_none_or(|upper| key < upper)) {
            entries.extend(std::iter::from_fn(|| old.next_if(|entry| entry.key < key)));
            old.next_if(|entry| entry.key == key);
            entries.extend(item.map(|item| Entry { key, item }));
        }
        entries.extend(old);
        Run {
            old_keys: vec![at.lower.clone()],
            lower: at.lower,
            upper: at.upper,
            old: vec![at.node],
            old_entries,
            entries,
        }
    }

    /// Appends the run that follows directly.
    fn append(&mut self, mut next: Run) {
        self.upper = next.upper;
        self.old.append(&mut next.old);
        self.old_keys.append(&mut next.old_keys);
        self.old_entries += next.old_entries;
        self.entries.append(&mut next.entries);
    }

    fn packing(&self, kind: PageKind) -> Packing<'_> {
        Packing::new(kind, &self.entries, &self.lower, self.upper.as_deref())
    }

    /// Whether to include a neighbour: no entries are left, or one node became too full (two nodes then become three)
    /// or too empty.
    fn wants_neighbour(&self, kind: PageKind) -> bool {
        if self.entries.is_empty() || self.old.len() > 1 {
            return self.entries.is_empty();
        }
        let percent = self.packing(kind).percent();
        let appending = self.upper.is_none();
        (percent > 100 && !appending) || (percent < UNDERFULL && self.entries.len() < self.old_entries)
    }
}

/// Builds the tree after an edit.
pub(super) fn prepare(snapshot: Snapshot, change: &IndexEdit, builder: &Builder<'_>) -> Result<Prepared> {
    let operations = change.operations(&snapshot)?;
    let base = snapshot.tree;
    if operations.is_empty() {
        return Ok(Prepared { tree: base.clone(), base, replaced: Vec::new() });
    }
    let mut rebuild = Rebuild { base: &base, builder, replaced: Vec::new(), built: 0 };
    let (root, height) = rebuild.tree(operations)?;
    let Rebuild { replaced, built, .. } = rebuild;
    let segments = base.segments + change.insert.len() as u64 - change.remove.len() as u64;
    let nodes = base.nodes + built - replaced.len() as u64;
    let tree = Arc::new(IndexTree { version: base.version + 1, root, height, segments, nodes });
    Ok(Prepared { tree, base, replaced })
}

/// Builds a new tree from the leaves up.
struct Rebuild<'a> {
    base: &'a IndexTree,
    builder: &'a Builder<'a>,
    replaced: Vec<Arc<Node>>,
    built: u64,
}

impl Rebuild<'_> {
    /// The new root and its height.
    fn tree(&mut self, mut operations: Operations) -> Result<(Arc<Node>, u8)> {
        for level in (0..self.base.height).rev() {
            operations = self.level(level, operations)?;
        }
        let mut height = self.base.height;
        let mut top = children(operations);
        while top.len() > 1 {
            let packing = Packing::new(PageKind::IndexInner, &top, &[], None);
            top = self.nodes(PageKind::IndexInner, &packing, &top, Fill::Evenly)?;
            height += 1;
        }
        let Some(Entry { item: Item::Child(mut root), .. }) = top.pop() else {
            unreachable!("the first segment is always there")
        };
        while let [only] = root.children() {
            root = only.clone();
            self.built -= 1;
            height -= 1;
        }
        Ok((root, height))
    }

    /// Replaces the nodes of a level that the operations touch, and returns the resulting operations for the level
    /// above.
    fn level(&mut self, level: u8, operations: Operations) -> Result<Operations> {
        let kind = if level + 1 == self.base.height { PageKind::Index } else { PageKind::IndexInner };
        let mut above = Operations::new();
        for run in self.runs(level, kind, operations) {
            above.extend(run.old_keys.iter().map(|key| (key.clone(), None)));
            let fill = if run.upper.is_none() { Fill::Appending } else { Fill::Evenly };
            let nodes = self.nodes(kind, &run.packing(kind), &run.entries, fill)?;
            above.extend(nodes.into_iter().map(|entry| (entry.key, Some(entry.item))));
            self.replaced.extend(run.old);
        }
        Ok(above)
    }

    /// The runs of nodes that the operations touch, left to right. No run is without entries (except in an empty
    /// level), and no two runs are adjacent.
    fn runs(&self, level: u8, kind: PageKind, operations: Operations) -> Vec<Run> {
        let mut operations = operations.into_iter().peekable();
        let mut runs: Vec<Run> = Vec::new();
        while let Some((key, _)) = operations.peek() {
            let mut run = Run::new(self.base.locate(level, key), &mut operations);
            if let Some(mut before) = runs.pop_if(|before| before.upper.as_ref() == Some(&run.lower)) {
                before.append(run);
                run = before;
            }
            while run.wants_neighbour(kind)
                && let Some(upper) = run.upper.clone()
            {
                run.append(Run::new(self.base.locate(level, &upper), &mut operations));
            }
            while run.wants_neighbour(kind) && !run.lower.is_empty() {
                let mut before = self.before(level, &run.lower, &mut runs);
                before.append(run);
                run = before;
            }
            runs.push(run);
        }
        runs
    }

    /// The run directly before `lower`: the last run if it ends there, else an unchanged node.
    fn before(&self, level: u8, lower: &[u8], runs: &mut Vec<Run>) -> Run {
        let last = runs.pop_if(|last| last.upper.as_deref() == Some(lower));
        last.unwrap_or_else(|| Run::new(self.base.locate_below(level, lower), &mut std::iter::empty().peekable()))
    }

    /// Creates the nodes of packed entries; returns the entries for the level above.
    fn nodes(&mut self, kind: PageKind, packing: &Packing<'_>, entries: &[Entry], fill: Fill) -> Result<Vec<Entry>> {
        let mut nodes = Vec::new();
        for piece in packing.pieces(fill) {
            let node = self.builder.node(kind, &piece, &entries[piece.entries.clone()])?;
            self.built += 1;
            nodes.push(Entry { key: piece.lower, item: Item::Child(node) });
        }
        Ok(nodes)
    }
}

fn children(operations: Operations) -> Vec<Entry> {
    operations.into_iter().filter_map(|(key, item)| Some(Entry { key, item: item? })).collect()
}
