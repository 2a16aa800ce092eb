//! Whether somebody uses a keyspace, or a database: what tells of uses is looked at about once a second.

use ecotone_sys::primitive::Mutex;

/// Ticks of the scheduler without any use after which it is idle, about seconds: who comes back after a pause finds no
/// job under way.
const TICKS: u32 = 10;

/// How long it has not been used.
#[derive(Debug)]
pub struct Idle<U>(Mutex<Since<U>>);

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

/// Bytes that files may keep for nothing, beside a part of what lives.
pub(crate) const LITTLE: u64 = 4 << 20;
/// Deletes that are too few to do anything about them.
pub(crate) const FEW: u64 = if cfg!(feature = "shuttle") { 4 } else { 1024 };

/// Whether files of so many bytes keep so much for deleted records that they are to be rid of it while nobody is there:
/// two fifths of them, and a little. So they end with less than twice of what lives.
pub(crate) fn is_littered(bytes: u64, hidden: u64, little: u64) -> bool {
    hidden > bytes / 5 * 2 + little
}

impl<U: PartialEq> Idle<U> {
    /// Somebody uses it in a way that nothing else tells, or what was done since nobody does has failed, and may be
    /// tried again later.
    pub fn begin_anew(&self) {
        self.0.lock().ticks = 0;
    }

    /// Whether nobody has used it for long.
    pub fn is_idle(&self) -> bool {
        self.0.lock().ticks == TICKS
    }

    /// Some time has passed, and so much has been used by now.
    pub fn tick(&self, used: U) {
        let mut since = self.0.lock();
        since.ticks = if since.used == used { (since.ticks + 1).min(TICKS) } else { 0 };
        since.used = used;
    }
}
