//! A cursor over the records of a memtable, in key order. Writers may change the memtable meanwhile.

use ecotone_substrate::{Seq, table::Answer};

use crate::memtable::{Memtable, arena::Address, node::Node};

/// On a record, before the first, or behind the last.
#[derive(Debug)]
pub(crate) struct Cursor<'m> {
    memtable: &'m Memtable,
    state: CursorPosition,
    /// The key that a step backward starts from.
    left: Vec<u8>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CursorPosition {
    Start,
    On(Address),
    End,
}

impl Memtable {
    /// A cursor before its first record.
    pub(crate) fn cursor(&self) -> Cursor<'_> {
        Cursor::new(self)
    }
}

impl<'m> Cursor<'m> {
    /// A cursor before the first record.
    pub(super) fn new(memtable: &'m Memtable) -> Cursor<'m> {
        Cursor { memtable, state: CursorPosition::Start, left: Vec::new() }
    }

    /// Moves to the next record that is present now. Returns false behind the last.
    pub(crate) fn advance(&mut self) -> bool {
        let Memtable { arena, list, .. } = self.memtable;
        let next = match self.state {
            CursorPosition::Start => list.next(arena, None),
            CursorPosition::On(node) => list.next(arena, Some(node)),
            CursorPosition::End => None,
        };
        // Nodes lie in the order of their insertion, so each step misses the processor's caches: prefetch the node
        // after the next.
        next.and_then(|next| list.next(arena, Some(next)))
            .into_iter()
            .for_each(|behind| Node(arena.from(behind)).prefetch());
        self.stand(next, CursorPosition::End)
    }

    /// Moves to the previous record that is present now. Returns false before the first.
    pub(crate) fn retreat(&mut self) -> bool {
        let Memtable { arena, list, .. } = self.memtable;
        let before = match self.state {
            CursorPosition::Start => None,
            CursorPosition::On(node) => {
                Node(arena.from(node)).read_key(&mut self.left);
                list.around(arena, &self.left).0
            }
            CursorPosition::End => list.last(arena),
        };
        self.stand(before, CursorPosition::Start)
    }

    /// Moves to the first record whose key is not below this one. Without one it returns false, behind the last record.
    pub(crate) fn seek(&mut self, key: &[u8]) -> bool {
        let (_, behind) = self.memtable.list.around(&self.memtable.arena, key);
        self.stand(behind, CursorPosition::End)
    }

    /// Moves to the last record whose key is below this one. Without one it returns false, before the first record.
    pub(crate) fn seek_back(&mut self, key: &[u8]) -> bool {
        let (before, _) = self.memtable.list.around(&self.memtable.arena, key);
        self.stand(before, CursorPosition::Start)
    }

    /// Moves to the last record. Returns false if there is none.
    pub(crate) fn go_to_last(&mut self) -> bool {
        self.state = CursorPosition::End;
        self.retreat()
    }

    /// Copies the current key.
    ///
    /// # Panics
    /// If it is on no record.
    pub(crate) fn read_key(&self, key: &mut Vec<u8>) {
        self.node().read_key(key);
    }

    /// Reads the current record and its sequence. The value is put into `value`.
    ///
    /// # Panics
    /// As [`read_key`](Self::read_key).
    pub(crate) fn read(&self, value: &mut Vec<u8>) -> (Answer, Seq) {
        self.memtable.record(self.node()).read(value)
    }

    fn node(&self) -> Node<'m> {
        match self.state {
            CursorPosition::On(node) => Node(self.memtable.arena.from(node)),
            CursorPosition::Start | CursorPosition::End => panic!("the cursor is on no record"),
        }
    }

    fn stand(&mut self, node: Option<Address>, otherwise: CursorPosition) -> bool {
        self.state = node.map_or(otherwise, CursorPosition::On);
        node.is_some()
    }
}
