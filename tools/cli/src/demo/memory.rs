//! Peak memory of a process, as the kernel counts it.

/// An amount in bytes with its name; `None` where the system does not tell.
pub(crate) type Memory = (&'static str, Option<u64>);

/// `VmHWM` in bytes of a process by its number, or of this one for `self`; `None` where `/proc` does not tell.
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
