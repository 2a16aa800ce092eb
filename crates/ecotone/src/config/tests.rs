//! Each option comes back from its settings, and the range of each is checked.

use ecotone_adaptive::AdaptiveOptions;
use ecotone_engine::options::EngineOptions;
use ecotone_hash::HashOptions;
use ecotone_lsm::LsmOptions;
use ecotone_tree::TreeOptions;

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
    assert_eq!(TreeOptions::parse(&all_tree().settings()).unwrap(), all_tree());
    assert_eq!(all_tree().settings().len(), 6, "none of them is the default");
    assert_eq!(LsmOptions::parse(&all_lsm().settings()).unwrap(), all_lsm());
    assert_eq!(all_lsm().settings().len(), 6, "none of them is the default");
    let all = AdaptiveOptions::default().adapt(5).insert(Insert::Batch).page_fill(PageFill::Spread).split(Split::Down);
    let all = all.lsm(all_lsm()).tree(all_tree());
    assert_eq!(AdaptiveOptions::parse(&all.settings()).unwrap(), all);
    assert_eq!(all.settings().len(), 16, "none of them is the default");
    let all = HashOptions::default().disk(16 << 20).hot_disk(7).compaction(Compaction::Scan).read_cache(false);
    assert_eq!(HashOptions::parse(&all.settings()).unwrap(), all);
    assert_eq!(all.settings().len(), 4, "none of them is the default");
    let auto = LsmOptions::default().index(None);
    assert_eq!(LsmOptions::parse(&auto.settings()).unwrap(), auto);
}

#[test]
fn options_are_stored_by_name_and_those_with_their_default_are_not() {
    let settings = |settings: &[(&str, &str)]| -> Vec<_> {
        settings.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    };
    assert_eq!(TreeOptions::default().fill(90).settings(), settings(&[]));
    assert_eq!(
        TreeOptions::default().record_cache(false).fill(75).settings(),
        settings(&[("fill", "75"), ("record_cache", "off")])
    );
    let tables = LsmOptions::default().memtable(1 << 20).index(None);
    assert_eq!(
        AdaptiveOptions::default().lsm(tables).split(Split::Down).settings(),
        settings(&[("split", "down"), ("index", "auto"), ("memtable", "1048576")])
    );
    assert_eq!(HashOptions::default().disk(16 << 20).settings(), settings(&[("disk", "16777216")]));
}

#[test]
fn a_value_out_of_its_range_is_named_with_the_option_and_the_range() {
    let refused = [
        TreeOptions::default().fill(101).check().err(),
        TreeOptions::default().neighbours(17).check().err(),
        TreeOptions::default().segment_pages(0).check().err(),
        LsmOptions::default().error(399).check().err(),
        LsmOptions::default().filter_bits(33).check().err(),
        LsmOptions::default().memtable(1).check().err(),
        LsmOptions::default().table(1 << 27).check().err(),
        AdaptiveOptions::default().adapt(101).check().err(),
        HashOptions::default().disk(1).check().err(),
        HashOptions::default().hot_disk(u64::MAX).check().err(),
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
