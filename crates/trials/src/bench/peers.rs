//! The programs that coven is compared with, each with one session.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::BenchResult;
use super::program::{COLS, END, ROWS};
use super::pty::Terminal;

/// Finds a program in PATH.
pub fn find(name: &str) -> Option<PathBuf> {
    std::env::split_paths(&std::env::var_os("PATH")?).map(|folder| folder.join(name)).find(|path| path.is_file())
}

/// A dtach session. Dropping it asks the program to exit, which ends the session.
pub struct Dtach {
    folder: tempfile::TempDir,
}

impl Dtach {
    pub fn launch(argv: &[String]) -> BenchResult<Self> {
        let dtach = Self { folder: tempfile::tempdir()? };
        run(Command::new("dtach").arg("-n").arg(dtach.socket()).args(["-E", "-z", "-r", "ctrl_l"]).args(argv))?;
        Ok(dtach)
    }

    /// Attaches a client; dtach sends Ctrl+L to make the program repaint.
    pub fn attach(&self) -> BenchResult<Terminal> {
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
        // A failure means that the program has already exited.
        if let Ok(mut push) = push.spawn() {
            let _ = push.stdin.take().map(|mut stdin| stdin.write_all(&[END]));
            let _ = push.wait();
        }
    }
}

/// A session on a dedicated tmux server, without user settings and status line. Dropping it ends the server.
pub struct Tmux {
    folder: tempfile::TempDir,
}

impl Tmux {
    /// Launches a session that keeps `history` lines of scrollback.
    pub fn launch(argv: &[String], history: u32) -> BenchResult<Self> {
        let tmux = Self { folder: tempfile::tempdir()? };
        let settings = format!("set -g status off\nset -g history-limit {history}\nset -s escape-time 0\n");
        std::fs::write(tmux.folder.path().join("conf"), settings)?;
        let size = [ROWS.to_string(), COLS.to_string()];
        run(tmux.command(&["new-session", "-d", "-y", &size[0], "-x", &size[1]]).args(argv))?;
        Ok(tmux)
    }

    pub fn attach(&self) -> BenchResult<Terminal> {
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
        // The server exits with its program, so this may fail.
        let _ = self.command(&["kill-server"]).stderr(Stdio::null()).status();
    }
}

/// Runs `script -q`, which records to a file in `folder`; its copy on standard output is discarded.
pub fn script(folder: &Path, argv: &[String]) -> BenchResult<Terminal> {
    let mut command = Command::new("script");
    let line = argv.iter().map(|word| format!("'{word}'")).collect::<Vec<_>>().join(" ");
    command.arg("-q").arg("-c").arg(format!("exec {line}")).arg(folder.join("typescript"));
    Terminal::spawn_quiet(command)
}

fn run(command: &mut Command) -> BenchResult<()> {
    let output = command.stdin(Stdio::null()).output()?;
    match output.status.success() {
        true => Ok(()),
        false => Err(format!("{:?} failed: {}", command.get_program(), String::from_utf8_lossy(&output.stderr)).into()),
    }
}
