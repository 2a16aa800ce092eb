//! Whether somebody uses a keyspace: what tells of uses is looked at about once a second.

use ecotone_sys::primitive::Mutex;

/// Ticks of the scheduler without any use after which a keyspace is idle, about seconds: who comes back after a pause finds no job under way.
const TICKS: u32 = 10;

/// How long a keyspace has not been used.
#[derive(Debug)]
pub(crate) struct Idle<U>(Mutex<Since<U>>);

#[derive(Debug, Default)]
struct Since<U> {
    /// What had been used at the last tick.
    used: U,
    ticks: u32,
}

impl<U: Default> Default for Idle<U> {
    fn default() -> Idle<U> {
        Idle(Mutex::new(Since::default()))
    }
}

impl<U: PartialEq> Idle<U> {
    /// Somebody uses it in a way that nothing else tells, or what was done since nobody does has failed, and may be tried again later.
    pub(crate) fn begin_anew(&self) {
        self.0.lock().ticks = 0;
    }

    /// Whether nobody has used it for long.
    pub(crate) fn is_idle(&self) -> bool {
        self.0.lock().ticks == TICKS
    }

    /// Some time has passed, and so much has been used by now.
    pub(crate) fn tick(&self, used: U) {
        let mut since = self.0.lock();
        since.ticks = if since.used == used { (since.ticks + 1).min(TICKS) } else { 0 };
        since.used = used;
    }
}
