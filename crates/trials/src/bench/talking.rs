//! `coven spawn`: time until the prompt, and time until an agent's first output is on the screen.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use rustix::fs::{CWD, Mode, mkfifoat};

use super::pty::Terminal;
use super::report::Row;
use super::stats::{Spread, median};
use super::{Bench, BenchResult, micros};

/// Cursor position request; the line editor shows its prompt after the reply.
const CURSOR_REQUEST: &[u8] = b"\x1b[6n";
const CURSOR_REPLY: &[u8] = b"\x1b[5;1R";
/// Part of the coloured prompt that does not occur in the greeting.
const PROMPT: &[u8] = b"mspawn";
const FIRST_OUTPUT: &[u8] = b"written-at-";

/// `root` is the home, which contains `count` old conversations.
pub fn measure(bench: &Bench, root: &Path, count: usize) -> BenchResult<Vec<Row>> {
    let (tool, release) = (root.join("tool"), root.join("release"));
    mkfifoat(CWD, &release, Mode::RUSR | Mode::WUSR)?;
    let (output, fifo) = (String::from_utf8_lossy(FIRST_OUTPUT), release.display());
    fs::write(
        &tool,
        format!(
            "#!/bin/sh\ncat > /dev/null\nprintf '{output}%s.' \"$(date +%s%N)\"\nread line < '{fifo}'\nprintf the-end\n"
        ),
    )?;
    fs::set_permissions(&tool, fs::Permissions::from_mode(0o755))?;

    let mut medians: [Vec<f64>; 3] = Default::default();
    for _ in 0..bench.rounds {
        let mut times: [Vec<f64>; 3] = Default::default();
        for _ in 0..bench.scale(30, 3) {
            let start = Instant::now();
            let status = Command::new("/bin/true").stdin(Stdio::null()).stdout(Stdio::null()).status()?;
            times[0].push(micros(start.elapsed()));
            if !status.success() {
                return Err("/bin/true failed".into());
            }
            let start = Instant::now();
            let terminal = prompted(bench, root, &tool)?;
            times[1].push(micros(start.elapsed()));
            times[2].push(first_output(&terminal, &release)?);
        }
        for (medians, times) in medians.iter_mut().zip(&times) {
            medians.push(median(times));
        }
    }
    let [base, prompt, word] = medians;
    Ok(vec![
        Row::anchor("conversations: /bin/true, p50 in µs", Spread::of(&base)),
        Row::anchor(
            format!("conversations: start until the prompt with {count} old ones, p50 in µs"),
            Spread::of(&prompt),
        ),
        Row::at_most("conversations: start until the prompt / true", Spread::ratio(&prompt, &base), 10.0),
        Row::anchor(
            "conversations: an agent's first output until it is on the screen, the agent still writing, p50 in µs",
            Spread::of(&word),
        ),
    ])
}

fn prompted(bench: &Bench, root: &Path, tool: &Path) -> BenchResult<Terminal> {
    let mut command = Command::new(&bench.coven);
    command.args(["spawn", "-i"]).env("AURORA_HOME", root).env("AURORA_SPAWN_TOOL", tool).current_dir(root);
    command.env("COVEN_HOME", root.join("coven"));
    let terminal = Terminal::spawn(command)?;
    terminal.read_until(CURSOR_REQUEST)?;
    terminal.write(CURSOR_REPLY)?;
    terminal.read_until(PROMPT)?;
    Ok(terminal)
}

/// Returns the time from the agent's write until its output is on the screen, then lets the agent continue.
fn first_output(terminal: &Terminal, release: &Path) -> BenchResult<f64> {
    terminal.write(b"hello\r")?;
    let seen = terminal.read_between(FIRST_OUTPUT, b".")?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_nanos();
    let written: u128 = String::from_utf8(seen)?.parse()?;
    fs::write(release, "\n")?;
    terminal.read_until(b"the-end")?;
    terminal.read_until(CURSOR_REQUEST)?;
    terminal.write(CURSOR_REPLY)?;
    terminal.read_until(PROMPT)?;
    terminal.write(b"\x04")?;
    terminal.read_until(b"coven spawn --resume")?;
    Ok(now.saturating_sub(written) as f64 / 1000.0)
}
