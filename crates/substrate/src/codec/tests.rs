use proptest::prelude::*;

use super::*;

#[derive(Debug, Clone)]
enum Item {
    U8(u8),
    U16(u16),
    U32(u32),
    U64(u64),
    Varint(u64),
    Prefixed(Vec<u8>),
}

fn item() -> impl Strategy<Value = Item> {
    prop_oneof![
        any::<u8>().prop_map(Item::U8),
        any::<u16>().prop_map(Item::U16),
        any::<u32>().prop_map(Item::U32),
        any::<u64>().prop_map(Item::U64),
        (any::<u64>(), 0..64_u32).prop_map(|(v, shift)| Item::Varint(v >> shift)),
        proptest::collection::vec(any::<u8>(), 0..300).prop_map(Item::Prefixed),
    ]
}

fn write(w: &mut Writer, item: &Item) {
    match item {
        Item::U8(v) => w.u8(*v),
        Item::U16(v) => w.u16(*v),
        Item::U32(v) => w.u32(*v),
        Item::U64(v) => w.u64(*v),
        Item::Varint(v) => w.varint(*v),
        Item::Prefixed(v) => w.prefixed(v),
    };
}

fn reads_back(r: &mut Reader<'_>, item: &Item) -> Result<bool, Malformed> {
    Ok(match item {
        Item::U8(v) => r.u8()? == *v,
        Item::U16(v) => r.u16()? == *v,
        Item::U32(v) => r.u32()? == *v,
        Item::U64(v) => r.u64()? == *v,
        Item::Varint(v) => r.varint()? == *v,
        Item::Prefixed(v) => r.prefixed(300)? == *v,
    })
}

proptest! {
    #[test]
    fn everything_reads_back_and_every_cut_is_noticed(items in proptest::collection::vec(item(), 1..20)) {
        let mut w = Writer::new();
        items.iter().for_each(|i| write(&mut w, i));
        let bytes = w.finish();
        let mut r = Reader::new(&bytes);
        for item in &items {
            prop_assert_eq!(reads_back(&mut r, item), Ok(true));
        }
        prop_assert_eq!(r.position(), bytes.len());
        prop_assert!(r.finish().is_ok());
        for cut in 0..bytes.len() {
            let mut r = Reader::new(&bytes[..cut]);
            prop_assert!(items.iter().any(|item| reads_back(&mut r, item).is_err()));
        }
    }

    #[test]
    fn a_varint_is_as_long_as_said(value in any::<u64>(), shift in 0..64_u32) {
        let value = value >> shift;
        let mut w = Writer::new();
        w.varint(value);
        prop_assert_eq!(w.len(), varint_len(value));
    }

    #[test]
    fn a_length_in_a_buffer_is_the_varint_that_a_writer_makes(length in 0..1_usize << 14) {
        let (mut w, mut bytes) = (Writer::new(), [0; 4]);
        w.varint(length as u64);
        let end = put_length(&mut bytes, 1, length);
        prop_assert_eq!(&bytes[1..end], w.as_slice());
    }

    #[test]
    fn any_bytes_are_read_without_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
        let mut r = Reader::new(&bytes);
        while let (before, Ok(v)) = (r.position(), r.varint()) {
            prop_assert_eq!(r.position() - before, varint_len(v), "only the shortest form is accepted");
        }
        let _ = Reader::new(&bytes).prefixed(16);
    }
}

#[test]
fn a_failed_call_takes_nothing() {
    let mut r = Reader::new(&[5, 1, 2]);
    assert_eq!(r.prefixed(4), Err(Malformed::new(0, "a length exceeds its limit")));
    assert!(r.prefixed(9).is_err() && r.u32().is_err() && r.bytes(4).is_err());
    assert_eq!((r.position(), r.remaining(), r.u8()), (0, 3, Ok(5)));
    assert_eq!(r.finish(), Err(Malformed::new(1, "there are bytes after the end")));
}

#[test]
fn varints_at_the_edges() {
    assert_eq!(Reader::new(&[0xff; 9]).varint().unwrap_err().what, "the bytes end early");
    let mut bytes = [0xff; 10];
    assert_eq!(Reader::new(&bytes).varint().unwrap_err().what, "a variable-length integer exceeds 64 bits");
    bytes[9] = 1;
    assert_eq!(Reader::new(&bytes).varint(), Ok(u64::MAX));
    assert_eq!(Reader::new(&[0x80, 0]).varint().unwrap_err().what, "a variable-length integer is not the shortest");
}

#[test]
fn damage_becomes_an_error_with_its_place() {
    let error = Reader::new(&[]).u8().unwrap_err().at("table.7", 4096);
    assert_eq!(error.to_string(), "table.7 is corrupt at byte 4096: the bytes end early");
}

#[test]
fn hex_labels_continues_and_shortens() {
    let mut bytes = vec![1, 2, 3, 4];
    bytes.extend(0..40);
    bytes.extend([0; 100]);
    let text = hex::render(&bytes, &[(4, "number"), (40, "count up")]);
    let lines: Vec<_> = text.lines().collect();
    assert_eq!(lines[0], "000000: 01 02 03 04  # number");
    assert!(lines[1].starts_with("000004: 00 01") && lines[1].ends_with("1f  # count up"));
    assert_eq!(lines[2], "000024: 20 21 22 23 24 25 26 27  # ..");
    assert_eq!(lines[3], "00002c: 00 x 100  # unlabelled");
}

#[test]
fn golden_notices_a_difference() {
    assert_eq!(hex::difference("a\nb\n", "a\nb\n"), None);
    assert_eq!(hex::difference("a\nb\n", "a\nc\n").as_deref(), Some("line 2\n  golden: b\n  actual: c"));
    assert_eq!(hex::difference("a\n", "a\nc\n").as_deref(), Some("line 2\n  golden: (ended)\n  actual: c"));
}

#[test]
fn golden_varints() {
    let mut w = Writer::new();
    let values = [0, 127, 128, 16_383, 16_384, u64::from(u32::MAX), u64::MAX];
    for value in values {
        w.varint(value);
    }
    let labels: Vec<_> = values.iter().map(|&v| (varint_len(v), v.to_string())).collect();
    let labels: Vec<_> = labels.iter().map(|(n, label)| (*n, label.as_str())).collect();
    hex::golden("varints", &hex::render(w.as_slice(), &labels));
}
