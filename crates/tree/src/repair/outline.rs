//! The outline of a data page: the key range and the age that its header gives.

use ecotone_substrate::{
    codec::{Malformed, Reader, Writer},
    limits::MAX_KEY,
    page::Page,
};

/// The role of a page in a salvage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Role {
    /// A whole base page.
    Base = 0,
    /// A whole overflow page.
    Overflow = 1,
    /// A base page with a readable header and a wrong checksum. It is used only to mark other pages as doubtful.
    Lost = 2,
}

/// The age of a page. Of two pages that cover a key, the one with the greater age value is the newer (repair.md, "Which
/// page is current").
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct PageAge {
    named: bool,
    sequence: u64,
    production: u32,
    page: u32,
}

/// The outline of a page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Outline {
    pub(super) lower: Vec<u8>,
    pub(super) upper: Option<Vec<u8>>,
    pub(super) page: u32,
    pub(super) role: Role,
    /// For an overflow page its base page, for a base page its production id.
    pub(super) related: u32,
    pub(super) sequence: u64,
    /// Whether the index has the page as a base page.
    pub(super) named: bool,
    /// The overflow page that the index gives the page.
    pub(super) expects: Option<u32>,
}

const NAMED: u8 = 4;
const EXPECTS: u8 = 8;
const UPPER: u8 = 16;
const ROLE: u8 = 3;

impl Outline {
    pub(super) fn of(page: &Page<'_>, number: u32, role: Role) -> Self {
        Outline {
            lower: page.lower().to_vec(),
            upper: page.upper().map(<[u8]>::to_vec),
            page: number,
            role,
            related: page.related(),
            sequence: page.sequence(),
            named: false,
            expects: None,
        }
    }

    pub(super) fn rank(&self) -> PageAge {
        PageAge { named: self.named, sequence: self.sequence, production: self.related, page: self.page }
    }

    /// Whether the range ends at or below `key`.
    pub(super) fn ends_by(&self, key: &[u8]) -> bool {
        self.upper.as_deref().is_some_and(|upper| upper <= key)
    }

    /// Encodes the outline for a scratch file. The lower fence comes first, for [`lower_of`].
    pub(super) fn encode(&self, w: &mut Writer) {
        let flag = |set: bool, flag: u8| if set { flag } else { 0 };
        let flags = flag(self.named, NAMED) | flag(self.expects.is_some(), EXPECTS) | flag(self.upper.is_some(), UPPER);
        w.prefixed(&self.lower).u8(self.role as u8 | flags).u32(self.page).u32(self.related).u64(self.sequence);
        self.expects.iter().for_each(|page| _ = w.u32(*page));
        self.upper.iter().for_each(|upper| _ = w.prefixed(upper));
    }

    pub(super) fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut r = Reader::new(bytes);
        let (lower, flags) = (r.prefixed(MAX_KEY)?.to_vec(), r.u8()?);
        let role = match flags & ROLE {
            0 => Role::Base,
            1 => Role::Overflow,
            _ => Role::Lost,
        };
        let (page, related, sequence) = (r.u32()?, r.u32()?, r.u64()?);
        let expects = if flags & EXPECTS != 0 { Some(r.u32()?) } else { None };
        let upper = if flags & UPPER != 0 { Some(r.prefixed(MAX_KEY)?.to_vec()) } else { None };
        r.finish()?;
        Ok(Outline { lower, upper, page, role, related, sequence, named: flags & NAMED != 0, expects })
    }
}

/// The lower fence of an encoded outline.
pub(super) fn lower_of(bytes: &[u8]) -> &[u8] {
    Reader::new(bytes).prefixed(MAX_KEY).unwrap_or_default()
}
