//! The hands of the eviction clock (tree.md, "Eviction").

/// Two clocks over the same slabs, each ignoring the other's records. Each hand is the next slab to visit.
#[derive(Debug, Default)]
pub(super) struct Hands {
    pub(super) probation: usize,
    pub(super) protected: usize,
}
