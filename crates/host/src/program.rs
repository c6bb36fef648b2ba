//! Finds programs on PATH and queries their versions.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// Returns the path of an executable program: a path is used unchanged, a name is looked up in `path`.
pub fn find(program: &str, path: Option<&OsStr>) -> Option<PathBuf> {
    if program.contains('/') {
        return Some(PathBuf::from(program)).filter(|file| is_executable(file));
    }
    std::env::split_paths(path?)
        .filter(|folder| folder.is_absolute())
        .map(|folder| folder.join(program))
        .find(|file| is_executable(file))
}

fn is_executable(file: &Path) -> bool {
    std::fs::metadata(file).is_ok_and(|it| it.is_file() && it.permissions().mode() & 0o111 != 0)
}

/// Returns the first line that a program prints about its version, if it does so within `limit`.
pub fn version(program: &Path, args: &[String], env: &BTreeMap<String, String>, limit: Duration) -> Option<String> {
    let mut child = Command::new(program)
        .args(args)
        .envs(env)
        // A separate process group, so that its children can be killed with it.
        .process_group(0)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .ok()?;
    let mut stdout = child.stdout.take().expect("a piped stream");
    let (mut text, until) = (Vec::new(), Instant::now() + limit);
    loop {
        let left = until.saturating_duration_since(Instant::now());
        let wait = Timespec { tv_sec: left.as_secs().cast_signed(), tv_nsec: i64::from(left.subsec_nanos()) };
        let is_ready = poll(&mut [PollFd::new(&stdout, PollFlags::IN)], Some(&wait)).is_ok_and(|ready| ready > 0);
        let mut buffer = [0; 4096];
        match is_ready.then(|| stdout.read(&mut buffer)) {
            Some(Ok(count)) if count > 0 && text.len() < 64 << 10 => text.extend_from_slice(&buffer[..count]),
            _ => break,
        }
    }
    // The version is known, or the program took too long.
    if let Some(group) = rustix::process::Pid::from_raw(child.id().cast_signed()) {
        let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
    }
    let _ = child.wait();
    String::from_utf8_lossy(&text)
        .lines()
        .map(str::trim)
        .find(|line| !line.is_empty())
        .map(|line| line.chars().take(80).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_looked_up_in_path() {
        let path = std::env::var_os("PATH");
        assert!(find("sh", path.as_deref()).is_some_and(|file| file.is_absolute()));
        assert_eq!(find("no-such-agent-here", path.as_deref()), None);
        assert_eq!(find("sh", None), None);
        assert_eq!(find("/etc/passwd", path.as_deref()), None);
    }

    #[test]
    fn a_version_is_one_line_and_a_silent_program_times_out() {
        let sh = find("sh", Some(OsStr::new("/bin:/usr/bin"))).expect("a shell");
        let env = BTreeMap::from([("T".to_owned(), "1.2".to_owned())]);
        let script = |text: &str| vec!["-c".to_owned(), text.to_owned()];
        assert_eq!(
            version(&sh, &script("echo; echo tool $T; echo more"), &env, Duration::from_secs(5)),
            Some("tool 1.2".into())
        );
        assert_eq!(version(&sh, &script("cat </dev/zero >/dev/null & wait"), &env, Duration::from_millis(50)), None);
    }
}
