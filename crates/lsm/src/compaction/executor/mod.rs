//! Running a compaction: merging, in parts, by several threads.

pub(crate) mod cpu_time;
pub(crate) mod incremental;
pub(crate) mod job;
pub(crate) mod merge;
pub(crate) mod subtasks;
