# Shorthands and the longer campaigns. Nothing here is needed to build or test: README.md has the two commands, and
# .ci/run is the gate.

set shell := ["bash", "-euo", "pipefail", "-c"]

export RUST_BACKTRACE := "1"

[private]
default:
    @just --list --unsorted

# The gate: everything that must pass before a change lands (forty minutes on 2 cores)
ci:
    .ci/run

# The tests that take seconds, with the short tiers of the campaigns (ten minutes on 2 cores, half of it the build)
test *ARGS:
    cargo test --workspace {{ARGS}}

# The tests that take longer
long-tests *ARGS:
    cargo test --workspace {{ARGS}} -- --ignored

# Format everything
fmt:
    cargo fmt --all

# Lints, as in the gate
lint:
    cargo clippy --workspace --all-targets -- -D warnings
    cargo clippy -p ecotone --features bugs --all-targets -- -D warnings

# The documentation of the code in target/doc: with private items, and that of the library as its users see it
docs:
    cargo doc --workspace --exclude ecotone --no-deps --document-private-items
    cargo doc -p ecotone --no-deps

# Simulated crashes at random I/Os, counted by phase: of the tree engine, or of all engines with TESTS=crash_campaign
crashes POINTS="10000" TESTS="crash_campaign_on_the_tree":
    ECOTONE_CRASHES={{POINTS}} cargo test --release -p ecotone --test it -- --include-ignored --nocapture {{TESTS}}

# Overlapping calls, interleaved by a seed and by threads with crashes; every history is checked
histories COUNT="5000" TESTS="interleaved_calls threads_and_crashes":
    ECOTONE_HISTORIES={{COUNT}} cargo test --release -p ecotone --test it -- --include-ignored --nocapture {{TESTS}}

# Schedules of the whole library, chosen by shuttle, and all orders of its small parts, by loom
interleavings SCHEDULES="10000":
    ECOTONE_SCHEDULES={{SCHEDULES}} cargo test --release -p ecotone --features shuttle --test interleavings -- --nocapture
    cargo test -p ecotone --features shuttle,bugs --test interleavings bugs:: -- --nocapture
    cargo test --release -p ecotone-sys -p ecotone-substrate -p ecotone-engine -p ecotone-tree -p ecotone-hash -p ecotone-lsm --features ecotone-sys/loom,ecotone-substrate/loom,ecotone-engine/loom,ecotone-tree/loom,ecotone-hash/loom,ecotone-lsm/loom --lib orders -- --nocapture

# Many threads in small budgets, with every kind of call: every call must return in time
liveness EPISODES="100":
    ECOTONE_LIVENESS={{EPISODES}} cargo test -p ecotone --test it -- --include-ignored --nocapture --test-threads 1 liveness

# Real child processes, killed with SIGKILL at random moments
kills TIMES="100":
    ECOTONE_KILLS={{TIMES}} cargo test --release -p ecotone-cli --test it kills_at_any_moment -- --include-ignored --nocapture

# Every history of three short operations, with a crash and a failure at every I/O of the last one
short-histories:
    ECOTONE_FULL=1 cargo test --release -p ecotone --test it every_crash -- --include-ignored --nocapture

# Flips every byte of a small database in turn, and cuts every file at every length
damage:
    ECOTONE_FULL=1 cargo test --release -p ecotone --test it damage -- --include-ignored --nocapture

# Switches on the known bugs, one after the other: the general suites must catch each in three runs of three
bugs:
    cargo test -p ecotone-substrate --features bugs --test log_bugs -- --nocapture
    cargo test -p ecotone --features bugs bugs:: -- --nocapture

# Everything that searches for lost data, one after the other
soak POINTS="25000" TIMES="200": bugs damage short-histories histories (crashes POINTS "crash_campaign") (kills TIMES)

# One fuzz target for some seconds (nightly toolchain and cargo-fuzz; fuzz/README.md lists the targets)
fuzz TARGET SECONDS="600":
    cd fuzz && cargo run --release --bin seeds
    cd fuzz && cargo +nightly fuzz run {{TARGET}} -- -max_total_time={{SECONDS}}

# The tests of the crate with unsafe code and of the crate that drives it, under the address sanitizer
asan:
    RUSTC_BOOTSTRAP=1 RUSTFLAGS=-Zsanitizer=address cargo test --target x86_64-unknown-linux-gnu -p ecotone-sys -p ecotone-substrate --lib --tests

# Throughput of the disk below DIR by queue depth: the denominator of all figures
bench-disk DIR="target/figures/data":
    mkdir -p {{DIR}}
    cargo run --release -p ecotone-bench -- disk --dir {{DIR}}

# The figures of docs/performance.md, into target/figures/*.jsonl; DIR must be on the disk to be measured
figures DIR="target/figures/data":
    tools/figures.sh {{DIR}}

# The other stores beside ours, into target/rivals (SCALE=full: 20 million records); DIR is on the disk to be measured
rivals DIR="target/rivals/data":
    tools/rivals.sh {{DIR}}

# Licences, known vulnerabilities and sources of the dependencies (needs cargo-deny)
deny:
    cargo deny check
