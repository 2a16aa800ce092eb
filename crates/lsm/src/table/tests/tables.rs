//! Whole tables: written, opened, searched, checked.

use rand::SeedableRng;

use crate::table::tests::*;

#[test]
fn what_is_written_is_found_after_opening() {
    let mut random = SmallRng::seed_from_u64(1);
    for (record, count) in [(1, 200), (20, 5000), (108, 3000), (1024, 300), (1900, 100), (50, 1)] {
        let records = sized(&mut random, count, record);
        for kind in IndexKind::ALL {
            for block in [4096, 16384] {
                let disk = SimStorage::new(1);
                let environment = environment(&disk);
                let written = write(&environment, NAME, options(kind, block), &records).unwrap().unwrap();
                let table = Arc::new(Table::open(&environment, NAME).unwrap());
                assert_eq!(table.header, written.header);
                assert_eq!((table.records(), table.sequences()), (records.len() as u64, SEQUENCES));
                assert_eq!(table.tombstones(), records.values().filter(|value| value.is_none()).count() as u64);
                table.check(&environment, &hash).unwrap();
                let (index, filter) = (
                    index_of(&table, &environment).unwrap(),
                    table.filter(&environment, &frames(&environment)).unwrap(),
                );
                let mut memory = table.memory_for_a_block(&environment).unwrap();
                for (key, value) in &records {
                    assert!(table.covers(key) && filter.may_have(hash(key)));
                    assert_eq!(ask(&table, &index, key, &mut memory).unwrap().as_ref(), Some(value));
                    let longer = [&key[..], &[0]].concat();
                    if table.covers(&longer) && !records.contains_key(&longer) {
                        assert_eq!(ask(&table, &index, &longer, &mut memory).unwrap(), None);
                    }
                }
            }
        }
    }
}

#[test]
fn a_key_is_found_by_one_read() {
    let records = usual(60_000);
    for (kind, most) in
        [(IndexKind::Single, 1.0), (IndexKind::Partitioned, 1.0), (IndexKind::Linear, 1.01), (IndexKind::Plr, 1.25)]
    {
        let disk = SimStorage::new(1);
        let environment = environment(&disk);
        let table = write(&environment, NAME, options(kind, 4096), &records).unwrap().unwrap();
        let (index, mut memory) =
            (index_of(&table, &environment).unwrap(), table.memory_for_a_block(&environment).unwrap());
        let before = disk.io_index();
        records
            .iter()
            .for_each(|(key, value)| assert_eq!(ask(&table, &index, key, &mut memory).unwrap().as_ref(), Some(value)));
        let reads = (disk.io_index() - before) as f64 / records.len() as f64;
        assert!(index.kind() == kind && reads <= most, "{kind:?}: {reads} reads a key");
    }
}

#[test]
fn a_table_of_nothing_is_none() {
    let disk = SimStorage::new(1);
    let environment = environment(&disk);
    assert!(write(&environment, NAME, options(IndexKind::Linear, 4096), &Records::new()).unwrap().is_none());
    assert!(disk.files().is_empty());
}

#[test]
fn the_index_of_another_table_gives_no_wrong_answer() {
    let mut random = SmallRng::seed_from_u64(3);
    let disk = SimStorage::new(1);
    let environment = environment(&disk);
    let (one, other) = (sized(&mut random, 2000, 60), sized(&mut random, 2000, 60));
    for kind in IndexKind::ALL {
        let mine = write(&environment, NAME, options(kind, 4096), &one).unwrap().unwrap();
        let theirs =
            write(&environment, FileIdentity { number: 10, ..NAME }, options(kind, 4096), &other).unwrap().unwrap();
        let (index, mut memory) =
            (index_of(&theirs, &environment).unwrap(), mine.memory_for_a_block(&environment).unwrap());
        for (key, value) in &one {
            if index.locate(key).high < mine.blocks() {
                let answer = ask(&mine, &index, key, &mut memory).unwrap();
                assert!(answer.is_none() || answer.as_ref() == Some(value));
            }
        }
        storage::Storage::remove(&disk, NAME.file()).unwrap();
        storage::Storage::remove(&disk, theirs.name().file()).unwrap();
    }
}
