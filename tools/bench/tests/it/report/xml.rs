//! Whether a text is well-formed XML, as far as our charts use it: elements, attributes, text and the usual entities.

/// The first mistake.
pub(crate) fn check(text: &str) -> Result<(), String> {
    let mut open: Vec<&str> = Vec::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('<') {
        check_text(before)?;
        let end = closing(after).ok_or_else(|| format!("a tag without end: {after:.40}"))?;
        let tag = &after[..end];
        rest = &after[end + 1..];
        if let Some(name) = tag.strip_prefix('/') {
            let last = open.pop();
            if last != Some(name) {
                return Err(format!("{name} closes {last:?}"));
            }
        } else {
            let (name, attributes) = tag.split_once(' ').unwrap_or((tag, ""));
            check_name(name)?;
            check_attributes(attributes)?;
            open.push(name);
        }
        if open.is_empty() && !rest.trim().is_empty() {
            return Err(format!("there is more after the root: {rest:.40}"));
        }
    }
    if open.is_empty() { Ok(()) } else { Err(format!("{open:?} stay open")) }
}

/// Where a tag ends, outside of quotes.
fn closing(tag: &str) -> Option<usize> {
    let mut quoted = false;
    tag.char_indices().find_map(|(at, character)| {
        quoted ^= character == '"';
        (character == '>' && !quoted).then_some(at)
    })
}

fn check_name(name: &str) -> Result<(), String> {
    let well = !name.is_empty() && name.chars().all(|character| character.is_ascii_alphanumeric() || character == '-');
    if well { Ok(()) } else { Err(format!("{name:?} is no name")) }
}

fn check_attributes(mut rest: &str) -> Result<(), String> {
    let mut names = Vec::new();
    while !rest.trim().is_empty() {
        let (name, value) = rest.trim_start().split_once("=\"").ok_or_else(|| format!("no attribute: {rest}"))?;
        let (value, after) = value.split_once('"').ok_or_else(|| format!("no value: {rest}"))?;
        check_name(name)?;
        check_text(value)?;
        if names.contains(&name) {
            return Err(format!("{name} twice"));
        }
        names.push(name);
        rest = after;
    }
    Ok(())
}

fn check_text(text: &str) -> Result<(), String> {
    let known = |rest: &str| ["amp;", "lt;", "gt;", "quot;"].iter().any(|entity| rest.starts_with(entity));
    match text.split('&').skip(1).find(|rest| !known(rest)) {
        None if !text.contains('<') => Ok(()),
        _ => Err(format!("{text:?} is not escaped")),
    }
}

#[test]
fn mistakes_are_found() {
    assert_eq!(check("<svg a=\"1\"><g b=\"x>y\">t &amp; u</g></svg>"), Ok(()));
    for wrong in [
        "<svg>",
        "<svg></g>",
        "<svg a=1></svg>",
        "<svg>&nbsp;</svg>",
        "<svg></svg><svg></svg>",
        "<svg a=\"1\" a=\"2\"></svg>",
        "<svg",
    ] {
        assert!(check(wrong).is_err(), "{wrong}");
    }
}
