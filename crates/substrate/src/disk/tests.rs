use std::{
    fs,
    os::unix::fs::{MetadataExt, PermissionsExt},
    thread,
    time::{Duration, Instant},
};

use ecotone_sys::chunk::{Arena, Block, CHUNK_BYTES, Size};
use ecotone_testkit::thread_watch::ThreadWatch;
use tempfile::TempDir;

use super::*;
use crate::{
    limits::MAX_TABLES,
    storage::{Completion, FileKind, Op, Request},
};

const PAGE: usize = 4096;

/// A disk for each driver that works here, each in its own directory.
fn disks() -> Vec<(TempDir, Disk)> {
    let mut drivers = vec![Driver::Blocking];
    match uring::probe() {
        Ok(()) => drivers.extend([Driver::Uring, Driver::SleepingUring]),
        Err(error) => println!("io_uring is not tested here: {error}"),
    }
    let open = |driver| {
        let directory = tempfile::tempdir().unwrap();
        let disk = Disk::with_driver(directory.path().join("db"), true, driver).unwrap();
        assert_eq!(disk.driver(), driver);
        (directory, disk)
    };
    drivers.into_iter().map(open).collect()
}

fn block(arena: &Arc<Arena>, fill: u8) -> Block {
    let mut block = arena.lease(Size::Frame, 0).unwrap();
    block.fill(fill);
    block
}

fn request(file: &Arc<dyn File>, op: Op, page: u64, block: Block) -> Request {
    Request { file: file.clone(), op, offset: page * PAGE as u64, len: block.len(), block, tag: page }
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

fn names(disk: &Disk) -> Vec<FileId> {
    let mut files = disk.list().unwrap();
    files.sort();
    files
}

#[test]
fn files_are_made_listed_opened_and_removed() {
    for (directory, disk) in disks() {
        let table = FileId::Table { keyspace: u32::MAX, number: MAX_TABLES - 1 };
        let ids = [FileId::Manifest(7), FileId::Log(1), FileId::Double(0), FileId::Pages(u32::MAX), table];
        for id in ids {
            let file = disk.create(id, Access::Direct).unwrap();
            assert_eq!((file.id(), file.len().unwrap()), (id, 0));
            assert_eq!(mode(&directory.path().join("db").join(id.to_string())), 0o600);
        }
        fs::write(directory.path().join("db/notes.txt"), "not ours").unwrap();
        assert_eq!(names(&disk), ids);
        let again = disk.create(FileId::Log(1), Access::Direct).unwrap_err();
        assert!(again.to_string().contains("cannot create") && again.to_string().contains("db/log.1"), "{again}");
        disk.remove(FileId::Log(1)).unwrap();
        disk.sync_dir().unwrap();
        assert_eq!(names(&disk).len(), 4);
        let missing = disk.open(FileId::Log(1), Access::Cached).unwrap_err();
        assert!(
            matches!(&missing, Error::Io { action: "open", source, .. } if source.kind() == io::ErrorKind::NotFound),
            "{missing}"
        );
        assert!(matches!(disk.remove(FileId::Log(1)), Err(Error::Io { action: "remove", .. })));
    }
}

#[test]
fn blocking_calls_and_queues_see_the_same_bytes() {
    for (_directory, disk) in disks() {
        let (file, arena) = (disk.create(FileId::Pages(1), Access::Direct).unwrap(), Arena::new(CHUNK_BYTES));
        file.preallocate(0, 100 * PAGE as u64).unwrap();
        assert_eq!(file.len().unwrap(), 100 * PAGE as u64);
        let (mut queue, mut done) = (disk.queue().unwrap(), Vec::new());
        (0..100).for_each(|page| queue.submit(request(&file, Op::Write, page, block(&arena, page as u8))));
        queue.complete(100, &mut done);
        assert!(done.drain(..).all(|done: Completion| done.result.is_ok()));
        file.sync().unwrap();
        let mut page = block(&arena, 0);
        for number in 0..100 {
            file.read(&mut page, number * PAGE as u64).unwrap();
            assert!(page.iter().all(|byte| *byte == number as u8));
        }
        page.fill(0xEE);
        file.write(&page, 5 * PAGE as u64).unwrap();
        queue.submit(request(&file, Op::Read, 5, block(&arena, 0)));
        assert_eq!(queue.in_flight(), 1);
        queue.complete(1, &mut done);
        assert_eq!(
            (done[0].request.tag, done[0].request.op, done[0].request.file.id()),
            (5, Op::Read, FileId::Pages(1))
        );
        assert!(done[0].request.block.iter().all(|byte| *byte == 0xEE));
    }
}

#[test]
fn a_file_that_ends_early_is_corrupt() {
    for (_directory, disk) in disks() {
        let (file, arena) = (disk.create(FileId::Log(3), Access::Cached).unwrap(), Arena::new(CHUNK_BYTES));
        file.write(b"twelve bytes", 0).unwrap();
        let mut buffer = [0; 5];
        file.read(&mut buffer, 7).unwrap();
        assert_eq!(&buffer, b"bytes");
        let (mut queue, mut done) = (disk.queue().unwrap(), Vec::new());
        queue.submit(Request { offset: 8, len: 5, ..request(&file, Op::Read, 0, block(&arena, 0)) });
        queue.complete(1, &mut done);
        for error in [file.read(&mut buffer, 8).unwrap_err(), done.pop().unwrap().result.unwrap_err()] {
            assert!(
                matches!(&error, Error::Corruption { file, offset: 8, what }
                    if file == "log.3" && what == "the file ends early"),
                "{error}"
            );
        }
    }
}

#[test]
fn a_failed_write_is_an_io_error_with_the_path() {
    for (directory, disk) in disks() {
        let (file, arena) = (disk.create(FileId::Log(3), Access::Cached).unwrap(), Arena::new(CHUNK_BYTES));
        // No file is that long.
        let far = (i64::MAX as u64) - 100;
        let (mut queue, mut done) = (disk.queue().unwrap(), Vec::new());
        queue.submit(Request { offset: far, ..request(&file, Op::Write, 0, block(&arena, 0)) });
        queue.complete(1, &mut done);
        let path = directory.path().join("db/log.3").canonicalize().unwrap().display().to_string();
        for error in [file.write(&[0; PAGE], far).unwrap_err(), done.pop().unwrap().result.unwrap_err()] {
            assert!(matches!(&error, Error::Io { action: "write", file, .. } if *file == path), "{error}");
        }
    }
}

#[test]
fn a_full_disk_is_no_space_only_from_preallocation() {
    // A tmpfs refuses at once; other file systems would fill up first.
    let Ok(directory) = TempDir::new_in("/dev/shm") else { return };
    let disk = Disk::with_driver(directory.path(), true, Driver::Blocking).unwrap();
    let file = disk.create(FileId::Table { keyspace: 9, number: 2 }, Access::Cached).unwrap();
    file.write(&[1; 100], 0).unwrap();
    match file.preallocate(0, 1 << 50) {
        Err(Error::NoSpace { file, wanted }) => assert_eq!((file.as_str(), wanted), ("table.9.2", 1 << 50)),
        other => panic!("{other:?}"),
    }
    file.preallocate(0, 4096).unwrap();
}

#[test]
fn counters_are_what_was_submitted() {
    for (_directory, disk) in disks() {
        let (file, arena) = (disk.create(FileId::Pages(1), Access::Direct).unwrap(), Arena::new(CHUNK_BYTES));
        assert_eq!(disk.counters(), Counters::default());
        file.write(&arena.lease(Size::Slab, 0).unwrap(), 0).unwrap();
        file.read(&mut block(&arena, 0), 0).unwrap();
        let mut queue = disk.queue().unwrap();
        (0..10).for_each(|page| queue.submit(request(&file, Op::Read, page, block(&arena, 0))));
        (0..3).for_each(|page| queue.submit(request(&file, Op::Write, page, block(&arena, 0))));
        drop(queue);
        file.sync().unwrap();
        disk.sync_dir().unwrap();
        let expected =
            Counters { reads: 11, writes: 4, read_bytes: 11 * 4096, write_bytes: 65536 + 3 * 4096, syncs: 2 };
        assert_eq!(disk.counters(), expected);
        assert_eq!(disk.counters_of(FileKind::Pages), Counters { syncs: 1, ..expected });
        assert_eq!(disk.counters_of(FileKind::Directory), Counters { syncs: 1, ..Counters::default() });
        assert_eq!(disk.counters_of(FileKind::Log), Counters::default());
    }
}

#[test]
fn a_part_of_a_blank_page_is_written_without_a_read() {
    for (directory, disk) in disks() {
        let file = disk.create(FileId::Log(1), Access::Cached).unwrap();
        file.write(&[1; 4 * PAGE], 0).unwrap();
        file.sync().unwrap();
        file.forget(0, 4 * PAGE as u64);
        let (counted, before) = (disk.counters(), kernel_bytes("thread-self", directory.path()));
        file.blank(PAGE as u64).unwrap();
        assert_eq!(disk.counters(), counted);
        file.write(&[2; 100], PAGE as u64).unwrap();
        assert_eq!(kernel_bytes("thread-self", directory.path()).map(|of| of.0), before.map(|of| of.0));
        let mut bytes = [9; 3 * PAGE];
        file.read(&mut bytes, 0).unwrap();
        let mut expected = [[1; PAGE], [0; PAGE], [1; PAGE]].concat();
        expected[PAGE..][..100].fill(2);
        assert_eq!(bytes[..], expected);
    }
}

/// Bytes that this process, or this thread, has read and written, as the kernel counts them. `None` if the kernel does
/// not count them, as for files on no block device (tmpfs).
fn kernel_bytes(whose: &str, path: &Path) -> Option<(u64, u64)> {
    let major = fs::metadata(path).ok()?.dev() >> 8 & 0xFFF;
    if major == 0 {
        return None;
    }
    let text = fs::read_to_string(format!("/proc/{whose}/io")).ok()?;
    let value = |name| text.lines().find_map(|line| line.strip_prefix(name)?.parse().ok());
    Some((value("read_bytes: ")?, value("write_bytes: ")?))
}

#[test]
fn the_kernel_counts_at_least_what_the_counters_say() {
    for (directory, disk) in disks() {
        let (file, arena) = (disk.create(FileId::Pages(1), Access::Direct).unwrap(), Arena::new(2 * CHUNK_BYTES));
        let (true, Some(before)) =
            (file.system(Op::Read).unwrap().unwrap().is_direct(), kernel_bytes("self", directory.path()))
        else {
            println!("no direct I/O to a block device, or no /proc/self/io");
            return;
        };
        let mut queue = disk.queue().unwrap();
        for op in [Op::Write, Op::Read] {
            (0..256).for_each(|page| queue.submit(request(&file, op, page, block(&arena, 1))));
            queue.complete(256, &mut Vec::new());
        }
        file.write(&block(&arena, 2), 0).unwrap();
        file.read(&mut block(&arena, 0), 0).unwrap();
        let (after, counters) = (kernel_bytes("self", directory.path()).unwrap(), disk.counters());
        // Other tests of this process may run at the same time and add to the kernel's numbers.
        assert!(after.0 - before.0 >= counters.read_bytes, "{before:?} {after:?} {counters:?}");
        assert!(after.1 - before.1 >= counters.write_bytes, "{before:?} {after:?} {counters:?}");
    }
}

#[test]
fn queues_come_from_a_pool() {
    for (_directory, disk) in disks() {
        drop((disk.queue().unwrap(), disk.queue().unwrap()));
        assert_eq!(disk.directory.pool.lock().len(), 2);
        let queue = disk.queue().unwrap();
        assert_eq!(disk.directory.pool.lock().len(), 1);
        drop(queue);
        assert_eq!(disk.directory.pool.lock().len(), 2);
    }
}

#[test]
fn a_queue_given_back_with_requests_in_flight_is_clean() {
    for (_directory, disk) in disks() {
        let (file, arena) = (disk.create(FileId::Pages(1), Access::Direct).unwrap(), Arena::new(CHUNK_BYTES));
        let mut queue = disk.queue().unwrap();
        (0..200).for_each(|page| queue.submit(request(&file, Op::Write, page, block(&arena, 1))));
        drop(queue);
        assert_eq!((arena.held_bytes(), file.len().unwrap()), (0, 200 * PAGE as u64));
        let (mut queue, mut done) = (disk.queue().unwrap(), Vec::new());
        queue.complete(usize::MAX, &mut done);
        assert!(done.is_empty() && queue.in_flight() == 0);
    }
}

#[test]
#[should_panic(expected = "not aligned")]
fn a_direct_file_wants_alignment_wherever_it_lies() {
    let directory = tempfile::tempdir().unwrap();
    let disk = Disk::open(directory.path(), true).unwrap();
    let file = disk.create(FileId::Pages(1), Access::Direct).unwrap();
    let _ = file.write(&[0; 500], 0);
}

#[test]
fn opening_makes_a_private_directory_or_says_what_is_missing() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("db");
    let why = |result: Result<Disk>| result.unwrap_err().to_string();
    assert!(why(Disk::open(&path, false)).contains("no such directory"));
    assert!(why(Disk::open(path.join("deep"), true)).contains("cannot create the directory"));
    drop(Disk::open(&path, true).unwrap());
    assert_eq!((mode(&path), mode(&path.join("LOCK"))), (0o700, 0o600));
    assert!(why(Disk::open(&path, false)).contains("none of its files"));
    drop(Disk::open(&path, true).unwrap().create(FileId::Manifest(1), Access::Cached).unwrap());
    drop(Disk::open(&path, false).unwrap());
    assert!(matches!(Disk::open(path.join("manifest.1"), false), Err(Error::NotADatabase { .. })));
    assert!(matches!(Disk::open(path.join("manifest.1"), true), Err(Error::NotADatabase { .. })));
    assert!(!directory.path().join("elsewhere").exists());
}

#[test]
fn links_are_not_followed() {
    let directory = tempfile::tempdir().unwrap();
    let target = directory.path().join("target");
    fs::write(&target, "precious").unwrap();
    let disk = Disk::open(directory.path().join("db"), true).unwrap();
    std::os::unix::fs::symlink(&target, directory.path().join("db/log.1")).unwrap();
    assert!(disk.open(FileId::Log(1), Access::Cached).is_err());
    assert!(disk.create(FileId::Log(1), Access::Cached).is_err());
    drop(disk);
    fs::remove_file(directory.path().join("db/LOCK")).unwrap();
    std::os::unix::fs::symlink(&target, directory.path().join("db/LOCK")).unwrap();
    assert!(matches!(Disk::open(directory.path().join("db"), true), Err(Error::Io { .. })));
    assert_eq!(fs::read_to_string(&target).unwrap(), "precious");
}

#[test]
fn names_hold_no_path_and_only_ours_are_parsed() {
    let table = FileId::Table { keyspace: u32::MAX, number: 3 };
    let segment = FileId::Segment { keyspace: 7, number: MAX_TABLES - 1 };
    let ids = [
        FileId::Manifest(u64::MAX),
        FileId::Log(0),
        FileId::Double(1),
        FileId::Pages(2),
        table,
        segment,
        FileId::Scratch(4),
    ];
    for id in ids {
        let name = id.to_string();
        assert!(
            name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'.') && !name.contains(".."),
            "{name}"
        );
        assert_eq!(FileId::parse(&name), Some(id));
    }
    for name in [
        "",
        ".",
        "..",
        "LOCK",
        "log",
        "log.",
        "log.01",
        "log.+1",
        "log.-1",
        "log.1.2",
        "log.4294967296",
        "../log.1",
        "log./1",
        "Log.1",
        "table.1",
        "table.1.02",
        "table.1.16777216",
        "segment.1",
        "segment.1.2.3",
        "segment.1.16777216",
    ] {
        assert_eq!(FileId::parse(name), None, "{name:?}");
    }
}

#[test]
fn one_opening_at_a_time_in_a_process() {
    let directory = tempfile::tempdir().unwrap();
    let disk = Disk::open(directory.path().join("db"), true).unwrap();
    let start = Instant::now();
    for path in ["db", "db/.", "db/../db"] {
        assert!(matches!(Disk::open(directory.path().join(path), true), Err(Error::Locked { .. })), "{path}");
    }
    assert!(start.elapsed() < Duration::from_millis(100), "the answer comes at once");
    // The lock stays while any handle can write.
    let file = disk.create(FileId::Log(1), Access::Cached).unwrap();
    drop(disk);
    assert!(matches!(Disk::open(directory.path().join("db"), true), Err(Error::Locked { .. })));
    drop(file);
    drop(Disk::open(directory.path().join("db"), true).unwrap());
}

#[test]
fn a_lock_held_elsewhere_is_waited_for_a_moment() {
    let directory = tempfile::tempdir().unwrap();
    let hold = || {
        let file = system::File::open(&directory.path().join("LOCK"), system::Open::Any, false).unwrap();
        assert!(file.try_lock_exclusive().unwrap());
        file
    };
    let held = hold();
    let start = Instant::now();
    assert!(matches!(Disk::open(directory.path(), true), Err(Error::Locked { .. })));
    assert!(start.elapsed() >= Duration::from_millis(180));
    let watch = ThreadWatch::default();
    thread::scope(|scope| {
        let opened = scope.spawn(|| {
            watch.begin();
            Disk::open(directory.path(), true).map(drop)
        });
        watch.wait_asleep();
        // Processes that other tests fork have it open for longer.
        held.unlock().unwrap();
        opened.join().unwrap().unwrap();
    });
    // A refusal leaves no trace in the registry.
    drop(Disk::open(directory.path(), true).unwrap());
}

#[test]
fn more_threads_read_at_once_than_there_are_readers() {
    const THREADS: usize = 80;
    for (_directory, disk) in disks() {
        let file = disk.create(FileId::Pages(1), Access::Cached).unwrap();
        let pages: Vec<u8> = (0..THREADS).flat_map(|page| [page as u8; PAGE]).collect();
        file.write(&pages, 0).unwrap();
        let begin = std::sync::Barrier::new(THREADS);
        std::thread::scope(|scope| {
            for number in 0..THREADS {
                let (file, begin, pages) = (&file, &begin, &pages);
                scope.spawn(move || {
                    let mut page = [0xFF; PAGE];
                    begin.wait();
                    for at in (number..THREADS).chain(0..number) {
                        file.read(&mut page, (at * PAGE) as u64).unwrap();
                        assert_eq!(page, [at as u8; PAGE]);
                    }
                    let beyond = file.read(&mut page, pages.len() as u64 - 1);
                    assert!(matches!(beyond, Err(Error::Corruption { .. })), "{beyond:?}");
                });
            }
        });
        assert_eq!(disk.counters_of(FileKind::Pages).reads, (THREADS * (THREADS + 1)) as u64);
    }
}

#[test]
fn a_closed_disk_is_another_ones() {
    for (directory, disk) in disks() {
        let file = disk.create(FileId::Pages(1), Access::Cached).unwrap();
        file.write(&[1; PAGE], 0).unwrap();
        let arena = Arena::new(CHUNK_BYTES);
        let mut queue = disk.queue().unwrap();
        let read = |tag| Request {
            file: file.clone(),
            op: Op::Read,
            offset: 0,
            block: arena.lease(Size::Frame, 0).unwrap(),
            len: PAGE,
            tag,
        };
        queue.submit(read(1));
        disk.close();
        let is_closed = |result: Result<()>| assert!(matches!(result, Err(Error::Closed { .. })), "{result:?}");
        let other = Disk::open(directory.path().join("db"), true).unwrap();
        other.open(FileId::Pages(1), Access::Cached).unwrap().write(&[2; PAGE], 0).unwrap();
        is_closed(file.write(&[3; PAGE], 0));
        is_closed(file.read(&mut [0; PAGE], 0));
        is_closed(file.sync());
        is_closed(file.preallocate(0, 1 << 20));
        is_closed(disk.remove(FileId::Pages(1)));
        is_closed(disk.create(FileId::Pages(2), Access::Cached).map(drop));
        is_closed(disk.open(FileId::Pages(1), Access::Cached).map(drop));
        is_closed(disk.queue().map(drop));
        queue.submit(Request { op: Op::Write, ..read(2) });
        let mut done = Vec::new();
        queue.complete(2, &mut done);
        assert_eq!(done.len(), 2);
        done.into_iter().for_each(|done| is_closed(done.result));
        drop((queue, file, disk));
        assert!(
            matches!(Disk::open(directory.path().join("db"), true), Err(Error::Locked { .. })),
            "it is the other one's"
        );
        let mut page = [0; PAGE];
        other.open(FileId::Pages(1), Access::Cached).unwrap().read(&mut page, 0).unwrap();
        assert_eq!(page, [2; PAGE]);
    }
}

#[test]
#[expect(clippy::disallowed_methods, reason = "it is what users do")]
fn a_directory_that_is_moved_stays_what_it_is() {
    for (directory, disk) in disks() {
        let [here, there] = ["db", "moved"].map(|name| directory.path().join(name));
        disk.create(FileId::Pages(1), Access::Cached).unwrap().write(&[1; PAGE], 0).unwrap();
        std::fs::rename(&here, &there).unwrap();
        let stranger = Disk::open(&here, true).unwrap();
        disk.create(FileId::Pages(2), Access::Cached).unwrap();
        disk.remove(FileId::Pages(1)).unwrap();
        disk.sync_dir().unwrap();
        assert_eq!((stranger.list().unwrap(), disk.list().unwrap()), (vec![], vec![FileId::Pages(2)]));
        assert!(there.join("pages.2").exists());
        assert!(matches!(Disk::open(&there, true), Err(Error::Locked { .. })), "it is open");
    }
}

#[test]
fn a_process_that_was_forked_off_touches_nothing() {
    for (directory, disk) in disks() {
        let file = disk.create(FileId::Pages(1), Access::Cached).unwrap();
        let ended = ecotone_sys::process::in_a_fork(|| {
            let forked = [
                file.write(&[1; PAGE], 0),
                file.read(&mut [0; PAGE], 0),
                disk.remove(FileId::Pages(1)),
                disk.queue().map(drop),
                disk.sync_dir(),
            ];
            let are_refused = forked.iter().all(|result| matches!(result, Err(Error::Forked)));
            // The directory still belongs to the parent process.
            let is_locked = matches!(Disk::open(directory.path().join("db"), true), Err(Error::Locked { .. }));
            u8::from(are_refused) + 2 * u8::from(is_locked)
        });
        assert_eq!(ended.unwrap(), Some(3));
        file.write(&[7; PAGE], 0).unwrap();
    }
}

/// The forked copy has the lock file open, and lives on.
#[test]
fn a_process_that_was_forked_off_keeps_nobody_from_opening_what_was_closed() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("db");
    let disk = Disk::open(&path, true).unwrap();
    let [is_forked, closed] = ["forked", "closed"].map(|name| directory.path().join(name));
    thread::scope(|scope| {
        let forked = scope.spawn(|| {
            ecotone_sys::process::in_a_fork(|| {
                std::fs::write(&is_forked, "").expect("the directory is there");
                while !closed.exists() {
                    thread::sleep(Duration::from_millis(1));
                }
                let opened = Disk::open(&path, true);
                u8::from(opened.is_ok())
            })
        });
        while !is_forked.exists() {
            thread::yield_now();
        }
        disk.close();
        drop(Disk::open(&path, true).unwrap());
        std::fs::write(&closed, "").unwrap();
        assert_eq!(forked.join().unwrap().unwrap(), Some(1), "and it may open it itself");
    });
}
