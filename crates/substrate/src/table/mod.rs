//! The common parts of files that are written once ([`FileRole`]), in every engine: an identity with a birth, a first
//! page that names the file, addresses that checksums cover, sequential output, and pages that are the same in memory
//! and in the file.

mod answer;
mod file;
mod header;
mod name;
mod output;
mod pages;

pub use self::{
    answer::Answer,
    file::FileRef,
    header::Header,
    name::{BlockAddress, FileIdentity, FileRole},
    output::Output,
    pages::Pages,
};
