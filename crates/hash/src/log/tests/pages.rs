//! Pages in their file form.

use ecotone_substrate::codec::hex::{golden, render};
use ecotone_sys::checksum::crc32c;
use rand::{RngExt, SeedableRng, rngs::SmallRng};

use super::*;
use crate::log::page::{PageLocation, encode};

const PLACE: PageLocation = PageLocation { file: 7 << 56 | 3 << 24 | 9, birth: 41, address: Address::FIRST };

/// An expected record: address, kind, key, value and link.
type Expected = (Address, HeaderKind, Vec<u8>, Vec<u8>, Link);

/// A log of one page. Each record was changed, sealed, locked, given up, or left alone.
fn fill(random: &mut SmallRng, most: usize) -> (Arc<Domain>, HotLog, Vec<Expected>) {
    let arena = arena();
    let (domain, log) = log(&arena, 1);
    let mut all = Vec::new();
    {
        let pin = domain.pin();
        while all.len() < most {
            let key: Vec<u8> = (0..random.random_range(1..=40)).map(|_| random.random()).collect();
            let value = random.random_bool(0.8).then(|| vec![random.random(); random.random_range(0..=700)]);
            let Some(raw) =
                log.allocate(&key, value.as_deref(), &pin).filter(|raw| raw.address().page() == Address::FIRST)
            else {
                break;
            };
            let link =
                if random.random() { Link::NONE } else { Link::to(Address::new(random.random_range(3..1 << 40) * 8)) };
            let (address, mut value) = (raw.address(), value);
            raw.set_link(link);
            let given_up = random.random_bool(0.1);
            if given_up {
                drop(raw);
            } else {
                raw.made_known();
                change(&log.record(address, &pin).unwrap(), &mut value, random);
            }
            let kind = if value.is_some() { HeaderKind::Value } else { HeaderKind::Tombstone };
            all.push((
                address,
                if given_up { HeaderKind::Invalid } else { kind },
                key,
                value.unwrap_or_default(),
                link,
            ));
        }
    }
    (domain, log, all)
}

fn change(record: &Record<'_>, value: &mut Option<Vec<u8>>, random: &mut SmallRng) {
    if random.random_bool(0.4) {
        let shorter = value.as_ref().map(|value| value[value.len() / 2..].to_vec());
        record.lock().replace(shorter.as_deref());
        *value = shorter;
    }
    if random.random_bool(0.3) {
        record.lock().seal();
    }
}

/// The first page in its file form.
fn stored(domain: &Domain, log: &HotLog, place: PageLocation) -> Vec<u8> {
    let (pin, mut page) = (domain.pin(), vec![0xee; PAGE as usize]);
    let frame = log.frames.get(Address::FIRST, &pin).unwrap();
    encode(frame.words(), Address::FIRST.word(), place, &mut page);
    page
}

fn seal(page: &mut [u8], place: PageLocation) {
    let sum = crc32c(crc32c(0, &place.file.to_le_bytes()), &place.birth.to_le_bytes());
    let sum = crc32c(sum, &page[4..]);
    page[..4].copy_from_slice(&sum.to_le_bytes());
}

#[test]
fn a_page_has_its_records_without_locks_and_seals() {
    for seed in 0..50 {
        let mut random = SmallRng::seed_from_u64(seed);
        let most = random.random_range(0..60);
        let (domain, log, all) = fill(&mut random, most);
        let bytes = stored(&domain, &log, PLACE);
        let page = Page::parse(&bytes, PLACE).unwrap();
        let found: Vec<_> = page.records().map(|record| record.unwrap()).collect();
        assert_eq!(found.len(), all.len());
        for ((address, record), (at, kind, key, value, link)) in found.into_iter().zip(&all) {
            assert_eq!(
                (address, record.kind, record.key, record.value, record.link),
                (*at, *kind, &key[..], &value[..], *link)
            );
            assert_eq!(page.record(address).unwrap(), record);
        }
        // The file has neither a held lock nor the change that the lock's holder has not made yet.
        let pin = domain.pin();
        let locked: Vec<_> = all.iter().take(1).map(|(at, ..)| log.record(*at, &pin).unwrap().lock()).collect();
        assert_eq!(stored(&domain, &log, PLACE), bytes);
        drop(locked);
    }
}

#[test]
fn a_page_belongs_to_one_place_and_every_bit_of_it_counts() {
    let (domain, log, _) = fill(&mut SmallRng::seed_from_u64(1), 20);
    let bytes = stored(&domain, &log, PLACE);
    assert!(
        Page::parse(&bytes, PLACE).is_ok()
            && Page::parse(&bytes[1..], PLACE).is_err()
            && Page::parse(&[], PLACE).is_err()
    );
    for other in [
        PageLocation { file: 8, ..PLACE },
        PageLocation { birth: 42, ..PLACE },
        PageLocation { address: Address::new(2 * PAGE), ..PLACE },
    ] {
        assert!(Page::parse(&bytes, other).is_err(), "{other:?}");
    }
    for bit in 0..8 * bytes.len() {
        let mut damaged = bytes.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        assert!(Page::parse(&damaged, PLACE).is_err(), "bit {bit}");
    }
    assert!(Page::parse(&vec![0; PAGE as usize], PLACE).is_err(), "what was never written is no page");
}

#[test]
fn damage_under_a_right_checksum_is_told_or_harmless() {
    for seed in 0..3_000 {
        let mut random = SmallRng::seed_from_u64(seed);
        let (domain, log, _) = fill(&mut random, 12);
        let mut bytes = stored(&domain, &log, PLACE);
        for _ in 0..random.random_range(1..4) {
            let at = random.random_range(4..600);
            bytes[at] = random.random();
        }
        seal(&mut bytes, PLACE);
        let Ok(page) = Page::parse(&bytes, PLACE) else { continue };
        for (address, record) in page.records().map_while(std::result::Result::ok) {
            assert!(record.key.len() + record.value.len() <= 1900 && address.page() == Address::FIRST);
        }
        for at in (0..PAGE).step_by(8) {
            _ = page.record(Address::FIRST.plus(at));
        }
    }
}

/// Words with reserved bits set, and lengths that do not fit.
#[test]
fn a_record_is_of_the_form_that_the_format_says() {
    let arena = arena();
    let (domain, log) = log(&arena, 1);
    let address = {
        let pin = domain.pin();
        let raw = log.allocate(b"key", Some(b"value"), &pin).unwrap();
        raw.address()
    };
    let bytes = stored(&domain, &log, PLACE);
    let with = |at: usize, word: u64| {
        let mut bytes = bytes.clone();
        bytes[at..at + 8].copy_from_slice(&word.to_le_bytes());
        seal(&mut bytes, PLACE);
        Page::parse(&bytes, PLACE).and_then(|page| page.record(address).map(|_| ()))
    };
    let (capacity, state) = (1 << 41, 2 | 5 << 10);
    assert_eq!(with(16, capacity | 1), Ok(()));
    for chain in
        [1, capacity | 1 << 40, capacity | 1 << 49, capacity | 1 << 63, (2 * capacity) | 1, (239 * capacity) | 1]
    {
        assert!(with(16, chain).is_err(), "{chain:#x}");
    }
    for kind in [0, 1 << 21] {
        assert_eq!(with(24, state | kind), Ok(()));
    }
    for wrong in [2 << 21, 3 << 21, 7 << 21, 1 << 24, 1 << 25, 1 << 63] {
        assert!(with(24, state | wrong).is_err(), "{wrong:#x}");
    }
    for state in [2 | 6 << 10 | 1 << 21, 1000 | 1 << 21] {
        assert!(with(24, state).is_err(), "it is longer than the record: {state:#x}");
    }
    assert_eq!(with(24, 2 | 2 << 21), Ok(()), "a tombstone");
    let head = |form: u64, reserved: u64, used: u64| with(0, form << 32 | reserved << 40 | used << 48);
    assert_eq!(head(1, 0, 40), Ok(()));
    for (form, reserved, used) in
        [(0, 0, 40), (2, 0, 40), (1, 1, 40), (1, 0, 0), (1, 0, 15), (1, 0, 17), (1, 0, 32), (1, 0, 4104)]
    {
        assert!(head(form, reserved, used).is_err(), "form {form}, reserved {reserved}, used {used}");
    }
}

#[test]
fn the_bytes_of_a_page() {
    let arena = arena();
    let (domain, log) = log(&arena, 1);
    {
        let pin = domain.pin();
        let append = |key: &[u8], value: Option<&[u8]>, link: Link| {
            let raw = log.allocate(key, value, &pin).unwrap();
            let address = raw.address();
            raw.set_link(link);
            raw.made_known();
            address
        };
        let first = append(b"Utrecht", Some(b"52.09 5.12"), Link::NONE);
        append(b"Zwolle", None, Link::to(first));
        drop(log.allocate(b"Almelo", Some(b"given up"), &pin));
        let last = append(b"Delft", Some(b"a longer value"), Link::to(Address::new(1 << 42)));
        log.record(last, &pin).unwrap().lock().replace(Some(b"a short one"));
        log.record(first, &pin).unwrap().lock().seal();
    }
    let record = |length| [(8, "record: link and capacity"), (8, "lengths and kind"), (length, "key and value")];
    let mut labels = vec![(4, "checksum"), (1, "form"), (1, "reserved"), (2, "used"), (8, "address")];
    labels.extend([24, 8, 16, 24].into_iter().flat_map(record));
    labels.push((PAGE as usize - 16 - 4 * 16 - 72, "to the end of the page"));
    golden("hash-page", &render(&stored(&domain, &log, PLACE), &labels));
}
