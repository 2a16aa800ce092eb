use std::{
    fs as std_fs,
    os::unix::fs::{PermissionsExt, symlink},
    path::PathBuf,
};

use tempfile::TempDir;

use super::*;
use crate::chunk::{Arena, Block, CHUNK_BYTES, Size};

fn place() -> (TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("file");
    (directory, path)
}

fn filled(byte: u8) -> Block {
    let mut block = Arena::new(CHUNK_BYTES).lease(Size::Slab, 0).unwrap();
    block.fill(byte);
    block
}

#[test]
fn opening_says_what_is_there_and_makes_private_files() {
    let (directory, path) = place();
    assert_eq!(File::open(&path, Open::Existing, false).unwrap_err().kind(), io::ErrorKind::NotFound);
    drop(File::open(&path, Open::New, true).unwrap());
    assert_eq!(File::open(&path, Open::New, true).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
    drop(File::open(&path, Open::Existing, true).unwrap());
    drop(File::open(&path, Open::Any, false).unwrap());
    assert_eq!(std_fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    let made = directory.path().join("made");
    create_directory(&made).unwrap();
    assert_eq!(std_fs::metadata(&made).unwrap().permissions().mode() & 0o777, 0o700);
    assert_eq!(create_directory(&made).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
    assert!(Directory::open(&path).is_err(), "a file is no directory");
}

#[test]
fn a_directory_is_the_same_wherever_it_is() {
    let (directory, _) = place();
    let [here, there] = ["here", "there"].map(|name| directory.path().join(name));
    create_directory(&here).unwrap();
    let handle = Directory::open(&here).unwrap();
    handle.open_file("one", Open::New, false).unwrap().write_at(&[1], 0).unwrap();
    std_fs::rename(&here, &there).unwrap();
    create_directory(&here).unwrap();
    assert_ne!(Directory::open(&here).unwrap().identity().unwrap(), handle.identity().unwrap());
    drop(handle.open_file("two", Open::New, true).unwrap());
    handle.sync().unwrap();
    let mut names = handle.names().unwrap();
    names.sort();
    assert_eq!(names, ["one", "two"]);
    assert_eq!(std_fs::read(there.join("one")).unwrap(), [1]);
    handle.remove("one").unwrap();
    assert_eq!(handle.remove("one").unwrap_err().kind(), io::ErrorKind::NotFound);
    assert_eq!((handle.names().unwrap().len(), std_fs::read_dir(&here).unwrap().count()), (1, 0));
    assert!(handle.free_space().unwrap() > 0);
}

#[test]
fn a_lock_that_is_given_back_is_free_though_the_file_is_open_still() {
    let (_directory, path) = place();
    let [one, other] = [(); 2].map(|()| File::open(&path, Open::Any, false).unwrap());
    assert!(one.try_lock_exclusive().unwrap() && !other.try_lock_exclusive().unwrap());
    one.unlock().unwrap();
    assert!(other.try_lock_exclusive().unwrap());
}

#[test]
fn only_regular_files_and_no_links_are_opened() {
    let (directory, path) = place();
    std_fs::write(&path, "target").unwrap();
    let link = directory.path().join("link");
    symlink(&path, &link).unwrap();
    for open in [Open::Existing, Open::Any, Open::New] {
        assert!(File::open(&link, open, false).is_err(), "{open:?}");
    }
    let error = File::open(std::path::Path::new("/dev/null"), Open::Existing, false).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
}

#[test]
fn bytes_come_back_and_the_end_is_told() {
    for direct in [false, true] {
        let (_directory, path) = place();
        let file = File::open(&path, Open::New, direct).unwrap();
        file.write_at(&filled(1), 0).unwrap();
        file.write_at(&filled(2)[..8192], 4096).unwrap();
        assert_eq!(file.len().unwrap(), 65_536);
        // An unaligned end: the bytes before it are read, in direct mode too.
        file.set_len(14_000).unwrap();
        file.sync().unwrap();
        let mut buffer = filled(9);
        assert_eq!(file.read_at(&mut buffer, 0).unwrap(), 14_000);
        assert!(buffer[..4096].iter().chain(&buffer[12_288..14_000]).all(|byte| *byte == 1));
        assert!(buffer[4096..12_288].iter().all(|byte| *byte == 2));
        assert_eq!(file.read_at(&mut buffer, 8192).unwrap(), 14_000 - 8192);
        assert_eq!(file.read_at(&mut buffer, 65_536).unwrap(), 0);
        assert_eq!(file.read_at(&mut buffer[..4096], 4096).unwrap(), 4096);
        file.advise_dont_need(0, 8192).unwrap();
        assert!(!file.is_empty().unwrap());
    }
}

#[test]
fn a_file_is_direct_if_and_only_if_the_kernel_knows_it_so() {
    let (_directory, path) = place();
    let wanted = File::open(&path, Open::New, true).unwrap();
    assert_eq!(fs::fcntl_getfl(&wanted).unwrap().contains(OFlags::DIRECT), wanted.is_direct());
    assert!(wanted.unit().is_power_of_two() && (512..=ALIGN).contains(&wanted.unit()));
    let cached = File::open(&path, Open::Existing, false).unwrap();
    assert!(!cached.is_direct() && !fs::fcntl_getfl(&cached).unwrap().contains(OFlags::DIRECT));
    // Pipes stand for file systems without direct I/O: the file works without it.
    let (reader, _writer) = std::io::pipe().unwrap();
    assert!(File::from_fd(reader.into(), true).is_ok());
}

#[test]
fn a_unit_is_the_least_that_is_read_and_written() {
    let (_directory, path) = place();
    let file = File::open(&path, Open::New, true).unwrap();
    file.write_at(&filled(1)[..ALIGN], 0).unwrap();
    let unit = file.unit();
    file.write_at(&filled(2)[..unit], unit as u64).unwrap();
    let mut buffer = filled(9);
    for (number, part) in buffer[..ALIGN].chunks_mut(unit).enumerate() {
        assert_eq!(file.read_at(part, (number * unit) as u64).unwrap(), unit);
        assert!(part.iter().all(|byte| *byte == if number == 1 { 2 } else { 1 }));
    }
}

#[test]
fn preallocation_extends_with_zeros_and_keeps_what_is_there() {
    type Extend = fn(&File, u64) -> io::Result<()>;
    let ways: [Extend; 2] = [|file, length| file.preallocate(0, length), File::append_zeros];
    for (extend, direct) in ways.into_iter().flat_map(|way| [(way, false), (way, true)]) {
        let (_directory, path) = place();
        let file = File::open(&path, Open::New, direct).unwrap();
        file.write_at(&filled(5)[..8192], 0).unwrap();
        file.set_len(5000).unwrap();
        extend(&file, 0).unwrap();
        assert_eq!(file.len().unwrap(), 5000);
        extend(&file, 200_704).unwrap();
        assert_eq!(file.len().unwrap(), 200_704);
        extend(&file, 4096).unwrap();
        assert_eq!(file.len().unwrap(), 200_704, "preallocating does not cut");
        let bytes = std_fs::read(&path).unwrap();
        assert!(bytes[..5000].iter().all(|byte| *byte == 5) && bytes[5000..].iter().all(|byte| *byte == 0));
    }
}

#[test]
fn preallocation_takes_space_and_a_full_disk_is_recognised() {
    let (_directory, path) = place();
    let file = File::open(&path, Open::New, false).unwrap();
    file.preallocate(0, 1 << 20).unwrap();
    assert!(file.reserved().unwrap() >= 1 << 20, "the space is taken");
    // A tmpfs of limited size refuses at once; other file systems would fill up first.
    match TempDir::new_in("/dev/shm").map(|shm| (File::open(&shm.path().join("file"), Open::New, false), shm)) {
        Ok((file, _shm)) => {
            let error = file.unwrap().preallocate(0, 1 << 50).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::StorageFull);
        }
        Err(error) => println!("/dev/shm is not there ({error})"),
    }
}

#[test]
fn a_punched_range_reads_as_zero_and_gives_its_space_back() {
    let (_directory, path) = place();
    let file = File::open(&path, Open::New, true).unwrap();
    let page = filled(7);
    (0..1 << 20).step_by(page.len()).for_each(|at| file.write_at(&page, at).unwrap());
    file.sync().unwrap();
    // The file system counts its own blocks too, and a fragmented file has some.
    let (space, own) = (|| file.reserved().unwrap(), 1 << 14);
    let before = space();
    if !file.punch(1 << 18, 1 << 19).unwrap() {
        println!("this file system cannot punch holes");
        return;
    }
    assert_eq!(file.len().unwrap(), 1 << 20);
    assert!(space() <= before - (1 << 19) + own, "{before} bytes, then {}", space());
    let bytes = std_fs::read(&path).unwrap();
    assert!(bytes[1 << 18..3 << 18].iter().all(|byte| *byte == 0));
    assert!(bytes[..1 << 18].iter().chain(&bytes[3 << 18..]).all(|byte| *byte == 7));
    file.preallocate(1 << 18, 1 << 19).unwrap();
    assert!(space() + own >= before, "the space is taken again: {before} bytes, then {}", space());
}

#[test]
fn a_lock_excludes_other_openings_until_it_is_closed() {
    let (_directory, path) = place();
    let first = File::open(&path, Open::Any, false).unwrap();
    let second = File::open(&path, Open::Any, false).unwrap();
    assert!(first.try_lock_exclusive().unwrap());
    assert!(!second.try_lock_exclusive().unwrap());
    drop(first);
    assert!(second.try_lock_exclusive().unwrap());
}
