//! Pages that differ from the builder's.

use proptest::{collection::vec, prelude::*};

use super::*;

fn sample() -> Vec<u8> {
    let records: Vec<_> =
        (0..40_u32).map(|i| (format!("user{:05}", i * 7).into_bytes(), vec![i as u8; 20 + i as usize])).collect();
    let records: Vec<_> = records.iter().map(|(k, v)| (&k[..], (v[0] % 5 != 0).then_some(&v[..]))).collect();
    build(b"user0", Some(b"user1"), &records)
}

/// Calls every reading function. None may panic.
fn read_everything(bytes: &[u8]) -> bool {
    let Ok(page) = Page::parse(bytes, PLACE) else { return false };
    let (mut key, mut keys) = (Vec::new(), vec![Vec::new(), vec![0xff; 40], page.lower().to_vec()]);
    for i in 0..=page.len() {
        if page.key_into(i, &mut key) {
            keys.push(key.clone());
        }
    }
    for key in &keys {
        let _ = (page.get(key), page.search(key), page.covers(key));
    }
    assert!(page.iter().rev().count() <= page.len() && page.room() <= PAGE);
    page.check().is_ok()
}

#[test]
fn every_flipped_bit_is_noticed() {
    let mut bytes = sample();
    for bit in 0..PAGE * 8 {
        bytes[bit / 8] ^= 1 << (bit % 8);
        assert_eq!(Page::parse(&bytes, PLACE).unwrap_err(), PageError::Checksum, "bit {bit}");
        bytes[bit / 8] ^= 1 << (bit % 8);
    }
    assert!(read_everything(&bytes));
}

#[test]
fn a_page_elsewhere_is_noticed() {
    let bytes = sample();
    for place in [PageAddress { page: PLACE.page + 1, ..PLACE }, PageAddress { file: PLACE.file + 1, ..PLACE }] {
        assert_eq!(Page::parse(&bytes, place).unwrap_err(), PageError::Checksum);
    }
    assert_eq!(Page::parse(&[0; PAGE], PLACE).unwrap_err(), PageError::Checksum, "never written");
    assert_eq!(Page::parse(&bytes[1..], PLACE).unwrap_err(), PageError::Malformed("its length"));
}

#[test]
fn a_torn_page_is_noticed_at_every_sector() {
    let (old, new) = (sample(), build(b"user0", Some(b"user1"), &[(b"user0x", Some(b"y"))]));
    for cut in (512..PAGE).step_by(512) {
        let torn = [&new[..cut], &old[cut..]].concat();
        assert_eq!(Page::parse(&torn, PLACE).unwrap_err(), PageError::Checksum);
    }
}

#[test]
fn damage_is_an_error_with_its_place() {
    let error = PageError::Checksum.at(crate::storage::FileId::Pages(3), u32::MAX);
    assert_eq!(error.to_string(), "pages.3 is corrupt at byte 17592186040320: the page checksum does not match");
}

/// The sample with some bytes changed and the checksum corrected.
fn forged(changes: &[(usize, u8)]) -> Vec<u8> {
    let mut bytes = sample();
    for &(at, byte) in changes {
        bytes[at] = byte;
    }
    let sum = layout::checksum(&bytes, PLACE);
    bytes[..4].copy_from_slice(&sum.to_le_bytes());
    bytes
}

#[test]
fn a_forged_header_is_refused() {
    let forgeries = [
        (4, 0),
        (5, 0),
        (5, 6),
        (6, 2),
        (6, 1),
        (16, 1),
        (24, 255),
        (25, 9),
        (27, 0),
        (28, 9),
        (29, 5),
        (31, 5),
        (33, 1),
        (34, 1),
    ];
    for forgery in forgeries {
        let bytes = forged(&[forgery]);
        let refused = Page::parse(&bytes, PLACE);
        assert!(matches!(refused, Err(PageError::Malformed(_))), "{forgery:?}: {refused:?}");
    }
}

#[test]
fn a_later_version_is_told_from_damage() {
    let error = Page::parse(&forged(&[(4, 2)]), PLACE).unwrap_err();
    assert_eq!(error, PageError::Newer(2));
    assert!(matches!(error.at("pages.3", 1), crate::Error::NewerFormat { found: 2, known: 1, .. }));
    let mut flipped = sample();
    flipped[4] ^= 2;
    assert_eq!(Page::parse(&flipped, PLACE).unwrap_err(), PageError::Checksum);
}

#[test]
fn a_check_finds_what_parsing_leaves_out() {
    let whole = sample();
    let gap = 40 + 40 * 10;
    let fence = PAGE - 10;
    let cases: &[(&str, &[(usize, u8)])] = &[
        ("the gap is not zero", &[(gap, 1)]),
        ("a record is not in its place", &[(42, whole[42] - 1)]),
        ("a record is not in its place", &[(44, whole[44] + 1)]),
        ("a record is out of bounds or of an unknown kind", &[(41, 0xff)]),
        (
            "a record is out of bounds or of an unknown kind",
            &[(usize::from(whole[40]) | usize::from(whole[41]) << 8, 3)],
        ),
        ("a head is not that of its key", &[(46, 0xff)]),
        ("a record exceeds a limit", &[(usize::from(whole[50]) | usize::from(whole[51]) << 8, 2)]),
        ("a key is outside of the fences", &[(fence + 4, b'1'), (fence + 9, b'3')]),
    ];
    for (what, changes) in cases {
        let bytes = forged(changes);
        let found = Page::parse(&bytes, PLACE).and_then(|page| page.check());
        assert_eq!(found, Err(PageError::Malformed(what)), "{changes:?}");
    }
}

#[test]
fn a_check_finds_keys_out_of_order() {
    let mut bytes = build(b"", None, &[(b"same1", Some(b"")), (b"same2", Some(b""))]);
    assert_eq!((bytes[PAGE - 1], bytes[PAGE - 7]), (b'1', b'2'));
    for (first, second) in [(b'3', b'2'), (b'2', b'2')] {
        (bytes[PAGE - 1], bytes[PAGE - 7]) = (first, second);
        seal(&mut bytes, PLACE, 1);
        assert_eq!(parse(&bytes).check(), Err(PageError::Malformed("the keys are out of order")));
    }
}

/// Cheaper than a random vector of proptest's, and shrinking would not help.
fn random_page(seed: u64) -> Vec<u8> {
    let words = (0..PAGE as u64 / 8)
        .map(|i| (seed ^ i).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29).wrapping_mul(0xbf58_476d_1ce4_e5b9));
    words.flat_map(|word| (word ^ (word >> 31)).to_le_bytes()).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn forged_pages_never_panic(
        changes in vec((0..PAGE, any::<u8>()), 1..12), header in vec((4..40_usize, any::<u8>()), 0..3),
    ) {
        read_everything(&forged(&[&changes[..], &header[..]].concat()));
    }

    #[test]
    fn random_slots_never_panic(slots in vec(any::<u8>(), 400), heap in vec(any::<u8>(), 64)) {
        let slots = slots.into_iter().enumerate().map(|(i, byte)| (40 + i, byte));
        let heap = heap.into_iter().enumerate().map(|(i, byte)| (PAGE - 80 + i, byte));
        read_everything(&forged(&slots.chain(heap).collect::<Vec<_>>()));
    }

    #[test]
    fn random_bytes_never_panic(seed in any::<u64>(), count in 0..300_u16, fences in 0..2000_u16) {
        let mut bytes = random_page(seed);
        for (at, field) in [(24, count), (26, 3000), (28, fences / 2), (30, 0), (32, 0)] {
            bytes[at..at + 2].copy_from_slice(&field.to_le_bytes());
        }
        bytes[4..8].copy_from_slice(&[1, 1, 1, 0]);
        bytes[34..40].fill(0);
        seal(&mut bytes, PLACE, 1);
        let bounded = 40 + usize::from(count) * 10 <= 3000 && usize::from(fences / 2) <= PAGE - 3000;
        prop_assert_eq!(Page::parse(&bytes, PLACE).is_ok(), bounded);
        read_everything(&bytes);
    }
}
