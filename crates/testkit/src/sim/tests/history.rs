//! Random histories, compared with a plain model of the content that must survive.

use ecotone_substrate::storage::{Access, File, Storage};
use rand::{RngExt, SeedableRng, rngs::SmallRng};

use super::{PAGES, bytes_of, disk_with};
use crate::sim::{Crash, SimStorage};

const LENGTH: usize = 5 * 4096;

/// Every value that each sector had since the last sync, oldest first.
type Sectors = Vec<Vec<Vec<u8>>>;

fn sectors(bytes: &[u8]) -> Sectors {
    bytes.chunks(512).map(|sector| vec![sector.to_vec()]).collect()
}

/// One random write or sync; gives the new content.
fn step(random: &mut SmallRng, file: &dyn File, view: &mut [u8], allowed: &mut Sectors) {
    if random.random_bool(0.1) {
        file.sync().unwrap();
        *allowed = sectors(view);
        return;
    }
    let start = random.random_range(0..LENGTH);
    let end = random.random_range(start..=LENGTH.min(start + 6000));
    view[start..end].fill(random.random());
    file.write(&view[start..end], start as u64).unwrap();
    for (sector, values) in view.chunks(512).zip(allowed) {
        values.push(sector.to_vec());
    }
}

fn check(disk: &SimStorage, seed: u64, view: &[u8], allowed: &Sectors) {
    assert!(bytes_of(disk) == view && bytes_of(&disk.crash(Crash::KeepAll)) == view, "seed {seed}");
    assert!(
        sectors(&bytes_of(&disk.crash(Crash::DropAll)))
            .iter()
            .zip(allowed)
            .all(|(found, values)| found[0] == values[0])
    );
    let torn = bytes_of(&disk.crash(Crash::Random(seed)));
    for (number, sector) in torn.chunks(512).enumerate() {
        assert!(allowed[number].iter().any(|value| value == sector), "seed {seed}: sector {number} was never so");
    }
}

#[test]
fn every_surviving_sector_is_one_that_was_written() {
    for seed in 0..60 {
        let mut random = SmallRng::seed_from_u64(seed);
        let (mut disk, _) = disk_with(&[0; LENGTH]);
        let mut view = vec![0; LENGTH];
        let mut allowed = sectors(&view);
        let mut file = disk.open(PAGES, Access::Cached).unwrap();
        for number in 0..60 {
            step(&mut random, &*file, &mut view, &mut allowed);
            check(&disk, seed + number, &view, &allowed);
            if random.random_bool(0.05) {
                disk = disk.crash(Crash::Random(seed ^ number));
                file = disk.open(PAGES, Access::Cached).unwrap();
                view = bytes_of(&disk);
                allowed = sectors(&view);
            }
        }
    }
}
