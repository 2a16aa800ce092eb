//! A process that was forked off from the one that opened a database touches nothing of it. In a process of its own:
//! what another thread of the original holds at the moment of the fork nobody gives back in the copy.

#![cfg(all(not(feature = "shuttle"), not(feature = "bugs")))]

#[path = "it/each.rs"]
mod each;
#[path = "it/either.rs"]
mod either;

use ecotone::{Engine, Error, KeyspaceOptions, Result};
use ecotone_sys::process::in_a_fork;

use crate::{
    each::{ENGINES, check, fill, keyspace, open},
    either::{Either, either},
};

#[test]
fn a_process_that_was_forked_off_gets_errors_and_its_drops_do_nothing() {
    for engine in ENGINES {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("db");
        let database = open(&path).unwrap();
        let ks = keyspace(&database, engine);
        fill(&ks, 0);
        let mut held = Some((database.clone(), keyspace(&database, engine)));
        let mut records = match &ks {
            Either::Ordered(ks) => Some(ks.iter()),
            Either::Hashed(_) => None,
        };
        records.as_mut().map(|records| records.next());
        let ended = in_a_fork(|| {
            let (database, ks) = held.take().unwrap();
            let forked = |error: Option<Error>| matches!(error, Some(Error::Forked));
            let mut are_refused = either!(&ks, ks => {
                let swapped = ks.compare_and_swap("a", None, Some(b"b")).err();
                forked(ks.get("a").err()) && forked(ks.insert("a", "b").err()) && forked(ks.multi_get(["a"]).err())
                    && forked(swapped) && forked(ks.iter().next().and_then(Result::err))
            });
            are_refused &= forked(database.flush().err()) && forked(database.verify().err());
            are_refused &= forked(database.keyspace("other", KeyspaceOptions::default().engine(Engine::Tree)).err())
                && forked(database.sync().err());
            are_refused &=
                database.keyspaces().is_empty() && database.stats().failure.is_some() && database.failure().is_some();
            let mut batch = database.batch();
            either!(&ks, ks => batch.insert(ks, "a", "b"));
            are_refused &= forked(batch.commit().err());
            if let Some(mut records) = records.take() {
                are_refused &= forked(records.next().and_then(Result::err)) && records.next().is_none();
            }
            drop(ks);
            are_refused &= forked(database.close().err());
            // One of its own it may have.
            let own = open(&directory.path().join("own")).unwrap();
            own.keyspace("k", KeyspaceOptions::default().engine(Engine::Tree)).unwrap().insert("a", "b").unwrap();
            own.close().unwrap();
            u8::from(are_refused)
        });
        assert_eq!(ended.unwrap(), Some(1), "{engine}");
        fill(&ks, 3000);
        database.flush().unwrap();
        check(&ks, 6000);
        drop((ks, held, records));
        database.close().unwrap();
        let database = open(&path).unwrap();
        check(&keyspace(&database, engine), 6000);
        database.verify().unwrap();
    }
}
