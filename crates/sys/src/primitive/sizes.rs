//! Constants that are smaller in builds for loom and shuttle. Loom tries all orders, so its models have few of
//! everything. Schedules of shuttle are short, so what happens once in a while in the product happens often in them.

/// The constant of the product, or another one under loom.
pub const fn unless_loom<T: Copy>(product: T, loom: T) -> T {
    if cfg!(feature = "loom") { loom } else { product }
}

/// The constant of the product, or another one under shuttle.
pub const fn unless_shuttle<T: Copy>(product: T, shuttle: T) -> T {
    if cfg!(feature = "shuttle") { shuttle } else { product }
}

/// The constant of the product, or another one under loom and shuttle.
pub const fn unless_checked<T: Copy>(product: T, checked: T) -> T {
    if cfg!(any(feature = "loom", feature = "shuttle")) { checked } else { product }
}
