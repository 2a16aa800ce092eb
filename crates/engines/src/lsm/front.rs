//! The cache in front of all tables.

use super::records::Lsm;
use crate::front::Front;

impl Lsm {
    /// The cache.
    pub(super) fn front(&self) -> Option<&dyn Front> {
        self.around.front.as_deref()
    }
}
