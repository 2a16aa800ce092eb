//! Each option reaches its engine, and the range of each is checked.

use super::{AdaptiveOptions, HashOptions, LsmOptions, TreeOptions};
use crate::options::{Compaction, Compression, ForecastKind, IndexKind, Insert, Model, PageFill, Split};

fn all_tree() -> TreeOptions {
    TreeOptions::default()
        .fill(75)
        .neighbours(3)
        .segment_pages(4)
        .model(Model::Greedy)
        .forecast(ForecastKind::Seasonal)
        .record_cache(false)
}

fn all_lsm() -> LsmOptions {
    LsmOptions::default()
        .index(IndexKind::Plr)
        .error(400)
        .filter_bits(4)
        .compression(Compression::Lz4)
        .memtable(1 << 20)
        .table(1 << 16)
}

#[test]
fn an_engine_reads_each_option_as_it_was_set() {
    let tree = ecotone_tree::TreeOptions {
        fill: 75,
        neighbours: 3,
        segment_pages: 4,
        model: Model::Greedy,
        forecast: ForecastKind::Seasonal,
        record_cache: false,
    };
    let lsm = ecotone_lsm::LsmOptions {
        index: Some(IndexKind::Plr),
        error: 400,
        memtable: Some(1 << 20),
        table: Some(1 << 16),
        filter_bits: 4,
        compression: Compression::Lz4,
    };
    let (insert, page_fill, split) = (Insert::Batch, PageFill::Spread, Split::Down);
    let adaptive = ecotone_adaptive::AdaptiveOptions { adapt: 5, insert, page_fill, split, lsm, tree };
    let hash = ecotone_hash::HashOptions {
        disk: Some(16 << 20),
        hot_disk: 7,
        compaction: Compaction::Scan,
        read_cache: false,
    };
    assert_eq!(ecotone_tree::TreeOptions::parse(&all_tree().0).unwrap(), tree);
    assert_eq!(ecotone_lsm::LsmOptions::parse(&all_lsm().0).unwrap(), lsm);
    let all = AdaptiveOptions::default().adapt(5).insert(insert).page_fill(page_fill).split(split);
    let all = all.lsm(all_lsm()).tree(all_tree());
    assert_eq!(ecotone_adaptive::AdaptiveOptions::parse(&all.0).unwrap(), adaptive);
    let all = HashOptions::default().disk(16 << 20).hot_disk(7).compaction(Compaction::Scan).read_cache(false);
    assert_eq!(ecotone_hash::HashOptions::parse(&all.creation.settings).unwrap(), hash);
    assert_eq!(ecotone_lsm::LsmOptions::parse(&LsmOptions::default().index(None).0).unwrap().index, None);
}

#[test]
fn a_value_out_of_its_range_is_named_with_the_option_and_the_range() {
    let refused = [
        ecotone_tree::TreeOptions::parse(&TreeOptions::default().fill(101).0).err(),
        ecotone_tree::TreeOptions::parse(&TreeOptions::default().neighbours(17).0).err(),
        ecotone_tree::TreeOptions::parse(&TreeOptions::default().segment_pages(0).0).err(),
        ecotone_lsm::LsmOptions::parse(&LsmOptions::default().error(399).0).err(),
        ecotone_lsm::LsmOptions::parse(&LsmOptions::default().filter_bits(33).0).err(),
        ecotone_lsm::LsmOptions::parse(&LsmOptions::default().memtable(1).0).err(),
        ecotone_lsm::LsmOptions::parse(&LsmOptions::default().table(1 << 27).0).err(),
        ecotone_adaptive::AdaptiveOptions::parse(&AdaptiveOptions::default().adapt(101).0).err(),
        ecotone_hash::HashOptions::parse(&HashOptions::default().disk(1).creation.settings).err(),
        ecotone_hash::HashOptions::parse(&HashOptions::default().hot_disk(u64::MAX).creation.settings).err(),
    ];
    let expected = [
        "the option fill is \"101\", and must be a number from 50 to 100",
        "the option neighbours is \"17\", and must be a number from 0 to 16",
        "the option segment_pages is \"0\", and must be a number from 1 to 16",
        "the option error is \"399\", and must be a number from 400 to 16384",
        "the option filter_bits is \"33\", and must be a number from 0 to 32",
        "the option memtable is \"1\", and must be a number from 1048576 to 67108864",
        "the option table is \"134217728\", and must be a number from 65536 to 67108864",
        "the option adapt is a percentage from 0 to 100, not \"101\"",
        "the option disk is \"1\", and must be a number of bytes from 16777216 to 1152921504606846976",
        "the option hot_disk is \"18446744073709551615\", and must be a number of bytes from 0 to 1099511627776",
    ];
    assert_eq!(refused.map(|error| error.expect("it is out of range").to_string()), expected);
}
