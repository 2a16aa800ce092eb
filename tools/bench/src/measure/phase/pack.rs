//! Many byte strings in one buffer.

/// Byte strings back to back, without an allocation for each.
#[derive(Debug, Default)]
pub(crate) struct Pack {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Pack {
    /// Removes all strings and keeps the memory.
    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }

    pub(crate) fn push(&mut self, string: &[u8]) {
        self.bytes.extend_from_slice(string);
        self.ends.push(self.bytes.len());
    }

    /// The number of strings.
    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    /// The total number of bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.len() as u64
    }

    pub(crate) fn get(&self, number: usize) -> &[u8] {
        let start = number.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.bytes[start..self.ends[number]]
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &[u8]> {
        (0..self.len()).map(|number| self.get(number))
    }
}

#[cfg(test)]
mod tests {
    use super::Pack;

    #[test]
    fn strings_come_back() {
        let mut pack = Pack::default();
        for _ in 0..2 {
            pack.clear();
            for string in ["one", "", "three"] {
                pack.push(string.as_bytes());
            }
            assert!(pack.iter().eq([&b"one"[..], b"", b"three"]));
            assert_eq!((pack.len(), pack.bytes(), pack.get(2)), (3, 8, &b"three"[..]));
        }
    }
}
