//! Whether another user can put files into a folder.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// True if a user other than this one and root can add entries to the folder. A folder that cannot be examined counts as such.
pub fn others_can_write(folder: &Path) -> bool {
    let Ok(metadata) = fs::metadata(folder) else { return true };
    let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    if metadata.uid() != uid && metadata.uid() != 0 {
        return true;
    }
    let mode = metadata.mode();
    // Many systems give each user a private group of the same number and make folders group-writable.
    let is_private_group = metadata.gid() == gid && gid == uid;
    mode & 0o002 != 0 || (mode & 0o020 != 0 && !is_private_group)
}
