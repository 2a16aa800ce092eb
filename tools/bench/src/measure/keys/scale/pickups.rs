//! Scales a set of taxi pick-ups up, in the order of arrival.
//!
//! Every real pick-up is replayed in random weeks of a longer stream, at its own hour of the week, and moved by some
//! metres. The stream is made hour by hour, so that only the pick-ups of one hour are in memory.

use std::{fs::File, os::unix::fs::FileExt, path::Path};

use rand::{RngExt, SeedableRng, rngs::SmallRng};
use rand_distr::{Distribution, Normal};

use super::cells::Cell;
use crate::{
    error::{Context, Result},
    measure::{
        keys::{
            Source,
            numbering::Numbering,
            words::{U64File, WINDOW, Writer},
        },
        permutation::mix,
    },
};

/// Weeks of the stream.
const WEEKS: i64 = 52;
/// Hours of a week.
const HOURS: usize = 168;
const HOUR: i64 = 3600;
/// Seconds from the Monday before the Unix epoch to the epoch, which was a Thursday.
const FIRST_MONDAY: u64 = 3 * 24 * 3600;
/// A replay is up to this many seconds early or late.
const EARLY: i64 = 300;
/// Standard deviation of a replay's position, in leaf cells: 12 m.
const AWAY: f64 = 12.0 / 0.0093;
/// The distance between the ids of neighbouring leaf cells.
const NEXT_CELL: u64 = 2;
/// Name of the file of pick-ups by their hour of the week.
const BY_HOUR: &str = "keys.by-hour";
/// Words of a buffer for the pick-ups of an hour.
const BUFFER: usize = 512;

/// Writes `wanted` keys, at least as many as there are pick-ups. `times` holds the Unix seconds of each, as 32-bit
/// numbers.
pub(super) fn scale(
    keys: &U64File,
    times: &Path,
    directory: &Path,
    wanted: u64,
    seed: u64,
    target: &mut Writer,
) -> Result<()> {
    let hours = Hours::sort(keys, times, directory)?;
    let (mut stream, mut taken) = (Stream::new(&hours, keys.count(), wanted, seed)?, Numbering::new(directory)?);
    while let Some(mut key) = stream.next()? {
        while !taken.number(key)?.1 {
            key = key.wrapping_add(NEXT_CELL);
        }
        target.push(key)?;
        if taken.count() == wanted {
            return Ok(());
        }
    }
    Err(format!("the pick-ups of {} gave only {} keys", keys.path().display(), taken.count()).into())
}

/// The pick-ups by their hour of the week, in a file: two words each, the key and the second of the week.
struct Hours {
    words: U64File,
    /// The first pick-up of each hour, and the end of the last hour.
    starts: Vec<u64>,
}

impl Hours {
    fn sort(keys: &U64File, times: &Path, directory: &Path) -> Result<Self> {
        let mut counts = vec![0u64; HOURS];
        each(keys, times, |_, second| {
            counts[hour(second)] += 1;
            Ok(())
        })?;
        let mut starts = vec![0];
        counts.iter().for_each(|count| starts.push(starts[starts.len() - 1] + count));
        let path = directory.join(BY_HOUR);
        let mut sections = Sections::create(&path, &starts)?;
        each(keys, times, |key, second| sections.push(hour(second), [key, second]))?;
        (0..HOURS).try_for_each(|hour| sections.flush(hour))?;
        let words = U64File::open(path)?;
        std::fs::remove_file(words.path()).context("remove", words.path())?;
        Ok(Hours { words, starts })
    }

    /// Passes the number, the key and the second of the week of each pick-up of an hour to `visit`.
    fn of(&self, hour: usize, mut visit: impl FnMut(u64, Cell, i64)) -> Result<()> {
        let mut window = vec![0; WINDOW];
        let (from, to) = (self.starts[hour], self.starts[hour + 1]);
        for first in (from..to).step_by(WINDOW / 2) {
            let words = &mut window[..2 * (to - first).min(WINDOW as u64 / 2) as usize];
            self.words.read(2 * first, words)?;
            for (number, pickup) in (first..).zip(words.as_chunks::<2>().0) {
                let cell = Cell::from_id(pickup[0]).expect("checked when it was written");
                visit(number, cell, pickup[1].cast_signed());
            }
        }
        Ok(())
    }
}

fn hour(second: u64) -> usize {
    (second / HOUR.cast_unsigned()) as usize
}

/// Passes the key and the second of the week of each pick-up to `visit`.
fn each(keys: &U64File, times: &Path, mut visit: impl FnMut(u64, u64) -> Result<()>) -> Result<()> {
    let (mut source, mut bytes) = (Source::open(times)?, vec![0; WINDOW * 4]);
    keys.scan(|window| {
        let bytes = &mut bytes[..window.len() * 4];
        if source.read(bytes)? < bytes.len() {
            return Err(format!("{} has fewer times than there are keys", times.display()).into());
        }
        for (key, time) in window.iter().zip(bytes.as_chunks().0) {
            if Cell::from_id(*key).is_none() {
                return Err(format!("{} has the key {key:#x}, which is no S2 leaf cell", keys.path().display()).into());
            }
            let week = HOURS as u64 * HOUR.cast_unsigned();
            visit(*key, (u64::from(u32::from_le_bytes(*time)) + FIRST_MONDAY) % week)?;
        }
        Ok(())
    })
}

/// A file with one write position for each hour.
struct Sections<'a> {
    file: File,
    path: &'a Path,
    buffers: Vec<Vec<u64>>,
    /// The word at which the next buffer of each hour goes.
    places: Vec<u64>,
}

impl<'a> Sections<'a> {
    fn create(path: &'a Path, starts: &[u64]) -> Result<Self> {
        let places = starts[..HOURS].iter().map(|start| 2 * start).collect();
        Ok(Sections {
            file: File::create(path).context("create", path)?,
            path,
            buffers: vec![Vec::new(); HOURS],
            places,
        })
    }

    fn push(&mut self, hour: usize, pickup: [u64; 2]) -> Result<()> {
        self.buffers[hour].extend(pickup);
        if self.buffers[hour].len() >= BUFFER { self.flush(hour) } else { Ok(()) }
    }

    fn flush(&mut self, hour: usize) -> Result<()> {
        let (buffer, place) = (&mut self.buffers[hour], &mut self.places[hour]);
        let bytes: Vec<u8> = buffer.iter().flat_map(|word| word.to_le_bytes()).collect();
        self.file.write_all_at(&bytes, *place * 8).context("write", self.path)?;
        *place += buffer.len() as u64;
        buffer.clear();
        Ok(())
    }
}

/// The replayed pick-ups in time order.
struct Stream<'a> {
    hours: &'a Hours,
    copies: u64,
    seed: u64,
    rng: SmallRng,
    away: Normal<f64>,
    /// Number of hours generated so far.
    made: i64,
    /// Time and key of generated pick-ups that were not returned yet, the latest first.
    pending: Vec<(i64, u64)>,
}

impl<'a> Stream<'a> {
    fn new(hours: &'a Hours, pickups: u64, wanted: u64, seed: u64) -> Result<Self> {
        let (rng, away) = (SmallRng::seed_from_u64(seed), Normal::new(0.0, AWAY)?);
        Ok(Stream { hours, copies: wanted.div_ceil(pickups), seed: mix(seed), rng, away, made: 0, pending: Vec::new() })
    }

    /// The next key; `None` at the end of the stream.
    fn next(&mut self) -> Result<Option<u64>> {
        // Pick-ups of later hours may be early.
        while self.pending.last().is_none_or(|(time, _)| *time >= self.made * HOUR - EARLY)
            && self.made < WEEKS * HOURS as i64
        {
            self.make_hour()?;
        }
        Ok(self.pending.pop().map(|(_, key)| key))
    }

    fn make_hour(&mut self) -> Result<()> {
        let (week, hour) = (self.made / HOURS as i64, self.made % HOURS as i64);
        let Stream { hours, copies, seed, rng, away, pending, .. } = self;
        hours.of(hour as usize, |number, cell, second| {
            let replays = (0..*copies).filter(|copy| week_of(*seed, number * *copies + copy) == week);
            for _ in replays {
                let time = week * HOURS as i64 * HOUR + second + rng.random_range(-EARLY..=EARLY);
                let place = cell.moved(away.sample(rng).round() as i64, away.sample(rng).round() as i64);
                pending.push((time, place.id()));
            }
        })?;
        pending.sort_by_key(|(time, _)| std::cmp::Reverse(*time));
        self.made += 1;
        Ok(())
    }
}

/// The week of a replay.
fn week_of(seed: u64, replay: u64) -> i64 {
    (mix(seed ^ replay) % WEEKS.cast_unsigned()).cast_signed()
}
