//! The bytes of one page of each kind.

use super::*;
use crate::codec::hex;

const HEADER: [(usize, &str); 13] = [
    (4, "checksum"),
    (1, "format version"),
    (1, "page kind"),
    (2, "flags"),
    (8, "page sequence"),
    (4, "page number"),
    (4, "related page"),
    (2, "record count"),
    (2, "heap start"),
    (2, "lower fence length"),
    (2, "upper fence length"),
    (2, "prefix length"),
    (6, "reserved"),
];

fn render(bytes: &[u8]) -> String {
    let page = parse(bytes);
    let mut labels = HEADER.to_vec();
    for _ in 0..page.len() {
        labels.extend([(2, "slot: record offset"), (2, "suffix length"), (2, "value length"), (4, "head")]);
    }
    labels.push((page.room(), "gap"));
    for entry in page.iter().rev() {
        labels.extend([(1, "record: kind"), (entry.suffix.len(), "suffix"), (entry.value.len(), "value")]);
    }
    labels.push((page.lower().len(), "lower fence"));
    labels.push((page.upper().map_or(0, <[u8]>::len), "upper fence"));
    hex::render(bytes, &labels)
}

fn golden(name: &str, kind: PageKind, fences: (&[u8], Option<&[u8]>), records: &[(&[u8], Option<&[u8]>)]) {
    let mut buf = vec![0; PAGE];
    let mut builder = PageBuilder::new(&mut buf, PLACE, kind, 8, fences.0, fences.1);
    for (key, value) in records {
        assert!(push(&mut builder, key, *value));
    }
    builder.finish(0x0102_0304_0506);
    hex::golden(&format!("page-{name}"), &render(&buf));
}

#[test]
fn pages_of_every_kind() {
    let data: &[(&[u8], _)] = &[(b"user01", Some(&b"Ada"[..])), (b"user02", None), (b"user0200", Some(&b""[..]))];
    golden("base", PageKind::Base, (b"user0", Some(b"user1")), data);
    golden("overflow", PageKind::Overflow, (b"user01", Some(b"user0300")), data);
    golden("index", PageKind::Index, (b"", None), &[(b"", Some(&[1, 0, 0, 0])), (b"m", Some(&[2, 0, 0, 0]))]);
    golden("index-inner", PageKind::IndexInner, (b"", Some(b"q")), &[(b"", Some(&[1, 0, 0, 0]))]);
    golden("bucket", PageKind::Bucket, (b"", None), &[]);
}
