//! Judges a whole history: every register by itself, and the registers together after a crash.

use std::collections::{BTreeSet, HashMap};

use super::{
    Act, Event, Tick, Value,
    linear::{Fate, Op, explains},
};
use crate::{
    model::{Ending, Level},
    suite::Verdict,
};

/// Events of one register that a message shows.
const SHOWN: usize = 12;

/// The calls on one register, sorted by invocation.
struct Register {
    number: usize,
    initial: Value,
    events: Vec<Event>,
    ops: Vec<Op>,
}

fn registers(initial: &[Value], events: &[Event]) -> Vec<Register> {
    let of = |number: usize| {
        let mut events: Vec<Event> = events.iter().filter(|event| event.register == number).copied().collect();
        // An unanswered call that writes nothing carries no information.
        events.retain(|event| event.answered.is_some() || event.act.writes());
        events.sort_by_key(|event| event.invoked);
        let ops = events
            .iter()
            .map(|event| Op { act: event.act, invoked: event.invoked, answered: event.answered })
            .collect();
        Register { number, initial: initial[number], events, ops }
    };
    (0..initial.len()).map(of).collect()
}

/// Whether each register's calls have an order that explains them; `initial` is what the registers held before.
pub(in crate::suite) fn linearizable(initial: &[Value], events: &[Event]) -> Verdict {
    for register in registers(initial, events) {
        if !explains(register.initial, &register.ops, &vec![Fate::Free; register.ops.len()], None) {
            return Err(format!("no order explains the answers: {}", register.show(None)));
        }
    }
    Ok(())
}

/// Whether the history is linearizable, and whether one moment at which the log was cut explains what was `recovered`
/// after its end: every write appended before that moment is there, no other write is, and no write whose promise
/// outlives the end is missing.
pub(in crate::suite) fn survives(initial: &[Value], events: &[Event], ending: Ending, recovered: &[Value]) -> Verdict {
    linearizable(initial, events)?;
    let promised =
        |event: &Event| event.act.writes() && event.promise >= ending.outlived_by() && event.promise > Level::InDoubt;
    let earliest = events.iter().filter(|event| promised(event)).map(|event| event.invoked).max().unwrap_or(0);
    let writes = events.iter().filter(|event| event.act.writes());
    let moments: BTreeSet<Tick> = writes.flat_map(|event| [Some(event.invoked), event.answered]).flatten().collect();
    let moments: Vec<Tick> = std::iter::once(earliest).chain(moments).filter(|moment| *moment >= earliest).collect();
    let mut judge =
        Judge { registers: registers(initial, events), recovered, known: HashMap::new(), promised: &promised };
    let mut nearest: Option<Vec<usize>> = None;
    for moment in moments.into_iter().rev() {
        let wrong = judge.cut(moment);
        if wrong.is_empty() {
            return Ok(());
        }
        nearest = nearest.filter(|nearest| nearest.len() <= wrong.len()).or(Some(wrong));
    }
    let wrong = nearest.expect("a moment was tried");
    let shown: Vec<String> =
        wrong.iter().take(3).map(|number| judge.registers[*number].show(Some(recovered[*number]))).collect();
    Err(format!(
        "after {ending:?}, no cut of the log explains what was recovered; the nearest leaves {} registers wrong:\n{}",
        wrong.len(),
        shown.join("\n")
    ))
}

struct Judge<'a> {
    registers: Vec<Register>,
    recovered: &'a [Value],
    /// What is known about the fate of a register's writes.
    known: HashMap<(usize, Vec<Fate>), bool>,
    promised: &'a dyn Fn(&Event) -> bool,
}

impl Judge<'_> {
    /// The registers that are wrong if the log was cut at this moment. Batches that were in progress then are tried
    /// both ways; the result is the smallest set.
    fn cut(&mut self, moment: Tick) -> Vec<usize> {
        let batches = self.batches_at(moment);
        let decisions = (0..1u32 << batches.len()).map(|kept| {
            let decided =
                |event: &Event| Some(kept >> batches.iter().position(|call| *call == event.invoked)? & 1 == 1);
            self.wrong(moment, &decided)
        });
        // The closures borrow the judge one after the other.
        let mut least: Option<Vec<usize>> = None;
        for wrong in decisions {
            least = least.filter(|least| least.len() <= wrong.len()).or(Some(wrong));
            if least.as_ref().is_some_and(Vec::is_empty) {
                break;
            }
        }
        least.expect("there is a decision")
    }

    /// Calls that write several registers and may have been appended before or after the moment.
    fn batches_at(&self, moment: Tick) -> Vec<Tick> {
        let events = self.registers.iter().flat_map(|register| &register.events);
        let open = events.filter(|event| event.act.writes() && fate_at(event, moment, self.promised) == Fate::Free);
        let mut calls: HashMap<Tick, usize> = HashMap::new();
        open.for_each(|event| *calls.entry(event.invoked).or_default() += 1);
        let mut batches: Vec<Tick> =
            calls.into_iter().filter(|(_, registers)| *registers > 1).map(|(call, _)| call).collect();
        batches.sort_unstable();
        batches
    }

    fn wrong(&mut self, moment: Tick, decided: &dyn Fn(&Event) -> Option<bool>) -> Vec<usize> {
        let (known, promised) = (&mut self.known, self.promised);
        let fate = |event: &Event| match (fate_at(event, moment, promised), decided(event)) {
            (Fate::Free, Some(true)) => Fate::Kept,
            (Fate::Free, Some(false)) => Fate::Lost,
            (fate, _) => fate,
        };
        let mut is_right = |register: &&Register| {
            let fates: Vec<Fate> = register.events.iter().map(fate).collect();
            let recovered = self.recovered[register.number];
            let explain = |fates: &[Fate]| explains(register.initial, &register.ops, fates, Some(recovered));
            *known.entry((register.number, fates)).or_insert_with_key(|(_, fates)| explain(fates))
        };
        self.registers.iter().filter(|register| !is_right(register)).map(|register| register.number).collect()
    }
}

/// A write answered by then was appended before it, and a write called later after it. A promise is kept.
fn fate_at(event: &Event, moment: Tick, promised: &dyn Fn(&Event) -> bool) -> Fate {
    match event {
        event if !event.act.writes() => Fate::Free,
        event if promised(event) || event.answered.is_some_and(|answered| answered <= moment) => Fate::Kept,
        event if event.invoked > moment => Fate::Lost,
        _ => Fate::Free,
    }
}

impl Register {
    /// The last calls, and those that wrote or saw what was recovered.
    fn show(&self, recovered: Option<Value>) -> String {
        let names = |event: &Event| match event.act {
            Act::Read(value) | Act::Refused(value) | Act::Write(value) => Some(value) == recovered,
            Act::Replace { before, after } => Some(before) == recovered || Some(after) == recovered,
        };
        let last = self.events.len().saturating_sub(SHOWN);
        let shown = self.events.iter().enumerate().filter(|(index, event)| *index >= last || names(event));
        let calls: Vec<String> = shown.map(|(_, event)| one(event)).collect();
        let end = recovered.map_or(String::new(), |value| format!(", recovered {value:?}"));
        format!("register {}, at first {:?}{end}: {}", self.number, self.initial, calls.join(" "))
    }
}

fn one(event: &Event) -> String {
    let answered = event.answered.map_or("never".to_owned(), |tick| tick.to_string());
    format!("[{}..{answered} {:?} {:?}]", event.invoked, event.act, event.promise)
}
