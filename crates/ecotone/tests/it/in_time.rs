//! A bound on the time of calls that must not wait forever.

use std::{sync::mpsc, time::Duration};

const MAX_WAIT: Duration = Duration::from_secs(20);

/// Runs `work` on a thread of its own. It must end in time; otherwise it waits for something unrelated.
pub(crate) fn in_time<T: Send + 'static>(what: &str, work: impl FnOnce() -> T + Send + 'static) -> T {
    let (done, ended) = mpsc::channel();
    let thread = std::thread::spawn(move || {
        let _ = done.send(work());
    });
    match ended.recv_timeout(MAX_WAIT) {
        Ok(answer) => answer,
        Err(mpsc::RecvTimeoutError::Timeout) => panic!("{what} takes too long"),
        Err(_) => std::panic::resume_unwind(thread.join().expect_err("it panicked")),
    }
}
