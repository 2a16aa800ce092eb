//! What files that are written once ([`Role`]) have in common, whoever's they are: a name with a birth, a first page
//! that says what the file is, places that are part of checksums, bytes that are written front to back, and parts that
//! are in memory as they are in the file.

mod answer;
mod file;
mod header;
mod name;
mod output;
mod pages;

pub use self::{
    answer::Answer,
    file::File,
    header::Header,
    name::{Name, Place, Role},
    output::Output,
    pages::Pages,
};
