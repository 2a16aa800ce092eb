//! The small file that describes a benchmark directory, so that a finished load is reused and nothing else is.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

use super::{
    disk,
    keys::{Order, Scale},
};
use crate::{
    error::{Context, Result},
    row::{Load, StoreKind},
};

/// Name of the file.
const NAME: &str = "bench.json";
/// Files with this prefix are unpacked keys; every run recreates them.
const KEYS: &str = "keys.";

/// The parameters that must be equal for a store to be reused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) struct Parameters {
    pub(crate) store: StoreKind,
    pub(crate) records: u64,
    pub(crate) key_size: Option<usize>,
    pub(crate) value_size: usize,
    pub(crate) keys: Option<PathBuf>,
    /// The order of a file's keys, and the number that they were scaled to.
    pub(crate) order: Option<Order>,
    pub(crate) scale: Option<Scale>,
    /// Whether the records were updated after the load.
    pub(crate) prepared: bool,
    /// Whether the store has a log; `buffered` and `sync` can share a store, `none` needs its own.
    pub(crate) logged: bool,
    pub(crate) set: BTreeMap<String, String>,
}

/// The content of the file.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct State {
    pub(crate) parameters: Parameters,
    /// Whether the store holds exactly the records below `existing`.
    pub(crate) finished: bool,
    /// The number of runs so far; versions of later runs are higher.
    pub(crate) run: u32,
    /// Records that were loaded: fewer than asked for if a preparation was capped.
    pub(crate) loaded: u64,
    /// How a prepared state was made.
    pub(crate) preparation: Option<Load>,
    /// Number of existing records, including those that workloads inserted.
    pub(crate) existing: u64,
}

/// A benchmark directory.
#[derive(Debug)]
pub(crate) struct Directory {
    path: PathBuf,
}

impl Directory {
    /// Opens a directory, making it if it is missing.
    pub(crate) fn open(path: &Path) -> Result<Self> {
        fs::create_dir_all(path).context("create", path)?;
        Ok(Directory { path: path.to_owned() })
    }

    /// The directory for unpacked keys.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The store's directory.
    pub(crate) fn store(&self) -> PathBuf {
        self.path.join("db")
    }

    /// The state of a finished store with these parameters; `None` if there is no store. An unfinished store is
    /// removed. Anything else is an error.
    pub(crate) fn state(&self, wanted: &Parameters) -> Result<Option<State>> {
        let file = self.path.join(NAME);
        if !file.exists() {
            return self.check_empty().map(|()| None);
        }
        let text = fs::read_to_string(&file).context("read", &file)?;
        let state: State = serde_json::from_str(&text).context("understand", &file)?;
        let directory = self.path.display();
        if let Some((name, has, wants)) = difference(&state.parameters, wanted)? {
            return Err(format!(
                "the store in {directory} was made with {name} {has}, not {wants}; choose another --dir or remove it"
            )
            .into());
        }
        if !state.finished {
            return self.clear().map(|()| None);
        }
        Ok(Some(state))
    }

    /// Whether it holds an unfinished store: a load did not end, or a run that adds records or must survive a kill.
    pub(crate) fn is_unfinished(&self) -> bool {
        let text = fs::read_to_string(self.path.join(NAME));
        text.is_ok_and(|text| serde_json::from_str(&text).is_ok_and(|state: State| !state.finished))
    }

    /// Replaces the state.
    pub(crate) fn save(&self, state: &State) -> Result<()> {
        let (new, file) = (self.path.join("bench.json.new"), self.path.join(NAME));
        fs::write(&new, serde_json::to_string_pretty(state)?).context("write", &new)?;
        fs::rename(&new, &file).context("write", &file)
    }

    /// Removes the store and its state.
    pub(crate) fn clear(&self) -> Result<()> {
        let file = self.path.join(NAME);
        if self.store().exists() {
            fs::remove_dir_all(self.store()).context("remove", &self.store())?;
        }
        fs::remove_file(&file).context("remove", &file)
    }

    fn check_empty(&self) -> Result<()> {
        for entry in fs::read_dir(&self.path).context("read", &self.path)? {
            let name = entry.context("read", &self.path)?.file_name();
            if !name.to_string_lossy().starts_with(KEYS) && name != disk::DIRECTORY {
                let (directory, name) = (self.path.display(), name.to_string_lossy());
                return Err(format!("{directory} holds {name:?} and no finished store; choose an empty --dir").into());
            }
        }
        Ok(())
    }
}

/// The first parameter that differs, with both values.
fn difference(has: &Parameters, wants: &Parameters) -> Result<Option<(String, String, String)>> {
    let (has, wants) = (serde_json::to_value(has)?, serde_json::to_value(wants)?);
    let pairs = has.as_object().into_iter().flatten().map(|(name, value)| (name, value, &wants[name]));
    Ok(pairs
        .filter(|(_, has, wants)| has != wants)
        .map(|(name, has, wants)| (name.clone(), has.to_string(), wants.to_string()))
        .next())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parameters() -> Parameters {
        Parameters {
            store: StoreKind::Null,
            records: 10,
            key_size: Some(8),
            value_size: 56,
            keys: None,
            order: None,
            scale: None,
            prepared: false,
            logged: true,
            set: BTreeMap::new(),
        }
    }

    #[test]
    fn only_a_finished_store_of_the_same_parameters_is_used_again() {
        let temporary = tempfile::tempdir().unwrap();
        let directory = Directory::open(&temporary.path().join("new")).unwrap();
        assert!(directory.state(&parameters()).unwrap().is_none());
        let mut state =
            State { parameters: parameters(), finished: false, run: 3, loaded: 10, preparation: None, existing: 12 };
        directory.save(&state).unwrap();
        fs::create_dir(directory.store()).unwrap();
        assert!(directory.is_unfinished() && directory.state(&parameters()).unwrap().is_none());
        assert!(!directory.is_unfinished() && !directory.store().exists(), "the load begins anew");
        state.finished = true;
        directory.save(&state).unwrap();
        let found = directory.state(&parameters()).unwrap().unwrap();
        assert_eq!((found.run, found.existing), (3, 12));
        let other = Parameters { records: 11, ..parameters() };
        assert!(directory.state(&other).unwrap_err().to_string().contains("made with records 10, not 11"));
    }

    #[test]
    fn files_of_others_are_left_alone() {
        let temporary = tempfile::tempdir().unwrap();
        let directory = Directory::open(temporary.path()).unwrap();
        fs::write(temporary.path().join("keys.u64"), b"").unwrap();
        assert!(directory.state(&parameters()).unwrap().is_none());
        fs::write(temporary.path().join("thesis.txt"), b"").unwrap();
        assert!(directory.state(&parameters()).unwrap_err().to_string().contains("thesis.txt"));
    }
}
