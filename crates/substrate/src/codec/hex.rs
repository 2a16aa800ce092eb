//! Annotated hex: a byte string as text that a person can review, one labelled range after the other. The golden tests
//! compare formats with it.

use std::{env, fmt::Write, fs, path::PathBuf};

/// Bytes on one line.
const LINE: usize = 32;

/// `bytes` as text, in ranges of the given lengths with their labels, one `offset: bytes # label` a line. Long ranges
/// continue on further lines, long ranges of one value are shortened to `value x count`, and what the labels leave over
/// is `unlabelled`.
///
/// # Panics
/// If the labelled lengths exceed the bytes.
pub fn render(bytes: &[u8], labels: &[(usize, &str)]) -> String {
    let mut text = String::new();
    let mut at = 0;
    for &(length, label) in labels {
        let (range, end) = (bytes.get(at..at + length), at + length);
        range_lines(&mut text, at, range.expect("the labels are within the bytes"), label);
        at = end;
    }
    range_lines(&mut text, at, bytes.get(at..).unwrap_or_default(), "unlabelled");
    text
}

fn range_lines(text: &mut String, start: usize, range: &[u8], label: &str) {
    if let Some(first) = range.first()
        && range.len() > LINE
        && range.iter().all(|b| b == first)
    {
        line(text, start, &format!("{first:02x} x {}", range.len()), label);
        return;
    }
    for (i, part) in range.chunks(LINE).enumerate() {
        let hex: Vec<_> = part.iter().map(|b| format!("{b:02x}")).collect();
        line(text, start + i * LINE, &hex.join(" "), if i == 0 { label } else { ".." });
    }
}

fn line(text: &mut String, offset: usize, hex: &str, label: &str) {
    writeln!(text, "{offset:06x}: {hex}  # {label}").expect("a string takes everything");
}

/// For tests: compares `actual`, usually from [`render`], with `fixtures/golden/<name>.hex` of the workspace. With
/// `ECOTONE_BLESS=1` in the environment it writes that file instead.
///
/// # Panics
/// If they differ, or the file cannot be read or written.
pub fn golden(name: &str, actual: &str) {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/golden");
    let path = folder.join(format!("{name}.hex"));
    if env::var_os("ECOTONE_BLESS").is_some_and(|value| value == "1") {
        fs::create_dir_all(&folder).expect("the folder of golden files can be made");
        fs::write(&path, actual).expect("the golden file can be written");
        return;
    }
    let expected = fs::read_to_string(&path).unwrap_or_else(|e| panic!("cannot read {}: {e}", path.display()));
    if let Some(difference) = difference(&expected, actual) {
        panic!("{name} is not as golden\n{difference}");
    }
}

pub(super) fn difference(expected: &str, actual: &str) -> Option<String> {
    let line = expected.lines().zip(actual.lines()).position(|(e, a)| e != a);
    let line = line.or_else(|| {
        let (e, a) = (expected.lines().count(), actual.lines().count());
        (e != a).then_some(e.min(a))
    })?;
    let of = |text: &str| text.lines().nth(line).unwrap_or("(ended)").to_owned();
    Some(format!("line {}\n  golden: {}\n  actual: {}", line + 1, of(expected), of(actual)))
}
