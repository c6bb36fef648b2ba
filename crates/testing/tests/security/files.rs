//! The modes of the files in a home.

use std::fs;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::Path;

use coven_testing::TestHome;

fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path).unwrap_or_else(|error| panic!("{}: {error}", path.display())).permissions().mode()
        & 0o777
}

/// Returns every file under `folder`.
pub fn files(folder: &Path) -> Vec<std::path::PathBuf> {
    let entries = fs::read_dir(folder).expect("readable folder").flatten().map(|entry| entry.path());
    entries.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}

#[test]
fn only_the_owner_can_access_a_home_regardless_of_the_umask() {
    let home = TestHome::new();
    fs::set_permissions(home.path(), fs::Permissions::from_mode(0o755)).expect("writable");
    let script = format!("umask 0; exec {} daemon start", coven_testing::program::coven().display());
    let status = std::process::Command::new("/bin/sh")
        .args(["-c", &script])
        .env_clear()
        .envs(home.variables())
        .current_dir(home.project())
        .status();
    assert!(status.expect("shell starts").success());

    let id = home.launch("say hello ;; hang").id;
    home.wait_for_output(&id, "hello");

    assert_eq!(mode(&home.path()), 0o700);
    assert_eq!(mode(&home.path().join("sessions")), 0o700);
    assert_eq!(mode(&home.session_dir(&id)), 0o700);
    for private in ["coven.sock", "token", "coven.db"] {
        assert_eq!(mode(&home.path().join(private)), 0o600, "{private}");
    }
    assert_eq!(mode(&home.session_dir(&id).join("holder.sock")), 0o600);
    for file in files(&home.path()) {
        // The user creates the config.
        if file.file_name().is_none_or(|name| name == "config.json") {
            continue;
        }
        // The daemon may have removed a temporary file since the folder was read.
        let mode = fs::symlink_metadata(&file).map_or(0, |it| it.permissions().mode());
        assert_eq!(mode & 0o077, 0, "{} is open to others", file.display());
    }
    assert!(fs::metadata(home.socket()).expect("exists").file_type().is_socket());
}

#[test]
fn the_token_is_long_and_persistent_and_a_start_restores_its_mode() {
    let home = TestHome::started();
    let path = home.path().join("token");
    let before = fs::read_to_string(&path).expect("token");
    assert!(before.trim().len() >= 32, "{before:?}");

    home.stop();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).expect("writable");
    home.start();

    assert_eq!(fs::read_to_string(&path).expect("token"), before);
    assert_eq!(mode(&path), 0o600);
}
