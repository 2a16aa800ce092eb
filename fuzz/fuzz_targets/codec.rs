//! The bounds-checked reader, driven by its own input; names of files.
#![no_main]

use ecotone_fuzz::bounded;
use ecotone_substrate::{
    codec::{Reader, Writer},
    storage::FileId,
};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    bounded(input.len(), || {
        let mut reader = Reader::new(input);
        while step(&mut reader, input).is_some() {
            assert_eq!(reader.position() + reader.remaining(), input.len());
        }
        let _ = reader.finish();
    });
    if let Some(file) = std::str::from_utf8(input).ok().and_then(FileId::parse) {
        assert_eq!(file.to_string().as_bytes(), input);
    }
});

/// Takes one value, of a kind that the next byte says. `None` at a failure, which takes nothing.
fn step(reader: &mut Reader<'_>, input: &[u8]) -> Option<()> {
    let kind = reader.u8().ok()?;
    let before = reader.position();
    let taken = match kind % 8 {
        0 => reader.u16().map(drop),
        1 => reader.u32().map(drop),
        2 => reader.u64().map(drop),
        3 => reader.bytes(usize::from(kind)).map(|bytes| assert_eq!(bytes.len(), usize::from(kind))),
        4 => reader.array::<3>().map(drop),
        5 => reader.prefixed(usize::from(kind) * 2).map(|bytes| assert!(bytes.len() <= usize::from(kind) * 2)),
        6 => reader.bytes(usize::MAX - usize::from(kind)).map(drop),
        _ => reader.varint().map(|value| {
            assert_eq!(Writer::new().varint(value).as_slice(), &input[before..reader.position()]);
        }),
    };
    assert!(taken.is_ok() || reader.position() == before, "a call that fails takes nothing");
    taken.ok()
}
