//! The write-ahead log on a simulated disk.

mod ahead;
mod damage;
mod golden;
mod house;
mod lives;
mod remains;
mod room;
mod round_trip;
mod story;
mod successors;
mod threads;
