//! Plans of real keys: the size of the index, and the number of pages.

use std::{
    fs::File,
    io::{BufRead, BufReader, Read},
    ops::Range,
    path::Path,
};

use ecotone_substrate::page::{capacity, prefix_len, record_bytes};
use ruzstd::decoding::StreamingDecoder;

use super::*;
use crate::index::Segment;

/// Keys that are used of a set.
const KEYS: usize = 60_000;
/// Bytes of records that a bulk load plans at a time.
const CHUNK: usize = 192 * 4096;

/// Opens a compressed file of the repository, or of the data beside it; prints a message if it is missing.
#[expect(clippy::disallowed_methods, reason = "test data is no part of a store")]
fn open(name: &str) -> Option<StreamingDecoder<File, ruzstd::decoding::FrameDecoder>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let file = ["data", "../shared/data"].iter().find_map(|place| File::open(root.join(place).join(name)).ok());
    if file.is_none() {
        eprintln!("skipped: there is no {name} here");
    }
    file.map(|file| StreamingDecoder::new(file).expect("it is packed"))
}

/// Ascending integers that are stored as differences, without the first one.
fn differences(name: &str) -> Option<Vec<Vec<u8>>> {
    let mut bytes = Vec::new();
    open(name)?.take(8 * 8 * KEYS as u64).read_to_end(&mut bytes).expect("it can be read");
    let mut key = 0u64;
    let keys = bytes.as_chunks().0.iter().map(|step| {
        key = key.wrapping_add(u64::from_le_bytes(*step));
        key.to_be_bytes().to_vec()
    });
    Some(keys.skip(7 * KEYS).collect())
}

fn paths() -> Option<Vec<Vec<u8>>> {
    let lines = BufReader::new(open("paths_debian_amd64_part.txt.zst")?).split(b'\n');
    let mut keys: Vec<Vec<u8>> = lines.collect::<Result<_, _>>().expect("it can be read");
    keys.sort();
    keys.dedup();
    keys.retain(|key| !key.is_empty());
    keys.truncate(KEYS);
    Some(keys)
}

fn uniform() -> Option<Vec<Vec<u8>>> {
    // As dense as twenty million keys in the whole range.
    let mut random = SmallRng::seed_from_u64(5);
    let mut keys: Vec<u64> = (0..KEYS).map(|_| random.random_range(0..u64::MAX / 20_000_000 * KEYS as u64)).collect();
    keys.sort_unstable();
    keys.dedup();
    Some(keys.iter().map(|key| (key + (1 << 60)).to_be_bytes().to_vec()).collect())
}

/// Length of a value such that the record has `record` bytes, or 0 if the key is longer; `record` 0 stands for lengths
/// from 8 to 1000 bytes, of which small ones are the most frequent.
fn value_len(random: &mut SmallRng, key: &[u8], record: usize) -> usize {
    match record {
        0 => (8.0 * (random.random::<f64>() * 4.8).exp()) as usize,
        _ => record.saturating_sub(key.len()),
    }
}

#[derive(Debug, Default)]
struct Loaded {
    /// Lower fences and encoded lengths of the index entries.
    entries: Vec<(Vec<u8>, usize)>,
    pages: usize,
    /// Pages of segments with several pages.
    grouped: usize,
    /// Pages of segments with a line.
    on_lines: usize,
}

impl Loaded {
    fn add(&mut self, planned: &SegmentPlan) {
        let pages = planned.pages.len();
        let mut w = ecotone_substrate::codec::Writer::new();
        Segment::placed(1, pages as u8, planned.placement.clone()).encode(&mut w);
        self.entries.push((planned.pages[0].lower.clone(), w.as_slice().len()));
        self.pages += pages;
        self.grouped += if pages > 1 { pages } else { 0 };
        self.on_lines += if has_line(planned) { pages } else { 0 };
    }

    /// Bytes of the entries in full nodes, each without the prefix that the entries of its node share.
    fn index_bytes(&self) -> usize {
        let (mut total, mut node) = (0, 0..0);
        let bytes = |node: &Range<usize>| {
            let Some((last, _)) = self.entries[node.clone()].last() else { return 0 };
            let prefix = prefix_len(&self.entries[node.start].0, Some(last));
            self.entries[node.clone()].iter().map(|(key, value)| record_bytes(prefix, key.len(), *value)).sum()
        };
        while node.end < self.entries.len() {
            let more = node.start..node.end + 1;
            if bytes(&more) > capacity(&[], None) {
                total += bytes(&node);
                node = node.end..node.end;
            } else {
                node = more;
            }
        }
        total + bytes(&node)
    }
}

/// Loads keys in order, as a bulk load does: chunk by chunk, each together with the last segment.
fn load(keys: &[Vec<u8>], record: usize, policy: &FillPolicy) -> Loaded {
    let mut random = SmallRng::seed_from_u64(3);
    let mut loaded = Loaded::default();
    let (mut chunk, mut lower) = (Records::default(), Vec::new());
    for (i, key) in keys.iter().enumerate() {
        chunk.push(key, &vec![7; value_len(&mut random, key, record)]);
        let end = i + 1 == keys.len();
        if chunk.bytes() >= CHUNK || end {
            let mut plan = fill_up(&chunk, &lower, None, policy);
            let last = if end { None } else { plan.pop() };
            plan.iter().for_each(|planned| loaded.add(planned));
            let mut rest = Records::default();
            if let Some(last) = last {
                let first = &last.pages[0];
                (first.records.start..chunk.len())
                    .map(|at| chunk.get(at))
                    .for_each(|(key, value)| rest.push(key, value));
                lower.clone_from(&first.lower);
            }
            chunk = rest;
        }
    }
    loaded
}

/// Loads keys with records of 64 and 1024 bytes and of mixed sizes, and checks that the index has at most `most`
/// percent of the size of an index with an entry for each page.
fn check(name: &str, keys: Option<Vec<Vec<u8>>>, most: usize) {
    let Some(keys) = keys else { return };
    for record in [64, 1024, 0] {
        let single = load(&keys, record, &FillPolicy { most_pages: 1, ..GOALS });
        for model in [Model::Optimal, Model::Greedy] {
            let loaded = load(&keys, record, &FillPolicy { model, ..GOALS });
            let percent = |part: usize, whole: usize| part as f64 * 100.0 / whole as f64;
            let index = percent(loaded.index_bytes(), single.index_bytes());
            let (pages, grouped) = (percent(loaded.pages, single.pages), percent(loaded.grouped, loaded.pages));
            let lines = percent(loaded.on_lines, loaded.pages);
            eprintln!(
                "{name} {record:4} {model:?}: index {index:.1}%, pages {pages:.1}%, {grouped:.0}% grouped, \
                {lines:.0}% on lines, {:.1} a segment",
                loaded.pages as f64 / loaded.entries.len() as f64
            );
            assert!(index <= most as f64 && pages <= 102.0 && grouped >= 90.0, "see above");
        }
    }
}

#[test]
fn taxonomy_ids_take_a_quarter_of_the_index() {
    check("ncbi_taxids", differences("ncbi_taxids.du64.zst"), 25);
}

#[test]
fn accessions_take_a_quarter_of_the_index() {
    check("refseq_acc", differences("refseq_acc.du64.zst"), 25);
}

#[test]
fn map_nodes_take_little_of_the_index() {
    check("osm_node_ids", differences("osm_node_ids.du64.zst"), 30);
}

#[test]
fn uniform_keys_take_little_of_the_index() {
    check("uniform", uniform(), 30);
}

#[test]
fn paths_take_half_of_the_index() {
    check("paths", paths(), 50);
}
