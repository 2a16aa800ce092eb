//! The prefix-compressed fences of a directory: each omits the bytes that it shares with the one before. They are
//! stored in every index entry of this kind, and every lookup decodes them.

use ecotone_substrate::{
    codec::{Malformed, Reader, Writer, varint_len},
    page::prefix_len,
};

/// A length from this one on is stored as this nibble, then the excess as a varint.
const LONG: usize = 15;

/// Bytes of an encoded fence with so many shared bytes and so many of its own.
pub(crate) fn encoded_len(shared: usize, own: usize) -> usize {
    let long = |len: usize| len.checked_sub(LONG).map_or(0, |beyond| varint_len(beyond as u64));
    1 + long(shared) + long(own) + own
}

/// Bytes of ascending fences together.
pub(super) fn total_len(fences: &[Vec<u8>]) -> usize {
    let befores = std::iter::once(&[][..]).chain(fences.iter().map(Vec::as_slice));
    let shared = befores.zip(fences).map(|(before, fence)| prefix_len(before, Some(fence)));
    shared.zip(fences).map(|(shared, fence)| encoded_len(shared, fence.len() - shared)).sum()
}

/// Appends ascending fences.
pub(super) fn encode(w: &mut Writer, fences: &[Vec<u8>]) {
    let mut before: &[u8] = &[];
    for fence in fences {
        let shared = prefix_len(before, Some(fence));
        let lengths = [shared, fence.len() - shared];
        w.u8(lengths.iter().fold(0, |head, len| head << 4 | (*len).min(LONG) as u8));
        for len in lengths.into_iter().filter(|len| *len >= LONG) {
            w.varint((len - LONG) as u64);
        }
        w.bytes(&fence[shared..]);
        before = fence;
    }
}

/// Decodes so many fences, none longer than `longest`. They ascend, and each omits all shared bytes: [`position`]
/// relies on both.
pub(super) fn decode(r: &mut Reader<'_>, count: usize, longest: usize) -> Result<Vec<Vec<u8>>, Malformed> {
    let mut fences: Vec<Vec<u8>> = Vec::new();
    for _ in 0..count {
        let before = fences.last().map_or(&[][..], Vec::as_slice);
        let (shared, rest) = next(r)?;
        let (Some(kept), Some(first)) = (before.get(..shared), rest.first()) else {
            return r.fail("a fence of a directory shares more than there is");
        };
        if before.get(shared).is_some_and(|byte| byte >= first) {
            return r.fail("the fences of a directory do not rise");
        }
        if shared + rest.len() > longest {
            return r.fail("a fence of a directory is too long");
        }
        fences.push([kept, rest].concat());
    }
    Ok(fences)
}

/// The number of fences, of `count` encoded ones, that are at or below `key`.
///
/// `matched` is the length of the prefix that the key shares with the previous fence, which is below the key. A fence
/// that shares more bytes with the previous fence differs from the key in the same byte, so it is below the key too. A
/// fence that shares fewer is above the previous fence where they differ, and so above the key.
#[inline]
pub(super) fn position(r: &mut Reader<'_>, count: u8, key: &[u8]) -> Result<u8, Malformed> {
    let mut matched = 0;
    for position in 0..count {
        let (shared, rest) = next(r)?;
        if shared > matched {
            continue;
        }
        let tail = key.get(shared..).unwrap_or_default();
        if shared < matched || rest > tail {
            return Ok(position);
        }
        matched += prefix_len(rest, Some(tail));
    }
    Ok(count)
}

/// The number of bytes that the next fence shares with the one before, and its own bytes.
pub(super) fn next<'a>(r: &mut Reader<'a>) -> Result<(usize, &'a [u8]), Malformed> {
    let head = usize::from(r.u8()?);
    let shared = length(r, head >> 4)?;
    let rest = length(r, head & LONG)?;
    Ok((shared, r.bytes(rest)?))
}

fn length(r: &mut Reader<'_>, nibble: usize) -> Result<usize, Malformed> {
    if nibble < LONG {
        return Ok(nibble);
    }
    let beyond = r.varint()?;
    // A fence longer than any key is refused as such.
    u16::try_from(beyond)
        .map(|beyond| LONG + usize::from(beyond))
        .or_else(|_| r.fail("a fence of a directory is too long"))
}

#[cfg(test)]
mod tests {
    use ecotone_substrate::limits::MAX_KEY;
    use rand::{RngExt, SeedableRng, rngs::SmallRng};

    use super::*;

    fn encoded(fences: &[Vec<u8>]) -> Vec<u8> {
        let mut w = Writer::new();
        encode(&mut w, fences);
        w.finish()
    }

    fn decoded(bytes: &[u8], count: usize) -> Result<Vec<Vec<u8>>, Malformed> {
        let mut r = Reader::new(bytes);
        decode(&mut r, count, MAX_KEY).and_then(|fences| r.finish().map(|()| fences))
    }

    /// Keys of few letters, some after a long run, so that many share long prefixes or are prefixes of others.
    fn key(random: &mut SmallRng, longest: usize) -> Vec<u8> {
        let run = [0, 0, 1, 14, 15, 16, 142, 143, 144, 900][random.random_range(0..10)];
        let tail = (0..random.random_range(1..=longest)).map(|_| random.random_range(0..3u8));
        std::iter::repeat_n(1, run).chain(tail).collect()
    }

    #[test]
    fn keys_are_found_as_among_the_plain_fences() {
        let mut random = SmallRng::seed_from_u64(7);
        for _ in 0..2000 {
            let longest = [2, 5, 100][random.random_range(0..3)];
            let mut fences: Vec<Vec<u8>> = (0..random.random_range(1..16)).map(|_| key(&mut random, longest)).collect();
            fences.sort();
            fences.dedup();
            let bytes = encoded(&fences);
            assert_eq!(decoded(&bytes, fences.len()).unwrap(), fences);
            assert_eq!(total_len(&fences), bytes.len());
            let others: Vec<Vec<u8>> = (0..40).map(|_| key(&mut random, longest)).collect();
            for key in others.iter().chain(&fences).map(Vec::as_slice).chain([&[][..], &[9]]) {
                let found = position(&mut Reader::new(&bytes), fences.len() as u8, key).unwrap();
                assert_eq!(
                    usize::from(found),
                    fences.partition_point(|fence| fence.as_slice() <= key),
                    "{key:?} in {fences:?}"
                );
            }
        }
    }

    #[test]
    fn other_encodings_are_refused() {
        let good = encoded(&[b"ab".to_vec(), b"abc".to_vec(), b"b".to_vec()]);
        assert_eq!(good, [0x02, b'a', b'b', 0x21, b'c', 0x01, b'b']);
        assert!(decoded(&good, 3).is_ok());
        for cut in 0..good.len() {
            assert!(decoded(&good[..cut], 3).is_err());
        }
        assert!(decoded(&[0x01, b'b', 0x01, b'a'], 2).is_err(), "falling");
        assert!(decoded(&[0x01, b'b', 0x01, b'b'], 2).is_err(), "equal");
        assert!(decoded(&[0x02, b'a', b'b', 0x02, b'a', b'c'], 2).is_err(), "repeats what it shares");
        assert!(decoded(&[0x01, b'a', 0x21, b'b'], 2).is_err(), "shares what is not there");
        assert!(decoded(&[0x00], 1).is_err(), "nothing of its own");
        let endless = [&[0x0f, 0xff, 0xff, 0x7f][..], &[1; 2000]].concat();
        assert!(decoded(&endless, 1).is_err(), "longer than a key");
    }
}
