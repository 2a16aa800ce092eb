//! A segment: its pages as the index knows them (T7), and the page pair of a key (T8).

use ecotone_substrate::codec::{Malformed, Reader, Writer};

use super::placement::{MOST_PAGES, Placement, page_by_directory, page_by_line};

/// Base pages for each overflow page that a segment may have.
const BASE_FOR_OVERFLOW: u8 = 4;

/// The kinds of placement in an entry.
pub(super) const SINGLE: u8 = 1;
pub(super) const SINGLE_WITH_OVERFLOW: u8 = 2;
pub(super) const LINE: u8 = 3;
const DIRECTORY: u8 = 4;
/// Added to the kinds with several base pages if a list of overflow pages follows.
pub(super) const LIST: u8 = 0x10;
/// Bytes of one overflow page in the list.
pub(super) const LISTED: usize = 5;

/// A base page with its overflow page: the only two pages that may hold a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PagePair {
    /// Number of the first base page of its segment.
    pub segment: u32,
    /// Number of the base page.
    pub page: u32,
    /// Number of the overflow page, or [`PagePair::NONE`].
    pub overflow: u32,
}

impl PagePair {
    /// The page number that means "there is none".
    pub const NONE: u32 = u32::MAX;

    /// The numbers of its pages.
    pub fn pages(self) -> impl Iterator<Item = u32> {
        std::iter::once(self.page).chain((self.overflow != PagePair::NONE).then_some(self.overflow))
    }
}

/// A part of the key space and the pages that hold its records. Its lower fence is the key of its entry in the index,
/// its upper fence the key of the next entry.
#[derive(Debug, Clone, PartialEq)]
pub struct Segment {
    /// Number of the first base page; the others follow it.
    pub page: u32,
    /// The mapping from keys to base pages.
    pub placement: Placement,
    /// Number of base pages.
    pages: u8,
    /// Overflow pages, each with the position of its base page, ascending.
    overflow: Vec<(u8, u32)>,
}

impl Segment {
    /// Creates a segment of one base page.
    pub fn new(page: u32) -> Segment {
        Segment::placed(page, 1, Placement::Single)
    }

    /// Creates a segment of so many base pages, without overflow pages.
    pub fn placed(page: u32, pages: u8, placement: Placement) -> Segment {
        debug_assert!((1..=MOST_PAGES).contains(&pages) && placement.suits(pages), "{placement:?} of {pages} pages");
        Segment { page, placement, pages, overflow: Vec::new() }
    }

    /// Number of base pages.
    pub fn base_count(&self) -> u8 {
        self.pages
    }

    /// The base page at a position, with its overflow page.
    pub fn page_pair(&self, position: u8) -> PagePair {
        let overflow = self.overflow.iter().find(|(of, _)| *of == position).map_or(PagePair::NONE, |(_, page)| *page);
        PagePair { segment: self.page, page: self.page + u32::from(position), overflow }
    }

    /// All base pages in the order of their keys.
    pub fn page_pairs(&self) -> impl DoubleEndedIterator<Item = PagePair> {
        (0..self.pages).map(|position| self.page_pair(position))
    }

    /// The position of the base page that holds `key`, in a segment that begins at `lower`.
    pub fn position_of(&self, lower: &[u8], key: &[u8]) -> u8 {
        self.placement.page(lower, key, self.pages)
    }

    /// The lower fence of the base page at a position, in a segment that begins at `lower`.
    pub fn fence(&self, lower: &[u8], position: u8) -> Vec<u8> {
        if position == 0 { lower.to_vec() } else { self.placement.fence(lower, position, self.pages) }
    }

    /// A part of its pages, which are adjacent, as a segment that begins at the first one's lower fence. `None` if its
    /// entry would be too large.
    pub fn part(&self, lower: &[u8], positions: std::ops::Range<u8>) -> Option<Segment> {
        let pages = positions.end - positions.start;
        let placement = match &self.placement {
            Placement::Line { skip, .. } | Placement::Directory { skip, .. } if pages > 1 => {
                let first = self.fence(lower, positions.start);
                let fences = (positions.start + 1..positions.end).map(|position| self.fence(lower, position));
                Placement::directory(&first[..usize::from(*skip).min(first.len())], fences)
            }
            _ => Placement::Single,
        };
        if !placement.suits(pages) {
            return None;
        }
        let of_part = self.overflow.iter().filter(|(position, _)| positions.contains(position));
        let overflow = of_part.map(|(position, page)| (position - positions.start, *page)).collect();
        Some(Segment { page: self.page + u32::from(positions.start), placement, pages, overflow })
    }

    /// The numbers of its base pages.
    pub fn base_pages(&self) -> std::ops::Range<u32> {
        self.page..self.page + u32::from(self.pages)
    }

    /// The numbers of all its pages.
    pub fn all_pages(&self) -> impl Iterator<Item = u32> {
        self.base_pages().chain(self.overflow.iter().map(|(_, page)| *page))
    }

    /// Number of overflow pages.
    pub fn overflow_pages(&self) -> usize {
        self.overflow.len()
    }

    /// Whether so many more overflow pages are allowed. The limit is one for each `BASE_FOR_OVERFLOW` base pages, at
    /// least one.
    pub fn has_room_for(&self, more: usize) -> bool {
        more == 0 || self.overflow.len() + more <= self.most_overflow()
    }

    /// Whether it has so many overflow pages that the reorganisation of a neighbour includes it.
    pub fn is_worth_taking(&self) -> bool {
        2 * self.overflow.len() >= self.most_overflow()
    }

    fn most_overflow(&self) -> usize {
        usize::from(self.pages / BASE_FOR_OVERFLOW).max(1)
    }

    /// Attaches an overflow page to a base page; false if that has one, or is not in this segment.
    pub fn attach(&mut self, page: u32, overflow: u32) -> bool {
        let position = page.checked_sub(self.page).filter(|position| *position < u32::from(self.pages));
        let Some(position) = position.map(|position| position as u8) else { return false };
        match self.overflow.binary_search_by_key(&position, |(of, _)| *of) {
            Ok(_) => false,
            Err(at) => {
                self.overflow.insert(at, (position, overflow));
                true
            }
        }
    }

    /// Appends the encoded segment, for an index entry or a log record.
    pub fn encode(&self, w: &mut Writer) {
        let kind = match (&self.placement, self.overflow.as_slice()) {
            (Placement::Single, []) => {
                w.u8(SINGLE).u32(self.page);
                return;
            }
            (Placement::Single, [(_, overflow), ..]) => {
                w.u8(SINGLE_WITH_OVERFLOW).u32(self.page).u32(*overflow);
                return;
            }
            (Placement::Line { .. }, _) => LINE,
            (Placement::Directory { .. }, _) => DIRECTORY,
        };
        w.u8(if self.overflow.is_empty() { kind } else { kind | LIST }).u32(self.page);
        if !self.overflow.is_empty() {
            w.u8(self.overflow.len() as u8);
            self.overflow.iter().for_each(|(position, page)| {
                w.u8(*position).u32(*page);
            });
        }
        w.u8(self.pages);
        self.placement.encode(w);
    }

    /// Decodes the output of [`encode`](Self::encode).
    pub fn decode(r: &mut Reader<'_>) -> Result<Segment, Malformed> {
        let (kind, page) = (r.u8()?, r.u32()?);
        let segment = match kind {
            SINGLE => Segment::new(page),
            SINGLE_WITH_OVERFLOW => Segment { overflow: vec![(0, r.u32()?)], ..Segment::new(page) },
            _ if matches!(kind & !LIST, LINE | DIRECTORY) => {
                let overflow = if kind & LIST == 0 { Vec::new() } else { decode_overflow(r)? };
                Self::decode_placed(r, kind, page, overflow)?
            }
            _ => return r.fail("the kind of a segment is not known"),
        };
        if segment.is_possible() { Ok(segment) } else { r.fail("a segment has pages that it cannot have") }
    }

    fn decode_placed(r: &mut Reader<'_>, kind: u8, page: u32, overflow: Vec<(u8, u32)>) -> Result<Segment, Malformed> {
        let pages = r.u8()?;
        let line = kind & !LIST == LINE;
        let placement = if line { Placement::decode_line(r)? } else { Placement::decode_directory(r, pages)? };
        Ok(Segment { page, placement, pages, overflow })
    }

    /// Whether these page numbers and this number of pages are possible, and overflow pages belong to base pages of the
    /// segment. Page 0 is the file header.
    fn is_possible(&self) -> bool {
        let overflow_fits =
            |(position, page): &(u8, u32)| *position < self.pages && ![0, PagePair::NONE].contains(page);
        let fits = self.page > 0 && u32::from(self.pages) <= u32::MAX - self.page;
        fits && self.placement.suits(self.pages) && self.overflow.iter().all(overflow_fits)
    }

    /// Bytes that [`encode`](Self::encode) appends.
    pub(super) fn encoded_len(&self) -> usize {
        let kind_and_page = 1 + size_of::<u32>();
        match (&self.placement, self.overflow.len()) {
            (Placement::Single, overflow) => kind_and_page + size_of::<u32>() * overflow,
            (placement, 0) => kind_and_page + 1 + placement.encoded_len(),
            (placement, overflow) => kind_and_page + 1 + LISTED * overflow + 1 + placement.encoded_len(),
        }
    }
}

fn decode_overflow(r: &mut Reader<'_>) -> Result<Vec<(u8, u32)>, Malformed> {
    let count = r.u8()?;
    let mut overflow: Vec<(u8, u32)> = Vec::new();
    for _ in 0..count {
        let (position, page) = (r.u8()?, r.u32()?);
        if overflow.last().is_some_and(|(before, _)| *before >= position) {
            return r.fail("the overflow pages of a segment are out of order");
        }
        overflow.push((position, page));
    }
    if overflow.is_empty() { r.fail("a list of overflow pages is empty") } else { Ok(overflow) }
}

/// The page pair of `key` in an entry's segment, computed without building a [`Segment`]: every lookup runs this. The
/// entry's key is `prefix` followed by `suffix`; `value` was encoded here or verified.
#[inline]
pub(super) fn pair(prefix: &[u8], suffix: &[u8], value: &[u8], key: &[u8]) -> PagePair {
    if let [SINGLE, page @ ..] = value
        && let Ok(page) = page.try_into()
    {
        let page = u32::from_le_bytes(page);
        return PagePair { segment: page, page, overflow: PagePair::NONE };
    }
    home_of_many(prefix, suffix, value, key).expect("a node was built or verified")
}

fn home_of_many(prefix: &[u8], suffix: &[u8], value: &[u8], key: &[u8]) -> Result<PagePair, Malformed> {
    let mut r = Reader::new(value);
    let (kind, page) = (r.u8()?, r.u32()?);
    if kind == SINGLE_WITH_OVERFLOW {
        return Ok(PagePair { segment: page, page, overflow: r.u32()? });
    }
    let listed = if kind & LIST == 0 { 0 } else { usize::from(r.u8()?) };
    let (overflow, _) = r.bytes(listed * LISTED)?.as_chunks::<LISTED>();
    let pages = r.u8()?;
    let position = match kind & !LIST {
        LINE => page_by_line(&mut r, prefix, suffix, key, pages)?,
        _ => page_by_directory(&mut r, key, pages)?,
    };
    let overflow = overflow.iter().find(|listed| listed[0] == position);
    let overflow = overflow.map_or(PagePair::NONE, |[_, page @ ..]| u32::from_le_bytes(*page));
    Ok(PagePair { segment: page, page: page + u32::from(position), overflow })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use ecotone_substrate::model::Line;
    use rand::{RngExt, SeedableRng, rngs::SmallRng};

    use super::*;

    fn decoded(bytes: &[u8]) -> Result<Segment, Malformed> {
        let mut r = Reader::new(bytes);
        Segment::decode(&mut r).and_then(|segment| r.finish().map(|()| segment))
    }

    fn encoded(segment: &Segment) -> Vec<u8> {
        let mut w = Writer::new();
        segment.encode(&mut w);
        assert_eq!(w.as_slice().len(), segment.encoded_len());
        w.finish()
    }

    #[test]
    fn overflow_pages_belong_to_positions() {
        let mut segment =
            Segment::placed(40, 4, Placement::directory(b"k", [b"kb", b"kd", b"kf"].map(|fence| fence.to_vec())));
        assert!(segment.attach(42, 7) && segment.attach(40, 9) && !segment.attach(42, 8));
        assert!(!segment.attach(44, 8) && !segment.attach(39, 8), "these are not its pages");
        assert_eq!(segment.all_pages().collect::<Vec<_>>(), [40, 41, 42, 43, 9, 7]);
        assert_eq!(
            segment.page_pairs().map(|pair| pair.overflow).collect::<Vec<_>>(),
            [9, PagePair::NONE, 7, PagePair::NONE]
        );
        assert_eq!(decoded(&encoded(&segment)).unwrap(), segment);
        assert_eq!(pair(b"k", b"", &encoded(&segment), b"ke"), PagePair { segment: 40, page: 42, overflow: 7 });
        assert_eq!(pair(b"", b"k", &encoded(&segment), b"ka"), PagePair { segment: 40, page: 40, overflow: 9 });
    }

    /// A segment of any kind, with a common prefix and fences of any allowed length.
    fn segment(random: &mut SmallRng) -> Segment {
        let skip = [0, 1, 127, 128, 300][random.random_range(0..5)];
        let (pages, placement) = match random.random_range(0..3) {
            0 => (1, Placement::Single),
            1 => {
                let line = Line::new(random.random(), random.random()).expect("a rising line");
                (1 << random.random_range(1..5), Placement::Line { skip, line })
            }
            _ => {
                let run = [0, 14, 15, 16, 142, 143, 144][random.random_range(0..7)];
                let fence = |random: &mut SmallRng| {
                    let own = (0..random.random_range(1..20)).map(|_| random.random_range(0..3));
                    std::iter::repeat_n(1, run).chain(own).collect()
                };
                let fences: BTreeSet<Vec<u8>> = (0..random.random_range(1..15)).map(|_| fence(random)).collect();
                (fences.len() as u8 + 1, Placement::Directory { skip, fences: fences.into_iter().collect() })
            }
        };
        let mut segment = Segment::placed(random.random_range(1..1 << 30), pages, placement);
        for _ in 0..random.random_range(0..4) {
            segment.attach(segment.page + random.random_range(0..u32::from(pages)), random.random_range(1..u32::MAX));
        }
        segment
    }

    #[test]
    fn a_part_of_a_segment_has_the_keys_of_its_pages() {
        let mut random = SmallRng::seed_from_u64(4);
        let mut parts = 0;
        for _ in 0..300 {
            let lower: Vec<u8> = (0..12).map(|_| random.random_range(0..200)).collect();
            let fence = |n: u8| [&lower[..6], &[200, n], &lower[6..]].concat();
            let line =
                Line::new(random.random_range(1e-14..1e-12), random.random_range(0.0..2.0)).expect("a rising line");
            let placements = [
                Placement::directory(&lower[..6], (1..8).map(fence)),
                Placement::Line { skip: random.random_range(0..9), line },
            ];
            let mut whole = Segment::placed(40, 8, placements[random.random_range(0..2)].clone());
            assert!(whole.attach(43, 9));
            let (start, end) = (random.random_range(0..7), random.random_range(1..9));
            let Some(part) = (start < end).then(|| whole.part(&lower, start..end)).flatten() else { continue };
            parts += 1;
            assert_eq!(decoded(&encoded(&part)).unwrap(), part);
            let pairs =
                |segment: &Segment| segment.page_pairs().map(|pair| (pair.page, pair.overflow)).collect::<Vec<_>>();
            assert_eq!(pairs(&part), pairs(&whole)[start.into()..end.into()]);
            let of_part = whole.fence(&lower, start);
            for _ in 0..200 {
                let key = [&lower[..random.random_range(8..12)], &random.random::<u64>().to_be_bytes()[..]].concat();
                let position = whole.position_of(&lower, &key);
                if key >= of_part && (start..end).contains(&position) {
                    assert_eq!(
                        part.position_of(&of_part, &key) + start,
                        position,
                        "{key:?} in {start}..{end} of {whole:?}"
                    );
                }
            }
        }
        assert!(parts > 100);
    }

    #[test]
    fn segments_are_as_long_as_counted_and_come_back() {
        let mut random = SmallRng::seed_from_u64(3);
        for _ in 0..5_000 {
            let segment = segment(&mut random);
            assert_eq!(decoded(&encoded(&segment)).unwrap(), segment);
        }
    }

    #[test]
    fn a_segment_gets_few_overflow_pages() {
        for (pages, most) in [(1, 1), (7, 1), (8, 2), (15, 3), (16, 4)] {
            let fences: Vec<Vec<u8>> = (1..pages).map(|position| vec![position]).collect();
            let placement = if pages == 1 { Placement::Single } else { Placement::directory(b"", fences) };
            let mut segment = Segment::placed(40, pages, placement);
            for position in 0..most {
                assert!(segment.has_room_for(1) && !segment.has_room_for((most - position) as usize + 1));
                assert!(segment.attach(40 + position, position));
            }
            assert!(segment.has_room_for(0) && !segment.has_room_for(1));
        }
    }

    #[test]
    fn what_makes_no_sense_is_not_decoded() {
        let mut single = Segment::new(3);
        assert!(single.attach(3, 4));
        for good in [encoded(&Segment::new(3)), encoded(&single)] {
            assert!(decoded(&good).is_ok());
            for cut in 0..good.len() {
                assert!(decoded(&good[..cut]).is_err(), "cut at {cut}");
            }
            assert!(decoded(&[&good[..], &[0]].concat()).is_err());
        }
        let fences = [2, 1, 1, b'm'];
        let overflowing = |list: &[u8]| decoded(&[&[DIRECTORY | LIST, 3, 0, 0, 0], list, &fences].concat());
        assert!(overflowing(&[1, 0, 4, 0, 0, 0]).is_ok());
        assert!(overflowing(&[0]).is_err(), "an empty list");
        assert!(overflowing(&[1, 2, 4, 0, 0, 0]).is_err(), "of a page that is not there");
        assert!(overflowing(&[2, 0, 4, 0, 0, 0, 0, 5, 0, 0, 0]).is_err(), "two of one page");
        assert!(decoded(&[9, 3, 0, 0, 0, 1]).is_err(), "an unknown kind");
        assert!(decoded(&[DIRECTORY, 3, 0, 0, 0, 3, 0, 1, b'm', 1, b'l']).is_err(), "falling fences");
        assert!(decoded(&[LINE, 3, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0]).is_err(), "a line of three pages");
        assert!(decoded(&[DIRECTORY, 255, 255, 255, 255, 2, 0, 1, b'm']).is_err(), "no such pages");
        assert!(decoded(&[SINGLE, 255, 255, 255, 255]).is_err(), "the number that means there is none");
        assert!(decoded(&[SINGLE, 0, 0, 0, 0]).is_err(), "the header of the file");
        assert!(decoded(&[SINGLE_WITH_OVERFLOW, 3, 0, 0, 0, 0, 0, 0, 0]).is_err(), "the same as an overflow page");
        assert!(
            decoded(&[SINGLE_WITH_OVERFLOW, 3, 0, 0, 0, 255, 255, 255, 255]).is_err(),
            "the same of an overflow page"
        );
        assert!(overflowing(&[1, 0, 255, 255, 255, 255]).is_err(), "the same in a list");
    }
}
