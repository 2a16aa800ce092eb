//! Running a compaction: merging, in parts, by several threads.

pub(in crate::lsm) mod cpu_time;
pub(in crate::lsm) mod incremental;
pub(in crate::lsm) mod job;
pub(in crate::lsm) mod merge;
pub(in crate::lsm) mod subtasks;
