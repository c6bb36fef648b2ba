//! The built-in `demo` harness: a scripted agent that shows a plan, works, asks one question and ends.

use std::ffi::OsString;
use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};
use unicode_width::UnicodeWidthStr;

use crate::format;
use crate::table::cut;

const TASK: &str = "Add a --version flag to a small program";
/// Seconds that the question waits for an answer.
const ANSWER_TIMEOUT: f64 = 8.0;
const DEFAULT_ANSWER: &str = "yes";
const BAR_WIDTH: usize = 30;

struct Step {
    title: &'static str,
    seconds: f64,
    lines: &'static [&'static str],
}

const STEPS: [Step; 4] = [
    Step { title: "Read the code", seconds: 2.0, lines: &["src/main.rs      42 lines", "src/options.rs   87 lines"] },
    Step {
        title: "Write the change",
        seconds: 3.0,
        lines: &[
            "\x1b[31m-    let options = Options::parse();\x1b[0m",
            "\x1b[32m+    let options = Options::parse_with_version();\x1b[0m",
        ],
    },
    Step { title: "Build", seconds: 3.0, lines: &["   \x1b[1;32mFinished\x1b[0m in 1.84 s"] },
    Step {
        title: "Run the tests",
        seconds: 3.0,
        lines: &["test prints_version ... \x1b[32mok\x1b[0m", "test keeps_old_flags ... \x1b[32mok\x1b[0m"],
    },
];

pub fn run(args: impl Iterator<Item = OsString>) -> ExitCode {
    let words: Vec<String> = args.skip_while(|word| word == "--").map(|word| word.to_string_lossy().into()).collect();
    let mut demo = Demo::new();
    // A closed terminal is not a failure of the demo.
    match demo.play(&words.join(" ")) {
        Ok(()) | Err(_) => ExitCode::SUCCESS,
    }
}

struct Demo {
    has_colours: bool,
    width: usize,
    /// A factor on every pause.
    pace: f64,
    /// The terminal's settings before the demo, if there is a terminal.
    before: Option<Termios>,
    started_at: Instant,
}

impl Demo {
    fn new() -> Self {
        let pace = std::env::var("COVEN_DEMO_SPEED").ok().and_then(|text| text.parse::<f64>().ok());
        let width = rustix::termios::tcgetwinsize(io::stdout()).map_or(80, |size| usize::from(size.ws_col));
        Self {
            has_colours: io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none(),
            width: width.clamp(20, 100),
            pace: pace.filter(|pace| (0.0..=100.0).contains(pace)).unwrap_or(1.0),
            before: tcgetattr(io::stdin()).ok(),
            started_at: Instant::now(),
        }
    }

    /// Switches the echo of typed keys on or off: outside of the question they would disturb the progress bar.
    fn echo(&self, is_on: bool) {
        let Some(mut modes) = self.before.clone() else { return };
        if !is_on {
            modes.local_modes.remove(LocalModes::ECHO);
        }
        // A failure only affects the looks.
        let _ = tcsetattr(io::stdin(), OptionalActions::Now, &modes);
    }

    fn play(&mut self, prompt: &str) -> io::Result<()> {
        self.echo(false);
        self.print_line("\x1b[1;35m✦ Demo agent\x1b[0m \x1b[2ma script inside coven; it changes nothing\x1b[0m")?;
        self.print_line("")?;
        self.show_task(prompt)?;
        self.print_line("\x1b[1mPlan\x1b[0m")?;
        for (number, step) in STEPS.iter().enumerate() {
            self.pause(0.25);
            self.print_line(&format!("  {}. {}", number + 1, step.title))?;
        }
        self.print_line("")?;
        let (before, after) = STEPS.split_at(2);
        for step in before {
            self.work(step)?;
        }
        let answer = self.ask("Shall I build it and run the tests?")?;
        let continues = !matches!(answer.to_lowercase().as_str(), "n" | "no");
        for step in after.iter().filter(|_| continues) {
            self.work(step)?;
        }
        self.sum_up(&answer, continues)
    }

    fn show_task(&self, prompt: &str) -> io::Result<()> {
        let task = if prompt.trim().is_empty() { TASK } else { prompt };
        // The prompt can be any text; control characters are removed.
        let lines: Vec<String> = task.lines().map(|line| line.chars().filter(|c| !c.is_control()).collect()).collect();
        for line in lines.iter().take(5) {
            self.print_line(&format!("\x1b[36m> {}\x1b[0m", cut(line, self.width - 2)))?;
        }
        if lines.len() > 5 {
            self.print_line(&format!("\x1b[36m> … {} more lines\x1b[0m", lines.len() - 5))?;
        }
        self.print_line("")
    }

    /// Shows one step with a progress bar.
    fn work(&self, step: &Step) -> io::Result<()> {
        const TICKS: usize = 20;
        if !io::stdout().is_terminal() {
            self.pause(step.seconds);
        } else {
            for tick in 0..=TICKS {
                let filled = BAR_WIDTH * tick / TICKS;
                let bar = format!("{}\x1b[2m{}", "━".repeat(filled), "─".repeat(BAR_WIDTH - filled));
                self.print(&format!(
                    "\r\x1b[33m●\x1b[0m {:<18} \x1b[32m{bar}\x1b[0m {:>3} %",
                    step.title,
                    tick * 100 / TICKS
                ))?;
                self.pause(step.seconds / TICKS as f64);
            }
            self.print("\r\x1b[K")?;
        }
        self.print_line(&format!("\x1b[32m✔\x1b[0m {}", step.title))?;
        for line in step.lines {
            self.print_line(&format!("    {line}"))?;
            self.pause(0.1);
        }
        Ok(())
    }

    /// Asks a question; continues with the default answer after the timeout.
    fn ask(&self, question: &str) -> io::Result<String> {
        self.print_line("")?;
        self.print(&format!("\x1b[1;33m?\x1b[0m {question} \x1b[2m[{DEFAULT_ANSWER}]\x1b[0m "))?;
        let wait = Duration::from_secs_f64(ANSWER_TIMEOUT * self.pace);
        self.echo(true);
        let answered = read_line(io::stdin(), wait);
        self.echo(false);
        let answer = match answered {
            Answer::Line(line) if !line.trim().is_empty() => line.trim().to_owned(),
            Answer::Line(_) => DEFAULT_ANSWER.to_owned(),
            Answer::Closed | Answer::TimedOut => {
                self.print_line("")?;
                self.print_line(&format!(
                    "  No answer within {:.0} s: continuing with {DEFAULT_ANSWER}.",
                    wait.as_secs_f64()
                ))?;
                format!("none, so {DEFAULT_ANSWER}")
            }
        };
        self.print_line("")?;
        Ok(answer)
    }

    fn sum_up(&self, answer: &str, has_built: bool) -> io::Result<()> {
        let shown: String = answer.chars().filter(|c| !c.is_control()).collect();
        let shown = if shown.width() > 40 { cut(&shown, 40) } else { shown };
        self.print_line("")?;
        self.print_line("\x1b[1;32mDone\x1b[0m")?;
        let work = match has_built {
            true => format!("{} steps, 2 tests passed", STEPS.len()),
            false => "nothing was built or tested".to_owned(),
        };
        self.print_line(&format!("  {work}, your answer: {shown}"))?;
        self.print_line(&format!("  took {:.0} s; see it again with", self.started_at.elapsed().as_secs_f64()))?;
        let program = format::program();
        self.print_line(&format!("  {program} replay"))?;
        self.print_line("  and all sessions with")?;
        self.print_line(&format!("  {program}"))
    }

    fn print_line(&self, line: &str) -> io::Result<()> {
        self.print(&format!("{line}\n"))
    }

    fn print(&self, text: &str) -> io::Result<()> {
        let mut out = io::stdout().lock();
        let text = if self.has_colours { text.to_owned() } else { without_colours(text) };
        out.write_all(text.as_bytes())?;
        out.flush()
    }

    fn pause(&self, seconds: f64) {
        std::thread::sleep(Duration::from_secs_f64(seconds * self.pace));
    }
}

impl Drop for Demo {
    fn drop(&mut self) {
        self.echo(true);
    }
}

enum Answer {
    Line(String),
    Closed,
    TimedOut,
}

/// Reads one line within a time limit, byte by byte.
fn read_line(input: impl std::os::fd::AsFd, within: Duration) -> Answer {
    let deadline = Instant::now() + within;
    let mut line = Vec::new();
    loop {
        let left = Timespec::try_from(deadline.saturating_duration_since(Instant::now())).unwrap_or_default();
        match poll(&mut [PollFd::new(&input, PollFlags::IN)], Some(&left)) {
            Ok(0) => return Answer::TimedOut,
            Ok(_) => {}
            Err(rustix::io::Errno::INTR) => continue,
            Err(_) => return Answer::Closed,
        }
        let mut byte = [0; 1];
        match rustix::io::read(&input, &mut byte) {
            Ok(0) if line.is_empty() => return Answer::Closed,
            Ok(count) if count == 0 || matches!(byte[0], b'\n' | b'\r') => {
                return Answer::Line(String::from_utf8_lossy(&line).into_owned());
            }
            Ok(_) => line.push(byte[0]),
            Err(rustix::io::Errno::INTR | rustix::io::Errno::AGAIN) => {}
            Err(_) => return Answer::Closed,
        }
    }
}

/// Removes colour sequences, for output that is not a terminal.
fn without_colours(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, behind)) = rest.split_once("\x1b[") {
        out.push_str(before);
        rest = behind.trim_start_matches(|c: char| c.is_ascii_digit() || c == ';');
        rest = rest.get(1..).unwrap_or("");
    }
    out + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_script_takes_about_twenty_seconds_with_an_unanswered_question() {
        let work: f64 = STEPS.iter().map(|step| step.seconds + 0.1 * step.lines.len() as f64).sum();
        let whole = work + 0.25 * STEPS.len() as f64 + ANSWER_TIMEOUT;
        assert!((17.0..23.0).contains(&whole), "{whole}");
    }

    #[test]
    fn every_line_fits_eighty_columns() {
        for step in &STEPS {
            assert!(step.lines.iter().all(|line| without_colours(line).width() + 4 <= 80));
        }
    }

    #[test]
    fn reading_a_line_ends_at_the_timeout_or_the_end_of_input() {
        let (reader, mut writer) = io::pipe().expect("a pipe");
        writer.write_all(b"yes please\nmore").expect("room");
        assert!(matches!(read_line(&reader, Duration::from_secs(60)), Answer::Line(line) if line == "yes please"));
        let (silent, _kept) = io::pipe().expect("a pipe");
        assert!(matches!(read_line(&silent, Duration::ZERO), Answer::TimedOut));
        let (closed, gone) = io::pipe().expect("a pipe");
        drop(gone);
        assert!(matches!(read_line(&closed, Duration::from_secs(60)), Answer::Closed));
    }

    #[test]
    fn colours_are_removed() {
        assert_eq!(without_colours("\x1b[1;32mok\x1b[0m é \x1b[K!"), "ok é !");
    }
}
