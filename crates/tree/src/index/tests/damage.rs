use ecotone_substrate::{
    Error,
    codec::{
        Writer,
        hex::{golden, render},
    },
    limits::PAGE,
    model::Line,
    page::{PageAddress, PageBuilder, PageKind, RecordKind, seal},
    storage::FileId,
};

use super::*;

const FILE: FileId = FileId::Pages(KEYSPACE);

fn place(page: u32) -> PageAddress {
    PageAddress { file: FILE.identity(), page }
}

/// The pages of a fixture's index, and its root.
fn written(seed: u64, segments: usize) -> (Fixture, TreeRoot, Vec<u32>) {
    let mut fixture = Fixture::new(seed);
    fixture.scatter(Keys::Numbers, segments);
    let before: Vec<bool> = (0..fixture.space.total()).map(|page| fixture.space.is_used(page)).collect();
    let root = fixture.checkpoint().0;
    let fresh = |page: &u32| fixture.space.is_used(*page) && !before.get(*page as usize).unwrap_or(&false);
    let pages = (0..fixture.space.total()).filter(fresh).collect();
    (fixture, root, pages)
}

fn assert_corrupt(disk: &SimStorage, root: &TreeRoot, what: &str) {
    match reopen(disk, root) {
        Err(Error::Corruption { what: found, .. }) => assert!(found.contains(what), "{found:?}, not {what:?}"),
        Err(other) => panic!("{other}, not {what:?}"),
        Ok(_) => panic!("opened, not {what:?}"),
    }
}

#[test]
fn a_flipped_bit_anywhere_is_found() {
    let (mut fixture, root, pages) = written(40, 700);
    for _ in 0..300 {
        let page = pages[fixture.random.random_range(0..pages.len())];
        let offset = u64::from(page) * PAGE as u64 + fixture.random.random_range(0..PAGE as u64);
        let bit = fixture.random.random_range(0..8);
        fixture.disk.flip_bit(FILE, offset, bit);
        assert_corrupt(&fixture.disk, &root, "checksum");
        fixture.disk.flip_bit(FILE, offset, bit);
    }
    reopen(&fixture.disk, &root).unwrap();
}

#[test]
fn damage_under_a_right_checksum_never_panics() {
    let (mut fixture, root, pages) = written(41, 700);
    let image = fixture.disk.files()[&FILE].clone();
    let mut refused = 0;
    for _ in 0..1500 {
        let page = pages[fixture.random.random_range(0..pages.len())];
        let at = page as usize * PAGE;
        let mut bytes = image[at..at + PAGE].to_vec();
        for _ in 0..fixture.random.random_range(1..4) {
            // Mostly the header and the slots, which hold the structure.
            let end = if fixture.random.random() { 200 } else { PAGE };
            bytes[fixture.random.random_range(4..end)] = fixture.random.random();
        }
        seal(&mut bytes, place(page), 0);
        fixture.disk.patch(FILE, at as u64, &bytes);
        match reopen(&fixture.disk, &root) {
            Ok((index, _)) => assert_eq!(index.snapshot().ascend(&[]).count() as u64, root.segments),
            Err(error) => {
                assert!(error.is_corruption() || matches!(error, Error::NewerFormat { .. }), "{error}");
                refused += 1;
            }
        }
        fixture.disk.patch(FILE, at as u64, &image[at..at + PAGE]);
    }
    assert!(refused > 500, "{refused} of 1500");
}

/// Entries of a forged page.
type Forged<'a> = &'a [(&'a [u8], &'a [u8])];

/// A forged page: kind, fences, entries.
type Page<'a> = (PageKind, &'a [u8], Option<&'a [u8]>, Forged<'a>);

/// A disk whose index is made of forged pages, the first one at page 1 and the root.
fn forge(pages: &[Page<'_>]) -> SimStorage {
    let fixture = Fixture::new(42);
    fixture.space.allocate(100).unwrap();
    for (page, (kind, lower, upper, entries)) in (1..).zip(pages) {
        let mut bytes = vec![0; PAGE];
        let mut builder = PageBuilder::new(&mut bytes, place(page), *kind, 0, lower, *upper);
        for (key, value) in *entries {
            assert!(builder.push(RecordKind::Value, key, value));
        }
        builder.finish(1);
        fixture.disk.patch(FILE, u64::from(page) * PAGE as u64, &bytes);
    }
    fixture.disk
}

const INNER: PageKind = PageKind::IndexInner;
const LEAF: PageKind = PageKind::Index;
/// Segments of the pages 50 and 51.
const A: &[u8] = &[1, 50, 0, 0, 0];
const B: &[u8] = &[1, 51, 0, 0, 0];

fn root(height: u8, segments: u64, nodes: u64) -> TreeRoot {
    TreeRoot { page: 1, height, segments, nodes, pages: 60 }
}

#[test]
fn a_forged_index_that_is_right_opens() {
    let disk = forge(&[
        (INNER, b"", None, &[(b"", &[2, 0, 0, 0]), (b"m", &[3, 0, 0, 0])]),
        (LEAF, b"", Some(b"m"), &[(b"", A)]),
        (LEAF, b"m", None, &[(b"n", B)]),
    ]);
    let (index, space) = reopen(&disk, &root(2, 2, 3)).unwrap();
    // A key below the first segment of its leaf belongs to the last segment of the leaf before.
    assert_eq!(["a", "m", "n", "z"].map(|key| index.lookup(key.as_bytes()).page), [50, 50, 51, 51]);
    assert_eq!(index.snapshot().floor_before(b"n").unwrap().1.page, 50);
    assert_eq!(space.used(), 6);
    assert_corrupt(&disk, &root(2, 3, 3), "another size");
    assert_corrupt(&disk, &root(2, 2, 4), "another size");
    assert_corrupt(&disk, &root(1, 2, 3), "another kind");
    assert_corrupt(&disk, &TreeRoot { pages: 100_000, ..root(2, 2, 3) }, "shorter");
}

#[test]
fn forged_inner_pages_are_refused() {
    let leaf: Page<'_> = (LEAF, b"", Some(b"m"), &[(b"", A)]);
    let open = |value: &[u8]| forge(&[(INNER, b"", None, &[(b"", &[2, 0, 0, 0]), (b"m", value)]), leaf]);
    let root = root(2, 2, 3);
    assert_corrupt(&open(&[1, 0, 0, 0]), &root, "in use twice");
    assert_corrupt(&open(&[2, 0, 0, 0]), &root, "in use twice");
    assert_corrupt(&open(&[0, 0, 0, 0]), &root, "in use twice");
    assert_corrupt(&open(&[0, 0, 0, 9]), &root, "beyond the end");
    assert_corrupt(&open(&[9, 0, 0, 0]), &root, "checksum");
    assert_corrupt(&open(&[9]), &root, "four bytes");
    assert_corrupt(&forge(&[(INNER, b"", None, &[(b"", &[2, 0, 0, 0])]), leaf]), &root, "cover");
    assert_corrupt(
        &forge(&[(INNER, b"", None, &[(b"a", &[2, 0, 0, 0]), (b"m", &[3, 0, 0, 0])]), leaf]),
        &root,
        "cover",
    );
    assert_corrupt(&forge(&[(INNER, b"", None, &[]), leaf]), &root, "no entries");
    assert_corrupt(
        &forge(&[(INNER, b"", Some(b"z"), &[(b"", &[2, 0, 0, 0]), (b"m", &[3, 0, 0, 0])]), leaf]),
        &root,
        "fences",
    );
}

#[test]
fn forged_leaves_are_refused() {
    let open = |entries: Forged<'_>| forge(&[(LEAF, b"", None, entries)]);
    let root = root(1, 1, 1);
    assert_corrupt(&open(&[(b"a", A)]), &root, "empty key");
    assert_corrupt(&open(&[(b"", &[7, 50, 0, 0, 0])]), &root, "kind of a segment");
    assert_corrupt(&open(&[(b"", &[1, 50, 0, 0])]), &root, "end early");
    assert_corrupt(&open(&[(b"", &[1, 50, 0, 0, 0, 0])]), &root, "after the end");
    assert_corrupt(&open(&[(b"", &[2, 50, 0, 0, 0, 50, 0, 0, 0])]), &root, "in use twice");
    assert_corrupt(&open(&[(b"", A), (b"b", A)]), &root, "in use twice");
    assert_corrupt(&open(&[(b"", &[1, 1, 0, 0, 0])]), &root, "in use twice");
    assert_corrupt(&forge(&[(LEAF, b"", Some(b"x"), &[(b"", A)])]), &root, "fences");
}

#[test]
fn roots_and_segments_are_golden() {
    let root = TreeRoot { page: 0x1234_5678, height: 3, segments: 1_000_000, nodes: 7001, pages: 0x2000_0000 };
    let labels =
        [(1, "version"), (1, "height"), (4, "root page"), (4, "pages of the file"), (8, "segments"), (8, "nodes")];
    golden("tree-root", &render(&root.encode(), &labels));
    let mut w = Writer::new();
    Segment::new(0x1234).encode(&mut w);
    let mut overflowing = Segment::new(0x1234);
    assert!(overflowing.attach(0x1234, 0x1235));
    overflowing.encode(&mut w);
    let line = Line::new(0.5, -0.25).unwrap();
    let mut lined = Segment::placed(0x2000, 16, Placement::Line { skip: 300, line });
    assert!(lined.attach(0x2003, 0x1236));
    lined.encode(&mut w);
    let fences = [&b"kb"[..], b"kcc", b"kccdddddddddddddddd"].map(<[u8]>::to_vec);
    Segment::placed(0x3000, 4, Placement::directory(b"k", fences)).encode(&mut w);
    let labels = [
        (1, "kind: one page"),
        (4, "page"),
        (1, "kind: with an overflow page"),
        (4, "page"),
        (4, "overflow page"),
        (1, "kind: line, with overflow pages"),
        (4, "first page"),
        (1, "overflow pages"),
        (1, "position of its base page"),
        (4, "overflow page"),
        (1, "pages"),
        (2, "skip"),
        (4, "slope"),
        (4, "intercept"),
        (1, "kind: directory"),
        (4, "first page"),
        (1, "pages"),
        (1, "skip"),
        (2, "fence of the second page"),
        (3, "fence of the third page"),
        (1, "fence of the fourth page: two bytes shared, 15 or more its own"),
        (1, "one more than 15"),
        (16, "its own"),
    ];
    golden("tree-segment", &render(w.as_slice(), &labels));
}

#[test]
fn roots_out_of_bounds_are_refused() {
    let good = TreeRoot { page: 5, height: 2, segments: 9, nodes: 3, pages: 256 };
    let bytes = good.encode();
    assert_eq!(TreeRoot::decode(&bytes).unwrap(), good);
    for end in 0..bytes.len() {
        assert!(TreeRoot::decode(&bytes[..end]).is_err());
    }
    let bad = [
        TreeRoot { height: 0, ..good },
        TreeRoot { height: 200, ..good },
        TreeRoot { page: 256, ..good },
        TreeRoot { pages: u32::MAX, ..good },
    ];
    for root in bad {
        assert!(TreeRoot::decode(&root.encode()).is_err(), "{root:?}");
    }
    let newer: Vec<u8> = [&[9], &bytes[1..]].concat();
    assert_eq!(TreeRoot::decode(&newer).unwrap_err().newer, Some((9, 1)));
}
