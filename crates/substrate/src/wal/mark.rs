//! Marks: the first record appended after a sync has a mark before it that says how far the log was synced. A mark
//! behind the end of a log proves that the missing part was damaged, and not torn by a crash (`docs/format/log.md`,
//! "What damage looks like").

use super::record::{FRAME_BYTES, Frame, RecordKind, body_checksum};
use crate::{Seq, codec::is_zero, limits::SECTOR};

/// Bytes of the body: the position.
const BODY_BYTES: usize = 8;
/// Bytes of a mark.
pub(super) const MARK_BYTES: usize = FRAME_BYTES + BODY_BYTES;

/// A search for marks of one incarnation in log bytes that come piece by piece.
pub(super) struct Search {
    /// Initial value of the incarnation's checksums.
    seed: u32,
    /// The last bytes, in which a mark may begin, then the next piece.
    bytes: Vec<u8>,
    /// The position of the first byte in `bytes`.
    position: Seq,
    /// The greatest synced position found.
    pub(super) synced: Seq,
}

impl Search {
    /// Begins at `position`.
    pub(super) fn new(seed: u32, position: Seq) -> Self {
        Search { seed, bytes: Vec::new(), position, synced: 0 }
    }

    /// Searches the next bytes. A mark counts if its checksum is right, hence only where this incarnation wrote it.
    pub(super) fn look(&mut self, piece: &[u8]) {
        self.bytes.extend_from_slice(piece);
        for (start, sector) in (0..).step_by(SECTOR).zip(self.bytes.chunks(SECTOR)) {
            // Most bytes behind the end of a log were never written.
            if !is_zero(sector) {
                let found = (start..start + sector.len()).filter_map(|at| self.mark_at(at)).max();
                self.synced = self.synced.max(found.unwrap_or(0));
            }
        }
        let looked = (self.bytes.len() + 1).saturating_sub(MARK_BYTES);
        self.bytes.drain(..looked);
        self.position += looked as u64;
    }

    /// The position in the mark that begins at byte `at`, if there is one.
    fn mark_at(&self, at: usize) -> Option<Seq> {
        let (frame, body) = self.bytes.get(at..)?.split_first_chunk::<FRAME_BYTES>()?;
        let (frame, body) = (Frame::decode(*frame), body.first_chunk::<BODY_BYTES>()?);
        if frame.kind != RecordKind::Synced as u8 || frame.length as usize != BODY_BYTES {
            return None;
        }
        let right = Frame::new(self.seed, self.position + at as u64, frame.kind, frame.length, body_checksum(body));
        (right.checksum == frame.checksum).then(|| u64::from_le_bytes(*body))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mark(seed: u32, position: Seq, synced: Seq) -> Vec<u8> {
        let body = synced.to_le_bytes();
        let frame = Frame::new(seed, position, RecordKind::Synced as u8, 8, body_checksum(&body));
        [&frame.encode()[..], &body].concat()
    }

    #[test]
    fn a_mark_is_found_wherever_the_bytes_are_cut_and_only_where_it_was_written() {
        let mut log = vec![0; 3000];
        log.splice(700..700, mark(5, 1700, 90));
        log.splice(1600..1600, mark(5, 2600, 80));
        log.splice(2000..2000, mark(6, 3000, 99));
        for cut in 690..730 {
            for (first, expected) in [(1000, 90), (1001, 0)] {
                let mut search = Search::new(5, first);
                search.look(&log[..cut]);
                search.look(&[]);
                search.look(&log[cut..cut + 1]);
                search.look(&log[cut + 1..]);
                assert_eq!(search.synced, expected, "cut at {cut}, from {first}");
            }
        }
    }
}
