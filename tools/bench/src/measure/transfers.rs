//! Requests and bytes between devices and a store, by the kernel's accounts of a cgroup and of the process.

use std::{fs, path::PathBuf};

use serde::{Deserialize, Serialize};

use super::process;

/// Requests and bytes so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Transfers {
    /// Requests; `None` without a cgroup.
    pub(crate) reads: Option<u64>,
    pub(crate) writes: Option<u64>,
    pub(crate) read_bytes: u64,
    pub(crate) write_bytes: u64,
}

impl Transfers {
    /// Since `before`.
    pub(crate) fn since(self, before: Self) -> Self {
        let requests = |now: Option<u64>, then: Option<u64>| Some(now?.saturating_sub(then?));
        Transfers {
            reads: requests(self.reads, before.reads),
            writes: requests(self.writes, before.writes),
            read_bytes: self.read_bytes.saturating_sub(before.read_bytes),
            write_bytes: self.write_bytes.saturating_sub(before.write_bytes),
        }
    }
}

/// The places of this process's accounts in the kernel.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Accounts {
    /// Folder of the cgroup that counts requests, if the process has one of its own.
    pub(crate) io: Option<PathBuf>,
    /// Number of the disk whose requests are counted, such as `254:0`; `None` for all disks.
    pub(crate) disk: Option<String>,
    /// File of the cgroup with the memory in use.
    pub(crate) memory: Option<PathBuf>,
}

impl Accounts {
    /// Requests and bytes so far; `None` where the kernel does not tell.
    ///
    /// In a cgroup of version 1, later write-back by kernel threads is charged to no account. `/proc` counts these
    /// bytes when the process makes them dirty. So the larger of the two numbers is nearer to the truth.
    pub(crate) fn transfers(&self) -> Option<Transfers> {
        let process = own();
        let Some(group) = self.of_cgroup() else { return process };
        let write_bytes = group.write_bytes.max(process.map_or(0, |process| process.write_bytes));
        Some(Transfers { write_bytes, ..group })
    }

    /// Memory in use now, in bytes: the cgroup's count, which its limit applies to, or else the resident memory.
    pub(crate) fn memory(&self) -> u64 {
        let number = |file: &PathBuf| fs::read_to_string(file).ok()?.trim().parse().ok();
        self.memory.as_ref().and_then(number).unwrap_or_else(process::memory)
    }

    fn of_cgroup(&self) -> Option<Transfers> {
        let folder = self.io.as_ref()?;
        if let Ok(text) = fs::read_to_string(folder.join("io.stat")) {
            return Some(self.version_2(&text));
        }
        let read = |name: &str| fs::read_to_string(folder.join(format!("blkio.throttle.{name}"))).ok();
        let (requests, bytes) = (read("io_serviced")?, read("io_service_bytes")?);
        Some(Transfers {
            reads: Some(self.version_1(&requests, "Read")),
            writes: Some(self.version_1(&requests, "Write")),
            read_bytes: self.version_1(&bytes, "Read"),
            write_bytes: self.version_1(&bytes, "Write"),
        })
    }

    fn is_ours(&self, disk: &str) -> bool {
        self.disk.as_deref().is_none_or(|ours| ours == disk)
    }

    /// The sum of the lines `DISK KIND NUMBER`.
    fn version_1(&self, text: &str, kind: &str) -> u64 {
        let number = |line: &str| match line.split_whitespace().collect::<Vec<_>>()[..] {
            [disk, of, number] if of == kind && self.is_ours(disk) => number.parse::<u64>().ok(),
            _ => None,
        };
        text.lines().filter_map(number).sum()
    }

    /// The sums of the lines `DISK rbytes=NUMBER wbytes=NUMBER rios=NUMBER wios=NUMBER ...`.
    fn version_2(&self, text: &str) -> Transfers {
        let ours = text.lines().filter(|line| line.split_whitespace().next().is_some_and(|disk| self.is_ours(disk)));
        let words: Vec<&str> = ours.flat_map(|line| line.split_whitespace().skip(1)).collect();
        let sum = |name: &str| {
            let numbers =
                words.iter().filter_map(|word| word.strip_prefix(name)?.strip_prefix('=')?.parse::<u64>().ok());
            numbers.sum()
        };
        Transfers {
            reads: Some(sum("rios")),
            writes: Some(sum("wios")),
            read_bytes: sum("rbytes"),
            write_bytes: sum("wbytes"),
        }
    }
}

/// The account of the process, which has no requests: io_uring requests do not count as system calls.
fn own() -> Option<Transfers> {
    let of = |name| process::number("/proc/self/io", name);
    Some(Transfers { reads: None, writes: None, read_bytes: of("read_bytes:")?, write_bytes: of("write_bytes:")? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_versions_are_understood() {
        let accounts = Accounts { disk: Some("254:0".to_owned()), ..Accounts::default() };
        let text = "8:0 Read 7\n254:0 Read 500\n254:0 Write 8\n254:0 Total 508\nTotal 515\n";
        assert_eq!((accounts.version_1(text, "Read"), accounts.version_1(text, "Write")), (500, 8));
        assert_eq!(Accounts::default().version_1(text, "Read"), 507);
        let text = "8:0 rbytes=1 wbytes=1 rios=1 wios=1\n254:0 rbytes=8192 wbytes=512 rios=2 wios=1 dbytes=0 dios=0\n";
        let expected = Transfers { reads: Some(2), writes: Some(1), read_bytes: 8192, write_bytes: 512 };
        assert_eq!(accounts.version_2(text), expected);
    }
}
