//! The files of a crate import each other without circles, so that each can be read after the files that it imports.
//!
//! A file imports another if a `use` or a path in its code names an item that the other one defines. Names are followed
//! through re-exports to the file that defines them: a `mod.rs` that re-exports its children imports none of them.
//! Tests may import anything.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::{
    report,
    repository::{Finding, Source, rust},
};

/// Crates without circles among their files.
const CRATES: [&str; 6] =
    ["crates/testkit/", "crates/ecotone/", "crates/hash/", "crates/lsm/", "crates/tree/", "tools/bench/"];

/// Crates without circles among the folders and the files right below `src`.
const CRATES_OF_PARTS: [&str; 1] = ["tools/bench/"];

/// The longest chain of re-exports.
const LONGEST_CHAIN: usize = 8;

/// The path of a module, from the root of its crate.
type Module = Vec<String>;

/// The files that each file imports, with the line of the first import.
type Graph = BTreeMap<String, BTreeMap<String, usize>>;

/// A name in a file, as `use` or code writes it.
#[derive(Debug)]
struct Path {
    line: usize,
    segments: Vec<String>,
    /// The name that a `use` gives it here.
    name: Option<String>,
    is_public: bool,
}

/// Splits a line of code into identifiers, `::` and single characters; strings are left out.
fn tokens(line: &str) -> Vec<&str> {
    let mut tokens = Vec::new();
    let mut rest = line.trim_start();
    while let Some(first) = rest.chars().next() {
        let is_name = |c: char| c.is_alphanumeric() || c == '_';
        let length = match first {
            '"' => string_length(rest),
            '\'' if rest.starts_with("'\"'") => 3,
            ':' if rest.starts_with("::") => 2,
            _ if is_name(first) => rest.find(|c| !is_name(c)).unwrap_or(rest.len()),
            _ => first.len_utf8(),
        };
        if first != '"' {
            tokens.push(&rest[..length]);
        }
        rest = rest[length..].trim_start();
    }
    tokens
}

/// Bytes of the string literal at the start of `text`, or of all of `text` if the literal continues in the next line.
fn string_length(text: &str) -> usize {
    let mut is_escaped = false;
    let end = text[1..].find(|c: char| {
        let is_end = c == '"' && !is_escaped;
        is_escaped = c == '\\' && !is_escaped;
        is_end
    });
    end.map_or(text.len(), |end| end + 2)
}

/// Reads the tree of a `use` from `at` on; returns the position behind it.
fn read_use(tokens: &[(usize, &str)], mut at: usize, prefix: &Path, found: &mut Vec<Path>) -> usize {
    let mut path = Path { line: prefix.line, segments: prefix.segments.clone(), name: None, ..*prefix };
    while let Some((line, token)) = tokens.get(at) {
        at += 1;
        match *token {
            "::" => {}
            "{" => {
                while !matches!(tokens.get(at), None | Some((_, "}"))) {
                    at = read_use(tokens, at, &path, found);
                    at += usize::from(matches!(tokens.get(at), Some((_, ","))));
                }
                return at + 1;
            }
            "as" => {
                path.name = tokens.get(at).map(|(_, name)| (*name).to_owned());
                at += 1;
            }
            "," | ";" | "}" => {
                at -= 1;
                break;
            }
            "self" if !path.segments.is_empty() => {}
            segment => {
                path.segments.push(segment.to_owned());
                path.line = *line;
            }
        }
    }
    path.name = path.name.or_else(|| path.segments.last().cloned());
    found.push(path);
    at
}

/// All names in a file that may belong to other files.
fn paths(source: &Source) -> Vec<Path> {
    let tokens: Vec<(usize, &str)> =
        source.code().flat_map(|(number, line)| tokens(line).into_iter().map(move |token| (number, token))).collect();
    let (mut found, mut at, mut is_public) = (Vec::new(), 0, false);
    while let Some((line, token)) = tokens.get(at).copied() {
        let next = tokens.get(at + 1).map_or("", |(_, next)| *next);
        at += 1;
        match token {
            "pub" => {
                is_public = true;
                if next == "(" {
                    at += tokens[at..].iter().position(|(_, token)| *token == ")").map_or(0, |end| end + 1);
                }
                continue;
            }
            "use" if next != "<" => {
                at = read_use(&tokens, at, &Path { line, segments: Vec::new(), name: None, is_public }, &mut found);
            }
            _ if next == "::" => {
                let mut segments = vec![token.to_owned()];
                while let [(_, "::"), (_, segment), ..] = tokens[at..] {
                    segments.push(segment.to_owned());
                    at += 2;
                }
                found.push(Path { line, segments, name: None, is_public: false });
            }
            _ => {}
        }
        is_public = false;
    }
    found
}

/// The modules of a crate.
struct Crate<'a> {
    sources: BTreeMap<Module, &'a Source>,
    paths: BTreeMap<Module, Vec<Path>>,
}

impl<'a> Crate<'a> {
    fn new(sources: &'a [Source], folder: &str) -> Self {
        let folder = format!("{folder}src/");
        let own = sources.iter().filter(|source| source.path.starts_with(&folder) && !source.is_test());
        let module = |source: &Source| {
            let mut module: Module = source.path[folder.len()..].split('/').map(str::to_owned).collect();
            let file = module.pop().unwrap_or_default();
            if !["mod.rs", "lib.rs", "main.rs"].contains(&file.as_str()) {
                module.push(file.trim_end_matches(".rs").to_owned());
            }
            module
        };
        let sources: BTreeMap<Module, &Source> = own.map(|source| (module(source), source)).collect();
        let paths = sources.iter().map(|(module, source)| (module.clone(), paths(source))).collect();
        Crate { sources, paths }
    }

    /// The import that gives `name` its meaning in a module.
    fn import(&self, module: &Module, name: &str) -> Option<&Path> {
        self.paths.get(module)?.iter().find(|path| path.name.as_deref() == Some(name))
    }

    /// The module that defines what `segments` name in `module`, and whether they name the module itself; `None` if
    /// another crate or the prelude defines it.
    fn definer(&self, module: &Module, segments: &[String], chain: usize) -> Option<(Module, bool)> {
        let (mut at, mut rest) = (module.clone(), segments);
        match rest.first()?.as_str() {
            "crate" => (at, rest) = (Module::new(), &rest[1..]),
            "self" => rest = &rest[1..],
            "super" => {
                while rest.first().is_some_and(|segment| segment == "super") {
                    at.pop();
                    rest = &rest[1..];
                }
            }
            name => {
                let is_known = self.child(&at, name).is_some() || self.import(&at, name).is_some();
                is_known.then_some(())?;
            }
        }
        while let Some(child) = rest.first().and_then(|name| self.child(&at, name)) {
            (at, rest) = (child, &rest[1..]);
        }
        let import = rest.first().and_then(|name| self.import(&at, name)).filter(|_| chain < LONGEST_CHAIN);
        match import {
            Some(import) => {
                let whole: Vec<String> = import.segments.iter().chain(&rest[1..]).cloned().collect();
                self.definer(&at, &whole, chain + 1)
            }
            None => Some((at, rest.is_empty())),
        }
    }

    fn child(&self, module: &Module, name: &str) -> Option<Module> {
        let child: Module = module.iter().cloned().chain([name.to_owned()]).collect();
        self.sources.contains_key(&child).then_some(child)
    }

    /// The imports of all files. A `use` of a module counts where code names an item of the module.
    fn graph(&self) -> Graph {
        let mut graph = Graph::new();
        for (module, paths) in &self.paths {
            let from = &self.sources[module].path;
            let imports = graph.entry(from.clone()).or_default();
            for path in paths.iter().filter(|path| !(path.name.is_some() && path.is_public)) {
                let Some((definer, is_module)) = self.definer(module, &path.segments, 0) else { continue };
                let to = &self.sources[&definer].path;
                if to != from && !is_module {
                    imports.entry(to.clone()).or_insert(path.line);
                }
            }
        }
        graph
    }
}

/// The shortest way along imports that leaves `from` and returns to it.
fn circle(graph: &Graph, from: &str) -> Option<Vec<String>> {
    let mut open = VecDeque::from([vec![from.to_owned()]]);
    let mut seen = BTreeSet::new();
    while let Some(way) = open.pop_front() {
        for next in graph[way.last()?].keys() {
            if next == from {
                return Some(way);
            }
            if seen.insert(next) {
                open.push_back(way.iter().chain([next]).cloned().collect());
            }
        }
    }
    None
}

/// The files on circles, each circle once, by the shortest way through a file that no earlier circle has.
fn circles(graph: &Graph) -> Vec<Vec<String>> {
    let mut circles: Vec<Vec<String>> = Vec::new();
    for file in graph.keys() {
        if !circles.iter().any(|circle| circle.contains(file)) {
            circles.extend(circle(graph, file));
        }
    }
    circles
}

/// Folds a graph of files into one of the folders and files right below `src`.
fn parts(graph: &Graph, folder: &str) -> Graph {
    let skipped = folder.len() + "src/".len();
    let part = |path: &str| path[..path[skipped..].find('/').map_or(path.len(), |end| skipped + end)].to_owned();
    let mut parts = Graph::new();
    for (from, imports) in graph {
        let part_imports = parts.entry(part(from)).or_default();
        for (to, line) in imports.iter().filter(|(to, _)| part(to) != part(from)) {
            part_imports.entry(part(to)).or_insert(*line);
        }
    }
    parts
}

fn findings(graph: &Graph, kind: &str) -> Vec<Finding> {
    let finding = |circle: Vec<String>| {
        let next = circle.get(1).unwrap_or(&circle[0]);
        let way = circle.iter().chain([&circle[0]]).map(String::as_str).collect::<Vec<_>>().join(" -> ");
        let source = Source { path: circle[0].clone(), text: String::new() };
        let advice = format!("{kind} import each other in a circle, {way}: move what they share to one below them");
        source.finding(graph[&circle[0]][next], advice)
    };
    circles(graph).into_iter().map(finding).collect()
}

#[test]
fn files_import_one_way() {
    let sources = rust();
    let of = |folder: &&str| findings(&Crate::new(&sources, folder).graph(), "files");
    report(CRATES.iter().flat_map(of).collect());
}

#[test]
fn parts_import_one_way() {
    let sources = rust();
    let of = |folder: &&str| findings(&parts(&Crate::new(&sources, folder).graph(), folder), "parts");
    report(CRATES_OF_PARTS.iter().flat_map(of).collect());
}

#[test]
fn a_circle_through_a_re_export_is_found() {
    let file = |path: &str, text: &str| Source { path: format!("a/src/{path}"), text: text.to_owned() };
    let sources = [
        file("lib.rs", "mod b;\nmod c;\npub use self::b::Up;"),
        file("b/mod.rs", "mod d;\n//! c::X\npub(crate) use self::d::{self, Down as Up};\npub(in crate::b) struct B;"),
        file("b/d.rs", "use std::fmt;\nuse super::super::{c::{Low, self as other}};\nfn f() { other::g() }"),
        file("c.rs", "\nfn low() { crate::b::Up::new(\"crate::b::B\") }\nmod tests {\nuse crate::b::B;\n}"),
    ];
    let graph = Crate::new(&sources, "a/").graph();
    let circle = ["a/src/b/d.rs".to_owned(), "a/src/c.rs".to_owned()];
    assert_eq!(circles(&graph), [circle.to_vec()]);
    assert_eq!((graph["a/src/b/d.rs"][&circle[1]], graph["a/src/c.rs"][&circle[0]]), (2, 2));
    assert!(graph["a/src/b/mod.rs"].is_empty() && graph["a/src/lib.rs"].is_empty());
    assert_eq!(circles(&parts(&graph, "a/")), [["a/src/b", "a/src/c.rs"].map(str::to_owned).to_vec()]);
}
