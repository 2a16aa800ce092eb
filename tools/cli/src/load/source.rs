//! An input whose first bytes have been examined. They identify a compressed input and a dump, and expose an input that
//! would load as garbage.

use std::{
    io::{self, BufRead, BufReader, Cursor, Read},
    path::Path,
};

use crate::{
    failure::Failure,
    header,
    load::{
        Zstd, display,
        format::{Content, Format},
        progress::Input,
    },
    text::Encoding,
};

/// Number of bytes that are examined.
const HEAD: u64 = 512;

const GZIP: &[u8] = &[0x1F, 0x8B, 8];
const ZSTD: &[u8] = &[0x28, 0xB5, 0x2F, 0xFD];

/// An input of a known format.
pub(crate) struct Source {
    /// The kind of content.
    pub(crate) content: Content,
    /// The encoding of keys and values.
    pub(crate) encoding: Encoding,
    /// Whether the input has the header of a dump as its first line.
    pub(crate) dump: bool,
    /// The decompressed content after the header.
    pub(crate) bytes: Box<dyn BufRead>,
}

impl Source {
    /// Examines the input `path`, together with the options of the user.
    pub(crate) fn new(
        input: Input,
        path: &Path,
        format: Option<Format>,
        encoding: Encoding,
    ) -> Result<Source, Failure> {
        let Format { content, zstd } = format.unwrap_or_else(|| Format::of(path));
        let mut source =
            Source { content, encoding, dump: false, bytes: Box::new(BufReader::with_capacity(1 << 18, input)) };
        source.unpack(path, zstd)?;
        let head = source.head(path)?;
        let line = head.split(|byte| *byte == b'\n').next().unwrap_or_default();
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let lines_wanted = format.is_some() && content == Content::Lines;
        match header::parse(line) {
            Some(found) if content.is_text() && !lines_wanted => source.begin_dump(path, found)?,
            _ => refuse(&head, line, content, format.is_some()).map_or(Ok(()), |why| Err(unfit(path, &why)))?,
        }
        Ok(source)
    }

    /// Decompresses the input. Compression is detected in text only, since integers may begin with any bytes.
    fn unpack(&mut self, path: &Path, zstd: bool) -> Result<(), Failure> {
        let start = self.head(path)?;
        if self.content.is_text() && start.starts_with(GZIP) {
            let why = format!(
                "is compressed with gzip, which load does not read; try: gzip -dc {} | ecotone load",
                path.display()
            );
            return Err(unfit(path, &why));
        }
        if zstd || self.content.is_text() && start.starts_with(ZSTD) {
            let packed = std::mem::replace(&mut self.bytes, Box::new(io::empty()));
            self.bytes = Box::new(BufReader::with_capacity(1 << 18, Zstd::new(packed)));
        }
        Ok(())
    }

    /// Reads the first bytes, and puts them back.
    fn head(&mut self, path: &Path) -> Result<Vec<u8>, Failure> {
        let mut head = Vec::new();
        let read = (&mut self.bytes).take(HEAD).read_to_end(&mut head);
        read.map_err(|error| Failure::Told(format!("cannot read {}: {error}", display(path))))?;
        let rest = std::mem::replace(&mut self.bytes, Box::new(io::empty()));
        self.bytes = Box::new(Cursor::new(head.clone()).chain(rest));
        Ok(head)
    }

    /// Skips the header, and uses its encoding for the lines after it.
    fn begin_dump(&mut self, path: &Path, found: Result<Encoding, String>) -> Result<(), Failure> {
        let found = found.map_err(|why| unfit(path, &why))?;
        if self.encoding != Encoding::default() && self.encoding != found {
            let (name, given) = (display(path), self.encoding.options());
            return Err(Failure::Usage(format!(
                "{name} says itself how it is written, and not with{given}; leave that out"
            )));
        }
        self.bytes.skip_until(b'\n')?;
        (self.content, self.encoding, self.dump) = (Content::Tsv, found, true);
        Ok(())
    }
}

fn unfit(path: &Path, why: &str) -> Failure {
    Failure::Usage(format!("{} {why}", display(path)))
}

/// The reason to refuse an input with these first bytes. An explicit text format is never refused.
fn refuse(head: &[u8], line: &[u8], content: Content, named: bool) -> Option<String> {
    match content {
        Content::Integers | Content::Differences if is_text(head) => {
            Some("holds text, not integers of 8 bytes; give --format lines or --format tsv".to_owned())
        }
        Content::Lines if !named && line.contains(&b'\t') => Some(
            "has a tab in its first line; give --format tsv if it stands between key and value, --format lines if it \
            belongs to the key"
                .to_owned(),
        ),
        Content::Lines
            if !named && [&b"{\"key\":"[..], b"{\"key_hex\":"].iter().any(|start| line.starts_with(start)) =>
        {
            Some(
                "holds JSON, which load does not read; make the dump without --json, or give --format lines to have \
                each line as a key"
                    .to_owned(),
            )
        }
        _ => None,
    }
}

/// Whether these bytes are lines of UTF-8; the last character may be cut. Small integers never are, and others only by
/// a rare chance.
fn is_text(head: &[u8]) -> bool {
    let text = head.utf8_chunks().next().map_or("", |chunk| chunk.valid());
    let is_cut = text.len() + char::MAX_LEN_UTF8 > head.len();
    is_cut && text.contains('\n') && !text.chars().any(|c| c.is_control() && !matches!(c, '\n' | '\r' | '\t'))
}

#[cfg(test)]
mod tests {
    use super::is_text;

    #[test]
    fn lines_are_text_and_integers_are_not() {
        for text in ["a\t1\nb\t2\n", "grüße\r\n", "#ecotone dump 1\n"] {
            assert!(is_text(text.as_bytes()), "{text:?}");
        }
        assert!(is_text(b"a\ngr\xc3"), "the last character is cut");
        for integer in [0, 10, 0x0A0A, 1 << 40 | 10, u64::MAX - 0xF5, 0x0A41_4141_4141_41FF] {
            assert!(!is_text(&integer.to_le_bytes()), "{integer:x}");
        }
    }
}
