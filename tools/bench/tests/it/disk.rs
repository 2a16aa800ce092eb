use crate::harness::{bench, directory, lines, number};

#[test]
fn a_line_for_each_operation_and_depth() {
    let directory = directory();
    let output = bench("disk --size 4MiB --seconds 0.01 --threads 2 --json", directory.path());
    let lines = lines(&output);
    let points: Vec<_> =
        lines.iter().map(|line| (line["operation"].as_str().unwrap(), line["queue_depth"].as_u64().unwrap())).collect();
    let depths = [1, 2, 4, 8, 16, 32, 64, 128];
    let expected: Vec<_> =
        ["random_read", "random_write"].iter().flat_map(|name| depths.map(|depth| (*name, depth))).collect();
    assert_eq!(points, expected);
    assert!(lines.iter().all(|line| number(line, "ops_per_second") > 0.0 && line["cpu_us_per_op"].is_number()));
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0, "the test file is removed");
}

#[test]
fn a_kept_file_is_used_again() {
    let directory = directory();
    let file = directory.path().join("ecotone-bench-disk/scratch.0");
    assert!(bench("disk --size 1MiB --seconds 0.001 --keep --json", directory.path()).status.success());
    let made = std::fs::metadata(&file).unwrap().created().ok();
    assert!(bench("disk --size 1MiB --seconds 0.001 --keep --json", directory.path()).status.success());
    let metadata = std::fs::metadata(&file).unwrap();
    assert_eq!((metadata.len(), metadata.created().ok()), (1 << 20, made));
    assert!(bench("disk --size 2MiB --seconds 0.001 --keep --json", directory.path()).status.success());
    assert_eq!(std::fs::metadata(&file).unwrap().len(), 2 << 20);
}
