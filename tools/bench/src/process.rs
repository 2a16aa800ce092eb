//! What the kernel says about this process.

use std::{fs, time::Duration};

use rustix::time::{ClockId, clock_gettime};

/// The largest resident memory of the whole life of the process, in bytes; 0 where the kernel does not tell.
pub(crate) fn peak_memory() -> u64 {
    number("/proc/self/status", "VmHWM:").unwrap_or(0) * 1024
}

/// The processor time of all threads so far.
pub(crate) fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or(0))
}

/// Bytes that the kernel moved between devices and this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DeviceBytes {
    pub(crate) read: u64,
    pub(crate) written: u64,
}

impl DeviceBytes {
    /// So far; `None` where the kernel does not tell.
    pub(crate) fn now() -> Option<Self> {
        let of = |name| number("/proc/self/io", name);
        Some(DeviceBytes { read: of("read_bytes:")?, written: of("write_bytes:")? })
    }

    /// Since `before`.
    pub(crate) fn since(self, before: Self) -> Self {
        DeviceBytes { read: self.read.saturating_sub(before.read), written: self.written.saturating_sub(before.written) }
    }
}

/// The number behind a name in a file of the kernel.
fn number(file: &str, name: &str) -> Option<u64> {
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
        assert!(peak_memory() >= block.len() as u64);
        assert!(std::hint::black_box(&block).iter().map(|&byte| u64::from(byte)).sum::<u64>() > 0);
        while cpu_time() - before < Duration::from_millis(1) {}
    }
}
