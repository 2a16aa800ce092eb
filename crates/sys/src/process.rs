//! The identity of a process, which distinguishes a forked process from the one that opened a file.
//!
//! A fork copies all memory but no thread. A copy that waits for a thread of the original waits for ever, and its
//! writes go into the original's files. So an object that opens something remembers the [`Life`] of its process, and
//! checks before each use that this life is not over.

use std::{
    io,
    panic::{AssertUnwindSafe, catch_unwind},
    ptr::{NonNull, null_mut},
    sync::{
        OnceLock,
        atomic::{AtomicU64, Ordering},
    },
};

use rustix::{
    io::retry_on_intr,
    mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous},
    param::page_size,
    process::{Pid, WaitOptions, waitpid},
};

/// The life of a process, from its start or from its fork on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Life(u64);

/// The number of lives that this memory has seen, of this process and of its ancestors by fork.
static LIVES: AtomicU64 = AtomicU64::new(0);

/// The number of the present life, in memory that a fork does not copy: in the forked process it is zero.
static PRESENT: OnceLock<Option<&'static AtomicU64>> = OnceLock::new();

impl Life {
    /// The present life.
    pub fn present() -> Life {
        let Some(present) = cell() else { return Life(by_number_of_process()) };
        let fresh = || LIVES.fetch_add(1, Ordering::Relaxed) + 1;
        match present.load(Ordering::Acquire) {
            0 => {
                let fresh = fresh();
                // Two threads may begin the same life at the same time.
                Life(
                    present
                        .compare_exchange(0, fresh, Ordering::AcqRel, Ordering::Acquire)
                        .map_or_else(|others| others, |_| fresh),
                )
            }
            number => Life(number),
        }
    }

    /// Whether this life is over: this process was forked off since.
    #[inline]
    pub fn is_over(self) -> bool {
        match PRESENT.get() {
            Some(Some(present)) => present.load(Ordering::Relaxed) != self.0,
            _ => by_number_of_process() != self.0,
        }
    }
}

/// The substitute for a life where the system cannot exclude memory from a fork's copy.
#[cold]
fn by_number_of_process() -> u64 {
    u64::from(std::process::id())
}

/// For tests: runs `work` in a forked process and returns its exit code; none if a signal ended the process. Only the
/// calling thread exists there, so `work` must not wait for another thread.
#[doc(hidden)]
pub fn in_a_fork(work: impl FnOnce() -> u8) -> io::Result<Option<i32>> {
    // SAFETY: the copy has all memory as it is, and calls what any thread may call but for waiting for others, which is
    // the caller's to avoid: it would hang, and break no memory.
    match unsafe { libc::fork() } {
        0 => {
            let code = catch_unwind(AssertUnwindSafe(work)).unwrap_or(u8::MAX);
            // SAFETY: ends the copy without what the original has registered for its own end.
            unsafe { libc::_exit(i32::from(code)) }
        }
        pid if pid > 0 => {
            let pid = Pid::from_raw(pid).expect("a process has a number");
            let ended = retry_on_intr(|| waitpid(Some(pid), WaitOptions::empty()))?;
            Ok(ended.and_then(|(_, status)| status.exit_status()))
        }
        _ => Err(io::Error::last_os_error()),
    }
}

fn cell() -> Option<&'static AtomicU64> {
    *PRESENT.get_or_init(|| {
        let bytes = page_size();
        // SAFETY: with a null hint and without MAP_FIXED the kernel picks a range that is not in use, so no memory of
        // ours changes.
        let page = unsafe { mmap_anonymous(null_mut(), bytes, ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE) };
        let page: NonNull<AtomicU64> = NonNull::new(page.ok()?.cast())?;
        // SAFETY: the range is the one just mapped, of which nothing is used yet; in this process the advice changes
        // nothing that is in it.
        unsafe { madvise(page.as_ptr().cast(), bytes, Advice::LinuxWipeOnFork) }.ok()?;
        // SAFETY: the page is aligned, zeroed, which is a valid `AtomicU64`, and never unmapped. Nobody else has it.
        Some(unsafe { page.as_ref() })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_life_is_the_same_all_the_time() {
        let life = Life::present();
        assert!(!life.is_over() && Life::present() == life);
        assert!(std::thread::spawn(move || !life.is_over() && Life::present() == life).join().unwrap());
        assert!(Life(life.0 + 1).is_over());
    }

    #[test]
    fn a_copy_has_a_life_of_its_own() {
        let life = Life::present();
        let ended = in_a_fork(|| {
            let own = Life::present();
            u8::from(life.is_over() && !own.is_over() && own != life) * 7
        });
        assert_eq!(ended.unwrap(), Some(7));
        assert!(!life.is_over());
    }
}
