//! The kernel's statistics of this process.

use std::{fs, time::Duration};

use rustix::time::{ClockId, clock_gettime};

/// Unit of `/proc/self/statm`.
const PAGE: u64 = 4096;

/// The peak resident memory of the process, in bytes; 0 where the kernel does not report it.
pub(crate) fn peak_memory() -> u64 {
    number("/proc/self/status", "VmHWM:").unwrap_or(0) * 1024
}

/// The current resident memory, in bytes; 0 where the kernel does not report it.
pub(crate) fn memory() -> u64 {
    let text = fs::read_to_string("/proc/self/statm").unwrap_or_default();
    text.split_whitespace().nth(1).and_then(|pages| pages.parse().ok()).unwrap_or(0) * PAGE
}

/// The processor time of all threads so far.
pub(crate) fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or(0))
}

/// The number after a name in a file of the kernel.
pub(crate) fn number(file: &str, name: &str) -> Option<u64> {
    let text = fs::read_to_string(file).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_tells() {
        let before = cpu_time();
        let block = vec![1u8; 32 << 20];
        assert!(memory() >= block.len() as u64 && peak_memory() >= block.len() as u64);
        assert!(std::hint::black_box(&block).iter().map(|&byte| u64::from(byte)).sum::<u64>() > 0);
        while cpu_time() - before < Duration::from_millis(1) {}
    }
}
