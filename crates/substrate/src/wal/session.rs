//! The session of an open log. It begins with the first write, not at open, so that opening a cleanly closed database
//! writes nothing (commit-and-recovery.md, "Manifest and sessions").

use std::sync::atomic::Ordering;

use super::{
    Wal,
    pool::Spare,
    record,
    segment::{Segment, SegmentHeader},
    successor::Successor,
};
use crate::{Result, Seq};

impl Wal {
    /// The incarnation of this session. If nothing was written before, the session begins: a fresh segment starts at
    /// the end of the log under a new incarnation, durable and named. A caller that writes a file with the incarnation
    /// gets it here.
    ///
    /// # Errors
    /// `NoSpace` if there is no space for the segment; then nothing has changed.
    pub fn begin_session(&self) -> Result<u64> {
        if !self.has_begun() {
            self.begin()?;
        }
        Ok(self.incarnation())
    }

    /// Whether anything was written in this session.
    pub fn has_begun(&self) -> bool {
        self.begun.load(Ordering::Acquire)
    }

    /// Sets the end of the log. Everything below is durable, or will be before the session begins. `used` is the
    /// highest incarnation.
    pub(super) fn ends_at(&self, end: Seq, used: u64) {
        self.append.lock().tail = end;
        self.incarnation.store(used, Ordering::SeqCst);
        for position in [&self.tail, &self.written, &self.synced] {
            position.store(end, Ordering::SeqCst);
        }
    }

    #[cold]
    fn begin(&self) -> Result<()> {
        let _guard = self.growing.lock();
        if self.has_begun() {
            return Ok(());
        }
        self.health.check()?;
        let segment = self.first_segment()?;
        self.ready(segment);
        self.give_back_odd(None)?;
        if self.pool.lock().spare.is_empty() {
            match self.add_segment(0) {
                // Writing begins when there is space.
                Err(error) if error.is_no_space() => tracing::warn!(%error, "the log has no segment to hold back"),
                result => result?,
            }
        }
        self.begun.store(true, Ordering::Release);
        Ok(())
    }

    /// Makes the first segment of the session. Its header is synced before any record is, so that no later session can
    /// take the same incarnation. Its name in the segment before is synced too (commit-and-recovery.md, invariant 6).
    fn first_segment(&self) -> Result<Segment> {
        let spare = self.take_spare()?;
        let start = self.tail();
        let header = self.header((start, start), self.incarnation().saturating_add(1), start, spare.bytes);
        let begun = Segment::begin(spare.file, header).and_then(|segment| segment.file.sync().map(|()| segment));
        let named = begun.and_then(|segment| self.name(&segment).map(|()| segment));
        named.map_err(|error| self.health.poison(error))
    }

    fn take_spare(&self) -> Result<Spare> {
        if self.pool.lock().spare.is_empty() {
            let last = self.pool.lock().chain.back().cloned();
            let named = last.and_then(|segment| segment.successor.ok().flatten()).map(|successor| successor.file);
            match self.add_segment(0) {
                Err(error) if error.is_no_space() && self.give_back_odd(named)? => self.add_segment(0)?,
                added => added?,
            }
        }
        Ok(self.pool.lock().spare.pop_back().expect("a segment was just added"))
    }

    /// Removes segments of other lengths that the log does not need, except `but`. Returns whether there was any.
    fn give_back_odd(&self, but: Option<u32>) -> Result<bool> {
        let odd: Vec<_> = self.pool.lock().odd.extract_if(.., |(number, _)| Some(*number) != but).collect();
        odd.iter().try_for_each(|(_, file)| self.storage.remove(file.id()))?;
        Ok(!odd.is_empty())
    }

    /// Names a segment durably in the segment in which the log ended.
    fn name(&self, segment: &Segment) -> Result<()> {
        let before = self.pool.lock().chain.back().cloned();
        let Some(Segment { file, header, .. }) = before else { return Ok(()) };
        Successor::of(segment).write(&*file, &header).and_then(|()| file.sync())
    }

    /// Begins appending in `segment`.
    fn ready(&self, segment: Segment) {
        let SegmentHeader { start, incarnation, .. } = segment.header;
        let mut pool = self.pool.lock();
        let mut appending = self.append.lock();
        appending.begin_at(segment.header.start, segment.header.end());
        pool.spare.iter().for_each(|spare| appending.add_segment(spare.payload()));
        appending.marked = start;
        appending.seed = record::seed(self.database, incarnation);
        pool.chain.push_back(segment.clone());
        drop((appending, pool));
        self.output.lock().segment = Some(segment);
        self.incarnation.store(incarnation, Ordering::SeqCst);
    }
}
