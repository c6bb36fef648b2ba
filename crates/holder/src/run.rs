//! How a holder starts: reads its spec, makes its files, starts the harness and says so.

use std::fs::File;
use std::io::{self, Write};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::ExitCode;

use coven_files::Limit;
use rustix::fs::Mode;
use rustix::process::{Signal, umask};

use crate::client::bind_socket;
use crate::ending::signal_group;
use crate::holder::Holder;
use crate::journal::{JournalWriter, Record, Stamped};
use crate::log::LogWriter;
use crate::recorder::{Recorder, now_ms};
use crate::signals::Signals;
use crate::spec::{Ready, Spec};
use crate::syncer::Syncer;
use crate::{JOURNAL, SOCKET, process, stage};

/// The hidden subcommand: reads its spec from standard input, answers on standard output, then lives on by itself.
/// It must be the first thing its process does.
pub fn run() -> ExitCode {
    // SAFETY: nothing was opened yet, so nobody owns these. What a shell left open, a lock for one, would be kept as
    // long as the session lives.
    unsafe { libc::close_range(3, u32::MAX, 0) };
    let ready = match start() {
        Ok((holder, ready)) => {
            answer(&ready);
            return holder.live();
        }
        Err(reason) => Ready::Failed { reason },
    };
    answer(&ready);
    ExitCode::FAILURE
}

fn answer(ready: &Ready) {
    let mut line = serde_json::to_string(ready).expect("plain data");
    line.push('\n');
    let mut stdout = io::stdout().lock();
    // If nobody listens any more the daemon was killed; the next one finds us by our socket.
    let _ = stdout.write_all(line.as_bytes()).and_then(|()| stdout.flush());
    if let Ok(null) = File::options().read(true).write(true).open("/dev/null") {
        let _ = rustix::stdio::dup2_stdin(&null);
        let _ = rustix::stdio::dup2_stdout(&null);
    }
}

fn start() -> Result<(Holder, Ready), String> {
    let spec = settle()?;
    let in_folder = |error: io::Error| format!("the session's folder cannot be used: {error}");
    let signals = Signals::watch().map_err(|error| format!("signals cannot be watched: {error}"))?;
    let listener = listen(&spec.dir).map_err(in_folder)?;
    let made = make_files(&spec).map_err(in_folder).and_then(|(mut journal, log, syncer)| match launch(&spec) {
        Ok((harness, identity)) => Ok((Recorder::new(log, journal, syncer), harness, identity)),
        Err(reason) => {
            let record = Record::LaunchFailed(reason.clone());
            let _ = journal.append(&Stamped { at: now_ms(), offset: 0, record });
            let _ = journal.file().sync_data();
            Err(reason)
        }
    });
    let (mut recorder, harness, identity) = match made {
        Ok(made) => made,
        Err(reason) => {
            let _ = std::fs::remove_file(spec.dir.join(SOCKET));
            return Err(reason);
        }
    };
    recorder.note_now(Record::Start {
        pid: identity.pid,
        started_ticks: identity.started_ticks,
        rows: spec.rows,
        cols: spec.cols,
        boot_id: identity.boot_id.clone(),
    });
    recorder.sync_folder(&spec.dir);
    let ready = Ready::Running {
        holder: std::process::id(),
        pid: identity.pid,
        started_ticks: identity.started_ticks,
        boot_id: identity.boot_id,
    };
    Ok((Holder::new(spec, listener, signals, recorder, harness, identity.started_ticks), ready))
}

/// Arguments and environment, which the kernel bounds as well.
pub const SPEC: Limit = Limit::new("the instructions to a holder", 16 << 20);

/// Reads the spec and leaves whatever belongs to the starter.
fn settle() -> Result<Spec, String> {
    let text = coven_files::read_stream_text(io::stdin().lock(), SPEC)
        .map_err(|error| format!("the holder got no instructions: {error}"))?;
    let mut spec: Spec =
        serde_json::from_str(&text).map_err(|error| format!("the holder was told nonsense: {error}"))?;
    let _ = rustix::thread::set_name(crate::process::HOLDER_NAME);
    // Away from the daemon's session and group; already a leader is as good.
    let _ = rustix::process::setsid();
    // Orphans of the harness come to us, so that a kill can find them.
    let _ = rustix::process::set_child_subreaper(Some(rustix::process::getpid()));
    if let Some(current) = spec.open_files {
        let maximum = rustix::process::getrlimit(rustix::process::Resource::Nofile).maximum;
        let limit = rustix::process::Rlimit { current: Some(current), maximum };
        let _ = rustix::process::setrlimit(rustix::process::Resource::Nofile, limit);
    }
    // From inside its folder a holder does not care if a folder above is renamed.
    spec.cwd = std::path::absolute(&spec.cwd).map_err(|error| format!("no working folder: {error}"))?;
    std::env::set_current_dir(&spec.dir).map_err(|error| format!("the session's folder cannot be used: {error}"))?;
    spec.dir = ".".into();
    Ok(spec)
}

fn listen(dir: &Path) -> io::Result<UnixListener> {
    // Only for the socket: the harness must make its files as the user's shell would.
    let usual = umask(Mode::from_raw_mode(0o177));
    let listener = bind_socket(dir);
    umask(usual);
    let listener = listener?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

fn make_files(spec: &Spec) -> io::Result<(JournalWriter, LogWriter, Syncer)> {
    let journal = JournalWriter::create(&spec.dir.join(JOURNAL))?;
    let log = LogWriter::create(&spec.dir, spec.segment_bytes, spec.max_output_bytes)?;
    Ok((journal, log, Syncer::start()?))
}

fn launch(spec: &Spec) -> Result<(stage::Harness, coven_domain::session::ProcessIdentity), String> {
    let program = spec.argv.first().map_or("", String::as_str);
    if !spec.cwd.is_dir() {
        return Err(format!("{program} could not be started: there is no folder {}", spec.cwd.display()));
    }
    let harness = stage::launch(spec).map_err(|error| format!("{program} could not be started: {error}"))?;
    match process::identity(harness.pid) {
        Ok(identity) => Ok((harness, identity)),
        Err(error) => {
            signal_group(harness.pid, Signal::KILL);
            Err(format!("the harness's process cannot be seen: {error}"))
        }
    }
}
