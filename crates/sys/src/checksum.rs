//! CRC-32C (Castagnoli), in hardware where the processor has it.

/// The checksum of `bytes`, continued from `seed` (0, or the checksum of the bytes before them).
#[inline]
pub fn crc32c(seed: u32, bytes: &[u8]) -> u32 {
    crc32c::crc32c_append(seed, bytes)
}

/// The checksum of several parts as if they were one after the other, continued from `seed`.
#[inline]
pub fn crc32c_parts(seed: u32, parts: &[&[u8]]) -> u32 {
    parts.iter().fold(seed, |sum, part| crc32c(sum, part))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_answers() {
        // RFC 3720, B.4, and the check value of the catalogue of CRCs.
        assert_eq!(crc32c(0, b"123456789"), 0xE306_9283);
        assert_eq!(crc32c(0, &[0; 32]), 0x8A91_36AA);
        assert_eq!(crc32c(0, &[0xFF; 32]), 0x62A8_AB43);
        assert_eq!(crc32c(7, b""), 7);
    }

    #[test]
    fn parts_equal_the_whole() {
        let whole: Vec<u8> = (0..=255).cycle().take(10_000).collect();
        for cut in [0, 1, 7, 4096, 9_999, 10_000] {
            let (a, b) = whole.split_at(cut);
            assert_eq!(crc32c_parts(99, &[a, &[], b]), crc32c(99, &whole), "cut at {cut}");
        }
        assert_ne!(crc32c(1, &whole), crc32c(2, &whole), "the seed counts");
    }
}
