//! Larger sets of keys made from real ones, with the same local shape.

mod cells;
mod gaps;
mod pickups;
#[cfg(test)]
mod tests;

use std::{
    fs,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

use super::{
    numbers,
    source::{Format, Source},
    words::{U64File, Writer},
};
use crate::{
    error::{Context, Result},
    measure::permutation::mix,
};

/// The number of keys wanted, and the random seed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Scale {
    pub(crate) keys: u64,
    pub(crate) seed: u64,
}

/// The kind of a set, which determines how it is scaled.
enum Kind {
    /// Sorted: scaled by its gaps.
    Sorted,
    /// With arrival times in this file.
    Timed(PathBuf),
}

/// Creates the keys in a plain file in `directory`, or reuses those of an earlier run.
pub(super) fn scale(source: Source, directory: &Path, scale: Scale) -> Result<U64File> {
    let name = source.path.display().to_string();
    if source.format == Format::Text {
        return Err(format!("{name} has strings, and only numbers can be scaled; leave --scale-keys out").into());
    }
    let path = directory.join(file_name(&source.path, scale)?);
    if path.exists() {
        return U64File::open(path);
    }
    let times = times(&source.path);
    let keys = numbers::unpack(source, directory)?;
    if scale.keys < keys.count() {
        return Err(format!("--scale-keys is {}, and {name} has {} keys already", scale.keys, keys.count()).into());
    }
    let new = path.with_extension("new");
    let mut target = Writer::create(new.clone())?;
    match kind(&keys, times, &name)? {
        Kind::Sorted => gaps::scale(&keys, scale.keys, scale.seed, &mut target)?,
        Kind::Timed(times) => pickups::scale(&keys, &times, directory, scale.keys, scale.seed, &mut target)?,
    }
    target.finish()?;
    fs::rename(&new, &path).context("write", &path)?;
    U64File::open(path)
}

/// The file name; equal parameters give equal names.
fn file_name(source: &Path, scale: Scale) -> Result<String> {
    let metadata = fs::metadata(source).context("read", source)?;
    let path = fs::canonicalize(source).context("find", source)?;
    let words = path.as_os_str().as_encoded_bytes().iter().map(|byte| u64::from(*byte)).chain([
        metadata.len(),
        scale.keys,
        scale.seed,
    ]);
    Ok(format!("keys.scaled-{:016x}.u64", words.fold(0, |state, word| mix(state ^ word))))
}

/// The file with the times of a set's keys, if there is one: `NAME.ts.u32` or `NAME.ts.u32.zst` beside `NAME.u64`.
fn times(source: &Path) -> Option<PathBuf> {
    let name = source.file_name()?.to_str()?;
    let stem = name.split_once(".u64")?.0;
    [".ts.u32", ".ts.u32.zst"]
        .iter()
        .map(|end| source.with_file_name(format!("{stem}{end}")))
        .find(|file| file.exists())
}

fn kind(keys: &U64File, times: Option<PathBuf>, name: &str) -> Result<Kind> {
    if let Some(times) = times {
        return Ok(Kind::Timed(times));
    }
    let (mut sorted, mut last) = (keys.count() > 1, 0);
    keys.scan(|window| {
        sorted &= window.first().is_some_and(|first| last <= *first) && window.is_sorted();
        last = window[window.len() - 1];
        Ok(())
    })?;
    if !sorted {
        let text = "is not sorted, and has no times beside it (NAME.ts.u32 for NAME.u64); other sets cannot be scaled";
        return Err(format!("{name} {text}").into());
    }
    Ok(Kind::Sorted)
}
