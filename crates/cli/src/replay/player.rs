//! Plays a recording on the terminal, with pause, seek and speed.

use std::fmt;
use std::io::{self, IsTerminal};
use std::str::FromStr;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::keys::{Key, keys};
use super::recording::{Mark, Recording};
use crate::attach::frame::{Frame, Size};
use crate::attach::log_view::LogTerminal;
use crate::attach::modes::ModeWatch;
use crate::attach::signals::Signals;
use crate::failure::Failure;
use crate::output;

/// Text of a frame after the sizes.
const ADVICE: &str = "recorded at another size";
/// How far an arrow key jumps.
const JUMP: Duration = Duration::from_secs(5);
const SLOWEST: f64 = 1.0 / 64.0;
const FASTEST: f64 = 1024.0;

/// Playback speed as a factor; infinite for no pauses.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Speed(f64);

impl Speed {
    /// Converts a duration of the recording to real time.
    fn shorten(self, span: Duration) -> Duration {
        Duration::try_from_secs_f64(span.as_secs_f64() / self.0).unwrap_or(Duration::ZERO)
    }

    /// Converts real time to a duration of the recording.
    fn stretch(self, elapsed: Duration) -> Duration {
        Duration::try_from_secs_f64(elapsed.as_secs_f64() * self.0).unwrap_or(Duration::MAX)
    }

    fn times(self, factor: f64) -> Self {
        Self((self.0 * factor).clamp(SLOWEST, FASTEST))
    }
}

impl FromStr for Speed {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.trim_end_matches('x').parse::<f64>() {
            _ if text == "max" => Ok(Self(f64::INFINITY)),
            Ok(speed) if speed > 0.0 && speed.is_finite() => Ok(Self(speed)),
            _ => Err(format!("{text:?} is not a number above 0 or \"max\"")),
        }
    }
}

impl fmt::Display for Speed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.is_finite() {
            true => write!(f, "{}x", self.0),
            false => write!(f, "max"),
        }
    }
}

/// Plays a recording. Returns the signal that ended it, if any.
pub fn play(recording: Recording, speed: Speed, from: u64) -> Result<Option<i32>, Failure> {
    let mut signals = Signals::listen().map_err(Failure::Terminal)?;
    let terminal = LogTerminal::open()?;
    let mut player = Player {
        recording,
        speed,
        position: Duration::ZERO,
        next: 0,
        is_paused: false,
        has_keys: io::stdin().is_terminal(),
        watch: ModeWatch::default(),
        size: None,
        frame: None,
    };
    let ending = player.start(from).and_then(|()| player.run(&mut signals));
    if let Some(terminal) = terminal {
        terminal.close(&player.watch)?;
    }
    ending
}

struct Player {
    recording: Recording,
    speed: Speed,
    /// Position in the recording.
    position: Duration,
    /// Index of the next mark.
    next: usize,
    is_paused: bool,
    has_keys: bool,
    watch: ModeWatch,
    /// Terminal size of the recording at this position.
    size: Option<Size>,
    /// Set while that size differs from this terminal.
    frame: Option<Frame>,
}

impl Player {
    fn start(&mut self, from: u64) -> Result<(), Failure> {
        self.show(b"\x1b[H\x1b[2J")?;
        if from > 0 {
            self.next = self.recording.first_beyond(from)?;
            self.position = self.recording.mark(self.next)?.map_or(self.position, |mark| mark.at);
            self.jump(from)?;
        }
        Ok(())
    }

    /// Shows the screen at this log offset.
    fn jump(&mut self, offset: u64) -> Result<(), Failure> {
        let screen = self.recording.screen_at(offset)?;
        self.size = screen.size.or(self.size);
        self.frame = self.must_frame().map(|size| Frame::new(size, &screen.ansi, ADVICE));
        match self.frame {
            Some(_) => Ok(()),
            None => self.put(&screen.ansi),
        }
    }

    fn must_frame(&self) -> Option<Size> {
        self.size.filter(|size| output::terminal_size().is_some_and(|own| own != *size))
    }

    /// Starts, resizes or ends the frame for the size at this mark.
    fn take_size(&mut self, mark: Mark) -> Result<(), Failure> {
        if mark.size.is_none() || mark.size == self.size {
            return Ok(());
        }
        let is_first = self.size.is_none();
        self.size = mark.size;
        match (self.must_frame(), self.frame.take()) {
            (Some(size), Some(mut frame)) => {
                frame.resize(size);
                self.frame = Some(frame);
            }
            (Some(size), None) if is_first => self.frame = Some(Frame::new(size, &[], ADVICE)),
            (Some(_), None) => {
                self.jump(mark.offset)?;
                self.size = mark.size;
                if let (Some(frame), Some(size)) = (&mut self.frame, mark.size) {
                    frame.resize(size);
                }
            }
            (None, Some(mut frame)) => {
                if let Some(size) = mark.size {
                    frame.resize(size);
                }
                self.put(&frame.whole())?;
            }
            (None, None) => {}
        }
        Ok(())
    }

    /// Draws the frame if it changed and is due.
    fn paint_frame(&mut self, is_last: bool) -> Result<(), Failure> {
        let is_due = |frame: &Frame| frame.due().is_some_and(|due| is_last || due <= Instant::now());
        if let Some(own) = output::terminal_size()
            && let Some(frame) = self.frame.as_mut().filter(|frame| is_due(frame))
        {
            let picture = frame.picture(own);
            self.put(&picture)?;
        }
        Ok(())
    }

    fn run(&mut self, signals: &mut Signals) -> Result<Option<i32>, Failure> {
        loop {
            let mark = match self.recording.mark(self.next)? {
                // While paused at the end, the user may still seek back.
                None if !self.is_paused => {
                    self.paint_frame(true)?;
                    return Ok(None);
                }
                mark => mark,
            };
            let until = match mark {
                Some(mark) if !self.is_paused => Some(self.speed.shorten(mark.at.saturating_sub(self.position))),
                _ => None,
            };
            let waiting_since = Instant::now();
            let paint_in =
                self.frame.as_ref().and_then(Frame::due).map(|due| due.saturating_duration_since(waiting_since));
            let typed = self.wait(signals, [until, paint_in].into_iter().flatten().min())?;
            self.paint_frame(false)?;
            if let Some(signal) = signals.ending() {
                return Ok(Some(signal));
            }
            if let (Some(mark), false) = (mark, self.is_paused) {
                let played = self.speed.stretch(waiting_since.elapsed());
                self.position = self.position.saturating_add(played).min(mark.at);
            }
            for key in &typed {
                if *key == Key::Quit {
                    return Ok(None);
                }
                self.handle_key(*key)?;
            }
            // A key may have changed the position or speed, so compute the wait again.
            let is_due = typed.is_empty() && until.is_some_and(|until| waiting_since.elapsed() >= until);
            if let (Some(mark), true) = (mark, is_due) {
                self.play_next(mark)?;
            }
        }
    }

    fn play_next(&mut self, mark: Mark) -> Result<(), Failure> {
        self.take_size(mark)?;
        let bytes = self.recording.bytes(self.next)?;
        self.show(&bytes)?;
        self.recording.played(self.next);
        self.position = mark.at;
        self.next += 1;
        Ok(())
    }

    /// Waits for a key or the timeout. Returns the typed keys.
    fn wait(&self, signals: &mut Signals, until: Option<Duration>) -> Result<Vec<Key>, Failure> {
        let stdin = io::stdin();
        let mut places = vec![PollFd::new(signals, PollFlags::IN)];
        if self.has_keys {
            places.push(PollFd::new(&stdin, PollFlags::IN));
        }
        let timeout = until.and_then(|until| Timespec::try_from(until).ok());
        match poll(&mut places, timeout.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(Failure::Terminal(error.into())),
        }
        let is_typed = places.get(1).is_some_and(|place| !place.revents().is_empty());
        drop(places);
        signals.drain();
        if !is_typed {
            return Ok(Vec::new());
        }
        let mut typed = [0; 1024];
        match rustix::io::read(&stdin, &mut typed) {
            Ok(0) => Ok(vec![Key::Quit]),
            Ok(count) => Ok(keys(&typed[..count])),
            Err(_) => Ok(Vec::new()),
        }
    }

    fn handle_key(&mut self, key: Key) -> Result<(), Failure> {
        match key {
            Key::Pause => self.is_paused = !self.is_paused,
            Key::Back => self.seek(self.position.saturating_sub(JUMP))?,
            Key::Forward => self.seek(self.position + JUMP)?,
            Key::Faster => self.speed = self.speed.times(2.0),
            Key::Slower => self.speed = self.speed.times(0.5),
            Key::Quit => {}
        }
        self.show_position()
    }

    fn seek(&mut self, to: Duration) -> Result<(), Failure> {
        let next = self.recording.first_after(to)?;
        let offset = match next.checked_sub(1) {
            Some(last) => self.recording.mark(last)?.map_or(0, |mark| mark.end()),
            None => self.recording.mark(0)?.map_or(0, |mark| mark.offset),
        };
        self.jump(offset)?;
        self.next = next;
        self.position = to;
        Ok(())
    }

    /// Shows the position in the window title: the screen shows the recording.
    fn show_position(&mut self) -> Result<(), Failure> {
        let seconds = self.position.as_secs();
        let state = if self.is_paused { "paused" } else { "playing" };
        let text = format!("\x1b]2;{state} at {}:{:02}, {}\x07", seconds / 60, seconds % 60, self.speed);
        output::bytes(text.as_bytes())
    }

    fn show(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        match &mut self.frame {
            Some(frame) => {
                frame.feed(bytes);
                Ok(())
            }
            None => self.put(bytes),
        }
    }

    /// Writes to the terminal.
    fn put(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        self.watch.feed(bytes);
        output::bytes(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_speed_is_a_number_above_zero_or_max() {
        assert_eq!("2".parse(), Ok(Speed(2.0)));
        assert_eq!("0.5x".parse(), Ok(Speed(0.5)));
        assert_eq!("max".parse(), Ok(Speed(f64::INFINITY)));
        for wrong in ["0", "-1", "fast", "", "inf", "NaN"] {
            assert!(wrong.parse::<Speed>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn time_runs_at_the_chosen_speed_and_never_overflows() {
        let second = Duration::from_secs(1);
        assert_eq!(Speed(2.0).shorten(second), Duration::from_millis(500));
        assert_eq!(Speed(2.0).stretch(second), Duration::from_secs(2));
        assert_eq!(Speed(f64::INFINITY).shorten(second), Duration::ZERO);
        assert_eq!(Speed(f64::INFINITY).stretch(second), Duration::MAX);
        assert_eq!(Speed(f64::INFINITY).stretch(Duration::ZERO), Duration::MAX);
        assert_eq!(Speed(f64::INFINITY).times(0.5), Speed(FASTEST));
    }
}
