//! The lock of a record whose words are changed in place while other threads copy them.

use ecotone_sys::primitive::{
    atomic::{AtomicU64, Ordering, fence},
    thread, unless_checked,
};

use super::RecordHeader;

/// Checks of a locked record before the thread yields. The lock's holder copies less than 2 KB.
const SPINS: u32 = unless_checked(100, 0);

/// The header word of a record.
#[derive(Debug, Clone, Copy)]
pub struct RecordHeaderWord<'a>(&'a AtomicU64);

impl<'a> RecordHeaderWord<'a> {
    /// The lock in this word.
    #[inline]
    pub fn new(word: &'a AtomicU64) -> RecordHeaderWord<'a> {
        RecordHeaderWord(word)
    }

    /// Sets the header of a record that no other thread knows.
    #[inline]
    pub fn set(&self, state: RecordHeader) {
        self.0.store(state.word(), Ordering::Relaxed);
    }

    /// The current header, of which only the constant part may be used: the length of the key.
    #[inline]
    pub fn peek(&self) -> RecordHeader {
        RecordHeader::from_word(self.0.load(Ordering::Relaxed))
    }

    /// The current header. It may be locked.
    #[inline]
    pub fn load(&self) -> RecordHeader {
        RecordHeader::from_word(self.0.load(Ordering::Acquire))
    }

    /// Lets `copy` copy words of the record, again and again until none of them changed meanwhile. Returns the header
    /// of that moment.
    #[inline]
    pub fn read(&self, mut copy: impl FnMut(RecordHeader)) -> RecordHeader {
        loop {
            let state = self.settled();
            copy(state);
            // The copy comes before the second look: a thread that changed any of it had made the version odd before.
            fence(Ordering::Acquire);
            if self.peek() == state {
                return state;
            }
        }
    }

    /// Locks the record against writers and readers.
    #[inline]
    pub fn lock(&self) -> Locked<'a> {
        loop {
            if let Some(locked) = self.lock_from(self.settled()) {
                return locked;
            }
        }
    }

    /// Locks the record if its header is still `state`.
    #[inline]
    pub fn lock_from(&self, state: RecordHeader) -> Option<Locked<'a>> {
        let (word, locked) = (state.word(), state.next().word());
        self.0.compare_exchange(word, locked, Ordering::Acquire, Ordering::Relaxed).ok()?;
        // A thread that sees a word stored from now on sees the lock at its second look.
        fence(Ordering::Release);
        Some(Locked { word: self.0, before: state, after: state, changed: false })
    }

    /// The header when the lock is free.
    #[inline]
    fn settled(&self) -> RecordHeader {
        let mut looks = 0;
        loop {
            let state = self.load();
            if !state.locked() {
                return state;
            }
            looks += 1;
            if looks > SPINS {
                thread::yield_now();
            } else {
                std::hint::spin_loop();
            }
        }
    }
}

/// The lock of a record. Dropping it unlocks the record.
#[derive(Debug)]
pub struct Locked<'a> {
    word: &'a AtomicU64,
    before: RecordHeader,
    after: RecordHeader,
    changed: bool,
}

impl Locked<'_> {
    /// The header when the record was locked.
    #[inline]
    pub fn state(&self) -> RecordHeader {
        self.before
    }

    /// Sets the length of the record's new value, or none.
    #[inline]
    pub fn changed(&mut self, value_len: Option<usize>) {
        self.after = self.after.with_value(value_len);
        self.changed = true;
    }

    /// Seals the record: it does not change again.
    #[inline]
    pub fn seal(&mut self) {
        self.after = self.after.as_sealed();
        self.changed = true;
    }
}

impl Drop for Locked<'_> {
    /// Each change gets its own version, so that a reader that copied parts of two values notices, also if both have
    /// one length.
    #[inline]
    fn drop(&mut self) {
        let unlocked = if self.changed { self.after.next().next() } else { self.before };
        self.word.store(unlocked.word(), Ordering::Release);
    }
}
