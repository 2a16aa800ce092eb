//! Each known bug of the log is caught by the stories that the log passes without it.
#![cfg(feature = "bugs")]

#[path = "log/fixture.rs"]
#[allow(dead_code, reason = "the stories need a part of it")]
mod fixture;
#[path = "log/story.rs"]
mod story;

use ecotone_substrate::bug::{Bug, switch};

#[test]
fn every_bug_is_caught() {
    let bugs = [
        Bug::AcknowledgeBeforeSync,
        Bug::LengthBeforeChecksum,
        Bug::ReuseSequence,
        Bug::IgnoreIncarnation,
        Bug::SkipRecoverySync,
        Bug::RecycleLogEarly,
        Bug::SkipDirSync,
        Bug::RetryFailedSync,
        Bug::NameSuccessorEarly,
    ];
    std::panic::set_hook(Box::new(|_| {}));
    let escaped: Vec<Bug> = bugs.into_iter().filter(|&bug| !caught(bug)).collect();
    let _ = std::panic::take_hook();
    assert!(escaped.is_empty(), "not caught: {escaped:?}");
}

fn caught(bug: Bug) -> bool {
    switch(bug);
    let tell = |seed| {
        // A write blanks the rest of its page, so only a crash that tears a page between two records brings a former
        // life there.
        if bug == Bug::IgnoreIncarnation { story::former_life() } else { _ = story::story(seed, 12) }
    };
    let found = (0..3000).find(|&seed| std::panic::catch_unwind(|| tell(seed)).is_err());
    switch(Bug::None);
    println!("{bug:?} is caught by seed {found:?}");
    found.is_some()
}
