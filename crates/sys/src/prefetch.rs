//! Hints to the processor's caches.

#[cfg(target_arch = "x86_64")]
use std::{arch::asm, ptr};

/// Prefetches the cache line in which `value` begins, for a write. It affects only time, and does nothing on processors
/// other than x86-64.
pub fn prefetch_write<T>(value: &T) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: PREFETCHW is a hint: it never faults, whatever the address, changes neither memory nor registers nor
    // flags, and is a no-operation on processors of this architecture that do not know it.
    unsafe {
        asm!("prefetchw [{0}]", in(reg) ptr::from_ref(value), options(nostack, preserves_flags, readonly));
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = value;
}

/// Prefetches the cache line in which `value` begins, for a read. It affects only time, and does nothing on processors
/// other than x86-64.
pub fn prefetch_read<T>(value: &T) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: PREFETCHT0 is a hint: it never faults, whatever the address, and changes neither memory nor registers nor
    // flags. Every processor of this architecture has it.
    unsafe {
        asm!("prefetcht0 [{0}]", in(reg) ptr::from_ref(value), options(nostack, preserves_flags, readonly));
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = value;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hint_changes_nothing() {
        let values = vec![7u64; 10_000];
        values.iter().for_each(prefetch_write);
        values.iter().for_each(prefetch_read);
        prefetch_write(&());
        prefetch_read(&());
        assert!(values.iter().all(|&value| value == 7));
    }
}
