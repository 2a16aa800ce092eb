//! Opens a database, stores some records, reads them back, and goes through a range.
//!
//! `cargo run --example first_program -- [DIRECTORY]`; without a directory it works in a temporary one.

use std::path::PathBuf;

use ecotone::{Database, KeyspaceOptions};

const TOWNS: [(&str, &str); 5] = [
    ("Zwolle", "52.51 6.09"),
    ("Utrecht", "52.09 5.12"),
    ("Zaandam", "52.44 4.83"),
    ("Almelo", "52.36 6.66"),
    ("Zutphen", "52.14 6.20"),
];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let temporary = tempfile::tempdir()?;
    let path = std::env::args_os().nth(1).map_or_else(|| temporary.path().join("towns.db"), PathBuf::from);

    let database = Database::builder(&path).memory_budget(64 << 20).open()?;
    let towns = database.keyspace("towns", KeyspaceOptions::default())?;
    for (name, place) in TOWNS {
        towns.insert(name, place)?;
    }

    let utrecht = towns.get("Utrecht")?.ok_or("Utrecht was just stored")?;
    println!("Utrecht is at {}", String::from_utf8_lossy(&utrecht));
    assert_eq!(towns.get("Atlantis")?, None);

    println!("towns from Y on:");
    for record in towns.range("Y"..) {
        let (name, place) = record?;
        println!("  {} is at {}", String::from_utf8_lossy(&name), String::from_utf8_lossy(&place));
    }

    towns.remove("Zaandam")?;
    let others = towns.prefix("Z").try_fold(0, |count, town| town.map(|_| count + 1))?;
    println!("without Zaandam, {others} towns begin with Z");
    // Dropping the last handle closes the database too, but here an error would be seen.
    database.close()?;
    Ok(())
}
