//! The write-ahead log on a simulated disk.

mod ahead;
mod damage;
mod fixture;
mod golden;
mod lives;
mod room;
mod round_trip;
mod salvage;
mod story;
mod successors;
mod threads;
