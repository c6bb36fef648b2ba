//! The fuzzer finds planted defects, saves their inputs and reports them by its exit code.

use std::fs;
use std::process::Command;

#[test]
fn finds_and_saves_panics_hangs_and_excessive_memory_use() {
    let folder = tempfile::tempdir().expect("a folder");
    for (target, what) in
        [("planted_panic", "the planted defect"), ("planted_hang", "hang"), ("planted_memory", "memory")]
    {
        let output = Command::new(env!("CARGO_BIN_EXE_coven-fuzz"))
            .args(["run", target, "--seconds", "20", "--hang-seconds", "1", "--findings"])
            .arg(folder.path())
            .output()
            .expect("the fuzzer starts");
        let text = String::from_utf8_lossy(&output.stdout);
        assert_eq!(output.status.code(), Some(1), "{target}: {text}");
        assert!(text.contains(what), "{target}: {text}");
        let saved: Vec<_> = fs::read_dir(folder.path().join(target)).expect("findings").flatten().collect();
        assert!(!saved.is_empty());
        for file in saved {
            let input = fs::read(file.path()).expect("readable");
            assert!(input.windows(4).any(|piece| piece == b"boom"), "{target}: {}", input.escape_ascii());
        }
    }
}

#[test]
fn an_unknown_target_is_an_error_that_names_the_known_ones() {
    let output =
        Command::new(env!("CARGO_BIN_EXE_coven-fuzz")).args(["run", "nonsense"]).output().expect("the fuzzer starts");
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("journal"));
}
