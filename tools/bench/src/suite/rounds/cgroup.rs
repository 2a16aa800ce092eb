//! The cgroups of one child: a memory limit, and the kernel's accounts of memory and requests. Supports versions 1 and
//! 2.

use std::{
    fs, io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    process,
    sync::atomic::{AtomicU32, Ordering::Relaxed},
};

use rustix::fs::{major, minor};

use crate::{
    error::{Context, Result},
    measure::transfers::Accounts,
};

/// Where the hierarchies are mounted.
const ROOT: &str = "/sys/fs/cgroup";
/// A rate above that of any disk. Version 1 counts requests only if some limit is set.
const BOUNDLESS: &str = "1000000000000";

/// Names of the files about memory.
#[derive(Debug, Clone, Copy)]
struct Names {
    limit: &'static str,
    swap: &'static str,
    used: &'static str,
    peak: &'static str,
    /// The file with a line `oom_kill NUMBER`.
    events: &'static str,
}

const VERSION_1: Names = Names {
    limit: "memory.limit_in_bytes",
    swap: "memory.memsw.limit_in_bytes",
    used: "memory.usage_in_bytes",
    peak: "memory.max_usage_in_bytes",
    events: "memory.oom_control",
};
const VERSION_2: Names = Names {
    limit: "memory.max",
    swap: "memory.swap.max",
    used: "memory.current",
    peak: "memory.peak",
    events: "memory.events",
};

/// Cgroups that are removed when dropped. Without the right to create cgroups there are none, and nothing is limited or
/// counted.
#[derive(Debug)]
pub(super) struct Cgroup {
    names: Names,
    memory: Option<PathBuf>,
    io: Option<PathBuf>,
    is_limited: bool,
}

impl Cgroup {
    /// Creates the cgroups for a process with at most `limit` bytes of memory. A limit that cannot be set is no error:
    /// see [`Self::is_limited`].
    pub(super) fn new(limit: Option<u64>, disk: Option<&str>) -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let name = format!("ecotone-bench.{}.{}", process::id(), NUMBER.fetch_add(1, Relaxed));
        let mut group = if Path::new(ROOT).join("cgroup.controllers").exists() { unified(&name) } else { split(&name) };
        let memory = group.memory.as_ref().zip(limit);
        group.is_limited = memory.is_some_and(|(folder, limit)| set_limit(folder, group.names, limit).is_ok());
        if let (Some(folder), Some(disk)) = (&group.io, disk) {
            // Only version 1 has this file.
            let _ = write(folder, "blkio.throttle.read_bps_device", &format!("{disk} {BOUNDLESS}"));
        }
        group
    }

    /// Whether the requested memory limit is set.
    pub(super) fn is_limited(&self) -> bool {
        self.is_limited
    }

    /// Puts a process into the cgroups.
    pub(super) fn add(&self, process: u32) -> Result<()> {
        for folder in self.folders() {
            write(folder, "cgroup.procs", &process.to_string()).context("write to", folder)?;
        }
        Ok(())
    }

    /// The process's accounts.
    pub(super) fn accounts(&self, disk: Option<String>) -> Accounts {
        let memory = self.memory.as_ref().map(|folder| folder.join(self.names.used));
        Accounts { io: self.io.clone(), disk, memory }
    }

    /// The peak memory in use, in bytes.
    pub(super) fn peak(&self) -> Option<u64> {
        let text = fs::read_to_string(self.memory.as_ref()?.join(self.names.peak)).ok()?;
        text.trim().parse().ok()
    }

    /// Whether the kernel killed a process because of the limit.
    pub(super) fn ran_out(&self) -> bool {
        let Some(folder) = &self.memory else { return false };
        let file = folder.join(self.names.events);
        crate::measure::process::number(&file.to_string_lossy(), "oom_kill ").is_some_and(|kills| kills > 0)
    }

    fn folders(&self) -> impl Iterator<Item = &PathBuf> {
        let second = self.io.iter().filter(|folder| Some(*folder) != self.memory.as_ref());
        self.memory.iter().chain(second)
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        for folder in self.folders() {
            // If removal fails because a process cannot die, an empty cgroup stays behind, which does no harm.
            let _ = fs::remove_dir(folder);
        }
    }
}

/// Version 1: a folder in each hierarchy, below our own, so that limits over us hold for the child too.
fn split(name: &str) -> Cgroup {
    let make = |hierarchy: &str| {
        make(Path::new(ROOT).join(hierarchy).join(own(hierarchy)?.trim_start_matches('/')).join(name))
    };
    Cgroup { names: VERSION_1, memory: make("memory"), io: make("blkio"), is_limited: false }
}

/// Version 2: one folder below the root, because a cgroup that holds processes cannot have children with controllers.
fn unified(name: &str) -> Cgroup {
    let root = Path::new(ROOT);
    // This fails if the controllers are on already or may not be enabled. The folder's files show what is available.
    let _ = write(root, "cgroup.subtree_control", "+memory +io");
    let folder = make(root.join(name));
    let has = |file: &str| folder.clone().filter(|folder| folder.join(file).exists());
    Cgroup { names: VERSION_2, memory: has(VERSION_2.limit), io: has("io.stat"), is_limited: false }
}

fn make(folder: PathBuf) -> Option<PathBuf> {
    fs::create_dir(&folder).is_ok().then_some(folder)
}

/// Our own cgroup in a hierarchy of version 1.
fn own(hierarchy: &str) -> Option<String> {
    let text = fs::read_to_string("/proc/self/cgroup").ok()?;
    let mut lines = text.lines().map(|line| line.splitn(3, ':').collect::<Vec<_>>());
    lines.find_map(|parts| {
        (parts.get(1)?.split(',').any(|name| name == hierarchy)).then(|| parts.get(2).map(|path| (*path).to_owned()))?
    })
}

fn set_limit(folder: &Path, names: Names, limit: u64) -> io::Result<()> {
    write(folder, names.limit, &limit.to_string())?;
    // Without swap this file does not exist.
    let swap = if names.limit == VERSION_1.limit { limit } else { 0 };
    let _ = write(folder, names.swap, &swap.to_string());
    Ok(())
}

fn write(folder: &Path, file: &str, text: &str) -> io::Result<()> {
    fs::OpenOptions::new()
        .write(true)
        .open(folder.join(file))
        .and_then(|mut file| io::Write::write_all(&mut file, text.as_bytes()))
}

/// The device number of the disk that holds a directory, such as `254:0`; `None` if it is not on a single disk.
pub(super) fn disk_of(directory: &Path) -> Option<String> {
    let device = fs::metadata(directory).ok()?.dev();
    let number = format!("{}:{}", major(device), minor(device));
    let known = Path::new("/sys/dev/block").join(&number);
    if known.join("partition").exists() {
        return fs::read_to_string(known.join("../dev")).ok().map(|disk| disk.trim().to_owned());
    }
    known.exists().then_some(number)
}
