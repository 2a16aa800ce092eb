//! Manifests on a simulated disk.

use ecotone_substrate::{
    Error,
    codec::hex,
    limits::{MAX_MANIFEST, MAX_NAME},
    manifest::{KeyspaceRecord, Manifest},
    storage::FileId,
};
use ecotone_sys::checksum::crc32c;
use ecotone_testkit::sim::{Crash, SimStorage};
use rand::{RngExt, SeedableRng, rngs::SmallRng};

/// Bytes before the body.
const HEADER: usize = 60;

fn sample(number: u64) -> Manifest {
    let keyspace = |id: u32, name: &str, blob: &[u8]| KeyspaceRecord {
        id,
        name: name.into(),
        engine: "tree".into(),
        logged: id != 3,
        watermark: 40_000 + u64::from(id),
        structure: 30_000,
        blob: blob.into(),
    };
    Manifest {
        number,
        incarnation: 5,
        replay: 30_000,
        synced: 50_000,
        next_keyspace: 9,
        keyspaces: vec![keyspace(1, "towns", b"root one"), keyspace(3, "Wörter", b"")],
        ..Manifest::new(0xdb)
    }
}

fn bytes(disk: &SimStorage, number: u64) -> Vec<u8> {
    disk.files()[&FileId::Manifest(number)].clone()
}

fn seal(number: u64, bytes: &[u8]) -> [u8; 4] {
    crc32c(crc32c(0, &FileId::Manifest(number).identity().to_le_bytes()), bytes).to_le_bytes()
}

/// The bytes with their checksums made right again.
fn sealed(number: u64, mut bytes: Vec<u8>) -> Vec<u8> {
    let end = bytes.len() - 4;
    let header = seal(number, &bytes[..HEADER - 4]);
    bytes[HEADER - 4..HEADER].copy_from_slice(&header);
    let whole = seal(number, &bytes[..end]);
    bytes[end..].copy_from_slice(&whole);
    bytes
}

#[test]
fn what_is_stored_is_loaded_and_survives() {
    let disk = SimStorage::new(1);
    assert_eq!(Manifest::load(&disk).unwrap(), None);
    for number in 1..5 {
        sample(number).store(&disk).unwrap();
        let after = disk.crash(Crash::DropAll);
        assert_eq!(Manifest::load(&after).unwrap(), Some(sample(number)));
        assert_eq!(after.files().into_keys().collect::<Vec<_>>(), [FileId::Manifest(number)], "the predecessor is durably gone");
    }
}

#[test]
fn a_crash_at_any_io_leaves_one_or_the_other() {
    let disk = SimStorage::new(2);
    sample(1).store(&disk).unwrap();
    let before = disk.io_index();
    sample(2).store(&disk.crash(Crash::KeepAll)).unwrap();
    for io in before..before + 12 {
        for seed in 0..40 {
            let torn = disk.crash(Crash::DropAll);
            torn.crash_at(torn.io_index() + io - before);
            let stored = sample(2).store(&torn).is_ok();
            let how = if seed == 0 { Crash::DropAll } else { Crash::Random(seed) };
            let next = torn.crash(how);
            let first = Manifest::load(&next).unwrap().unwrap();
            assert!(first.number == 2 || !stored && first.number == 1, "i/o {io}, seed {seed}");
            assert_eq!(first, sample(first.number));
            let second = Manifest::load(&next.crash(Crash::DropAll)).unwrap().unwrap();
            assert_eq!(second, first, "what was loaded stays, i/o {io}, seed {seed}");
            sample(first.number + 1).store(&next).unwrap();
        }
    }
}

#[test]
fn a_process_that_dies_while_storing_leaves_what_the_next_makes_durable() {
    let disk = SimStorage::new(3);
    sample(1).store(&disk).unwrap();
    disk.put(FileId::Manifest(2), b"");
    let two = sample(2).encode();
    let unsynced = disk.crash(Crash::KeepAll);
    let file =
        ecotone_substrate::storage::Storage::open(&unsynced, FileId::Manifest(2), ecotone_substrate::storage::Access::Cached)
            .unwrap();
    file.preallocate(0, two.len() as u64).unwrap();
    file.write(&two, 0).unwrap();
    assert_eq!(Manifest::load(&unsynced).unwrap(), Some(sample(2)));
    assert_eq!(Manifest::load(&unsynced.crash(Crash::DropAll)).unwrap(), Some(sample(2)));
}

#[test]
fn an_invalid_one_is_passed_over_for_its_predecessor_and_then_replaced() {
    let disk = SimStorage::new(1);
    sample(7).store(&disk).unwrap();
    let mut torn = sample(8).encode();
    torn[70] ^= 1;
    disk.put(FileId::Manifest(8), &torn);
    disk.put(FileId::Manifest(9), b"");
    assert_eq!(Manifest::load(&disk).unwrap(), Some(sample(7)));
    sample(8).store(&disk).unwrap();
    assert_eq!(disk.files().into_keys().collect::<Vec<_>>(), [FileId::Manifest(8)]);
    assert_eq!(Manifest::load(&disk).unwrap(), Some(sample(8)));
}

#[test]
fn none_valid_is_corruption_of_the_newest() {
    let disk = SimStorage::new(1);
    disk.put(FileId::Manifest(3), b"nonsense");
    disk.put(FileId::Manifest(4), b"");
    let error = Manifest::load(&disk).unwrap_err();
    assert!(error.is_corruption() && error.to_string().contains("manifest.4"), "{error}");
}

#[test]
fn an_interrupted_creation_is_no_database() {
    let disk = SimStorage::new(1);
    disk.put(FileId::Manifest(1), &sample(1).encode()[..50]);
    assert_eq!(Manifest::load(&disk).unwrap(), None);
    sample(1).store(&disk).unwrap();
    assert_eq!(Manifest::load(&disk).unwrap(), Some(sample(1)));
}

#[test]
fn every_flipped_bit_and_every_cut_is_corruption() {
    let good = sample(5).encode();
    for byte in 0..good.len() {
        for bit in 0..8 {
            let mut bad = good.clone();
            bad[byte] ^= 1 << bit;
            assert!(Manifest::decode(&bad, 5).unwrap_err().is_corruption(), "bit {bit} of byte {byte}");
        }
        assert!(Manifest::decode(&good[..byte], 5).unwrap_err().is_corruption(), "cut at {byte}");
    }
    assert!(Manifest::decode(&good, 6).unwrap_err().is_corruption(), "another's name");
    assert!(Manifest::decode(&[&good[..], &[0]].concat(), 5).unwrap_err().is_corruption(), "a byte too many");
}

#[test]
fn later_versions_and_unknown_features_are_refused_even_if_an_older_one_is_there() {
    let change = |at: usize, value: u8| {
        let mut bytes = sample(5).encode();
        bytes[at] = value;
        sealed(5, bytes)
    };
    for (at, what) in [(8, "version"), (24, "read-compatible"), (32, "incompatible")] {
        let disk = SimStorage::new(1);
        sample(4).store(&disk).unwrap();
        disk.put(FileId::Manifest(5), &change(at, 2));
        let error = Manifest::load(&disk).unwrap_err();
        assert!(matches!(&error, Error::NewerFormat { file, .. } if file == "manifest.5"), "{what}: {error}");
    }
    let compatible = Manifest::decode(&change(16, 2), 5).unwrap();
    assert_eq!(compatible.compatible, 2);
    assert_eq!(compatible.encode(), change(16, 2), "unknown compatible features are kept");
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
        assert!(Manifest::decode(&manifest.encode(), 5).unwrap_err().is_corruption(), "{manifest:?}");
    }
    let (good, mut random) = (sample(5).encode(), SmallRng::seed_from_u64(11));
    for _ in 0..20_000 {
        let mut bytes = good.clone();
        for _ in 0..random.random_range(1..4) {
            let at = random.random_range(HEADER..bytes.len());
            bytes[at] = random.random();
        }
        if let Ok(manifest) = Manifest::decode(&sealed(5, bytes), 5) {
            assert!(manifest.keyspaces.len() <= 2);
        }
    }
}

#[test]
fn a_full_disk_changes_nothing() {
    let disk = SimStorage::new(1);
    sample(1).store(&disk).unwrap();
    disk.space_limit(disk.space_used());
    assert!(sample(2).store(&disk).unwrap_err().is_no_space());
    assert_eq!(disk.files().into_keys().collect::<Vec<_>>(), [FileId::Manifest(1)]);
    disk.space_limit(u64::MAX);
    sample(2).store(&disk).unwrap();
    assert_eq!(bytes(&disk, 2), sample(2).encode());
}

#[test]
fn one_that_is_too_large_is_refused_before_anything_changes() {
    let disk = SimStorage::new(1);
    sample(1).store(&disk).unwrap();
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
        (8, "number"),
        (4, "checksum of the header"),
        (8, "incarnation"),
        (8, "replay position"),
        (8, "synced position"),
        (4, "next keyspace"),
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
    hex::golden("manifest", &hex::render(&sample(5).encode(), &labels));
}
