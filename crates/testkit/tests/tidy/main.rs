//! Rules of the codebase that the compiler does not know (`STYLE.md`). Every finding names file and line and says what
//! to do.

mod bugs;
mod calls;
mod circles;
mod layers;
mod limits;
mod modules;
mod names;
mod papers;
mod repository;

use repository::Finding;

/// Fails with all findings.
fn report(findings: Vec<Finding>) {
    let text: String = findings.iter().map(|finding| format!("\n  {finding}")).collect();
    assert!(findings.is_empty(), "{} findings:{text}", findings.len());
}
