//! A dense set of ascending integers in little memory: a bit each, with counts for finding the i-th.

/// The set.
#[derive(Debug)]
pub(crate) struct KeyBits {
    words: Vec<u64>,
    /// How many keys lie before each word.
    before: Vec<u32>,
    len: usize,
}

impl KeyBits {
    /// Builds the set from ascending keys. It takes 1.5 bits of memory for every integer up to the largest.
    pub(crate) fn new(keys: impl Iterator<Item = u64>) -> Self {
        let mut set = KeyBits { words: Vec::new(), before: Vec::new(), len: 0 };
        for key in keys {
            let word = (key / 64) as usize;
            while set.words.len() <= word {
                set.before.push(set.len as u32);
                set.words.push(0);
            }
            set.words[word] |= 1 << (key % 64);
            set.len += 1;
        }
        set
    }

    /// How many keys there are.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// The key with `index` keys before it. `index` is below [`len`](Self::len).
    pub(crate) fn key(&self, index: usize) -> u64 {
        let word = self.before.partition_point(|&before| before as usize <= index) - 1;
        let mut bits = self.words[word];
        for _ in self.before[word] as usize..index {
            bits &= bits - 1;
        }
        word as u64 * 64 + u64::from(bits.trailing_zeros())
    }

    /// How many keys lie before `key`, if it is in the set.
    pub(crate) fn index(&self, key: u64) -> Option<usize> {
        let word = usize::try_from(key / 64).ok()?;
        let bits = self.words.get(word).copied()?;
        let bit = 1u64 << (key % 64);
        (bits & bit != 0).then(|| self.before[word] as usize + (bits & (bit - 1)).count_ones() as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::KeyBits;

    #[test]
    fn keys_and_indexes() {
        let keys = [1, 2, 63, 64, 65, 500, 501, 703, 704];
        let set = KeyBits::new(keys.into_iter());
        assert_eq!(set.len(), keys.len());
        for (index, key) in keys.into_iter().enumerate() {
            assert_eq!(set.key(index), key);
            assert_eq!(set.index(key), Some(index));
        }
        for absent in [0, 3, 62, 66, 499, 705, 1 << 40] {
            assert_eq!(set.index(absent), None);
        }
    }
}
