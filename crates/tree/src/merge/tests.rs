//! Write-outs of random page pairs, compared with a map.

use std::collections::BTreeMap;

use ecotone_substrate::limits::PAGE;

use super::*;

type Map = BTreeMap<Vec<u8>, Vec<u8>>;

/// A random source that replays from its seed.
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) % end
    }

    fn key(&mut self) -> Vec<u8> {
        format!("key/{:03}", self.below(400)).into_bytes()
    }

    fn value(&mut self, longest: u64) -> Vec<u8> {
        vec![self.below(256) as u8; self.below(longest) as usize]
    }
}

const PLACE: PageAddress = PageAddress { file: 1, page: 1 };
const LOWER: &[u8] = b"key/";

fn shape(kind: PageKind) -> PageSpec<'static> {
    PageSpec { kind, related: 1, lower: LOWER, upper: Some(b"key0") }
}

fn page_of(kind: PageKind, records: &Map) -> [u8; PAGE] {
    let mut bytes = [0; PAGE];
    build(&mut bytes, PLACE, shape(kind), records.iter().map(|(key, value)| (key.as_slice(), value.as_slice())), 1);
    bytes
}

fn map_of(records: &Records) -> Map {
    records.iter().map(|(key, value)| (key.to_vec(), value.to_vec())).collect()
}

/// The records of a page with this content, built over `old`.
fn built(content: &PageContent, kind: PageKind, old: &Page<'_>, dirty: &[DirtyRecord<'_>]) -> Map {
    let mut bytes = [0xA5; PAGE];
    content.build(&mut bytes, PLACE, shape(kind), old, dirty.iter().copied(), 2);
    let page = Page::parse(&bytes, PLACE).unwrap();
    assert_eq!((page.kind(), page.sequence(), page.check()), (kind, 2, Ok(())));
    let mut records = Records::default();
    records.push_page(&page);
    map_of(&records)
}

fn fits(records: &Map) -> bool {
    let bytes: usize = records.iter().map(|(key, value)| record_bytes(LOWER.len() - 1, key.len(), value.len())).sum();
    bytes <= capacity(LOWER, Some(b"key0"))
}

/// Fills a page with random records that are not in `not`.
fn random_page(random: &mut Random, not: &Map, longest: u64) -> Map {
    let mut records = Map::new();
    for _ in 0..random.below(80) {
        let (key, value) = (random.key(), random.value(longest));
        let before = records.clone();
        if !not.contains_key(&key) {
            records.insert(key, value);
        }
        if !fits(&records) {
            return before;
        }
    }
    records
}

#[test]
fn write_outs_put_every_record_where_it_was_and_fit() {
    let (mut written, mut reorganised, mut replaced) = (0, 0, 0);
    for seed in 0..3000 {
        let mut random = Random(seed);
        let longest = 1 + random.below(300);
        let base = random_page(&mut random, &Map::new(), longest);
        let overflow = (random.below(2) == 0).then(|| random_page(&mut random, &base, longest));
        let mut dirty = BTreeMap::new();
        for _ in 0..random.below(30) {
            dirty.insert(random.key(), (random.below(4) > 0).then(|| random.value(longest)));
        }
        if random.below(4) == 0 {
            let same = |(key, value): (&Vec<u8>, &Vec<u8>)| (key.clone(), Some(vec![7; value.len()]));
            dirty = base.iter().step_by(3).map(same).collect();
        }
        let records: Vec<DirtyRecord<'_>> = dirty
            .iter()
            .map(|(key, value)| DirtyRecord { key, value: value.as_deref(), page_reported: false })
            .collect();
        let base_bytes = page_of(PageKind::Base, &base);
        let overflow_bytes = overflow.as_ref().map(|records| page_of(PageKind::Overflow, records));
        let base_page = Page::parse(&base_bytes, PLACE).unwrap();
        let overflow_page = overflow_bytes.as_ref().map(|bytes| Page::parse(bytes, PLACE).unwrap());

        let mut expected = base.clone();
        expected.extend(overflow.clone().unwrap_or_default());
        let before = expected.clone();
        for (key, value) in &dirty {
            match value {
                Some(value) => expected.insert(key.clone(), value.clone()),
                None => expected.remove(key),
            };
        }
        let (mut seen, mut keys) = (Records::default(), Vec::new());
        visible(&(base_page, overflow_page), records.iter().copied(), &mut seen, |record| {
            keys.extend(record.map(|record| record.key))
        });
        assert_eq!(map_of(&seen), expected, "seed {seed}");
        let stored = |record: &&DirtyRecord<'_>| before.contains_key(record.key);
        assert!(records.iter().filter(|record| !stored(record)).map(|record| record.key).eq(keys), "seed {seed}");

        match write_out(&base_page, overflow_page.as_ref(), records.iter().copied()) {
            WriteOutResult::Reorganise => {
                // A reorganisation must be necessary: the records must not fit one page.
                reorganised += 1;
                assert!(!fits(&expected), "seed {seed} fits one page as it is");
            }
            WriteOutResult::Pages(changed) => {
                written += 1;
                replaced += usize::from(matches!(&changed.base, Some(PageContent::Values(_))));
                let page = |content, kind| built(content, kind, &base_page, &records);
                let new_base = changed.base.as_ref().map_or(base.clone(), |content| page(content, PageKind::Base));
                let new_overflow = changed.overflow.as_ref().map(|content| page(content, PageKind::Overflow));
                let new_overflow = new_overflow.unwrap_or_else(|| overflow.clone().unwrap_or_default());
                assert!(fits(&new_base) && fits(&new_overflow), "seed {seed}");
                assert!(
                    base.keys().all(|key| !new_overflow.contains_key(key)),
                    "seed {seed} moved a key out of the base page"
                );
                let was_over = |key: &Vec<u8>| overflow.as_ref().is_some_and(|overflow| overflow.contains_key(key));
                assert!(new_base.keys().all(|key| !was_over(key)), "seed {seed} moved a key into the base page");
                let mut all = new_base.clone();
                all.extend(new_overflow.clone());
                assert_eq!(all.len(), new_base.len() + new_overflow.len(), "seed {seed} has a key twice");
                assert_eq!(all, expected, "seed {seed}");
            }
        }
    }
    assert!(
        written > 500 && reorganised > 100 && replaced > 300,
        "{written} written, {reorganised} reorganised, {replaced} replaced"
    );
}
