//! The programs coven is compared with, each holding one session of its own.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::Outcome;
use super::program::{COLS, END, ROWS};
use super::pty::Terminal;

/// Where a program stands in PATH.
pub fn find(name: &str) -> Option<PathBuf> {
    std::env::split_paths(&std::env::var_os("PATH")?).map(|folder| folder.join(name)).find(|path| path.is_file())
}

/// A session of dtach. Dropping it asks its program to end, and with it goes the session.
pub struct Dtach {
    folder: tempfile::TempDir,
}

impl Dtach {
    pub fn launch(argv: &[String]) -> Outcome<Self> {
        let dtach = Self { folder: tempfile::tempdir()? };
        run(Command::new("dtach").arg("-n").arg(dtach.socket()).args(["-E", "-z", "-r", "ctrl_l"]).args(argv))?;
        Ok(dtach)
    }

    /// An attached client; the program is asked by Ctrl+L to paint.
    pub fn attach(&self) -> Outcome<Terminal> {
        let mut command = Command::new("dtach");
        command.arg("-a").arg(self.socket()).args(["-E", "-z", "-r", "ctrl_l"]);
        Terminal::spawn(command)
    }

    fn socket(&self) -> PathBuf {
        self.folder.path().join("socket")
    }
}

impl Drop for Dtach {
    fn drop(&mut self) {
        let mut push = Command::new("dtach");
        push.arg("-p").arg(self.socket()).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        // It fails where the program has ended already, which is what is wanted.
        if let Ok(mut push) = push.spawn() {
            let _ = push.stdin.take().map(|mut stdin| stdin.write_all(&[END]));
            let _ = push.wait();
        }
    }
}

/// A session of a tmux server of its own, without user settings and status line. Dropping it ends the server.
pub struct Tmux {
    folder: tempfile::TempDir,
}

impl Tmux {
    /// `history` lines are kept, as a user who wants them would set it.
    pub fn launch(argv: &[String], history: u32) -> Outcome<Self> {
        let tmux = Self { folder: tempfile::tempdir()? };
        let settings = format!("set -g status off\nset -g history-limit {history}\nset -s escape-time 0\n");
        std::fs::write(tmux.folder.path().join("conf"), settings)?;
        let size = [ROWS.to_string(), COLS.to_string()];
        run(tmux.command(&["new-session", "-d", "-y", &size[0], "-x", &size[1]]).args(argv))?;
        Ok(tmux)
    }

    pub fn attach(&self) -> Outcome<Terminal> {
        Terminal::spawn(self.command(&["attach"]))
    }

    fn command(&self, args: &[&str]) -> Command {
        let folder: &Path = self.folder.path();
        let mut command = Command::new("tmux");
        command.arg("-S").arg(folder.join("socket")).arg("-f").arg(folder.join("conf")).args(args);
        command.env_remove("TMUX");
        command
    }
}

impl Drop for Tmux {
    fn drop(&mut self) {
        // The server has ended by itself if its program has.
        let _ = self.command(&["kill-server"]).stderr(Stdio::null()).status();
    }
}

/// `script -q` recording into a file of `folder`; what it copies to standard output is thrown away.
pub fn script(folder: &Path, argv: &[String]) -> Outcome<Terminal> {
    let mut command = Command::new("script");
    let line = argv.iter().map(|word| format!("'{word}'")).collect::<Vec<_>>().join(" ");
    command.arg("-q").arg("-c").arg(format!("exec {line}")).arg(folder.join("typescript"));
    Terminal::spawn_quiet(command)
}

fn run(command: &mut Command) -> Outcome<()> {
    let output = command.stdin(Stdio::null()).output()?;
    match output.status.success() {
        true => Ok(()),
        false => Err(format!("{:?} failed: {}", command.get_program(), String::from_utf8_lossy(&output.stderr)).into()),
    }
}
