//! A place among the records of a memtable, which others go on changing.

use ecotone_substrate::{Seq, table::Answer};

use super::{Memtable, arena::Address, node::Node};

/// On a record, before the first, or behind the last.
#[derive(Debug)]
pub(crate) struct Cursor<'m> {
    memtable: &'m Memtable,
    state: State,
    /// The key that is left backward.
    left: Vec<u8>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Start,
    On(Address),
    End,
}

impl<'m> Cursor<'m> {
    /// Before the first record.
    pub(super) fn new(memtable: &'m Memtable) -> Cursor<'m> {
        Cursor { memtable, state: State::Start, left: Vec::new() }
    }

    /// Goes to the next record that there is now. False behind the last.
    pub(crate) fn advance(&mut self) -> bool {
        let Memtable { arena, list, .. } = self.memtable;
        let next = match self.state {
            State::Start => list.next(arena, None),
            State::On(node) => list.next(arena, Some(node)),
            State::End => None,
        };
        // Nodes lie in the order in which they came, so each is a miss of the processor's caches.
        next.and_then(|next| list.next(arena, Some(next)))
            .into_iter()
            .for_each(|behind| Node(arena.from(behind)).prefetch());
        self.stand(next, State::End)
    }

    /// Goes to the record before that there is now. False before the first.
    pub(crate) fn retreat(&mut self) -> bool {
        let Memtable { arena, list, .. } = self.memtable;
        let before = match self.state {
            State::Start => None,
            State::On(node) => {
                Node(arena.from(node)).read_key(&mut self.left);
                list.around(arena, &self.left).0
            }
            State::End => list.last(arena),
        };
        self.stand(before, State::Start)
    }

    /// Goes to the first record whose key is not below this one. False, and behind the last, if there is none.
    pub(crate) fn seek(&mut self, key: &[u8]) -> bool {
        let (_, behind) = self.memtable.list.around(&self.memtable.arena, key);
        self.stand(behind, State::End)
    }

    /// Goes to the last record whose key is below this one. False, and before the first, if there is none.
    pub(crate) fn seek_back(&mut self, key: &[u8]) -> bool {
        let (before, _) = self.memtable.list.around(&self.memtable.arena, key);
        self.stand(before, State::Start)
    }

    /// Goes to the last record. False if there is none.
    pub(crate) fn go_to_last(&mut self) -> bool {
        self.state = State::End;
        self.retreat()
    }

    /// Copies the present key.
    ///
    /// # Panics
    /// If it is on no record.
    pub(crate) fn read_key(&self, key: &mut Vec<u8>) {
        self.node().read_key(key);
    }

    /// What the present record says now, with its sequence. The value is put into `value`.
    ///
    /// # Panics
    /// As [`read_key`](Self::read_key).
    pub(crate) fn read(&self, value: &mut Vec<u8>) -> (Answer, Seq) {
        self.memtable.record(self.node()).read(value)
    }

    fn node(&self) -> Node<'m> {
        match self.state {
            State::On(node) => Node(self.memtable.arena.from(node)),
            State::Start | State::End => panic!("the cursor is on no record"),
        }
    }

    fn stand(&mut self, node: Option<Address>, otherwise: State) -> bool {
        self.state = node.map_or(otherwise, State::On);
        node.is_some()
    }
}
