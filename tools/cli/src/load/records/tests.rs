use ecotone::limits::MAX_KEY;

use super::*;
use crate::text::Encoding;

fn read(content: Content, input: &[u8]) -> Vec<Result<Record, String>> {
    read_source(content, false, input)
}

fn read_source(content: Content, dump: bool, input: &[u8]) -> Vec<Result<Record, String>> {
    let values = Values { bytes: 4, template: "at {line}".to_owned() };
    let told = |problem| match problem {
        Problem::Entry { number, reason } => format!("{number}: {reason}"),
        Problem::Input(error) => error.to_string(),
    };
    let bytes = Box::new(std::io::Cursor::new(input.to_vec()));
    let source = Source { content, encoding: Encoding::default(), dump, bytes };
    Records::new(source, values).map(|record| record.map_err(told)).collect()
}

fn record(number: u64, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<Record, String> {
    Ok(Record { number, key: key.as_ref().to_vec(), value: value.as_ref().to_vec() })
}

#[test]
fn lines_and_their_ends() {
    let records = read(Content::Lines, b"one\r\n\ntw\ro\nlast");
    assert_eq!(
        records,
        [
            record(1, "one", "at 1"),
            Err("2: the key is empty".to_owned()),
            record(3, "tw\ro", "at 3"),
            record(4, "last", "at 4")
        ]
    );
    assert_eq!(read(Content::Lines, b""), []);
}

#[test]
fn an_overlong_line_is_one_bad_line() {
    for length in [MAX_KEY + 1, MAX_LINE - 1, MAX_LINE, MAX_LINE + 1, 100_000] {
        let input = [&vec![b'x'; length][..], b"\nnext\n"].concat();
        let records = read(Content::Lines, &input);
        assert!(
            records[0].as_ref().is_err_and(|why| why.starts_with("1: ") && why.contains("limit")),
            "{length}: {:?}",
            records[0]
        );
        assert_eq!(records[1..], [record(2, "next", "at 2")], "{length}");
    }
}

#[test]
fn tsv_with_escapes() {
    let records = read(Content::Tsv, b"a\\tb\tvalue\twith tab\nno tab\nk\t\\q\n\tv\nempty\t\n");
    assert_eq!(records[0], record(1, "a\tb", "value\twith tab"));
    assert!(records[1].as_ref().is_err_and(|why| why.starts_with("2: there is no tab")));
    assert!(records[2].as_ref().is_err_and(|why| why.starts_with("3: the value has a backslash")));
    assert_eq!(records[3], Err("4: the key is empty: \" v\"".to_owned()));
    assert_eq!(records[4], record(5, "empty", ""));
}

#[test]
fn integers_become_big_endian_keys() {
    let input: Vec<u8> = [7u64, 1 << 40].iter().flat_map(|key| key.to_le_bytes()).chain([1, 2, 3]).collect();
    let records = read(Content::Integers, &input);
    assert_eq!(records[0], record(1, 7u64.to_be_bytes(), [7, 0, 0, 0]));
    assert_eq!(records[1], record(2, (1u64 << 40).to_be_bytes(), [0; 4]));
    assert_eq!(records[2], Err("3: the input ends after 3 of its 8 bytes".to_owned()));
}

#[test]
fn differences_add_up_and_ascend() {
    let input: Vec<u8> = [0u64, 5, 0, 2, u64::MAX].iter().flat_map(|gap| gap.to_le_bytes()).collect();
    let records = read(Content::Differences, &input);
    let keys: Vec<_> =
        records.iter().map(|record| record.as_ref().map(|record| record.key[7]).map_err(|why| &why[..2])).collect();
    assert_eq!(keys, [Ok(0), Ok(5), Err("3:"), Ok(7), Err("5:")]);
}

#[test]
fn limits_are_named() {
    let long_value = [b"k\t", &vec![b'v'; MAX_RECORD][..]].concat();
    assert!(read(Content::Tsv, &long_value)[0].as_ref().is_err_and(|why| why.contains("limit is 1900")));
}

#[test]
fn a_dump_that_was_cut_off_is_noticed() {
    let records = read_source(Content::Tsv, true, b"a\t1\nb\t2");
    assert_eq!(records[0], record(2, "a", "1"), "the header was line 1");
    assert_eq!(records[1], Err("3: the dump was cut off in the middle of it: \"b 2\"".to_owned()));
}
