//! How models of loom are run.

use std::sync::Arc;

use crate::primitive::loom::{model::Builder, thread};

/// Tries the orders of `work`, with at most so many preemptions, each time on what `begin` makes.
pub fn all_orders<W: 'static>(
    preemptions: usize,
    begin: impl Fn() -> W + Send + Sync + 'static,
    work: impl Fn(Arc<W>) + Send + Sync + 'static,
) {
    let mut builder = Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.max_branches = 20_000;
    builder.check(move || work(Arc::new(begin())));
}

/// Another thread of a model.
pub fn spawn<W: 'static, T: 'static>(fixture: &Arc<W>, work: impl FnOnce(&W) -> T + 'static) -> thread::JoinHandle<T> {
    let fixture = fixture.clone();
    thread::spawn(move || work(&fixture))
}
