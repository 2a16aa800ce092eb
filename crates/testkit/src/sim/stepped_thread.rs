//! A thread that stops before and after each I/O of some phases, until it is told to go on. If one such thread runs at
//! a time, a test chooses how several interleave, and a seed replays the order.
//!
//! A stopped thread must hold nothing that other threads wait for; the phases are chosen accordingly.

use std::{
    cell::RefCell,
    sync::Arc,
    thread::{Scope, ScopedJoinHandle},
    time::Duration,
};

use parking_lot::{Condvar, Mutex};

use super::phase::Phase;

/// The longest time from one stop to the next, before the test is declared stuck.
const MAX_WAIT: Duration = Duration::from_secs(20);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Standing,
    Going,
    /// It stops no more: nothing is left that could tell it to go on.
    Free,
    Over,
}

#[derive(Debug)]
struct Turn {
    phases: &'static [Phase],
    state: Mutex<State>,
    changed: Condvar,
}

thread_local! {
    static MINE: RefCell<Option<Arc<Turn>>> = const { RefCell::new(None) };
}

/// Stops this thread, if it is a stepped thread that stops at I/Os of this phase.
pub(super) fn stop(phase: Phase) {
    let mine = MINE.with_borrow(|mine| mine.as_ref().filter(|turn| turn.phases.contains(&phase)).cloned());
    mine.iter().for_each(|turn| turn.stand_still());
}

impl Turn {
    fn stand_still(&self) {
        let mut state = self.state.lock();
        if *state == State::Going {
            *state = State::Standing;
            self.changed.notify_all();
        }
        drop(state);
        self.wait();
    }

    /// Waits until it is told to go on, which may have happened already.
    fn wait(&self) {
        let mut state = self.state.lock();
        while *state == State::Standing {
            self.changed.wait(&mut state);
        }
    }

    fn set(&self, new: State) {
        *self.state.lock() = new;
        self.changed.notify_all();
    }

    /// Lets the thread go on, and waits until it stops again or ends.
    ///
    /// # Panics
    /// If it does neither in time: it waits for something that another thread holds.
    fn go_on(&self) {
        let mut state = self.state.lock();
        if *state == State::Standing {
            *state = State::Going;
            self.changed.notify_all();
        }
        while *state == State::Going {
            let late = self.changed.wait_for(&mut state, MAX_WAIT).timed_out();
            assert!(!late, "it waits for something that does not come while others stand still");
        }
    }
}

/// Marks the work as over, also when it panics.
struct End(Arc<Turn>);

impl Drop for End {
    fn drop(&mut self) {
        self.0.set(State::Over);
    }
}

/// A thread whose work goes on when it is told. It stops before it begins.
#[derive(Debug)]
pub struct SteppedThread<'scope, T> {
    turn: Arc<Turn>,
    thread: Option<ScopedJoinHandle<'scope, T>>,
}

impl<'scope, T: Send + 'scope> SteppedThread<'scope, T> {
    /// Starts a thread for `work`, which stops at I/Os of these phases.
    pub fn new(
        scope: &'scope Scope<'scope, '_>,
        phases: &'static [Phase],
        work: impl FnOnce() -> T + Send + 'scope,
    ) -> Self {
        let turn = Arc::new(Turn { phases, state: Mutex::new(State::Standing), changed: Condvar::new() });
        let mine = turn.clone();
        let thread = scope.spawn(move || {
            let _end = End(mine.clone());
            mine.wait();
            MINE.set(Some(mine));
            work()
        });
        SteppedThread { turn, thread: Some(thread) }
    }

    /// Runs to the next stop. At its end, gives the result of the work.
    ///
    /// # Panics
    /// If the work panicked, if it is over, or if it does not come to its next stop.
    pub fn step(&mut self) -> Option<T> {
        self.turn.go_on();
        let over = *self.turn.state.lock() == State::Over;
        let ended = over.then(|| self.thread.take().expect("a walk ends once").join());
        ended.map(|answer| answer.unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    }

    /// Runs to its end, and gives the result of the work.
    ///
    /// # Panics
    /// As for [`step`](Self::step).
    pub fn finish(mut self) -> T {
        loop {
            if let Some(answer) = self.step() {
                return answer;
            }
        }
    }
}

impl<T> Drop for SteppedThread<'_, T> {
    /// A stepped thread that was dropped runs to its end, for which its scope waits.
    fn drop(&mut self) {
        let mut state = self.turn.state.lock();
        if *state != State::Over {
            *state = State::Free;
            self.turn.changed.notify_all();
        }
    }
}
