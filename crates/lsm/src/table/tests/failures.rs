//! Failures while a table is written.

use std::io;

use crate::table::tests::*;

#[test]
fn a_full_disk_leaves_no_file_and_no_harm() {
    let (disk, records) = (SimStorage::new(1), usual(20_000));
    let environment = environment(&disk);
    disk.space_limit(2 << 20);
    assert!(write(&environment, NAME, options(IndexKind::Linear, 4096), &records).unwrap_err().is_no_space());
    assert!(disk.files().is_empty() && environment.health.check().is_ok());
    disk.space_limit(16 << 20);
    assert!(write(&environment, NAME, options(IndexKind::Linear, 4096), &records).is_ok());
    assert!(disk.space_used() < 3 << 20, "what was reserved beyond the end was given back");
}

#[test]
fn every_failed_write_or_sync_poisons_and_leaves_no_file() {
    let records = usual(3_000);
    let disk = SimStorage::new(1);
    write(&environment(&disk), NAME, options(IndexKind::Plr, 8192), &records).unwrap();
    for index in 0..disk.io_index() {
        let disk = SimStorage::new(1);
        let environment = environment(&disk);
        disk.fail_at(index, io::ErrorKind::Other);
        assert!(write(&environment, NAME, options(IndexKind::Plr, 8192), &records).is_err(), "I/O {index}");
        assert!(disk.files().is_empty(), "I/O {index}");
        // The first I/O creates the file and some reserve space: their failure loses nothing.
        let harmless = environment.health.check().is_ok();
        let label = format!("{:?}", disk.labels()[index as usize]);
        assert_eq!(harmless, label.contains("Create") || label.contains("Preallocate"), "{label}");
    }
}
