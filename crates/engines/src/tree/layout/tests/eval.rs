//! What plans make of real keys.

use std::{
    fs::File,
    io::{BufRead, BufReader, Read},
    path::{Path, PathBuf},
};

use super::*;

pub(super) fn open(name: &str) -> Option<impl Read> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let places: [PathBuf; 3] = [root.join("data"), root.join("../shared/data"), PathBuf::from("/work/shared/data")];
    let file = places.iter().find_map(|place| File::open(place.join(name)).ok())?;
    Some(ruzstd::decoding::StreamingDecoder::new(file).unwrap())
}

fn integers(name: &str, differences: bool) -> Option<Vec<Vec<u8>>> {
    let mut input = open(name)?;
    let mut bytes = Vec::new();
    input.read_to_end(&mut bytes).unwrap();
    let mut sum = 0u64;
    let mut keys: Vec<u64> = bytes
        .as_chunks()
        .0
        .iter()
        .map(|bytes| {
            let n = u64::from_le_bytes(*bytes);
            sum = sum.wrapping_add(n);
            if differences { sum } else { n }
        })
        .collect();
    keys.sort_unstable();
    keys.dedup();
    Some(keys.iter().map(|key| key.to_be_bytes().to_vec()).collect())
}

fn lines(name: &str) -> Option<Vec<Vec<u8>>> {
    let input = BufReader::new(open(name)?);
    let mut keys: Vec<Vec<u8>> = input.split(b'\n').map(|line| line.unwrap()).collect();
    keys.retain(|key| !key.is_empty());
    keys.sort();
    keys.dedup();
    Some(keys)
}

fn cpu() -> u64 {
    std::fs::read_to_string("/proc/thread-self/schedstat").unwrap().split(' ').next().unwrap().parse().unwrap()
}

#[derive(Default, Debug)]
struct Report {
    entries: Vec<(Vec<u8>, usize)>,
    kinds: std::collections::BTreeMap<(char, usize), usize>,
    pages: usize,
    multi: usize,
    bytes: usize,
    records: usize,
    nanos: u128,
}

fn common(a: &[u8], b: &[u8]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

impl Report {
    fn nodes(&self) -> usize {
        let (mut nodes, mut at) = (0, 0);
        while at < self.entries.len() {
            let (mut raw, mut n) = (0, 0);
            loop {
                let Some((key, value)) = self.entries.get(at + n) else { break };
                raw += 11 + key.len() + value;
                n += 1;
                let prefix = common(&self.entries[at].0, key);
                if raw - n * prefix + 2 * prefix + 10 > 4056 * 95 / 100 {
                    n -= 1;
                    break;
                }
            }
            at += n.max(1);
            nodes += 1;
        }
        nodes
    }
    fn add(&mut self, records: &Records, planned: &Planned) {
        let n = planned.pages.len();
        let (kind, value) = match &planned.placement {
            Placement::Single => ('s', 5),
            Placement::Line { .. } => ('l', 15),
            Placement::Directory { fences, .. } => {
                let mut before: &[u8] = &[];
                let mut total = 7;
                for f in fences {
                    let shared = common(before, f);
                    total += crate::tree::index::fence_len(shared, f.len() - shared);
                    before = f;
                }
                ('d', total)
            }
        };
        *self.kinds.entry((kind, n)).or_default() += 1;
        self.entries.push((planned.pages[0].lower.clone(), value));
        self.pages += n;
        self.multi += if n > 1 { n } else { 0 };
        for part in &planned.pages {
            for at in part.records.clone() {
                let (key, value) = records.get(at);
                self.bytes += key.len() + value.len();
                self.records += 1;
            }
        }
    }
    fn load(keys: &[Vec<u8>], value: &dyn Fn(usize) -> usize, goals: &Goals, price: usize) -> Report {
        let mut report = Report::default();
        let zeros = vec![0; 2000];
        let mut chunk = Records::default();
        let mut lower = Vec::new();
        for (i, key) in keys.iter().enumerate() {
            chunk.push(key, &zeros[..value(i)]);
            if chunk.bytes() >= 192 * 4096 || i + 1 == keys.len() {
                let from = cpu();
                let mut planner = Planner::new(&chunk, &lower, None, goals);
                planner.page_price = price;
                let mut plan = planner.plan(false);
                report.nanos += (cpu() - from) as u128;
                let last = if i + 1 == keys.len() { None } else { plan.pop() };
                plan.iter().for_each(|planned| report.add(&chunk, planned));
                let mut rest = Records::default();
                if let Some(last) = last {
                    let start = last.pages[0].records.start;
                    (start..chunk.len()).for_each(|at| rest.push(chunk.get(at).0, chunk.get(at).1));
                    lower = last.pages[0].lower.clone();
                }
                chunk = rest;
            }
        }
        report
    }
}

#[test]
fn evaluate() {
    let only = std::env::var("SETS").unwrap_or_default();
    let most: usize = std::env::var("MOST").map_or(400_000, |s| s.parse().unwrap());
    let prices: Vec<usize> = std::env::var("PRICES").map_or(vec![100], |s| s.split(',').map(|s| s.parse().unwrap()).collect());
    let fill = std::env::var("FILL").map_or(90, |s| s.parse().unwrap());
    let mut random = SmallRng::seed_from_u64(1);
    let uniform = |random: &mut SmallRng| {
        let mut keys: Vec<u64> = (0..2_000_000).map(|_| random.random::<u64>()).collect();
        keys.sort();
        keys.iter().map(|key| key.to_be_bytes().to_vec()).collect::<Vec<_>>()
    };
    for set in ["uniform", "ncbi", "refseq", "osm", "geonames", "taxi", "pathspart", "paths"] {
        if !only.is_empty() && !only.split(',').any(|o| o == set) {
            continue;
        }
        let keys = match set {
            "uniform" => Some(uniform(&mut random)),
            "ncbi" => integers("ncbi_taxids.du64.zst", true),
            "refseq" => integers("refseq_acc.du64.zst", true),
            "osm" => integers("osm_node_ids.du64.zst", true),
            "geonames" => integers("geonames_cities.u64.zst", false),
            "taxi" => integers("taxi_pickups.u64.zst", false),
            "pathspart" => lines("paths_debian_amd64_part.txt.zst"),
            _ => lines("paths_debian_amd64.txt.zst"),
        };
        let Some(keys) = keys else { continue };
        let begin = (keys.len() / 3).min(keys.len() - keys.len().min(most));
        let keys = &keys[begin..begin + most.min(keys.len())];
        let sizes: Vec<usize> = (0..keys.len()).map(|_| (7.0f64 * (random.random::<f64>() * 5.0).exp()) as usize).collect();
        for (name, value) in [
            ("64", Box::new(|i: usize| 64usize.saturating_sub(keys[i].len())) as Box<dyn Fn(usize) -> usize>),
            ("1024", Box::new(|i: usize| 1024 - keys[i].len())),
            ("mixed", Box::new(|i: usize| sizes[i].min(1800 - keys[i].len()))),
        ] {
            let single = Report::load(keys, &*value, &Goals { fill, most_pages: 1, model: Model::Optimal }, 100);
            println!(
                "{set:9} {name:5} single: pages {} fill {:.3} amp {:.3} rec/page {:.2} index {} b/page {:.1} ns/rec {}",
                single.pages,
                single.bytes as f64 / single.pages as f64 / 4056.0,
                single.pages as f64 * 4096.0 / single.bytes as f64,
                single.records as f64 / single.pages as f64,
                single.nodes() * 4096,
                single.nodes() as f64 * 4096. / single.pages as f64,
                single.nanos / single.records as u128
            );
            for model in [Model::Optimal, Model::Greedy] {
                for &price in &prices {
                    let r = Report::load(keys, &*value, &Goals { fill, most_pages: 16, model }, price);
                    println!(
                        "  {model:?} price {price:5}: index {:.3} pages {:.3} amp {:.3} rec/page {:.2} multi {:.3} p/seg {:.1} b/page {:.2} ns/rec {} {:?}",
                        r.nodes() as f64 / single.nodes() as f64,
                        r.pages as f64 / single.pages as f64,
                        r.pages as f64 * 4096.0 / r.bytes as f64,
                        r.records as f64 / r.pages as f64,
                        r.multi as f64 / r.pages as f64,
                        r.pages as f64 / r.entries.len() as f64,
                        r.nodes() as f64 * 4096. / r.pages as f64,
                        r.nanos / r.records as u128,
                        r.kinds
                            .iter()
                            .map(|((k, n), c)| format!("{k}{n}:{:.2}", (c * n) as f64 / r.pages as f64))
                            .collect::<Vec<_>>()
                            .join(" ")
                    );
                }
            }
        }
    }
}
