//! Another user on the sockets.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use coven_testing::program::{fake_agent, is_root, skip};
use coven_testing::{TestHome, check_invariants};

const NOBODY: u32 = 65534;

/// Opens a folder or socket to everybody, as a careless owner would.
fn open_up(path: &Path) {
    fs::set_permissions(path, fs::Permissions::from_mode(0o777)).expect("ours");
}

/// What another user gets from a socket.
fn knock(home: &TestHome, socket: &Path, uid: u32) -> String {
    let visitor = home.folder().join("visitor");
    if !visitor.exists() {
        fs::copy(fake_agent(), &visitor).expect("room on disk");
        open_up(&visitor);
    }
    let output = Command::new(&visitor).arg("--knock").arg(socket).uid(uid).gid(uid).output().expect("it runs");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn another_user_is_turned_away_even_where_the_modes_let_them_through() {
    if !is_root() {
        return skip("another_user_is_turned_away", "becoming another user takes root");
    }
    let home = TestHome::started();
    let id = home.launch("hang").id;
    let (socket, holder) = (home.socket(), home.session_dir(&id).join("holder.sock"));
    let folders =
        [home.folder().to_owned(), home.project(), home.path(), home.path().join("sessions"), home.session_dir(&id)];
    folders.iter().for_each(|folder| open_up(folder));
    [&socket, &holder].into_iter().for_each(|socket| open_up(socket));

    // The way is open: our own user gets an answer through it.
    let ours = knock(&home, &socket, 0);
    assert!(ours.contains("200 OK"), "{ours}");

    for socket in [&socket, &holder] {
        let theirs = knock(&home, socket, NOBODY);
        assert!(theirs.contains("answer=\"\""), "{}: {theirs}", socket.display());
    }
    assert_eq!(home.session(&id).status, "running");
    check_invariants(&home);
}
