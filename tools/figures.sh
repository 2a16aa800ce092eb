#!/usr/bin/env bash
# Measures the figures of docs/performance.md: tools/figures.sh DIR, with DIR on the disk to be measured (about 6 GiB).
# Results, one JSON object a line, go to target/figures/*.jsonl. Databases are removed when they are done with.
set -euo pipefail
dir=$(mkdir -p "${1:?the directory for databases is missing}" && cd "$1" && pwd)
cd "$(dirname "$0")/.."

out=$PWD/target/figures
mkdir -p "$out"
rm -f "$out"/*.jsonl
cargo build --release -p ecotone-bench -p ecotone-cli
built=${CARGO_TARGET_DIR:-target}/release
bench=$built/ecotone-bench
ecotone=$built/ecotone

say() { printf '== %s\n' "$*" >&2; }

# run FILE NAME OPTIONS...: one measurement of the store NAME, which is loaded on its first use; the result goes to FILE.
run() {
    local file=$1 name=$2
    shift 2
    say "$file: $*"
    "$bench" run --store tree --dir "$dir/$name" --json "$@" >>"$out/$file.jsonl"
}

# open_after_kill RECORDS: loads, kills the benchmark 20 s into workload a, and times the first opening after that, up to its first answer.
open_after_kill() {
    local records=$1 name=killed-$1 begin end parent answer stats
    say "open after a kill: $records records"
    run loads "$name" --workload c --operations 1 --warmup 0 --records "$records" --value-size 100 --memory 220MiB
    "$bench" run --store tree --dir "$dir/$name" --json --workload a --distribution uniform --warmup 0 --seconds 600 \
        --records "$records" --value-size 100 --memory 220MiB >/dev/null &
    parent=$!
    sleep 20
    # The store is in its child.
    pkill -KILL -P "$parent"
    wait "$parent" 2>/dev/null || true
    begin=$(date +%s%N)
    exec {answer}< <("$ecotone" stats "$dir/$name/db" --memory 220MiB --json)
    read -r stats <&"$answer"
    end=$(date +%s%N)
    # Closing the database takes longer; its end is the end of the output.
    cat <&"$answer" >&2
    exec {answer}<&-
    printf '{"figure":"open_after_kill","records":%d,"milliseconds":%d,"stats":%s}\n' \
        "$records" $(((end - begin) / 1000000)) "$stats" >>"$out/opens.jsonl"
    rm -rf "${dir:?}/$name"
}

say "disk"
"$bench" disk --dir "$dir" --json >"$out/disk.jsonl"

# The harness alone.
for workload in c b a f d; do
    say "harness: $workload"
    "$bench" run --store null --dir "$dir/null" --json --workload "$workload" --distribution uniform --threads 2 --memory 64MiB --warmup 0 --seconds 3 >>"$out/harness.jsonl"
    rm -rf "${dir:?}/null"
done

# Uniform reads, data ten times the budget of 64 MiB.
uniform=(--workload c --distribution uniform --memory 64MiB)
run uniform small "${uniform[@]}" --records 10485760 --value-size 56
run uniform-batch small "${uniform[@]}" --records 10485760 --value-size 56 --batch 32
rm -rf "${dir:?}/small"
run uniform large "${uniform[@]}" --records 655360 --value-size 1016
run uniform-batch large "${uniform[@]}" --records 655360 --value-size 1016 --batch 32
rm -rf "${dir:?}/large"

say "disk, once more"
"$bench" disk --dir "$dir" --json >>"$out/disk.jsonl"

# 20 M records of 108 bytes with 220 MiB: the load and the reads, then the other workloads.
large=(--records 20000000 --value-size 100 --memory 220MiB)
run zipf killed-20000000 --workload c --distribution zipfian --theta 0.99 "${large[@]}"
for workload in b a f d e; do
    run workloads killed-20000000 --workload "$workload" --warmup 2000000 --seconds 15 "${large[@]}"
done

open_after_kill 1000000
open_after_kill 20000000

say "results are in $out"
