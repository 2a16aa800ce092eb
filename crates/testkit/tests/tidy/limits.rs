//! Every maximum is defined once, in `limits`, and is used.

use super::{
    report,
    repository::{Source, has_word, rust},
};

const HOME: &str = "crates/substrate/src/limits.rs";

/// Visibility and name of the constant that a line defines.
fn constant(line: &str) -> Option<(&str, &str)> {
    let (visibility, rest) = line.split_once("const ")?;
    let (name, _) = rest.split_once(':')?;
    let named = name.chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_');
    named.then_some((visibility.trim(), name))
}

/// The constants that a file defines, with line, visibility and name.
fn constants(source: &Source) -> Vec<(usize, &str, &str)> {
    source
        .code()
        .filter_map(|(number, line)| constant(line).map(|(visibility, name)| (number, visibility, name)))
        .collect()
}

#[test]
fn limits_are_defined_once_and_used() {
    let sources = rust();
    let home = sources.iter().find(|source| source.path == HOME).expect("the limits have a file");
    let limits: Vec<(usize, &str)> = constants(home).into_iter().map(|(number, _, name)| (number, name)).collect();
    let mut findings = Vec::new();
    let others: Vec<&Source> = sources.iter().filter(|source| source.is_product() && source.path != HOME).collect();
    for source in &others {
        for (number, visibility, name) in constants(source) {
            // A field's offset may have the name of a unit.
            let told = name.contains('_') || visibility == "pub";
            if told && limits.iter().any(|(_, limit)| *limit == name) {
                findings.push(source.finding(number, format!("{name} stands in {HOME}: use that one")));
            } else if name.starts_with("MAX_") && visibility == "pub" {
                findings.push(
                    source.finding(number, format!("a maximum that others see belongs to {HOME}: move {name} there")),
                );
            }
        }
    }
    for (number, name) in limits {
        if !others.iter().any(|source| source.code().any(|(_, line)| has_word(line, name))) {
            findings.push(home.finding(number, format!("{name} is checked nowhere: check it, or remove it")));
        }
    }
    report(findings);
}
