//! Descriptors of keyspace files. They may be closed and opened again, so that there may be more files than a process
//! may have open (lsm.md, "Caches").
//!
//! Order of locks: the list of known descriptors, then one descriptor. A thread that holds the lock of a descriptor
//! never takes the lock of the list.

use std::{
    collections::{BTreeMap, VecDeque},
    io,
    sync::{
        Arc, Weak,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread,
    time::Duration,
};

use ecotone_sys::file::{Directory, File, Open, is_for_too_many, most_open};
use parking_lot::Mutex;

use crate::storage::FileId;

/// Keyspace files may have one of this many of the process's descriptors open; this is also the least number. Files
/// with unsynced writes stay open beyond that.
const PART: usize = 4;
const LEAST_FILES: usize = 4;
/// How often a thread that may open no more files tries again: other threads have files open for a transfer. The second
/// constant is the time in between.
const TRIES: usize = 2_000;
const PAUSE: Duration = Duration::from_millis(1);
/// Entries of the clock hand beyond twice the number of known files from which on dropped ones are removed.
const SPARE: usize = 64;

/// The descriptors of keyspace files.
#[derive(Debug)]
pub(super) struct Descriptors {
    /// The most that may be open.
    most: usize,
    /// The number that is open. Changed by a thread that has a descriptor locked.
    open: AtomicUsize,
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    /// By file and number, since a name may be reused while its former file is still held.
    all: BTreeMap<(FileId, u64), Weak<Lent>>,
    next: u64,
    /// The opened ones, one entry per opening, in the order of the clock hand.
    hand: VecDeque<Weak<Lent>>,
}

/// One descriptor.
#[derive(Debug)]
pub(super) struct Lent {
    among: Arc<Descriptors>,
    key: (FileId, u64),
    directory: Arc<Directory>,
    is_direct: bool,
    state: Mutex<State>,
    /// Whether it was used since the hand passed last, or since it was opened. Files used once are closed before files
    /// used again and again.
    is_used: AtomicBool,
}

#[derive(Debug)]
struct State {
    file: Option<Arc<File>>,
    /// Whether anything was written since the last sync. Such a descriptor stays open, since only it would report a
    /// failure of the disk. If too many are open it is synced first.
    is_unsynced: bool,
    /// Whether a sync has failed. The system reports that once.
    has_failed: bool,
    /// Whether the file's name was removed, so that it could not be opened again.
    is_nameless: bool,
}

impl Descriptors {
    /// A quarter of the files that the process may open.
    pub(super) fn of_process() -> Arc<Descriptors> {
        Descriptors::new((most_open() / PART).max(LEAST_FILES))
    }

    pub(super) fn new(most: usize) -> Arc<Descriptors> {
        Arc::new(Descriptors { most, open: AtomicUsize::new(0), known: Mutex::default() })
    }

    /// Adds a file that was just opened. This may close another one.
    pub(super) fn add(
        self: &Arc<Self>,
        id: FileId,
        directory: &Arc<Directory>,
        file: File,
        is_direct: bool,
    ) -> Arc<Lent> {
        self.open.fetch_add(1, Ordering::Relaxed);
        let mut known = self.known.lock();
        let key = (id, known.next);
        known.next += 1;
        let state = State { file: Some(Arc::new(file)), is_unsynced: false, has_failed: false, is_nameless: false };
        let (among, directory) = (self.clone(), directory.clone());
        let (state, is_used) = (Mutex::new(state), AtomicBool::new(false));
        let lent = Arc::new(Lent { among, key, directory, is_direct, state, is_used });
        known.all.insert(key, Arc::downgrade(&lent));
        drop(known);
        self.opened(&lent);
        lent
    }

    /// Keeps a file open that is about to lose its name, so that its holders can still read it.
    pub(super) fn keep(&self, id: FileId) -> io::Result<()> {
        let held: Vec<_> =
            self.known.lock().all.range((id, 0)..=(id, u64::MAX)).filter_map(|(_, lent)| lent.upgrade()).collect();
        held.iter().try_for_each(|lent| lent.keep())
    }

    /// Calls `open` repeatedly, for some time, until the process may open a file. Files that are not in use are closed
    /// for it.
    pub(super) fn open_patiently(&self, open: impl Fn() -> io::Result<File>) -> io::Result<File> {
        let mut tries = 0;
        loop {
            match open() {
                Err(error) if is_for_too_many(&error) && tries < TRIES => {
                    tries += 1;
                    self.close_all();
                    thread::sleep(PAUSE);
                }
                opened => return opened,
            }
        }
    }

    /// Closes all files that are not in use, after a sync if they have unsynced writes.
    fn close_all(&self) {
        let known: Vec<_> = self.known.lock().all.values().filter_map(Weak::upgrade).collect();
        known.iter().for_each(|lent| lent.close());
    }

    /// Number of open descriptors that may be closed.
    #[cfg(test)]
    fn open(&self) -> usize {
        self.open.load(Ordering::Relaxed)
    }

    /// Counts an opened descriptor.
    fn opened(&self, lent: &Arc<Lent>) {
        self.known.lock().hand.push_back(Arc::downgrade(lent));
        self.close_some();
    }

    /// Closes files that were not used lately while too many are open.
    fn close_some(&self) {
        if self.open.load(Ordering::Relaxed) <= self.most {
            return;
        }
        // Dropped when nothing is locked, since dropping the last reference takes the lock of the list.
        let mut met = Vec::new();
        let mut known = self.known.lock();
        for _ in 0..2 * known.hand.len() {
            if self.open.load(Ordering::Relaxed) <= self.most {
                break;
            }
            let Some(next) = known.hand.pop_front() else { break };
            let Some(candidate) = next.upgrade() else { continue };
            if candidate.stays_open() {
                known.hand.push_back(next);
            }
            met.push(candidate);
        }
        if known.hand.len() > 2 * known.all.len() + SPARE {
            // Removes entries of files without holders.
            known.hand.retain(|lent| lent.strong_count() > 0);
        }
        drop(known);
    }
}

impl Lent {
    /// The file, opened again if it was closed. `writes` says that the caller will write.
    pub(super) fn get(self: &Arc<Self>, writes: bool) -> io::Result<Arc<File>> {
        let mut tries = 0;
        loop {
            let mut state = self.state.lock();
            state.is_unsynced |= writes;
            if let Some(file) = &state.file {
                self.is_used.store(true, Ordering::Relaxed);
                return Ok(file.clone());
            }
            match self.open() {
                Ok(file) => {
                    let file = Arc::new(file);
                    state.file = Some(file.clone());
                    self.among.open.fetch_add(1, Ordering::Relaxed);
                    drop(state);
                    self.among.opened(self);
                    return Ok(file);
                }
                Err(error) if is_for_too_many(&error) && tries < TRIES => {
                    drop(state);
                    tries += 1;
                    self.among.close_all();
                    thread::sleep(PAUSE);
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Syncs the file. It may be closed afterwards, unless another thread writes meanwhile.
    pub(super) fn sync(self: &Arc<Self>) -> io::Result<()> {
        let file = self.get(false)?;
        self.sync_file(&file)?;
        self.among.close_some();
        Ok(())
    }

    fn sync_file(&self, file: &File) -> io::Result<()> {
        {
            let mut state = self.state.lock();
            if state.has_failed {
                return Err(io::Error::other("an earlier sync of it failed"));
            }
            state.is_unsynced = false;
        }
        file.sync().inspect_err(|_| {
            let mut state = self.state.lock();
            (state.is_unsynced, state.has_failed) = (true, true);
        })
    }

    /// Closes the file, unless it has no name. A thread that uses it just now keeps it open a little longer.
    fn close(&self) {
        let unsynced = self.state.try_lock().and_then(|state| state.file.clone().filter(|_| state.is_unsynced));
        if unsynced.is_some_and(|file| self.sync_file(&file).is_err()) {
            return;
        }
        let Some(mut state) = self.state.try_lock() else { return };
        if !state.is_unsynced && !state.is_nameless && state.file.take().is_some() {
            self.among.open.fetch_sub(1, Ordering::Relaxed);
        }
    }

    fn open(&self) -> io::Result<File> {
        self.directory.open_file(&self.key.0.to_string(), Open::Existing, self.is_direct)
    }

    fn keep(&self) -> io::Result<()> {
        let mut state = self.state.lock();
        match state.file {
            _ if state.is_nameless => return Ok(()),
            Some(_) => _ = self.among.open.fetch_sub(1, Ordering::Relaxed),
            None => state.file = Some(Arc::new(self.open()?)),
        }
        state.is_nameless = true;
        Ok(())
    }

    /// Whether the file stays open until the hand comes again. Otherwise it is closed, if it may be. A thread that
    /// reads just now keeps it open a little longer.
    fn stays_open(&self) -> bool {
        let Some(mut state) = self.state.try_lock() else { return true };
        if state.is_nameless || state.file.is_none() {
            return false;
        }
        let stays = state.is_unsynced || self.is_used.swap(false, Ordering::Relaxed);
        if !stays {
            state.file = None;
            self.among.open.fetch_sub(1, Ordering::Relaxed);
        }
        stays
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        let state = self.state.get_mut();
        if state.file.is_some() && !state.is_nameless {
            self.among.open.fetch_sub(1, Ordering::Relaxed);
        }
        self.among.known.lock().all.remove(&self.key);
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path, sync::Arc, thread};

    use ecotone_sys::chunk::{Arena, CHUNK_BYTES, Size};
    use tempfile::TempDir;

    use super::{Descriptors, FileId};
    use crate::{
        Error,
        disk::{Disk, Driver},
        limits::PAGE,
        storage::{Access, File, Op, Request, Storage},
    };

    const MOST: usize = 4;

    fn disk() -> (TempDir, Disk) {
        let directory = tempfile::tempdir().unwrap();
        let disk = Disk::with_descriptors(&directory.path().join("db"), true, Driver::Blocking, Descriptors::new(MOST))
            .unwrap();
        (directory, disk)
    }

    fn id(number: u32) -> FileId {
        FileId::Table { keyspace: 1, number }
    }

    fn table(disk: &Disk, number: u32) -> Arc<dyn File> {
        let file = disk.create(id(number), Access::Cached).unwrap();
        file.write(&[number as u8; PAGE], 0).unwrap();
        file
    }

    fn first_byte(file: &Arc<dyn File>) -> u8 {
        let mut page = [0; PAGE];
        file.read(&mut page, 0).unwrap();
        page[0]
    }

    /// Number of open descriptors of this process in a directory.
    fn open_below(directory: &Path) -> usize {
        let named = |path: &Path| path.starts_with(directory) && path.to_string_lossy().contains("table.");
        let links =
            fs::read_dir("/proc/self/fd").unwrap().flatten().filter_map(|entry| fs::read_link(entry.path()).ok());
        links.filter(|path| named(path)).count()
    }

    #[test]
    fn more_tables_than_may_be_open_are_read() {
        let (directory, disk) = disk();
        let tables: Vec<_> = (0..20).map(|number| table(&disk, number)).collect();
        assert_eq!(open_below(directory.path()), 20, "what is not synced stays open");
        tables.iter().for_each(|table| table.sync().unwrap());
        for round in 0..3 {
            for (number, table) in tables.iter().enumerate() {
                assert_eq!(first_byte(table), number as u8, "round {round}");
            }
            assert!(open_below(directory.path()) <= MOST, "round {round}");
        }
        drop(tables);
        assert_eq!((open_below(directory.path()), disk.directory.descriptors.open()), (0, 0));
    }

    #[test]
    fn who_is_read_all_the_time_stays_open() {
        let (_directory, disk) = disk();
        let tables: Vec<_> = (0..12).map(|number| table(&disk, number)).collect();
        tables.iter().for_each(|table| table.sync().unwrap());
        let system = |table: &Arc<dyn File>| table.system(Op::Read).unwrap().unwrap();
        let (_opened, first) = (system(&tables[0]), system(&tables[0]));
        for number in 1..100 {
            assert_eq!(first_byte(&tables[1 + number % 11]) as usize, 1 + number % 11);
            assert!(Arc::ptr_eq(&system(&tables[0]), &first));
        }
    }

    #[test]
    fn what_is_removed_while_it_is_held_stays_readable() {
        let (directory, disk) = disk();
        let held = table(&disk, 0);
        held.sync().unwrap();
        let others: Vec<_> = (1..9).map(|number| table(&disk, number)).collect();
        others.iter().for_each(|table| table.sync().unwrap());
        others.iter().for_each(|table| _ = first_byte(table));
        let named = |number: u32| directory.path().join("db").join(id(number).to_string());
        let links =
            || fs::read_dir("/proc/self/fd").unwrap().flatten().filter_map(|entry| fs::read_link(entry.path()).ok());
        assert!(!links().any(|path| path == named(0)), "it was to be closed");
        disk.remove(id(0)).unwrap();
        // The name is reused for another table.
        let again = disk.create(id(0), Access::Cached).unwrap();
        again.write(&[99; PAGE], 0).unwrap();
        again.sync().unwrap();
        for _ in 0..3 {
            others.iter().for_each(|table| _ = first_byte(table));
            assert_eq!((first_byte(&held), first_byte(&again)), (0, 99));
        }
    }

    #[test]
    fn a_table_that_cannot_be_opened_again_is_an_error_of_each_read() {
        let (directory, disk) = disk();
        let tables: Vec<_> = (0..9).map(|number| table(&disk, number)).collect();
        tables.iter().for_each(|table| table.sync().unwrap());
        tables[1..].iter().for_each(|table| _ = first_byte(table));
        fs::remove_file(directory.path().join("db").join(id(0).to_string())).unwrap();
        let says = |error: &Error| error.to_string().contains("cannot open") && error.to_string().contains("table.");
        assert!(says(&tables[0].read(&mut [0; PAGE], 0).unwrap_err()));
        let arena = Arena::new(CHUNK_BYTES);
        let (mut queue, mut done) = (disk.queue().unwrap(), Vec::new());
        for tag in [0, 8] {
            let block = arena.lease(Size::Frame, 0).unwrap();
            let file = tables[tag].clone();
            queue.submit(Request { file, op: Op::Read, offset: 0, len: PAGE, block, tag: tag as u64 });
        }
        assert_eq!(queue.in_flight(), 2);
        queue.complete(2, &mut done);
        done.sort_by_key(|done| done.request.tag);
        assert!(says(done[0].result.as_ref().unwrap_err()) && done[1].result.is_ok(), "{done:?}");
        assert_eq!((queue.in_flight(), done[1].request.block[0]), (0, 8));
    }

    #[test]
    fn many_threads_read_more_tables_than_may_be_open() {
        let (directory, disk) = disk();
        let tables: Vec<_> = (0..16).map(|number| table(&disk, number)).collect();
        tables.iter().for_each(|table| table.sync().unwrap());
        thread::scope(|scope| {
            for thread in 0..4 {
                let tables = &tables;
                scope.spawn(move || {
                    for step in 0..2000 {
                        let number = (thread * 5 + step * 7) % 16;
                        assert_eq!(first_byte(&tables[number]) as usize, number);
                    }
                });
            }
        });
        // A file that is read while the hand passes stays open.
        tables.iter().for_each(|table| _ = first_byte(table));
        assert!(disk.directory.descriptors.open() <= MOST && open_below(directory.path()) <= MOST);
    }

    #[test]
    fn a_file_of_another_kind_is_opened_once() {
        let (_directory, disk) = disk();
        let file = disk.create(FileId::Log(1), Access::Cached).unwrap();
        (0..9).for_each(|number| table(&disk, number).sync().unwrap());
        let system = |file: &Arc<dyn File>| file.system(Op::Read).unwrap().unwrap();
        assert!(Arc::ptr_eq(&system(&file), &system(&file)));
    }
}
