//! The disk budget of a keyspace (H12; hash.md, "Back-pressure and space"). Files reserve from the budget before they
//! reserve disk space, so the keyspace never exceeds it.

use std::{collections::HashMap, sync::Arc};

use ecotone_substrate::{
    Error, Result,
    storage::{Access, Counters, File, FileId, FileKind, Op, Queue, Storage},
};
use ecotone_sys::primitive::Mutex;

/// A disk budget, and the bytes of it that each file of the keyspace has reserved.
#[derive(Debug)]
pub(super) struct Budget {
    limit: u64,
    taken: Mutex<Taken>,
}

#[derive(Debug, Default)]
struct Taken {
    files: HashMap<FileId, u64>,
    /// The sum over all files.
    bytes: u64,
}

impl Taken {
    fn set(&mut self, file: FileId, bytes: u64) {
        self.bytes += bytes;
        self.bytes -= self.files.insert(file, bytes).unwrap_or(0);
    }
}

impl Budget {
    /// A budget of `limit` bytes.
    pub(super) fn new(limit: u64) -> Arc<Budget> {
        Arc::new(Budget { limit, taken: Mutex::default() })
    }

    /// Bytes that all files together may reserve.
    pub(super) fn limit(&self) -> u64 {
        self.limit
    }

    /// Bytes that all files have reserved.
    pub(super) fn used(&self) -> u64 {
        self.taken.lock().bytes
    }

    /// The error of a write that would exceed the budget.
    pub(super) fn refusal(&self) -> Error {
        Error::DiskBudget { budget: self.limit }
    }

    /// A storage over `storage` whose files are charged to the budget.
    pub(super) fn over(self: &Arc<Self>, storage: Arc<dyn Storage>) -> Arc<dyn Storage> {
        Arc::new(Budgeted { storage, budget: self.clone() })
    }

    fn take(&self, file: FileId, bytes: u64) -> Result<()> {
        let mut taken = self.taken.lock();
        if taken.bytes + bytes > self.limit {
            return Err(self.refusal());
        }
        let before = taken.files.get(&file).copied().unwrap_or(0);
        taken.set(file, before + bytes);
        Ok(())
    }

    fn set(&self, file: FileId, bytes: u64) {
        self.taken.lock().set(file, bytes);
    }

    /// Sets the bytes of a file, unless the file was removed meanwhile.
    fn correct(&self, file: FileId, bytes: u64) {
        let mut taken = self.taken.lock();
        if taken.files.contains_key(&file) {
            taken.set(file, bytes);
        }
    }

    fn forget(&self, file: FileId) {
        let mut taken = self.taken.lock();
        taken.set(file, 0);
        taken.files.remove(&file);
    }
}

/// A storage whose files are charged to a budget.
#[derive(Debug)]
struct Budgeted {
    storage: Arc<dyn Storage>,
    budget: Arc<Budget>,
}

impl Budgeted {
    fn counting(&self, file: Arc<dyn File>) -> Arc<dyn File> {
        Arc::new(Counting { file, budget: self.budget.clone() })
    }
}

impl Storage for Budgeted {
    fn list(&self) -> Result<Vec<FileId>> {
        self.storage.list()
    }

    fn create(&self, id: FileId, access: Access) -> Result<Arc<dyn File>> {
        let file = self.storage.create(id, access)?;
        self.budget.set(id, 0);
        Ok(self.counting(file))
    }

    fn open(&self, id: FileId, access: Access) -> Result<Arc<dyn File>> {
        let file = self.storage.open(id, access)?;
        self.budget.set(id, file.reserved()?);
        Ok(self.counting(file))
    }

    fn remove(&self, id: FileId) -> Result<()> {
        self.storage.remove(id)?;
        self.budget.forget(id);
        Ok(())
    }

    fn sync_dir(&self) -> Result<()> {
        self.storage.sync_dir()
    }

    fn queue(&self) -> Result<Box<dyn Queue>> {
        self.storage.queue()
    }

    fn free_space(&self) -> Result<u64> {
        Ok(self.storage.free_space()?.min(self.budget.limit() - self.budget.used().min(self.budget.limit())))
    }

    fn counters_of(&self, kind: FileKind) -> Counters {
        self.storage.counters_of(kind)
    }
}

/// A file that is charged to a budget.
#[derive(Debug)]
struct Counting {
    file: Arc<dyn File>,
    budget: Arc<Budget>,
}

impl Counting {
    fn count(&self) -> Result<()> {
        self.budget.correct(self.file.id(), self.file.reserved()?);
        Ok(())
    }
}

impl File for Counting {
    fn id(&self) -> FileId {
        self.file.id()
    }

    fn len(&self) -> Result<u64> {
        self.file.len()
    }

    fn unit(&self) -> usize {
        self.file.unit()
    }

    fn read(&self, buffer: &mut [u8], offset: u64) -> Result<()> {
        self.file.read(buffer, offset)
    }

    fn write(&self, buffer: &[u8], offset: u64) -> Result<()> {
        self.file.write(buffer, offset)
    }

    fn sync(&self) -> Result<()> {
        self.file.sync()
    }

    fn preallocate(&self, offset: u64, length: u64) -> Result<()> {
        self.budget.take(self.file.id(), length)?;
        self.file.preallocate(offset, length).inspect_err(|_| {
            // The caller needs the first error.
            let _ = self.count();
        })
    }

    fn punch(&self, offset: u64, length: u64) -> Result<bool> {
        let punched = self.file.punch(offset, length)?;
        self.count()?;
        Ok(punched)
    }

    fn set_len(&self, length: u64) -> Result<()> {
        self.file.set_len(length)?;
        self.count()
    }

    fn reserved(&self) -> Result<u64> {
        self.file.reserved()
    }

    fn forget(&self, offset: u64, length: u64) {
        self.file.forget(offset, length);
    }

    fn system(&self, op: Op) -> Option<Result<Arc<ecotone_sys::file::File>>> {
        self.file.system(op)
    }
}

#[cfg(test)]
#[cfg(not(feature = "loom"))]
mod tests {
    use ecotone_testkit::sim::SimStorage;

    use super::*;

    const MIB: u64 = 1 << 20;

    fn table(number: u32) -> FileId {
        FileId::Table { keyspace: 3, number }
    }

    #[test]
    fn files_count_from_their_making_to_their_removal_and_no_more_is_reserved_than_there_is() {
        let (disk, budget) = (SimStorage::new(1), Budget::new(2 * MIB));
        let storage = budget.over(Arc::new(disk.clone()));
        let first = storage.create(table(1), Access::Direct).unwrap();
        first.preallocate(0, MIB).unwrap();
        let second = storage.create(table(2), Access::Direct).unwrap();
        let refusal = second.preallocate(0, MIB + 4096).unwrap_err();
        assert!(refusal.is_no_space() && refusal.to_string().contains("larger option `disk`"), "{refusal}");
        second.preallocate(0, MIB).unwrap();
        assert_eq!((budget.used(), disk.space_used()), (2 * MIB, 2 * MIB));
        assert!(second.punch(4096, 8192).unwrap());
        first.set_len(MIB / 2).unwrap();
        assert_eq!((budget.used(), disk.space_used()), (MIB / 2 + MIB - 8192, MIB / 2 + MIB - 8192));
        storage.remove(table(2)).unwrap();
        // A reader still has the file open.
        second.punch(16384, 4096).unwrap();
        assert_eq!(budget.used(), MIB / 2);
        storage.remove_if_there(table(2)).unwrap();
    }

    #[test]
    fn a_full_disk_takes_nothing_of_the_budget_and_an_opening_counts_what_there_is() {
        let (disk, budget) = (SimStorage::new(1), Budget::new(8 * MIB));
        let storage = budget.over(Arc::new(disk.clone()));
        let file = storage.create(table(1), Access::Direct).unwrap();
        file.preallocate(0, MIB).unwrap();
        disk.space_limit(MIB);
        assert!(matches!(file.preallocate(MIB, MIB), Err(Error::NoSpace { .. })));
        assert_eq!(budget.used(), MIB);
        file.punch(0, 4096).unwrap();
        let later = Budget::new(8 * MIB);
        later.over(Arc::new(disk)).open(table(1), Access::Direct).unwrap();
        assert_eq!(later.used(), MIB - 4096);
    }
}
