//! Decides whether the calls on one register have an order that explains their answers (after Wing and Gong, 1993, with
//! the memoised dead ends of Lowe, 2017).

use std::collections::HashSet;

use super::{Act, Tick, Value};

/// Where a write lies relative to the point at which a crash cut the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Fate {
    /// Before or after it; also for every call that writes nothing.
    Free,
    /// Before it.
    Kept,
    /// After it, or it never happened.
    Lost,
}

/// One call on the register.
#[derive(Debug, Clone, Copy)]
pub(super) struct Op {
    pub(super) act: Act,
    pub(super) invoked: Tick,
    pub(super) answered: Option<Tick>,
}

impl Op {
    /// A call without an answer must have happened only if it is a write that is kept.
    fn must_happen(&self, fate: Fate) -> bool {
        self.answered.is_some() || fate == Fate::Kept
    }
}

/// Whether some order of `ops`, which are sorted by invocation, explains all answers; the register held `initial`
/// before. With `cut` the register held that value at some point in the order, with every kept write before it and
/// every lost write behind it.
pub(super) fn explains(initial: Value, ops: &[Op], fates: &[Fate], cut: Option<Value>) -> bool {
    let start = State { done: vec![0; ops.len().div_ceil(64)], value: initial, cut: cut.is_none() };
    Search { ops, fates, cut, dead: HashSet::new() }.reaches_the_end(start)
}

/// A state of the search: the calls that are in the order, the value of the register, and whether the cut is behind.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct State {
    done: Vec<u64>,
    value: Value,
    cut: bool,
}

impl State {
    fn has(&self, index: usize) -> bool {
        self.done[index / 64] >> (index % 64) & 1 == 1
    }

    fn add(&mut self, index: usize, value: Value) {
        self.done[index / 64] |= 1 << (index % 64);
        self.value = value;
    }
}

struct Search<'a> {
    ops: &'a [Op],
    fates: &'a [Fate],
    cut: Option<Value>,
    dead: HashSet<State>,
}

impl Search<'_> {
    fn reaches_the_end(&mut self, mut state: State) -> bool {
        self.take_what_costs_nothing(&mut state);
        if self.is_end(&state) {
            return true;
        }
        if !self.dead.insert(state.clone()) {
            return false;
        }
        let next = self.next(&state).into_iter().filter(|index| state.cut || self.fates[*index] != Fate::Lost);
        let next: Vec<(usize, Value)> =
            next.filter_map(|index| Some((index, self.ops[index].act.happens(state.value)?))).collect();
        next.into_iter().any(|(index, value)| {
            let mut after = state.clone();
            after.add(index, value);
            self.reaches_the_end(after)
        })
    }

    /// Calls that change nothing and are right here may come here in any order. The cut may come here too, because
    /// fewer calls are required behind it than before it.
    fn take_what_costs_nothing(&self, state: &mut State) {
        loop {
            let right =
                |index: &usize| !self.ops[*index].act.writes() && self.ops[*index].act.happens(state.value).is_some();
            match self.next(state).into_iter().find(right) {
                Some(index) => state.add(index, state.value),
                None => break,
            }
        }
        let kept = (0..self.ops.len()).all(|index| self.fates[index] != Fate::Kept || state.has(index));
        state.cut |= kept && self.cut == Some(state.value);
    }

    fn is_end(&self, state: &State) -> bool {
        state.cut
            && (0..self.ops.len()).all(|index| state.has(index) || !self.ops[index].must_happen(self.fates[index]))
    }

    /// The calls that may come next: no call that is still missing was answered before they began.
    fn next(&self, state: &State) -> Vec<usize> {
        let mut bound = Tick::MAX;
        let mut next = Vec::new();
        for index in (0..self.ops.len()).filter(|index| !state.has(*index)) {
            let op = &self.ops[index];
            if op.invoked > bound {
                break;
            }
            bound = bound.min(op.answered.unwrap_or(Tick::MAX));
            next.push(index);
        }
        next
    }
}
