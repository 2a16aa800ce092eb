//! The stories of [`story`](crate::story), without a bug.

use crate::story::{former_life, story};

#[test]
fn a_prefix_with_everything_acknowledged_survives_every_life() {
    let tell = |seed| {
        println!("seed {seed}");
        story(seed, 12)
    };
    let recoveries: usize = (0..150).map(tell).sum();
    assert!(recoveries > 150 * 6, "{recoveries} recoveries went through");
}

#[test]
fn what_a_former_life_left_behind_the_end_does_not_count() {
    former_life();
}
