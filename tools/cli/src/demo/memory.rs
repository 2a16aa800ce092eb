//! Peak memory of a process, as the kernel counts it.

/// A named number of bytes; `None` where the system does not report it.
pub(crate) type Memory = (&'static str, Option<u64>);

/// The `VmHWM` of a process in bytes, by process number or `self`; `None` where `/proc` does not report it.
pub(crate) fn peak_of(process: &str) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok().map(|kib| kib * 1024)
}

#[cfg(test)]
mod tests {
    #[test]
    fn this_process_has_a_peak() {
        let peak = super::peak_of("self").expect("Linux tells");
        assert!((1 << 20..1 << 40).contains(&peak), "{peak}");
        assert_eq!(super::peak_of("0"), None);
    }
}
