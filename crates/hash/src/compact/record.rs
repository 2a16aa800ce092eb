//! A copied record on its way to a run.

/// Key and value of a record.
#[derive(Debug, Default)]
pub(super) struct RecordCopy {
    key: Vec<u8>,
    value: Vec<u8>,
    deleted: bool,
}

impl RecordCopy {
    /// Sets key and value; no value is a tombstone.
    pub(super) fn set(&mut self, key: &[u8], value: Option<&[u8]>) {
        self.fill(|its_key, its_value| {
            its_key.extend_from_slice(key);
            its_value.extend_from_slice(value.unwrap_or_default());
            value.is_none()
        });
    }

    /// Sets what `fill` writes into the two empty buffers. `fill` returns whether the record is a tombstone.
    pub(super) fn fill(&mut self, fill: impl FnOnce(&mut Vec<u8>, &mut Vec<u8>) -> bool) {
        self.key.clear();
        self.value.clear();
        self.deleted = fill(&mut self.key, &mut self.value);
    }

    pub(super) fn key(&self) -> &[u8] {
        &self.key
    }

    /// `None` for a tombstone.
    pub(super) fn value(&self) -> Option<&[u8]> {
        (!self.deleted).then_some(&self.value)
    }
}
