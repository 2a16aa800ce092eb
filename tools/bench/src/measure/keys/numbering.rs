//! Numbers identities by order of first appearance, in bounded memory: the table is a file.

use std::{
    fs::{self, File},
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
};

use rustix::fs::{Advice, fadvise};

use crate::{
    error::{Context, Result},
    measure::permutation::mix,
};

/// Name of the file; it is unlinked as soon as it is open.
const NAME: &str = "keys.numbering";
/// Bytes of an entry: the identity and its number plus 1; zeros in an empty entry.
const ENTRY: u64 = 16;
/// Entries of a group, which are read together.
const GROUP: u64 = 16;
/// Groups of a new table; the number doubles as the table fills up.
const GROUPS: u64 = 1 << 8;

/// The table: open addressing by groups, at most three quarters full.
#[derive(Debug)]
pub(crate) struct Numbering {
    directory: PathBuf,
    file: File,
    groups: u64,
    count: u64,
}

impl Numbering {
    /// An empty table whose file is in `directory`.
    pub(crate) fn new(directory: &Path) -> Result<Self> {
        Self::with_groups(directory, GROUPS)
    }

    fn with_groups(directory: &Path, groups: u64) -> Result<Self> {
        let path = directory.join(NAME);
        let file =
            File::options().read(true).write(true).create(true).truncate(true).open(&path).context("create", &path)?;
        fs::remove_file(&path).context("remove", &path)?;
        // Read-ahead would create large folios in the page cache, which make each small write slow.
        fadvise(&file, 0, None, Advice::Random).context("advise on", &path)?;
        file.set_len(groups * GROUP * ENTRY).context("extend", &path)?;
        Ok(Numbering { directory: directory.to_owned(), file, groups, count: 0 })
    }

    /// The number of identities.
    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    /// The number of an identity, counted from 0, and whether it is new.
    pub(crate) fn number(&mut self, identity: u64) -> Result<(u64, bool)> {
        let number = match self.find(identity)? {
            Ok(number) => return Ok((number, false)),
            Err(place) => {
                self.put(place, identity, self.count)?;
                self.count
            }
        };
        self.count += 1;
        if self.count > self.groups * GROUP / 4 * 3 {
            self.grow()?;
        }
        Ok((number, true))
    }

    /// The identity's number, or the position for its entry.
    fn find(&self, identity: u64) -> Result<std::result::Result<u64, u64>> {
        let mut group = mix(identity) % self.groups;
        loop {
            let bytes = self.group(group)?;
            for (place, [found, number]) in (group * GROUP..).zip(entries(&bytes)) {
                match number.checked_sub(1) {
                    None => return Ok(Err(place)),
                    Some(number) if found == identity => return Ok(Ok(number)),
                    Some(_) => {}
                }
            }
            group = (group + 1) % self.groups;
        }
    }

    fn group(&self, group: u64) -> Result<[u8; (GROUP * ENTRY) as usize]> {
        let mut bytes = [0; (GROUP * ENTRY) as usize];
        self.file.read_exact_at(&mut bytes, group * GROUP * ENTRY).context("read the numbering in", &self.directory)?;
        Ok(bytes)
    }

    fn put(&self, place: u64, identity: u64, number: u64) -> Result<()> {
        let entry = (u128::from(number + 1) << 64 | u128::from(identity)).to_le_bytes();
        self.file.write_all_at(&entry, place * ENTRY).context("write the numbering in", &self.directory)
    }

    fn grow(&mut self) -> Result<()> {
        let mut larger = Self::with_groups(&self.directory, self.groups * 2)?;
        for group in 0..self.groups {
            for [identity, number] in entries(&self.group(group)?).filter(|[_, number]| *number > 0) {
                let place = larger.find(identity)?.expect_err("every identity is there once");
                larger.put(place, identity, number - 1)?;
            }
        }
        larger.count = self.count;
        *self = larger;
        Ok(())
    }
}

/// Identities, and numbers plus 1.
fn entries(bytes: &[u8]) -> impl Iterator<Item = [u64; 2]> {
    bytes.as_chunks::<16>().0.iter().map(|entry| {
        let entry = u128::from_le_bytes(*entry);
        [entry as u64, (entry >> 64) as u64]
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identities_are_numbered_by_their_first_appearance() {
        let directory = tempfile::tempdir().unwrap();
        let mut numbering = Numbering::new(directory.path()).unwrap();
        let mut known = std::collections::HashMap::new();
        for step in 0..60_000u64 {
            // Zero is an ordinary identity; most come several times.
            let identity = (mix(step) % 25_000).wrapping_mul(step % 2 * 8 + 1);
            let expected = known.len() as u64;
            let is_new = !known.contains_key(&identity);
            let number = *known.entry(identity).or_insert(expected);
            assert_eq!(numbering.number(identity).unwrap(), (number, is_new), "step {step}");
        }
        assert_eq!(numbering.count(), known.len() as u64);
        assert!(numbering.count() > GROUPS * GROUP, "the table grew");
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0, "nothing is left");
    }
}
