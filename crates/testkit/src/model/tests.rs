use rand::{RngExt, SeedableRng, rngs::SmallRng};

use super::*;

fn put(key: &str, value: &str) -> Change {
    ((0, key.into()), Some(value.into()))
}

fn del(key: &str) -> Change {
    ((0, key.into()), None)
}

fn content(pairs: &[(&str, &str)]) -> Vec<(Key, Vec<u8>)> {
    pairs.iter().map(|(key, value)| ((0, key.as_bytes().to_vec()), value.as_bytes().to_vec())).collect()
}

fn history() -> Model {
    let mut model = Model::new();
    model.record(vec![put("a", "1")], Level::Sync);
    model.record(vec![put("b", "1")], Level::Buffered);
    model.record(vec![put("a", "2"), del("b")], Level::None);
    model.record(vec![put("c", "1")], Level::InDoubt);
    model
}

#[test]
fn each_prefix_from_the_guaranteed_one_on_is_accepted() {
    let model = history();
    let states = [
        content(&[]),
        content(&[("a", "1")]),
        content(&[("a", "1"), ("b", "1")]),
        content(&[("a", "2")]),
        content(&[("a", "2"), ("c", "1")]),
    ];
    for (ending, guaranteed) in [(Ending::PowerLoss, 1), (Ending::ProcessDeath, 2), (Ending::Closed, 3)] {
        for (length, state) in states.iter().enumerate() {
            let verdict = model.check_recovered(ending, state.clone());
            assert_eq!(verdict.ok(), (length >= guaranteed).then_some(length), "{ending:?} and {length} writes");
        }
    }
}

#[test]
fn what_is_no_prefix_is_refused_and_explained() {
    let model = history();
    let halves =
        [content(&[("a", "2"), ("b", "1")]), content(&[("a", "1"), ("c", "1")]), content(&[("a", "1"), ("x", "0")])];
    for half in halves {
        assert!(model.check_recovered(Ending::PowerLoss, half).is_err());
    }
    let message = model.check_recovered(Ending::PowerLoss, content(&[("a", "2"), ("b", "9")])).unwrap_err();
    for part in [
        "no prefix of 1 to 4 writes",
        "3 writes come nearest",
        "key b: expected nothing, got \"9\"",
        "write 1 (Buffered)",
    ] {
        assert!(message.contains(part), "{message}");
    }
}

#[test]
fn keyspaces_share_one_history() {
    let mut model = Model::new();
    model.record(vec![((1, b"k".to_vec()), Some(b"x".to_vec()))], Level::None);
    model.record(vec![((2, b"k".to_vec()), Some(b"y".to_vec()))], Level::None);
    let second_only = vec![((2, b"k".to_vec()), b"y".to_vec())];
    assert!(model.check_recovered(Ending::PowerLoss, second_only).is_err());
    assert_eq!(model.get(2, b"k"), Some(&b"y".to_vec()));
}

#[test]
fn a_key_given_twice_is_refused() {
    let mut twice = content(&[("a", "1")]);
    twice.extend(content(&[("a", "1")]));
    assert!(history().check_recovered(Ending::PowerLoss, twice).unwrap_err().contains("twice"));
}

#[test]
fn promises_can_be_raised_later_and_a_restart_promises_all() {
    let mut model = history();
    model.acknowledge(3, Level::Sync);
    assert!(model.check_recovered(Ending::PowerLoss, content(&[("a", "2")])).is_err());
    let mut model = history();
    model.acknowledge_all(Level::Sync);
    assert!(model.check_recovered(Ending::PowerLoss, content(&[("a", "1")])).is_err());

    let mut model = history();
    assert!(model.restart(Ending::PowerLoss, content(&[])).is_err());
    assert_eq!(model.len(), 4, "a refused restart changes nothing");
    assert_eq!(model.restart(Ending::PowerLoss, content(&[("a", "2")])), Ok(3));
    assert!(model.is_empty() && model.now().len() == 1);
    assert!(model.check_recovered(Ending::PowerLoss, content(&[("a", "1")])).is_err());
    assert_eq!(model.check_recovered(Ending::PowerLoss, content(&[("a", "2")])), Ok(0));
}

#[test]
fn agrees_with_trying_every_prefix() {
    for seed in 0..300 {
        let mut random = SmallRng::seed_from_u64(seed);
        let mut model = Model::new();
        for _ in 0..random.random_range(1..20) {
            let level = [Level::InDoubt, Level::None, Level::Buffered, Level::Sync][random.random_range(0..4)];
            let change = |random: &mut SmallRng| {
                let value = random.random_bool(0.7).then(|| vec![random.random_range(0..2)]);
                ((0, vec![random.random_range(0..4)]), value)
            };
            model.record((0..random.random_range(1..4)).map(|_| change(&mut random)).collect(), level);
        }
        let found: State = (0..4).filter(|_| random.random_bool(0.5)).map(|key| ((0, vec![key]), vec![0])).collect();
        for ending in [Ending::Closed, Ending::ProcessDeath, Ending::PowerLoss] {
            let mut lengths = model.guaranteed(ending)..=model.len();
            let expected = lengths.find(|length| model.state_after(*length) == found);
            assert_eq!(model.check_recovered(ending, found.clone()).ok(), expected, "seed {seed}");
        }
    }
}
