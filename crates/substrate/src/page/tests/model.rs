//! Pages against a `BTreeMap`.

use std::collections::BTreeMap;

use proptest::{collection::vec, prelude::*};

use super::*;

type Model = BTreeMap<Vec<u8>, Option<Vec<u8>>>;

/// Keys of few different bytes, so that they share prefixes and heads, and now and then one up to the limit.
fn tail() -> impl Strategy<Value = Vec<u8>> {
    let byte = || prop_oneof![Just(0_u8), Just(1), Just(255), any::<u8>()];
    prop_oneof![8 => vec(byte(), 0..9), 1 => vec(byte(), 0..200), 1 => vec(byte(), 700..900)]
}

fn value() -> impl Strategy<Value = Option<Vec<u8>>> {
    let bytes = |most| vec(any::<u8>(), 0..most).prop_map(Some);
    prop_oneof![1 => Just(None), 8 => bytes(40), 1 => bytes(800)]
}

#[derive(Debug)]
struct Case {
    lower: Vec<u8>,
    upper: Option<Vec<u8>>,
    records: Model,
    probes: Vec<Vec<u8>>,
}

/// Fences that may share a long prefix, records between them, and keys to look for anywhere.
fn case() -> impl Strategy<Value = Case> {
    let parts =
        (vec(any::<u8>(), 0..120), tail(), tail(), any::<bool>(), vec((tail(), value()), 0..120), vec(tail(), 0..20));
    parts.prop_map(|(prefix, a, b, bounded, tails, probes)| {
        let with_prefix = |tail: Vec<u8>| [&prefix[..], &tail[..]].concat();
        let (a, b) = (with_prefix(a), with_prefix(b));
        let upper = (bounded && a != b).then(|| a.clone().max(b.clone()));
        let lower = if upper.is_some() { a.min(b) } else { a };
        let keyed = tails.into_iter().map(|(tail, value)| (with_prefix(tail), value));
        let records =
            keyed.filter(|(key, _)| *key >= lower && upper.as_ref().is_none_or(|upper| key < upper)).collect();
        let other = probes.iter().cloned();
        let probes = probes.iter().cloned().map(with_prefix).chain(other).collect();
        Case { lower, upper, records, probes }
    })
}

/// Builds the page until the first record that does not fit. Returns its contents.
fn fill(case: &Case, buf: &mut [u8]) -> Model {
    let upper = case.upper.as_deref();
    let mut builder = PageBuilder::new(buf, PLACE, PageKind::Overflow, 3, &case.lower, upper);
    let (mut model, mut left) = (Model::new(), capacity(&case.lower, upper));
    for (key, value) in &case.records {
        let bytes = record_bytes(prefix_len(&case.lower, upper), key.len(), value.as_ref().map_or(0, Vec::len));
        assert_eq!(push(&mut builder, key, value.as_deref()), bytes <= left, "the plan says what fits");
        if bytes > left {
            break;
        }
        left -= bytes;
        model.insert(key.clone(), value.clone());
    }
    builder.finish(12);
    model
}

fn same_record(model: &Option<Vec<u8>>, kind: RecordKind, value: &[u8]) -> bool {
    model.as_deref().unwrap_or_default() == value && model.is_some() == (kind == RecordKind::Value)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn a_page_holds_what_was_pushed(case in case()) {
        let mut buf = vec![0xee; PAGE];
        let model = fill(&case, &mut buf);
        let page = parse(&buf);
        prop_assert_eq!(page.check(), Ok(()));
        prop_assert_eq!((page.kind(), page.related(), page.sequence()), (PageKind::Overflow, 3, 12));
        prop_assert_eq!((page.lower(), page.upper()), (&case.lower[..], case.upper.as_deref()));
        prop_assert_eq!((page.len(), page.iter().count()), (model.len(), model.len()));
        let mut key = Vec::new();
        for (i, (model_key, value)) in model.iter().enumerate() {
            prop_assert!(page.key_into(i, &mut key) && key == *model_key);
            prop_assert_eq!(page.search(&key), Ok(i));
            let (kind, found) = page.get(&key).expect("it is there");
            prop_assert!(same_record(value, kind, found));
        }
        prop_assert!(page.entry(model.len()).is_none() && !page.key_into(model.len(), &mut key));
    }

    #[test]
    fn a_page_does_not_hold_anything_else(case in case()) {
        let mut buf = vec![0xee; PAGE];
        let model = fill(&case, &mut buf);
        let page = parse(&buf);
        let keys: Vec<_> = model.keys().collect();
        for probe in case.probes.iter().chain(case.records.keys()).chain([&case.lower]).chain(&case.upper) {
            prop_assert_eq!(page.search(probe), keys.binary_search(&probe));
            prop_assert_eq!(page.get(probe).is_some(), model.contains_key(probe));
            let covered = *probe >= case.lower && case.upper.as_ref().is_none_or(|upper| probe < upper);
            prop_assert_eq!(page.covers(probe), covered);
            if covered {
                prop_assert_eq!(Resident::new(&page).search(&buf, probe), keys.binary_search(&probe));
            }
        }
    }

    #[test]
    fn a_page_that_stays_in_memory_is_the_same_page(case in case()) {
        let mut buf = vec![0xee; PAGE];
        fill(&case, &mut buf);
        let page = parse(&buf);
        let again = Resident::new(&page).page(&buf);
        let head = |page: &Page<'_>| (page.kind(), page.related(), page.sequence());
        prop_assert_eq!(head(&again), head(&page));
        prop_assert_eq!((again.lower(), again.upper(), again.prefix()), (page.lower(), page.upper(), page.prefix()));
        prop_assert_eq!((again.len(), again.room()), (page.len(), page.room()));
        prop_assert!(again.iter().eq(page.iter()));
    }
}
