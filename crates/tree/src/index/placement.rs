//! The placement of keys in a segment's base pages (T8; tree.md, "Learned placement").

use ecotone_substrate::{
    codec::{Malformed, Reader, Writer, varint_len},
    limits::MAX_KEY,
    model::{DIGEST, Line, digest, fence},
};

use super::fences;

/// Most base pages of a segment.
pub const MOST_PAGES: u8 = 16;
/// Bytes that the fences of a directory may take in an entry, with their lengths: with the longest key the entry must
/// fit into a node.
pub const MOST_FENCE_BYTES: usize = 640;

/// Bytes of a line in an entry.
const LINE: usize = 8;

/// The mapping from the keys of a segment to its base pages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Placement {
    /// There is one base page.
    Single,
    /// By a line, from the offset of the key's digest from the digest of the segment's lower fence.
    Line {
        /// Bytes of the common prefix of all keys of the segment.
        skip: u16,
        /// The line from offsets to base pages.
        line: Line,
    },
    /// By the lower fences of the base pages.
    Directory {
        /// Bytes of the common prefix of all keys of the segment.
        skip: u16,
        /// Lower fences of all base pages but the first, ascending, without the first `skip` bytes.
        fences: Vec<Vec<u8>>,
    },
}

impl Placement {
    /// A directory of pages with these lower fences, without the first page's. All fences begin with `prefix`.
    pub fn directory(prefix: &[u8], fences: impl IntoIterator<Item = Vec<u8>>) -> Placement {
        let fences = fences.into_iter().map(|fence| fence[prefix.len()..].to_vec()).collect();
        Placement::Directory { skip: prefix.len() as u16, fences }
    }

    /// The position of the base page of `key`, of `pages`, in a segment that begins at `lower`.
    pub fn page(&self, lower: &[u8], key: &[u8], pages: u8) -> u8 {
        match self {
            Placement::Single => 0,
            Placement::Line { skip, line } => line.page(offset(digest(lower, (*skip).into()), key, *skip), pages),
            Placement::Directory { skip, fences } => {
                let rest = key.get(usize::from(*skip)..).unwrap_or_default();
                fences.partition_point(|fence| fence.as_slice() <= rest) as u8
            }
        }
    }

    /// The lower fence of the base page at a position from 1.
    pub fn fence(&self, lower: &[u8], position: u8, pages: u8) -> Vec<u8> {
        match self {
            Placement::Single => lower.to_vec(),
            Placement::Line { skip, line } => {
                let (skip, first) = (usize::from(*skip), line.first_offset(position, pages).unwrap_or(u64::MAX));
                fence(&lower[..skip.min(lower.len())], digest(lower, skip).saturating_add(first))
            }
            Placement::Directory { skip, fences } => {
                let prefix = &lower[..usize::from(*skip).min(lower.len())];
                [prefix, &fences[usize::from(position) - 1]].concat()
            }
        }
    }

    /// Whether this placement is possible for so many base pages.
    pub fn suits(&self, pages: u8) -> bool {
        match self {
            Placement::Single => pages == 1,
            Placement::Line { skip, .. } => {
                (2..=MOST_PAGES).contains(&pages) && pages.is_power_of_two() && usize::from(*skip) + DIGEST <= MAX_KEY
            }
            Placement::Directory { skip, fences } => {
                let rising = fences.is_sorted_by(|a, b| a < b);
                let counted = (2..=MOST_PAGES).contains(&pages) && fences.len() + 1 == usize::from(pages);
                counted && rising && fences::total_len(fences) <= MOST_FENCE_BYTES && usize::from(*skip) <= MAX_KEY
            }
        }
    }

    /// Appends the encoded placement, without its kind and the number of pages.
    pub(super) fn encode(&self, w: &mut Writer) {
        match self {
            Placement::Single => {}
            Placement::Line { skip, line } => {
                w.varint((*skip).into()).u32(line.slope().to_bits()).u32(line.intercept().to_bits());
            }
            Placement::Directory { skip, fences } => {
                w.varint((*skip).into());
                fences::encode(w, fences);
            }
        }
    }

    /// Bytes that [`encode`](Self::encode) appends.
    pub(super) fn encoded_len(&self) -> usize {
        match self {
            Placement::Single => 0,
            Placement::Line { skip, .. } => varint_len((*skip).into()) + LINE,
            Placement::Directory { skip, fences } => varint_len((*skip).into()) + fences::total_len(fences),
        }
    }

    pub(super) fn decode_line(r: &mut Reader<'_>) -> Result<Placement, Malformed> {
        let (skip, line) = line(r)?;
        Ok(Placement::Line { skip, line })
    }

    pub(super) fn decode_directory(r: &mut Reader<'_>, pages: u8) -> Result<Placement, Malformed> {
        let skip = skip(r)?;
        let fences = fences::decode(r, usize::from(pages.max(1)) - 1, MAX_KEY)?;
        Ok(Placement::Directory { skip, fences })
    }
}

/// The offset of a key's digest from the digest of the lower fence.
fn offset(origin: u64, key: &[u8], skip: u16) -> u64 {
    digest(key, skip.into()).saturating_sub(origin)
}

/// Decodes the length of the common prefix of a segment's keys.
pub(super) fn skip(r: &mut Reader<'_>) -> Result<u16, Malformed> {
    let skip = r.varint()?;
    u16::try_from(skip).or_else(|_| r.fail("the keys of a segment have a longer prefix than a key"))
}

fn line(r: &mut Reader<'_>) -> Result<(u16, Line), Malformed> {
    let (skip, slope, intercept) = (skip(r)?, f32::from_bits(r.u32()?), f32::from_bits(r.u32()?));
    match Line::new(slope, intercept) {
        Some(line) => Ok((skip, line)),
        None => r.fail("the line of a segment does not keep the order of keys"),
    }
}

/// [`Placement::page`] for an encoded line: every lookup runs this. The segment begins at `prefix` followed by
/// `suffix`.
pub(super) fn page_by_line(
    r: &mut Reader<'_>,
    prefix: &[u8],
    suffix: &[u8],
    key: &[u8],
    pages: u8,
) -> Result<u8, Malformed> {
    let (skip, line) = line(r)?;
    let origin = match usize::from(skip).checked_sub(prefix.len()) {
        Some(rest) => digest(suffix, rest),
        None => digest(&[prefix, suffix].concat(), skip.into()),
    };
    Ok(line.page(offset(origin, key, skip), pages))
}

/// [`Placement::page`] for an encoded directory.
pub(super) fn page_by_directory(r: &mut Reader<'_>, key: &[u8], pages: u8) -> Result<u8, Malformed> {
    let skip = skip(r)?;
    fences::position(r, pages.saturating_sub(1), key.get(usize::from(skip)..).unwrap_or_default())
}
