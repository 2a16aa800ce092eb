//! Hashed keyspaces over the files of the append-only engine. They offer reads of single keys, and a walk over all
//! records in no useful order.

use std::{
    collections::VecDeque,
    hash::{BuildHasher, BuildHasherDefault, DefaultHasher},
    sync::Arc,
};

use ecotone_engine::contract::{
    AnyEngine, Context, Engine, EngineCheckpoint, EngineFactory, Get, Hashed, Operation, UnorderedCursor, UpdateAction,
    UpdateFn,
};
use ecotone_substrate::Result;

use super::{Content, CopyCursor, append_only::AppendOnly, refuse_settings};

/// Makes keyspaces whose keys have no order.
#[derive(Debug, Default)]
pub struct TinyHashed;

impl EngineFactory for TinyHashed {
    fn name(&self) -> &'static str {
        "tiny-hashed"
    }

    fn check(&self, settings: &[(String, String)]) -> Result<()> {
        refuse_settings(settings)
    }

    fn is_ordered(&self) -> bool {
        false
    }

    fn create(&self, context: Context) -> Result<(AnyEngine, EngineCheckpoint)> {
        let engine = AppendOnly::create(context)?;
        let checkpoint = engine.checkpoint()?;
        Ok((AnyEngine::Hashed(Arc::new(engine)), checkpoint))
    }

    fn open(&self, context: Context, checkpoint: &EngineCheckpoint) -> Result<AnyEngine> {
        Ok(AnyEngine::Hashed(Arc::new(AppendOnly::open(context, checkpoint)?)))
    }
}

/// The position of a key in a walk.
fn place(key: &[u8]) -> u64 {
    BuildHasherDefault::<DefaultHasher>::new().hash_one(key)
}

impl Hashed for AppendOnly {
    fn walk(self: Arc<Self>) -> Box<dyn UnorderedCursor> {
        let in_order = |content: Content| {
            let mut records: VecDeque<_> = content.into_iter().collect();
            records.make_contiguous().sort_by_key(|(key, _)| place(key));
            records
        };
        Box::new(CopyCursor::new(self.content().map(in_order)))
    }

    fn modify(&self, key: &[u8], change: &mut UpdateFn<'_>) -> Result<()> {
        let mut after = Vec::new();
        loop {
            let writes = self.writes_of(key);
            let before = self.get(key)?;
            after.clear();
            let value = match change(before.as_deref(), &mut after) {
                UpdateAction::Keep => return Ok(()),
                UpdateAction::Store => Some(after.as_slice()),
                UpdateAction::Delete => None,
            };
            if self.put_if(writes, Operation { key, value })? {
                return Ok(());
            }
        }
    }
}
