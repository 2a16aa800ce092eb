//! Reads of builds for tests, which go on after their first find and have the ledger judge what they meet (decision 15,
//! "The ledger").

use std::sync::Arc;

use ecotone_substrate::{Result, table::Answer};

use super::{
    handle::Handle,
    ledger::{IS_BUILT, Layers, Ledger, Met},
    records::Lsm,
};
use crate::{engine::VisitValue, front::Look};

impl Lsm {
    /// Who judges what is read, in a build for tests.
    #[inline]
    pub(super) fn ledger(&self) -> Option<&Ledger> {
        if IS_BUILT { self.around.ledger.as_deref() } else { None }
    }

    /// As [`find`](Lsm::find), judged.
    pub(super) fn find_judged(&self, ledger: &Ledger, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        let since = ledger.now();
        let found = self.find(key, value)?;
        ledger.gave(since, key, found.then_some(value));
        self.judge(ledger, key);
        Ok(found)
    }

    /// As [`find_many`](Lsm::find_many), judged.
    pub(super) fn find_many_judged(&self, ledger: &Ledger, keys: &[&[u8]], found: &mut VisitValue<'_>) -> Result<()> {
        let since = ledger.now();
        self.find_many(keys, &mut |number, value| {
            ledger.gave(since, keys[number], value);
            found(number, value);
        })?;
        keys.iter().for_each(|key| self.judge(ledger, key));
        Ok(())
    }

    /// Judges all that counts of a key that the ledger knows. What cannot be read is not judged.
    fn judge(&self, ledger: &Ledger, key: &[u8]) {
        if ledger.knows(key)
            && let Ok(Some(layers)) = self.layers(key)
        {
            ledger.judge(key, &layers);
        }
    }

    /// All that counts of a key, unless the version was replaced while it was read. What is older is read before what
    /// is younger, so that what a flush brings to pages or cache, and has not published, is met in its memtable.
    fn layers(&self, key: &[u8]) -> Result<Option<Layers>> {
        let (version, mut layers, mut value) = (self.version(), Layers::default(), Vec::new());
        if let Some(base) = self.base().filter(|_| version.covers().at(key).is_some())
            && base.find(key, &mut value)?
        {
            layers.below = Some(Met::new(Some(&value), None));
        }
        for handle in version.counting(key).filter_map(|run| run.covering(key)) {
            layers.tables.extend(self.met_in(handle, key)?);
        }
        value.clear();
        let is_cached = self.front().is_some_and(|front| front.look(key, &mut value) == Look::Found);
        let cached = is_cached.then(|| Met::new(Some(&value), None));
        let pin = self.present.pin();
        let view = self.present.load(&pin);
        for member in &view.memtables {
            value.clear();
            let record = member.memtable.get(self.hash(key), key, &mut value);
            layers.above.extend(
                record.map(|(answer, seq)| Met::new((answer == Answer::Value).then_some(&value[..]), Some(seq))),
            );
        }
        layers.above.extend(cached);
        Ok(Arc::ptr_eq(&view.version, &version).then_some(layers))
    }

    /// What a table has of a key, asked without its filter.
    fn met_in(&self, handle: &Handle, key: &[u8]) -> Result<Option<Met>> {
        let (table, mut value) = (handle.table(), Vec::new());
        let mut memory = table.memory_for_a_block(self.files.environment())?;
        let answer = table.find(handle.load_and_locate(key)?, key, &mut memory, &mut value)?;
        Ok(answer.map(|answer| Met::new((answer == Answer::Value).then_some(&value[..]), None)))
    }
}
