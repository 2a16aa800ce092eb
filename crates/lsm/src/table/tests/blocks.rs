//! Blocks of records of every size: written records are found, absent ones are not.

use rand::SeedableRng;

use crate::table::tests::*;

/// Fills a block with as many of these as fit.
fn fill(size: usize, records: &Records, take: impl FnOnce(Block<'_>, Records)) {
    let mut builder = BlockBuilder::new(&Memory::new(16 << 20), size, Compression::None).unwrap();
    let fits = records.iter().take_while(|(key, value)| builder.push(key, value.as_deref()));
    let inside: Records = fits.map(|(key, value)| (key.clone(), value.clone())).collect();
    builder.finish(NAME.place(5), |bytes| take(Block::parse(bytes, NAME.place(5)).unwrap(), inside));
}

/// The expected answer of a block for a key.
fn expected<'r>(records: &'r Records, key: &[u8]) -> BlockSearch<'r> {
    let (first, last) = (records.keys().next().unwrap(), records.keys().next_back().unwrap());
    match records.get(key) {
        Some(value) => BlockSearch::Found(value.as_deref()),
        None if key < &first[..] => BlockSearch::Before,
        None if key > &last[..] => BlockSearch::After,
        None => BlockSearch::Within,
    }
}

#[test]
fn blocks_of_every_size_of_record_say_what_they_have() {
    let mut random = SmallRng::seed_from_u64(1);
    for (size, record) in [4096, 8192, 16384]
        .into_iter()
        .flat_map(|size| [1, 2, 9, 20, 108, 300, 700, 1024, 1900].map(|record| (size, record)))
    {
        let records = sized(&mut random, 3000, record);
        fill(size, &records, |block, inside| {
            block.check().unwrap();
            assert_eq!(block.len(), inside.len());
            let mut seen = Records::new();
            block
                .each(|key, value| {
                    seen.insert(key.to_vec(), value.map(<[u8]>::to_vec));
                    Ok(())
                })
                .unwrap();
            assert_eq!(seen, inside);
            for key in inside.keys() {
                let (shorter, longer) = (&key[..key.len() - 1], [&key[..], &[0]].concat());
                for key in [key, shorter, &longer, &bytes(&mut random, 3)] {
                    assert_eq!(block.find(key).unwrap(), expected(&inside, key), "{key:?}");
                }
            }
        });
    }
}

#[test]
fn as_many_records_lie_in_a_block_as_the_decision_says() {
    for (key, count) in [(8, 37), (16, 34), (32, 30), (64, 24)] {
        let mut random = SmallRng::seed_from_u64(2);
        // Adjacent keys of ten million random ones share two bytes, and often a part of the third.
        let keys = (0..64_u64).map(|number| (number * 1_720_000_000_000 + (1 << 50)).to_be_bytes());
        let records =
            keys.map(|start| ([&start[..], &bytes(&mut random, key - 8)].concat(), Some(vec![7; 100]))).collect();
        fill(4096, &records, |block, _| assert_eq!(block.len(), count, "keys of {key}"));
    }
}

#[test]
fn a_block_in_another_place_does_not_verify() {
    let mut builder = BlockBuilder::new(&Memory::new(16 << 20), 4096, Compression::None).unwrap();
    assert!(builder.push(b"key", Some(b"value")));
    builder.finish(NAME.place(5), |bytes| {
        assert!(Block::parse(bytes, NAME.place(5)).is_ok());
        for place in
            [NAME.place(6), FileIdentity { birth: 42, ..NAME }.place(5), FileIdentity { number: 8, ..NAME }.place(5)]
        {
            assert!(Block::parse(bytes, place).is_err());
        }
        assert!(Block::parse(&bytes[..4095], NAME.place(5)).is_err());
    });
}
