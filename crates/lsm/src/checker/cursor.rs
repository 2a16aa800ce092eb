//! Checked cursors: the read checker judges each record that a scan returns, and each gap that it passes over
//! (adaptive-protocol.md, "The read checker").

use std::sync::Arc;

use ecotone_engine::{
    contract::{Cursor, Range, RecordRef},
    remaining_range::{Direction, RemainingRange},
};
use ecotone_substrate::Result;

use crate::checker::{LogicalTime, ReadChecker};

/// A cursor, and the checker of what it returns.
pub(super) struct CheckedCursor {
    cursor: Box<dyn Cursor>,
    read_checker: Arc<ReadChecker>,
    /// The time at which the scan began.
    since: LogicalTime,
    is_over: bool,
    /// The end that moved last.
    direction: Direction,
}

impl CheckedCursor {
    pub(super) fn new(cursor: Box<dyn Cursor>, read_checker: Arc<ReadChecker>) -> CheckedCursor {
        let since = read_checker.now();
        CheckedCursor { cursor, read_checker, since, is_over: false, direction: Direction::Up }
    }
}

impl Cursor for CheckedCursor {
    /// Goes to the next record of an end. If there is none, the read checker judges that.
    fn advance(&mut self, direction: Direction) -> Result<bool> {
        let was_over = self.is_over;
        (self.is_over, self.direction) = (true, direction);
        let is_there = self.cursor.advance(direction)?;
        self.is_over = !is_there;
        if self.is_over && !was_over {
            let left = RemainingRange::new(self.cursor.remaining());
            self.read_checker.check_scan_step(self.since, &left, direction, None);
        }
        Ok(is_there)
    }

    /// Takes the present record, after the read checker has judged it.
    fn take(&mut self) -> Result<Option<RecordRef<'_>>> {
        let left = RemainingRange::new(self.cursor.remaining());
        let record = self.cursor.take()?;
        self.is_over = record.is_none();
        self.read_checker.check_scan_step(self.since, &left, self.direction, record);
        Ok(record)
    }

    fn remaining(&self) -> Range {
        self.cursor.remaining()
    }

    fn deletes_passed(&self) -> u64 {
        self.cursor.deletes_passed()
    }
}
