//! The lock of a record whose words are changed in place while others copy them.

use ecotone_sys::primitive::{
    atomic::{AtomicU64, Ordering, fence},
    thread,
};

use super::State;

/// Looks at a locked record before others may go on. Its holder copies less than 2 KB.
const SPINS: u32 = if cfg!(any(feature = "shuttle", feature = "loom")) { 0 } else { 100 };

/// The word in which a record has its state.
#[derive(Debug, Clone, Copy)]
pub struct StateWord<'a>(&'a AtomicU64);

impl<'a> StateWord<'a> {
    /// The state that is in this word.
    #[inline]
    pub fn new(word: &'a AtomicU64) -> StateWord<'a> {
        StateWord(word)
    }

    /// Sets the state of a record that nobody else knows.
    #[inline]
    pub fn set(&self, state: State) {
        self.0.store(state.word(), Ordering::Relaxed);
    }

    /// The state now, of which only what never changes is to be used: the length of the key.
    #[inline]
    pub fn peek(&self) -> State {
        State::from_word(self.0.load(Ordering::Relaxed))
    }

    /// The state now. It may be locked.
    #[inline]
    pub fn load(&self) -> State {
        State::from_word(self.0.load(Ordering::Acquire))
    }

    /// Lets `copy` copy words of the record, again and again until none of them changed meanwhile. The state of then.
    #[inline]
    pub fn read(&self, mut copy: impl FnMut(State)) -> State {
        loop {
            let state = self.settled();
            copy(state);
            // What was copied comes before the second look: whoever changed any of it had made the version odd before.
            fence(Ordering::Acquire);
            if self.peek() == state {
                return state;
            }
        }
    }

    /// Locks the record, against all who change it and all who read it.
    #[inline]
    pub fn lock(&self) -> Locked<'a> {
        loop {
            if let Some(locked) = self.lock_from(self.settled()) {
                return locked;
            }
        }
    }

    /// Locks the record if nothing has changed since it was in this state.
    #[inline]
    pub fn lock_from(&self, state: State) -> Option<Locked<'a>> {
        let (word, locked) = (state.word(), state.next().word());
        self.0.compare_exchange(word, locked, Ordering::Acquire, Ordering::Relaxed).ok()?;
        // Who sees a word that is stored from now on sees the lock at its second look.
        fence(Ordering::Release);
        Some(Locked { word: self.0, before: state, after: state, changed: false })
    }

    /// The state when nobody holds the lock.
    #[inline]
    fn settled(&self) -> State {
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
    before: State,
    after: State,
    changed: bool,
}

impl Locked<'_> {
    /// What the record was when it was locked.
    #[inline]
    pub fn state(&self) -> State {
        self.before
    }

    /// Its words have got a value of this length, or none.
    #[inline]
    pub fn changed(&mut self, value_len: Option<usize>) {
        self.after = self.after.with_value(value_len);
        self.changed = true;
    }

    /// Nobody will change it again.
    #[inline]
    pub fn seal(&mut self) {
        self.after = self.after.as_sealed();
        self.changed = true;
    }
}

impl Drop for Locked<'_> {
    /// What was changed gets a version of its own, so that who copied parts of two values notices, also if they are of
    /// one length.
    #[inline]
    fn drop(&mut self) {
        let unlocked = if self.changed { self.after.next().next() } else { self.before };
        self.word.store(unlocked.word(), Ordering::Release);
    }
}
