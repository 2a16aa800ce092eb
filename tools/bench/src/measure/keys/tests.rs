use std::{fs, path::PathBuf};

use super::*;

/// A Zstandard frame that holds `content` in one raw block, built by hand: magic, single segment with a two-byte size
/// less 256, block header (last, raw, size), content.
fn zstd(content: &[u8]) -> Vec<u8> {
    let size = u32::try_from(content.len()).unwrap();
    let mut frame = vec![0x28, 0xb5, 0x2f, 0xfd, 0x60];
    frame.extend_from_slice(&u16::try_from(size - 256).unwrap().to_le_bytes());
    frame.extend_from_slice(&((size << 3) | 1).to_le_bytes()[..3]);
    frame.extend_from_slice(content);
    frame
}

struct Files {
    directory: tempfile::TempDir,
}

impl Files {
    fn new() -> Self {
        Files { directory: tempfile::tempdir().unwrap() }
    }

    fn put(&self, name: &str, content: &[u8]) -> PathBuf {
        let path = self.directory.path().join(name);
        fs::write(&path, content).unwrap();
        path
    }

    fn open(&self, file: &Path, key_size: Option<usize>) -> Result<Keys> {
        Keys::open(file, self.directory.path(), Use { key_size, order: Order::Arrival, scale: None })
    }
}

fn all(keys: &Keys) -> Vec<Vec<u8>> {
    let mut buffer = Vec::new();
    let mut write = |record| {
        keys.write(record, &mut buffer).unwrap();
        buffer.clone()
    };
    (0..keys.count()).map(&mut write).collect()
}

fn bytes(numbers: &[u64]) -> Vec<u8> {
    numbers.iter().flat_map(|number| number.to_le_bytes()).collect()
}

#[test]
fn numbers_of_every_kind_of_file() {
    let files = Files::new();
    let numbers: Vec<u64> = (0..10_000u64).map(|n| n.wrapping_mul(0x0123_4567_89ab_cdef)).collect();
    let gaps: Vec<u64> =
        std::iter::once(0).chain(numbers.iter().copied()).zip(&numbers).map(|(a, b)| b.wrapping_sub(a)).collect();
    let expected: Vec<Vec<u8>> = numbers.iter().map(|number| number.to_be_bytes().to_vec()).collect();
    let short = numbers[..100].to_vec();
    for (name, content, count) in [
        ("a.u64", bytes(&numbers), 10_000),
        ("a.du64", bytes(&gaps), 10_000),
        ("a.u64.zst", zstd(&bytes(&short)), 100),
        ("a.du64.zst", zstd(&bytes(&gaps[..100])), 100),
    ] {
        let file = files.put(name, &content);
        assert!(all(&files.open(&file, None).unwrap()) == expected[..count], "{name}");
    }
}

#[test]
fn numbers_stretch_and_keep_their_order() {
    let files = Files::new();
    let file = files.put("a.u64", &bytes(&[1, 2, 300]));
    let keys = all(&files.open(&file, Some(20)).unwrap());
    assert!(keys.is_sorted() && keys.iter().all(|key| key.len() == 20));
    assert!(files.open(&file, Some(7)).unwrap_err().to_string().contains("--key-size"));
}

#[test]
fn broken_files_are_told() {
    let files = Files::new();
    for (name, content, message) in [
        ("a.u64", &b"123456789"[..], "whole 64-bit numbers"),
        ("b.u64", b"", "whole 64-bit numbers"),
        ("g.du64", b"123456789", "whole 64-bit number"),
        ("c.u64.zst", b"12345678", "cannot decompress"),
        ("d.txt", b"", "has no lines"),
        ("e.txt", b"a\n\nb\n", "line 2 of"),
        ("f.txt", &[b'x'; 2000], "line 1 of"),
    ] {
        let error = files.open(&files.put(name, content), None).unwrap_err().to_string();
        assert!(error.contains(message), "{name}: {error}");
    }
    let missing = files.directory.path().join("missing.u64");
    assert!(files.open(&missing, None).unwrap_err().to_string().contains("cannot open"));
}

#[test]
fn lines_with_and_without_a_last_line_end() {
    let files = Files::new();
    let text: String = (0..50_000).map(|n| format!("line {n}\n")).collect();
    let lines: Vec<Vec<u8>> = text.lines().map(|line| line.as_bytes().to_vec()).collect();
    for (name, content) in [("a.txt", text.as_str()), ("b.txt", text.trim_end())] {
        let keys = files.open(&files.put(name, content.as_bytes()), None).unwrap();
        assert!(all(&keys) == lines, "{name}");
        let mean = (text.len() - lines.len()) as f64 / lines.len() as f64;
        assert!((keys.mean_bytes() - mean).abs() < 1e-9);
        assert!(files.open(&files.directory.path().join(name), Some(8)).is_err());
    }
    let packed = files.put("c.txt.zst", &zstd(&text.as_bytes()[..4000]));
    assert!(all(&files.open(&packed, None).unwrap())[..400] == lines[..400]);
}

#[test]
fn synthetic_keys_are_distinct_and_unordered() {
    for (size, records) in [(1, 256), (2, 65_536), (3, 100_000), (8, 100_000), (20, 1000)] {
        let keys = Keys::synthetic(size, records, Order::Shuffled).unwrap();
        let mut buffer = Vec::new();
        let mut seen = std::collections::BTreeSet::new();
        for record in 0..records {
            keys.write(record, &mut buffer).unwrap();
            assert_eq!(buffer.len(), size);
            assert!(seen.insert(buffer.clone()), "{size} bytes: record {record} has the key of another");
        }
    }
    assert!(
        Keys::synthetic(1, 257, Order::Shuffled).is_err()
            && Keys::synthetic(0, 1, Order::Shuffled).is_err()
            && Keys::synthetic(1025, 1, Order::Shuffled).is_err()
    );
}

#[test]
fn shuffled_keys_are_the_same_keys_in_no_order() {
    let files = Files::new();
    let file = files.put("a.u64", &bytes(&(0..1000).collect::<Vec<_>>()));
    let open = |order| Keys::open(&file, files.directory.path(), Use { key_size: None, order, scale: None }).unwrap();
    let (arrival, mut shuffled) = (all(&open(Order::Arrival)), all(&open(Order::Shuffled)));
    assert!(arrival.is_sorted());
    let rising = shuffled.windows(2).filter(|pair| pair[0] < pair[1]).count();
    assert!((400..600).contains(&rising), "{rising} of 999 neighbours rise");
    shuffled.sort_unstable();
    assert!(arrival == shuffled);
}

/// A tenth of the places holds a tenth of the keys, side by side.
#[test]
fn places_are_in_the_order_of_keys() {
    let (files, sorted) = (Files::new(), bytes(&(0..10_000u64).map(|number| number * number).collect::<Vec<_>>()));
    let choice = Use { key_size: None, order: Order::Shuffled, scale: None };
    let file = Keys::open(&files.put("sorted.u64", &sorted), files.directory.path(), choice).unwrap();
    for keys in [
        file,
        Keys::synthetic(20, 10_000, Order::Shuffled).unwrap(),
        Keys::synthetic(2, 10_000, Order::Shuffled).unwrap(),
    ] {
        let mut key = Vec::new();
        let mut places: Vec<(Vec<u8>, f64)> = (0..10_000)
            .map(|record| {
                keys.write(record, &mut key).unwrap();
                (key.clone(), keys.place(record))
            })
            .collect();
        places.sort_by(|(one, _), (other, _)| one.cmp(other));
        assert!(places.is_sorted_by(|(_, one), (_, other)| one <= other));
        let within = places.iter().filter(|(_, place)| (0.4..0.5).contains(place)).count();
        assert!((900..1100).contains(&within), "{within}");
    }
}
