//! One concept has one name (`docs/glossary.md`): names that were replaced do not return, and lines are short enough to
//! be read beside each other.

use super::{
    report,
    repository::{Source, files, has_word, rust},
};

/// Columns of a line of code, comment or prose at most.
const WIDEST: usize = 120;

/// Types that were replaced, each with the name of today.
const TYPES: [(&str, &str); 35] = [
    ("Around", "LsmDeps"),
    ("Attempt", "Retryable"),
    ("Based", "PageCursor"),
    ("Cover", "PagedRange"),
    ("Covers", "PagedRanges"),
    ("Family", "the engine's factory"),
    ("Front", "RecordCache"),
    ("Fronts", "RecordCacheFactory"),
    ("Goals", "FillPolicy or CompactionLimits"),
    ("Ground", "Fixture"),
    ("Guards", "LockSet"),
    ("Heat", "ScanStats or ReadFrequency"),
    ("Home", "PagePair"),
    ("House", "Fixture"),
    ("Lack", "NeedsSpace"),
    ("Ledger", "ReadChecker"),
    ("Lengths", "ReadAhead"),
    ("Misfit", "InvalidEdit"),
    ("Neighbourhood", "ReorganisationUnit"),
    ("Offer", "FlushCandidate"),
    ("Pace", "Throttle"),
    ("Passage", "ScanReport"),
    ("Piece", "CompactionPlan"),
    ("Present", "CurrentVersion"),
    ("Ranged", "TableMeta"),
    ("Rest", "RemainingRange"),
    ("Sort", "CacheEntryKind"),
    ("Space", "KeyspaceState"),
    ("Strays", "Orphans"),
    ("Toll", "ReadCompactionBudget"),
    ("View", "SuperVersion"),
    ("Wholes", "FullCompactions"),
    ("Witness", "ReadChecker"),
    ("World", "Fixture"),
    ("Worth", "Score"),
];

/// Functions, modules and files that were replaced, each with the word of today.
const WORDS: [(&str, &str); 36] = [
    ("absorb", "convert to pages"),
    ("bury", "delete obsolete"),
    ("carve", "clear range"),
    ("caution", "back-off"),
    ("clearing", "pending frees"),
    ("columns", "overlap groups"),
    ("descent", "range compaction"),
    ("divert", "flush to pages"),
    ("edges", "boundary tables"),
    ("fold", "merge"),
    ("foretold", "predicted fill"),
    ("give_number", "allocate id"),
    ("goals", "fill policy or compaction limits"),
    ("ground", "fixture"),
    ("heat", "scan statistics or read frequency"),
    ("hood", "reorganisation unit"),
    ("keep_apart", "set boundaries"),
    ("lateness", "debt ratio"),
    ("lift", "raise floor"),
    ("litter", "tombstones"),
    ("owe", "throttle"),
    ("pressure", "write stall"),
    ("price", "cost model"),
    ("relief", "reclaim"),
    ("sink", "move down"),
    ("sinking", "unsafe inputs"),
    ("spill", "evict"),
    ("stake", "threshold"),
    ("strays", "orphans"),
    ("strip", "rewrite without hidden keys"),
    ("toll", "read-compaction budget"),
    ("uncover", "convert to tables"),
    ("upkeep", "background"),
    ("waste", "read-amplification cost"),
    ("witness", "read checker"),
    ("world", "fixture"),
];

/// Whether a line of code defines a function, a module or a constant of this name.
fn defines(line: &str, name: &str) -> bool {
    ["fn", "mod"].iter().any(|keyword| {
        line.split_once(&format!("{keyword} ")).is_some_and(|(_, behind)| {
            behind.strip_prefix(name).is_some_and(|behind| behind.starts_with(['(', '<', ';', ' ']))
        })
    })
}

/// Whether the rules hold there: this file names what it bans.
fn others(source: &&Source) -> bool {
    source.path != "crates/testkit/tests/tidy/names.rs"
}

#[test]
fn replaced_names_do_not_return() {
    let mut findings = Vec::new();
    for source in rust().iter().filter(others) {
        for (number, line) in source.code() {
            for (name, today) in TYPES.iter().filter(|(name, _)| has_word(line, name) && !line.contains('"')) {
                findings.push(source.finding(number, format!("`{name}` was replaced: it is {today} now")));
            }
            for (name, today) in WORDS.iter().filter(|(name, _)| defines(line, name)) {
                findings.push(source.finding(number, format!("`{name}` was replaced: the term is {today}")));
            }
        }
        let stem = source.path.rsplit('/').next().and_then(|name| name.strip_suffix(".rs"));
        for (_, today) in WORDS.iter().filter(|(name, _)| Some(*name) == stem) {
            findings.push(source.finding(1, format!("the file has a name that was replaced: the term is {today}")));
        }
    }
    report(findings);
}

/// The lines of a paper outside of code blocks.
fn prose(source: &Source) -> impl Iterator<Item = (usize, &str)> {
    let mut in_block = false;
    source.lines().filter(move |(_, line)| {
        let fence = line.trim_start().starts_with("```");
        in_block ^= fence;
        !in_block && !fence
    })
}

#[test]
fn lines_are_short_enough() {
    let is_long = |line: &&str| line.chars().count() > WIDEST;
    let mut findings = Vec::new();
    for source in rust() {
        let long = source.lines().filter(|(_, line)| is_long(line));
        findings.extend(long.map(|(number, _)| source.finding(number, format!("more than {WIDEST} columns"))));
    }
    for source in files(&[".md"]).iter().filter(|source| !source.path.starts_with("docs/history/")) {
        // A table has a row in each line, and a link cannot be broken.
        let long = prose(source).filter(|(_, line)| is_long(line) && !line.starts_with('|') && line.contains(' '));
        findings.extend(long.map(|(number, _)| source.finding(number, format!("more than {WIDEST} columns"))));
    }
    report(findings);
}
