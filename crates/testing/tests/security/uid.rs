//! Connections of another user to the sockets.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use coven_testing::program::{fake_agent, is_root, skip};
use coven_testing::{TestHome, check_invariants};

const OTHER_UID: u32 = 65534;

/// Makes a folder or socket accessible to all users.
fn make_public(path: &Path) {
    fs::set_permissions(path, fs::Permissions::from_mode(0o777)).expect("writable");
}

/// Returns the response of a socket to a user.
fn connect_as(home: &TestHome, socket: &Path, uid: u32) -> String {
    let client = home.folder().join("client");
    if !client.exists() {
        fs::copy(fake_agent(), &client).expect("disk has space");
        make_public(&client);
    }
    let output = Command::new(&client).arg("--knock").arg(socket).uid(uid).gid(uid).output().expect("is running");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn another_user_is_refused_even_if_the_file_modes_allow_access() {
    if !is_root() {
        return skip("another_user_is_refused_even_if_the_file_modes_allow_access", "changing the user requires root");
    }
    let home = TestHome::started();
    let id = home.launch("hang").id;
    let (socket, holder) = (home.socket(), home.session_dir(&id).join("holder.sock"));
    let folders =
        [home.folder().to_owned(), home.project(), home.path(), home.path().join("sessions"), home.session_dir(&id)];
    folders.iter().for_each(|folder| make_public(folder));
    [&socket, &holder].into_iter().for_each(|socket| make_public(socket));

    // The file modes allow access: the same user gets a response.
    let ours = connect_as(&home, &socket, 0);
    assert!(ours.contains("200 OK"), "{ours}");

    for socket in [&socket, &holder] {
        let theirs = connect_as(&home, socket, OTHER_UID);
        assert!(theirs.contains("answer=\"\""), "{}: {theirs}", socket.display());
    }
    assert_eq!(home.session(&id).status, "running");
    check_invariants(&home);
}
