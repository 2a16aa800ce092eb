#!/usr/bin/env bash
# Measures the other stores beside ours: tools/rivals.sh DIR, with DIR on the disk to be measured. docs/rivals.md says what is compared.
# 2 million records of 64 bytes, or with SCALE=full 20 million, and a third of that as memory. Results, one JSON object a line, go to
# target/rivals/*.jsonl, and a report beside them. SCALE=full takes hours and about 20 GiB.
set -euo pipefail
dir=$(mkdir -p "${1:?the directory for databases is missing}" && cd "$1" && pwd)
cd "$(dirname "$0")/.."

case ${SCALE:-small} in
    small) records=2000000 seconds=10 ;;
    full) records=20000000 seconds=60 ;;
    *) echo "SCALE is small or full" >&2 && exit 1 ;;
esac

say() { printf '== %s\n' "$*" >&2; }

# RocksDB's bindings are made by libclang.
if [[ -z $(ldconfig -p | grep -E 'libclang(-[0-9]+)?\.so') ]]; then
    if [[ $(id -u) != 0 ]]; then
        say "libclang is missing and only root can install it: apt-get install libclang-dev" && exit 1
    fi
    say "installing libclang"
    apt-get install -y libclang-dev
fi

out=$PWD/target/rivals
mkdir -p "$out"
rm -f "$out"/*.jsonl
cargo build --release -p ecotone-bench --features rivals
bench=${CARGO_TARGET_DIR:-target}/release/ecotone-bench

common=(--store tree,rocksdb,lmdb,redb,fjall,sled,bf-tree --rounds 3 --distribution zipfian --theta 0.99 --records "$records"
    --value-size 56 --memory $((records * 64 / 3)) --durability none --json)

# A store that cannot hold the budget or the workload has a row that says so, and the others go on.
measure() {
    "$bench" run "${common[@]}" --workload "$@" >"$out/$1.jsonl" || say "not every row of $1 ended well"
}

say "disk"
"$bench" disk --dir "$dir" --json >"$out/disk.jsonl"
say "load"
measure load --dir "$dir/load"
rm -rf "${dir:?}/load"
for workload in c b a f d e; do
    say "$workload"
    measure "$workload" --seconds "$seconds" --dir "$dir/states"
done
"$bench" report "$out"
say "results are in $out"
