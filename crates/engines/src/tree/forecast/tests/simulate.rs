use std::{collections::BTreeMap, sync::Arc, time::Instant};

use ecotone_substrate::memory::Memory;

use super::super::*;

const CAP: usize = 53;
const REACH: usize = 5;
const HOOD: usize = 64;

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Layout {
    Hood,
    Segment,
    Weights,
    Slices,
}

#[derive(Default)]
struct Leaf {
    keys: Vec<u64>,
    overflow: bool,
}

struct Segment {
    lowers: Vec<u64>,
    leaves: Vec<Leaf>,
}

impl Segment {
    fn overflows(&self) -> bool {
        self.leaves.iter().any(|l| l.overflow)
    }
}

pub struct Sim<'a> {
    forecast: &'a Forecast,
    layout: Layout,
    full: f64,
    least: f64,
    span: usize,
    cap_population: f64,
    tree: BTreeMap<u64, Segment>,
    records: u64,
    pub reorgs: u64,
    pub written: u64,
    pub pages: u64,
    pub attaches: u64,
}

fn bytes(key: u64) -> [u8; 8] {
    key.to_be_bytes()
}

impl<'a> Sim<'a> {
    pub fn new(
        forecast: &'a Forecast,
        layout: Layout,
        full: f64,
        least: f64,
        span: usize,
        cap_population: f64,
        mut keys: Vec<u64>,
    ) -> Self {
        let mut sim = Sim {
            forecast,
            layout,
            full,
            least,
            span,
            cap_population,
            tree: BTreeMap::new(),
            records: keys.len() as u64,
            reorgs: 0,
            written: 0,
            pages: 0,
            attaches: 0,
        };
        keys.sort_unstable();
        let mut pages: Vec<(u64, Leaf)> =
            keys.chunks((CAP as f64 * full) as usize).map(|c| (c[0], Leaf { keys: c.to_vec(), overflow: false })).collect();
        if pages.is_empty() {
            pages.push((0, Leaf::default()));
        }
        pages[0].0 = 0;
        sim.install(pages);
        sim.written = 0;
        sim
    }

    fn install(&mut self, pages: Vec<(u64, Leaf)>) {
        self.pages += pages.len() as u64;
        self.written += pages.len() as u64;
        let mut pages = pages.into_iter().peekable();
        let mut left = pages.len();
        while left > 0 {
            let mut n = self.span;
            while n > left {
                n /= 2;
            }
            let (lowers, leaves): (Vec<_>, Vec<_>) = pages.by_ref().take(n).unzip();
            left -= n;
            self.tree.insert(lowers[0], Segment { lowers, leaves });
        }
    }

    /// sorted batch
    pub fn write_out(&mut self, batch: &[u64]) {
        self.records += batch.len() as u64;
        let mut at = 0;
        while at < batch.len() {
            let key = batch[at];
            let (_, seg) = self.tree.range_mut(..=key).next_back().unwrap();
            let i = seg.lowers.partition_point(|l| *l <= key) - 1;
            let upper_in = seg.lowers.get(i + 1).copied();
            let first = seg.lowers[0];
            let upper = upper_in.or_else(|| {
                self.tree.range((std::ops::Bound::Excluded(first), std::ops::Bound::Unbounded)).next().map(|(k, _)| *k)
            });
            let end = at + batch[at..].partition_point(|k| upper.is_none_or(|u| *k < u));
            let chain = &batch[at..end];
            self.forecast.observe(chain.iter().map(|k| bytes(*k)).collect::<Vec<_>>().iter().map(|b| &b[..]), 0);
            let seg = self.tree.get_mut(&first).unwrap();
            let leaf = &mut seg.leaves[i];
            leaf.keys.extend_from_slice(chain);
            if leaf.keys.len() > 2 * CAP {
                self.reorganise(first);
            } else if leaf.keys.len() > CAP && !leaf.overflow {
                leaf.overflow = true;
                self.pages += 1;
                self.attaches += 1;
            }
            at = end;
        }
    }

    fn reorganise(&mut self, first: u64) {
        let mut firsts = vec![first];
        let mut total = self.tree[&first].leaves.len();
        for (k, s) in self.tree.range(..first).rev().take(REACH) {
            if !s.overflows() || total + s.leaves.len() > HOOD {
                break;
            }
            total += s.leaves.len();
            firsts.insert(0, *k);
        }
        for (k, s) in self.tree.range(first + 1..).take(REACH) {
            if !s.overflows() || total + s.leaves.len() > HOOD {
                break;
            }
            total += s.leaves.len();
            firsts.push(*k);
        }
        let upper = self.tree.range(firsts[firsts.len() - 1] + 1..).next().map(|(k, _)| *k);
        let lower = firsts[0];
        let mut keys = Vec::new();
        let mut parts = Vec::new();
        for k in firsts {
            let s = self.tree.remove(&k).unwrap();
            for (l, leaf) in s.lowers.iter().zip(s.leaves) {
                self.pages -= 1 + u64::from(leaf.overflow);
                parts.push((*l, leaf.keys.len()));
                keys.extend(leaf.keys);
            }
        }
        keys.sort_unstable();
        let costs = self.costs(&keys, &parts, upper);
        let most = CAP as f64 * self.full;
        let mut pages: Vec<(u64, Leaf)> = vec![(lower, Leaf::default())];
        // even out: total cost / pages
        let sum: f64 = costs.iter().sum();
        let n = (sum / most).ceil().max(1.0);
        let target = (sum / n).max(1.0);
        let mut acc = 0.0;
        let mut cut = target;
        for (k, c) in keys.iter().zip(&costs) {
            let last = pages.last_mut().unwrap();
            if !last.1.keys.is_empty() && (acc + c / 2.0 > cut || last.1.keys.len() >= CAP) {
                pages.push((*k, Leaf { keys: vec![*k], overflow: false }));
                while cut <= acc + c / 2.0 {
                    cut += target;
                }
            } else {
                last.1.keys.push(*k);
            }
            acc += c;
        }
        self.reorgs += 1;
        self.install(pages);
    }

    fn expected(&self, lower: u64, upper: Option<u64>) -> f64 {
        let up = upper.map(bytes);
        self.forecast.expected(&bytes(lower), up.as_ref().map(|u| &u[..]), (self.cap_population * self.records as f64) as u64)
    }

    fn costs(&self, keys: &[u64], parts: &[(u64, usize)], upper: Option<u64>) -> Vec<f64> {
        let cap = 1.0 / self.least - 1.0;
        let end = upper.or(Some(keys[keys.len() - 1] + 1));
        match self.layout {
            Layout::Hood => {
                let e = self.expected(keys[0], end) / keys.len() as f64;
                vec![1.0 + e.min(cap); keys.len()]
            }
            Layout::Segment => {
                let mut costs = Vec::new();
                for (i, (l, n)) in parts.iter().enumerate() {
                    let u = parts.get(i + 1).map(|p| p.0).or(end);
                    let e = if *n == 0 { 0.0 } else { self.expected(*l, u) / *n as f64 };
                    costs.extend(std::iter::repeat_n(1.0 + e.min(cap), *n));
                }
                costs
            }
            Layout::Slices => {
                let mut costs = Vec::new();
                for (i, c) in keys.chunks(CAP).enumerate() {
                    let u = keys.get((i + 1) * CAP).copied().or(end);
                    let e = self.expected(c[0], u) / c.len() as f64;
                    costs.extend(std::iter::repeat_n(1.0 + e.min(cap), c.len()));
                }
                costs
            }
            Layout::Weights => {
                (0..keys.len()).map(|i| 1.0 + self.expected(keys[i], keys.get(i + 1).copied().or(end)).min(cap)).collect()
            }
        }
    }

    pub fn space(&self) -> f64 {
        self.pages as f64 * 4096.0 / (self.records as f64 * 64.0)
    }
}

fn env(name: &str, default: &str) -> String {
    std::env::var(name).unwrap_or(default.into())
}

#[test]
fn taxi() {
    let all: Vec<u64> = std::fs::read(env("STREAM", "/tmp/w-forecast-sim/stream.u64"))
        .unwrap()
        .as_chunks::<8>()
        .0
        .iter()
        .map(|b| u64::from_le_bytes(*b))
        .collect();
    let all: Vec<u64> = {
        let mut seen = std::collections::HashSet::new();
        all.into_iter().filter(|k| seen.insert(*k)).collect()
    };
    let load: usize = env("LOAD", "1000000").parse().unwrap();
    let insert: usize = env("INSERT", "1000000").parse().unwrap();
    let dirty: usize = env("DIRTY", "50000").parse().unwrap();
    let spans = env("SPAN", "16");
    let fulls = env("FULL", "0.9");
    let leasts = env("LEAST", "0.25");
    let pops = env("POP", "1e9");
    let kinds = env("KIND", "off,trend,seasonal,auto");
    let epochs = env("EPOCH", "100000");
    let horizons = env("HORIZON", "1000000");
    let layouts = env("LAYOUT", "hood,slices,weights");
    let budgets = env("BUDGET", "64");
    let csv = |s: &str| s.split(',').map(str::to_owned).collect::<Vec<_>>();
    println!("load {load} insert {insert} dirty {dirty}");
    println!(
        "span full least pop   kind     layout  epoch horizon MiB | reorgs written attach space_max space_end error season bins secs"
    );
    for span in csv(&spans) {
        for full in csv(&fulls) {
            for least in csv(&leasts) {
                for pop in csv(&pops) {
                    for budget in csv(&budgets) {
                        for epoch in csv(&epochs) {
                            for horizon in csv(&horizons) {
                                for kind in csv(&kinds) {
                                    for layout in csv(&layouts) {
                                        if kind == "off" && layout != csv(&layouts)[0] {
                                            continue;
                                        }
                                        let kind = ForecastKind::ALL.into_iter().find(|k| k.name() == kind).unwrap();
                                        let layout = match layout.as_str() {
                                            "hood" => Layout::Hood,
                                            "segment" => Layout::Segment,
                                            "slices" => Layout::Slices,
                                            _ => Layout::Weights,
                                        };
                                        let epoch: u32 = epoch.parse().unwrap();
                                        let ahead = (horizon.parse::<u64>().unwrap() / u64::from(epoch)).max(1) as u16;
                                        let memory = Memory::new(budget.parse::<usize>().unwrap() << 20);
                                        let forecast = Forecast::new(memory, ForecastOptions { kind, epoch, horizon: ahead }, 1);
                                        let start = Instant::now();
                                        let mut sim = Sim::new(
                                            &forecast,
                                            layout,
                                            full.parse().unwrap(),
                                            least.parse().unwrap(),
                                            span.parse().unwrap(),
                                            pop.parse().unwrap(),
                                            all[..load].to_vec(),
                                        );
                                        let mut worst: f64 = 0.0;
                                        for chunk in all[load..(load + insert).min(all.len())].chunks(dirty) {
                                            let mut batch = chunk.to_vec();
                                            batch.sort_unstable();
                                            sim.write_out(&batch);
                                            worst = worst.max(sim.space());
                                        }
                                        let told = forecast.told();
                                        println!(
                                            "{span:>4} {full:>4} {least:>5} {pop:>4} {:>8} {:>8} {epoch:>7} {horizon:>8} {budget:>3} | {:>6} {:>7} {:>6} {:.3} {:.3} {:?}/{} {} {} {:.1}",
                                            kind.name(),
                                            format!("{layout:?}"),
                                            sim.reorgs,
                                            sim.written,
                                            sim.attaches,
                                            worst,
                                            sim.space(),
                                            told.error.map(|e| (e * 1000.0).round() / 1000.0),
                                            told.kind.name(),
                                            told.season,
                                            told.bins,
                                            start.elapsed().as_secs_f64()
                                        );
                                    }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
    let _ = Arc::new(());
}
