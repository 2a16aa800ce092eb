//! Bit packing of numbers of up to 56 bits. A *look* is the eight bytes from which one number is read.

/// The most bits of a number that one look holds at any bit offset.
pub(super) const MAX_BITS: u32 = 56;
/// Bytes of a look.
pub(super) const LOOK: usize = 8;

/// Packs numbers of `width` bits, the first from the lowest bit of the first byte on.
pub(super) fn pack(width: u32, numbers: impl ExactSizeIterator<Item = u64>) -> Vec<u8> {
    let mut bytes = vec![0; (numbers.len() * width as usize).div_ceil(8) + LOOK];
    for (place, number) in numbers.enumerate() {
        let bit = place * width as usize;
        let look = &mut bytes[bit / 8..bit / 8 + LOOK];
        let before = look.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte));
        look.copy_from_slice(&(before | number << (bit % 8)).to_le_bytes());
    }
    bytes.truncate(bytes.len() - LOOK);
    bytes
}

/// The offset of the look that holds a number, and the shift of the number in it.
#[inline]
pub(super) fn place(width: u32, number: usize) -> (usize, u32) {
    let bit = number * width as usize;
    (bit / 8, (bit % 8) as u32)
}

/// Extracts a number from its look.
#[inline]
pub(super) fn unpack(width: u32, shift: u32, look: [u8; LOOK]) -> u64 {
    u64::from_le_bytes(look) >> shift & ((1 << width) - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_any_width_come_back() {
        for width in 0..=MAX_BITS {
            let numbers: Vec<u64> =
                (0..50u64).map(|number| number.wrapping_mul(0x9E37_79B9_7F4A_7C15) & ((1 << width) - 1)).collect();
            let mut bytes = pack(width, numbers.iter().copied());
            assert_eq!(bytes.len(), (50 * width as usize).div_ceil(8));
            bytes.extend([0xff; LOOK]);
            for (number, wanted) in numbers.iter().enumerate() {
                let (at, shift) = place(width, number);
                assert_eq!(unpack(width, shift, bytes[at..at + LOOK].try_into().unwrap()), *wanted, "width {width}");
            }
        }
    }
}
