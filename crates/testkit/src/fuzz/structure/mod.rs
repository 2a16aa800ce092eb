//! Fuzz bodies for roots and structural records.

pub mod adaptive;
pub mod hash;
pub mod lsm;

/// Decodes a root and the records of changes that follow it; each is preceded by its length in two bytes. Returns how
/// many of them are whole.
fn history<S>(mut input: &[u8], root: impl Fn(&[u8]) -> Option<S>, change: impl Fn(S, &[u8]) -> Option<S>) -> usize {
    let mut manifest = next(&mut input).and_then(root);
    let mut whole = 0;
    while let Some(before) = manifest {
        whole += 1;
        manifest = next(&mut input).and_then(|body| change(before, body));
    }
    whole
}

/// The next part of the input, if all of it is there.
fn next<'a>(input: &mut &'a [u8]) -> Option<&'a [u8]> {
    let (length, rest) = input.split_first_chunk()?;
    let (part, rest) = rest.split_at_checked(u16::from_le_bytes(*length).into())?;
    *input = rest;
    Some(part)
}
