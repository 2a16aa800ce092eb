//! What a version, and a strategy that chooses compactions, know of a table.

use ecotone_substrate::table::FileRef;

/// The properties of a table that a version needs.
pub(crate) trait TableMeta {
    /// Its file.
    fn file(&self) -> FileRef;
    /// Its first key.
    fn first(&self) -> &[u8];
    /// Its last key, which is not below the first.
    fn last(&self) -> &[u8];
    /// Bytes of its file.
    fn bytes(&self) -> u64;
    /// Its number of records, tombstones included, and its number of tombstones.
    fn records(&self) -> (u64, u64);
    /// Estimated fraction of the table in a key range, the upper bound excluded.
    fn fraction_in(&self, range: (&[u8], &[u8])) -> f64;
    /// Estimated bytes in a key range.
    fn bytes_within(&self, range: (&[u8], &[u8])) -> u64 {
        (self.bytes() as f64 * self.fraction_in(range)) as u64
    }
    /// How often a block of it was read for a key that it does not have.
    fn false_positive_reads(&self) -> u64;
}
