//! Checks whether another user can add files to a folder.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Returns whether a user other than this one and root can add entries to the folder. Returns true if the folder cannot
/// be examined.
pub fn others_can_write(folder: &Path) -> bool {
    let Ok(metadata) = fs::metadata(folder) else { return true };
    let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    if metadata.uid() != uid && metadata.uid() != 0 {
        return true;
    }
    let mode = metadata.mode();
    // Many systems give each user a private group with the same id and make folders group-writable.
    let is_private_group = metadata.gid() == gid && gid == uid;
    mode & 0o002 != 0 || (mode & 0o020 != 0 && !is_private_group)
}
