//! Reads Zstandard input: all frames, with their checksums verified.

use std::io::{self, BufRead, Read};

use ruzstd::decoding::{
    BlockDecodingStrategy, FrameDecoder,
    errors::{FrameDecoderError, ReadFrameHeaderError},
};

/// Decompresses frame after frame.
pub(crate) struct Zstd<R> {
    input: R,
    decoder: FrameDecoder,
    inside: bool,
}

impl<R: BufRead> Zstd<R> {
    /// Decompresses `input`.
    pub(crate) fn new(input: R) -> Self {
        Zstd { input, decoder: FrameDecoder::new(), inside: false }
    }

    /// Begins the next frame; returns whether there is one.
    fn begin(&mut self) -> io::Result<bool> {
        while !self.input.fill_buf()?.is_empty() {
            match self.decoder.reset(&mut self.input) {
                Ok(()) => {
                    self.inside = true;
                    return Ok(true);
                }
                Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame { length, .. })) => {
                    io::copy(&mut (&mut self.input).take(u64::from(length)), &mut io::sink())?;
                }
                Err(error) => return Err(refused(&error)),
            }
        }
        Ok(false)
    }

    fn decode(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.decoder.can_collect() == 0 && !self.decoder.is_finished() {
            self.decoder
                .decode_blocks(&mut self.input, BlockDecodingStrategy::UptoBlocks(1))
                .map_err(|error| refused(&error))?;
        }
        self.decoder.read(buffer)
    }

    fn end(&mut self) -> io::Result<()> {
        self.inside = false;
        match self.decoder.get_checksum_from_data() {
            stored @ Some(_) if stored != self.decoder.get_calculated_checksum() => Err(unreadable(DAMAGED)),
            _ => Ok(()),
        }
    }
}

impl<R: BufRead> Read for Zstd<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.inside || self.begin()? {
            let bytes = self.decode(buffer)?;
            if bytes > 0 || buffer.is_empty() {
                return Ok(bytes);
            }
            self.end()?;
        }
        Ok(0)
    }
}

const DAMAGED: &str = "its compressed data is damaged or cut off; get the file once more";

/// The error for input that the decoder refuses, with advice.
fn refused(error: &FrameDecoderError) -> io::Error {
    match error {
        FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::BadMagicNumber(_)) => unreadable(
            "it is not compressed with Zstandard, or it is damaged; if it is not compressed, say with --format what \
            it holds",
        ),
        FrameDecoderError::WindowSizeTooBig { .. } => {
            unreadable("it was compressed with a window that is too large; compress it again without --long")
        }
        FrameDecoderError::DictNotProvided { .. } => {
            unreadable("it was compressed with a dictionary; compress it again without one")
        }
        _ => unreadable(DAMAGED),
    }
}

fn unreadable(why: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use ruzstd::encoding::{CompressionLevel, compress_to_vec};

    use super::Zstd;

    fn read(input: &[u8]) -> std::io::Result<Vec<u8>> {
        let mut output = Vec::new();
        Zstd::new(input).read_to_end(&mut output).map(|_| output)
    }

    fn frame(content: &[u8]) -> Vec<u8> {
        compress_to_vec(content, CompressionLevel::Fastest)
    }

    #[test]
    fn all_frames_are_read_and_skippable_ones_skipped() {
        let skippable = [&0x184D_2A50u32.to_le_bytes()[..], &3u32.to_le_bytes(), b"xyz"].concat();
        let input = [frame(b"one "), frame(b""), skippable, frame(b"two")].concat();
        assert_eq!(read(&input).unwrap(), b"one two");
        assert_eq!(read(b"").unwrap(), b"");
    }

    #[test]
    fn damage_is_an_error() {
        let content: Vec<u8> = (0..100_000u32).flat_map(u32::to_le_bytes).collect();
        let whole = frame(&content);
        assert_eq!(read(&whole).unwrap(), content);
        assert!(read(&whole[..whole.len() / 2]).is_err(), "a truncated frame was read");
        assert!(read(&whole[..whole.len() - 1]).is_err(), "a frame without its end was read");
        assert!(read(b"plain text, not compressed").is_err());
        let mut flipped = whole.clone();
        flipped[whole.len() / 2] ^= 1;
        assert!(read(&flipped).is_err(), "a flipped bit went unnoticed");
    }
}
