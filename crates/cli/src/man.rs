//! Writes the manual pages, one per command. They are written by a test, which `cargo xtask man` runs, so that the program does
//! not contain the generator.

use std::fs;
use std::path::{Path, PathBuf};

use clap::Command;
use clap_mangen::Man;

use crate::command_line;

/// Environment variable with the output folder; the default is a temporary folder.
const DIR: &str = "COVEN_WRITE_MAN";

/// Writes the pages of a command and its subcommands. Returns their names.
fn write_pages(command: &Command, name: &str, dir: &Path) -> Vec<String> {
    let mut page = Vec::new();
    Man::new(command.clone()).render(&mut page).expect("a page in memory");
    fs::write(dir.join(format!("{name}.1")), page).expect("a page in the folder");
    let shown = command.get_subcommands().filter(|it| it.get_name() != "help" && !it.is_hide_set());
    let below = shown.flat_map(|it| write_pages(it, &format!("{name}-{}", it.get_name()), dir));
    [name.to_owned()].into_iter().chain(below).collect()
}

#[test]
fn every_command_has_a_manual_page_with_its_examples() {
    let temporary = tempfile::tempdir().expect("a folder");
    let dir = std::env::var_os(DIR).map_or_else(|| temporary.path().to_owned(), PathBuf::from);
    fs::create_dir_all(&dir).expect("a folder for the pages");
    let mut command = command_line::command();
    command.build();

    let pages = write_pages(&command, "coven", &dir);

    for name in &pages {
        let page = fs::read_to_string(dir.join(format!("{name}.1"))).expect("a page");
        assert!(page.contains(&format!(".TH {name} 1")), "{name}: {page}");
        assert!(page.contains(&name.replace('-', " ")), "{name} has no example: {page}");
    }
    for name in ["coven", "coven-run", "coven-db-sweep", "coven-task-rescue-list"] {
        assert!(pages.iter().any(|page| page == name), "{name}");
    }
    assert!(!pages.iter().any(|page| page == "coven-migrate"), "an earlier name has no page");
}
