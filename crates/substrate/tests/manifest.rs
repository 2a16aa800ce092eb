//! Manifests on a simulated disk.

use ecotone_substrate::{
    Error,
    codec::hex,
    limits::{MAX_MANIFEST, MAX_NAME},
    manifest::{KeyspaceRecord, Manifest},
    storage::{FileId, Storage},
};
use ecotone_sys::checksum::crc32c;
use ecotone_testkit::sim::{Crash, Io, SimStorage};
use rand::{RngExt, SeedableRng, rngs::SmallRng};

/// Bytes before the body.
const HEADER: usize = 60;

fn sample(generation: u64) -> Manifest {
    let keyspace = |id: u32, name: &str, blob: &[u8]| KeyspaceRecord {
        id,
        name: name.into(),
        engine: "tree".into(),
        logged: id != 3,
        unwritten: id == 3,
        watermark: 40_000 + u64::from(id),
        structure_position: 30_000,
        blob: blob.into(),
    };
    Manifest {
        generation,
        incarnation: 5,
        replay: 30_000,
        synced: 50_000,
        segment: Some(12),
        clean: true,
        next_keyspace: 9,
        keyspaces: vec![keyspace(1, "towns", b"root one"), keyspace(3, "Wörter", b"")],
        ..Manifest::new(0xdb)
    }
}

/// The manifest that the first copy would have.
fn bytes(generation: u64) -> Vec<u8> {
    sample(generation).encode(1)
}

/// Those of both copies that are whole.
fn generations(disk: &SimStorage) -> Vec<u64> {
    let copies = disk.files().into_iter();
    let whole = copies.filter_map(|(file, bytes)| match file {
        FileId::Manifest(number) => Manifest::decode(&bytes, number).ok(),
        _ => None,
    });
    whole.map(|manifest| manifest.generation).collect()
}

fn seal(bytes: &[u8]) -> [u8; 4] {
    crc32c(crc32c(0, &FileId::Manifest(1).identity().to_le_bytes()), bytes).to_le_bytes()
}

/// The bytes of the first copy with their checksums made right again.
fn sealed(mut bytes: Vec<u8>) -> Vec<u8> {
    let end = bytes.len() - 4;
    let header = seal(&bytes[..HEADER - 4]);
    bytes[HEADER - 4..HEADER].copy_from_slice(&header);
    let whole = seal(&bytes[..end]);
    bytes[end..].copy_from_slice(&whole);
    bytes
}

/// A disk on which these generations were stored.
fn stored(generations: std::ops::RangeInclusive<u64>) -> SimStorage {
    let disk = SimStorage::new(1);
    generations.for_each(|generation| sample(generation).store(&disk).unwrap());
    disk
}

/// I/O that changes something.
fn writes(disk: &SimStorage) -> usize {
    disk.labels().iter().filter(|label| label.io != Io::Read).count()
}

#[test]
fn what_is_stored_is_loaded_and_survives() {
    let disk = SimStorage::new(1);
    assert_eq!(Manifest::load(&disk).unwrap(), None);
    for generation in 1..5 {
        sample(generation).store(&disk).unwrap();
        let after = disk.crash(Crash::DropAll);
        assert_eq!(Manifest::load(&after).unwrap(), Some(sample(generation)));
        assert_eq!(after.files().into_keys().collect::<Vec<_>>(), Manifest::FILES);
        assert_eq!(generations(&after), [generation; 2]);
        assert_eq!(writes(&after), 0, "copies that are equal are left alone");
    }
}

/// Ways to lose a file.
const LOSSES: [&str; 5] = ["flipped", "cut", "emptied", "zeroed", "removed"];

fn lose(disk: &SimStorage, file: FileId, how: &str) {
    match how {
        "flipped" => disk.flip_bit(file, 70, 1),
        "cut" => disk.truncate(file, 40),
        "emptied" => disk.truncate(file, 0),
        "zeroed" => disk.put(file, &[0; 9000]),
        _ => disk.remove(file).unwrap(),
    }
}

#[test]
fn either_copy_suffices_whatever_happened_to_the_other() {
    for lost in Manifest::FILES {
        for how in LOSSES {
            let disk = stored(1..=3);
            lose(&disk, lost, how);
            assert_eq!(Manifest::newest(&disk).unwrap(), Some(sample(3)), "{lost} {how}");
            assert_eq!(Manifest::load(&disk).unwrap(), Some(sample(3)), "{lost} {how}");
            assert_eq!(generations(&disk.crash(Crash::DropAll)), [3; 2], "{lost} {how} is made anew");
        }
    }
}

#[test]
fn a_copy_that_cannot_be_read_is_passed_over() {
    let disk = stored(1..=2);
    for io in 0..4 {
        let disk = disk.crash(Crash::KeepAll);
        disk.fail_at(io, std::io::ErrorKind::Other);
        assert_eq!(Manifest::newest(&disk).unwrap(), Some(sample(2)), "I/O {io}");
    }
}

/// A manifest of several sectors, all of which differ from those of other generations.
fn long(generation: u64) -> Manifest {
    let mut manifest = sample(generation);
    manifest.keyspaces[0].blob = vec![generation as u8; 2_000];
    manifest
}

/// The process dies before the last sync of a store, and leaves copies that are equal. The next store overwrites one,
/// and loses power.
#[test]
fn a_kill_and_then_a_power_failure_leave_a_whole_copy() {
    let mut equal = 0;
    for (io, seed) in (0..16).flat_map(|io| (0..6).map(move |seed| (io, seed))) {
        let killed = SimStorage::new(seed);
        long(1).store(&killed).unwrap();
        killed.crash_at(killed.io_index() + io);
        let stored = long(2).store(&killed).is_ok();
        let killed = killed.crash(Crash::KeepAll);
        let before = Manifest::load(&killed).unwrap().unwrap().generation;
        equal += usize::from(before == 2 && !stored);
        for (next, seed) in (0..6).flat_map(|next| (0..20).map(move |seed| (next, seed))) {
            let disk = killed.crash(Crash::KeepAll);
            Manifest::sync(&disk).unwrap();
            disk.crash_at(disk.io_index() + next);
            let _ = long(3).store(&disk);
            let found = Manifest::load(&disk.crash(Crash::Random(seed)));
            let found = found.unwrap_or_else(|error| panic!("I/O {io}, then {next}, seed {seed}: {error}"));
            assert!([before, 3].contains(&found.unwrap().generation), "I/O {io}, then {next}, seed {seed}");
        }
    }
    assert!(equal > 0, "no kill left copies that were not synced");
}

#[test]
fn a_crash_at_any_io_leaves_one_or_the_other() {
    // Where the first is made, and where one is overwritten.
    for before in [0, 1] {
        let disk = stored(1..=before);
        for io in 0..16 {
            for seed in 0..40 {
                let torn = disk.crash(Crash::DropAll);
                torn.crash_at(torn.io_index() + io);
                let stored = sample(before + 1).store(&torn).is_ok();
                let how = if seed == 0 { Crash::DropAll } else { Crash::Random(seed) };
                let next = torn.crash(how);
                let first = Manifest::load(&next).unwrap();
                let found = first.as_ref().map_or(0, |manifest| manifest.generation);
                assert!(found == before + 1 || !stored && found == before, "I/O {io}, seed {seed}: {found}");
                assert_eq!(first, (found > 0).then(|| sample(found)));
                let second = Manifest::load(&next.crash(Crash::DropAll)).unwrap();
                assert_eq!(second, first, "what was loaded stays, I/O {io}, seed {seed}");
                sample(found + 1).store(&next).unwrap();
                assert_eq!(generations(&next.crash(Crash::DropAll)), [found + 1; 2]);
            }
        }
    }
}

#[test]
fn a_crash_at_any_io_of_a_load_loses_nothing() {
    let disk = stored(1..=1);
    let torn = disk.crash(Crash::DropAll);
    // The second store dies with the process between the copies.
    torn.crash_at(torn.io_index() + torn_between());
    assert!(sample(2).store(&torn).is_err());
    let left = torn.crash(Crash::KeepAll);
    assert_eq!(generations(&left), [2, 1]);
    for io in 0..16 {
        for seed in 0..40 {
            let life = left.crash(Crash::KeepAll);
            life.crash_at(io);
            let loaded = Manifest::load(&life).is_ok();
            let next = life.crash(Crash::Random(seed));
            let found = Manifest::load(&next).unwrap().unwrap();
            // Until the load is over a power failure may take what the process had not synced.
            assert!(found == sample(2) || !loaded && found == sample(1), "I/O {io}, seed {seed}");
        }
    }
}

/// The I/O of a store that begins to change the second copy.
fn torn_between() -> u64 {
    let disk = stored(1..=1).crash(Crash::KeepAll);
    sample(2).store(&disk).unwrap();
    let writes = disk
        .labels()
        .iter()
        .enumerate()
        .filter(|(_, label)| label.io == Io::Write)
        .map(|(at, _)| at as u64)
        .collect::<Vec<_>>();
    // The sync before it, since what becomes of a write is up to chance.
    writes[1] - 1
}

#[test]
fn none_whole_is_corruption() {
    let disk = stored(1..=3);
    Manifest::FILES.iter().for_each(|file| disk.flip_bit(*file, 70, 1));
    let error = Manifest::load(&disk).unwrap_err();
    assert!(error.is_corruption() && error.to_string().contains("manifest.2"), "{error}");
}

#[test]
fn an_interrupted_creation_is_no_database() {
    let disk = SimStorage::new(1);
    disk.put(FileId::Manifest(1), &bytes(1)[..50]);
    assert_eq!(Manifest::load(&disk).unwrap(), None);
    sample(1).store(&disk).unwrap();
    assert_eq!(Manifest::load(&disk).unwrap(), Some(sample(1)));
}

/// Version 1 had one file for each store.
#[test]
fn a_manifest_of_version_1_becomes_two_copies() {
    for number in [1, 2, 7] {
        let expected = |generation| {
            let mut manifest = Manifest { segment: None, clean: false, ..sample(generation) };
            manifest.keyspaces.iter_mut().for_each(|keyspace| keyspace.unwritten = false);
            manifest
        };
        let mut bytes = expected(number).encode(number);
        bytes[8] = 1;
        bytes[12] -= 5;
        bytes.drain(88..93);
        let identity = FileId::Manifest(number).identity().to_le_bytes();
        let end = bytes.len() - 4;
        for (at, sealed) in [(HEADER - 4, HEADER - 4), (end, end)] {
            let sum = crc32c(crc32c(0, &identity), &bytes[..sealed]).to_le_bytes();
            bytes[at..at + 4].copy_from_slice(&sum);
        }
        let disk = SimStorage::new(1);
        disk.put(FileId::Manifest(number), &bytes);
        disk.put(FileId::Manifest(9), b"");
        for _ in 0..2 {
            assert_eq!(Manifest::load(&disk).unwrap(), Some(expected(number)));
            assert_eq!(disk.files().into_keys().collect::<Vec<_>>(), Manifest::FILES);
        }
        sample(number + 1).store(&disk).unwrap();
        assert_eq!(generations(&disk), [number + 1; 2]);
    }
}

#[test]
fn every_flipped_bit_and_every_cut_is_corruption() {
    let good = bytes(5);
    for byte in 0..good.len() {
        for bit in 0..8 {
            let mut bad = good.clone();
            bad[byte] ^= 1 << bit;
            assert!(Manifest::decode(&bad, 1).unwrap_err().is_corruption(), "bit {bit} of byte {byte}");
        }
        assert!(Manifest::decode(&good[..byte], 1).unwrap_err().is_corruption(), "cut at {byte}");
    }
    assert!(Manifest::decode(&good, 2).unwrap_err().is_corruption(), "another's name");
    assert_eq!(Manifest::decode(&[&good[..], &[9; 30]].concat(), 1).unwrap(), sample(5), "a reserve behind it");
}

#[test]
fn later_versions_and_unknown_features_are_refused_even_if_the_other_copy_is_known() {
    let change = |at: usize, value: u8| {
        let mut bytes = bytes(5);
        bytes[at] = value;
        sealed(bytes)
    };
    for (at, what) in [(8, "version"), (24, "read-compatible"), (32, "incompatible")] {
        let disk = stored(1..=4);
        disk.put(FileId::Manifest(1), &change(at, 4));
        let error = Manifest::load(&disk).unwrap_err();
        assert!(matches!(&error, Error::NewerFormat { file, .. } if file == "manifest.1"), "{what}: {error}");
    }
    let compatible = Manifest::decode(&change(16, 2), 1).unwrap();
    assert_eq!(compatible.compatible, 2);
    assert_eq!(compatible.encode(1), change(16, 2), "unknown compatible features are kept");
}

#[test]
fn bytes_with_right_checksums_are_parsed_and_not_trusted() {
    let mut twice = sample(5);
    twice.keyspaces[1].name = "towns".into();
    let mut disordered = sample(5);
    disordered.keyspaces[1].id = 1;
    let mut beyond = sample(5);
    beyond.next_keyspace = 3;
    let mut nameless = sample(5);
    nameless.keyspaces[0].name.clear();
    let mut long = sample(5);
    long.keyspaces[0].name = "n".repeat(MAX_NAME + 1);
    for manifest in [twice, disordered, beyond, nameless, long] {
        assert!(Manifest::decode(&manifest.encode(1), 1).unwrap_err().is_corruption(), "{manifest:?}");
    }
    let absurd = sample(u64::MAX);
    assert!(Manifest::decode(&absurd.encode(1), 1).unwrap_err().is_corruption(), "another generation follows");
    let (good, mut random) = (bytes(5), SmallRng::seed_from_u64(11));
    for _ in 0..20_000 {
        let mut bytes = good.clone();
        for _ in 0..random.random_range(1..4) {
            let at = random.random_range(HEADER..bytes.len());
            bytes[at] = random.random();
        }
        if let Ok(manifest) = Manifest::decode(&sealed(bytes), 1) {
            assert!(manifest.keyspaces.len() <= 2);
        }
    }
}

#[test]
fn a_full_disk_takes_manifests_as_long_as_the_reserve_lasts_and_then_changes_nothing() {
    let disk = stored(1..=1);
    disk.space_limit(disk.space_used());
    let grown = |generation: u64, bytes: usize| {
        let mut manifest = sample(generation);
        manifest.keyspaces[0].blob = vec![7; bytes];
        manifest
    };
    (2..6).for_each(|generation| grown(generation, generation as usize * 2_000).store(&disk).unwrap());
    let before = disk.files();
    assert!(grown(6, 100_000).store(&disk).unwrap_err().is_no_space());
    assert!(disk.files() == before);
    // A copy that is lost is not made anew, and the only one is not overwritten.
    disk.remove(FileId::Manifest(2)).unwrap();
    let limit = disk.space_used();
    disk.space_limit(limit);
    assert_eq!(Manifest::load(&disk).unwrap(), Some(grown(5, 10_000)));
    assert!(sample(6).store(&disk).unwrap_err().is_no_space());
    assert_eq!(generations(&disk), [5]);
    disk.space_limit(u64::MAX);
    sample(6).store(&disk).unwrap();
    assert_eq!(generations(&disk), [6; 2]);
}

#[test]
fn the_first_one_is_stored_wholly_or_not_at_all() {
    for space in (0..40).map(|step| step * 1024) {
        let disk = SimStorage::new(1);
        disk.space_limit(space);
        match sample(1).store(&disk) {
            Ok(()) => assert_eq!(generations(&disk), [1; 2]),
            Err(error) => assert!(error.is_no_space() && disk.files().is_empty(), "{error}"),
        }
    }
}

#[test]
fn one_that_is_too_large_is_refused_before_anything_changes() {
    let disk = stored(1..=1);
    let mut large = sample(2);
    large.keyspaces[0].blob = vec![0; MAX_MANIFEST];
    assert!(matches!(large.store(&disk), Err(Error::Limit { .. })));
    assert_eq!(Manifest::load(&disk).unwrap(), Some(sample(1)));
    disk.put(FileId::Manifest(2), &vec![0; MAX_MANIFEST + 1]);
    assert_eq!(Manifest::load(&disk).unwrap(), Some(sample(1)));
}

#[test]
fn golden() {
    let labels = [
        (8, "magic"),
        (4, "format version"),
        (4, "length of the body"),
        (8, "compatible features"),
        (8, "read-compatible features"),
        (8, "incompatible features"),
        (8, "database"),
        (8, "generation"),
        (4, "checksum of the header"),
        (8, "incarnation"),
        (8, "replay position"),
        (8, "synced position"),
        (4, "next keyspace"),
        (4, "log segment"),
        (1, "flags: clean"),
        (1, "keyspaces"),
        (4, "id"),
        (1, "flags: logged"),
        (8, "watermark"),
        (8, "structure position"),
        (6, "name"),
        (5, "engine"),
        (9, "root"),
        (4, "id"),
        (1, "flags"),
        (8, "watermark"),
        (8, "structure position"),
        (8, "name"),
        (5, "engine"),
        (1, "root"),
        (4, "checksum"),
    ];
    hex::golden("manifest", &hex::render(&bytes(5), &labels));
}
