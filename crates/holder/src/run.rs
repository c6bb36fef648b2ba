//! Starts a holder: reads the spec, creates the files, launches the harness and reports the result.

use std::fs::File;
use std::io::{self, Write};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::ExitCode;

use coven_files::Limit;
use rustix::fs::Mode;
use rustix::process::{Signal, umask};

use crate::client::bind_socket;
use crate::holder::Holder;
use crate::journal::{JournalWriter, Record, Stamped};
use crate::log::LogWriter;
use crate::recorder::{Recorder, now_ms};
use crate::signals::Signals;
use crate::spec::{LaunchReport, Spec};
use crate::syncer::Syncer;
use crate::termination::signal_group;
use crate::{JOURNAL, SOCKET, child, process};

/// Runs the hidden subcommand `coven hold`: reads the spec from standard input, reports the launch on standard output,
/// then keeps running detached. It must be called before the process does anything else.
pub fn run() -> ExitCode {
    // SAFETY: the process has opened nothing yet, so no code owns these descriptors. Inherited ones, such as a lock
    // file that a shell left open, would otherwise stay open as long as the session.
    unsafe { libc::close_range(3, u32::MAX, 0) };
    let ready = match start() {
        Ok((holder, ready)) => {
            report(&ready);
            return holder.run();
        }
        Err(reason) => LaunchReport::Failed { reason },
    };
    report(&ready);
    ExitCode::FAILURE
}

fn report(ready: &LaunchReport) {
    let mut line = serde_json::to_string(ready).expect("plain data");
    line.push('\n');
    let mut stdout = io::stdout().lock();
    // If the write fails, the daemon was killed; the next daemon finds this holder by its socket.
    let _ = stdout.write_all(line.as_bytes()).and_then(|()| stdout.flush());
    if let Ok(null) = File::options().read(true).write(true).open("/dev/null") {
        let _ = rustix::stdio::dup2_stdin(&null);
        let _ = rustix::stdio::dup2_stdout(&null);
    }
}

fn start() -> Result<(Holder, LaunchReport), String> {
    let spec = read_spec_and_detach()?;
    let in_folder = |error: io::Error| format!("cannot use the session's folder: {error}");
    let signals = Signals::watch().map_err(|error| format!("cannot install signal handlers: {error}"))?;
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
    let ready = LaunchReport::Running {
        holder: std::process::id(),
        pid: identity.pid,
        started_ticks: identity.started_ticks,
        boot_id: identity.boot_id,
    };
    Ok((Holder::new(spec, listener, signals, recorder, harness, identity.started_ticks), ready))
}

/// Limit of the spec. It consists mostly of arguments and environment, whose size the kernel limits as well.
pub const SPEC: Limit = Limit::new("the instructions to a holder", 16 << 20);

/// Reads the spec, then detaches from the session, resource limits and working folder of the parent process.
fn read_spec_and_detach() -> Result<Spec, String> {
    let text = coven_files::read_stream_text(io::stdin().lock(), SPEC)
        .map_err(|error| format!("cannot read the holder's spec from standard input: {error}"))?;
    let mut spec: Spec =
        serde_json::from_str(&text).map_err(|error| format!("the holder's spec is not valid: {error}"))?;
    let _ = rustix::thread::set_name(crate::process::HOLDER_NAME);
    // Leave the daemon's session and group. This fails if the process is already a leader, which is fine.
    let _ = rustix::process::setsid();
    // Adopt orphans of the harness, so that a kill can find them.
    let _ = rustix::process::set_child_subreaper(Some(rustix::process::getpid()));
    if let Some(current) = spec.open_files {
        let maximum = rustix::process::getrlimit(rustix::process::Resource::Nofile).maximum;
        let limit = rustix::process::Rlimit { current: Some(current), maximum };
        let _ = rustix::process::setrlimit(rustix::process::Resource::Nofile, limit);
    }
    // Relative paths inside the session's folder keep working if a parent folder is renamed.
    spec.cwd =
        std::path::absolute(&spec.cwd).map_err(|error| format!("cannot determine the working folder: {error}"))?;
    std::env::set_current_dir(&spec.dir).map_err(|error| format!("cannot use the session's folder: {error}"))?;
    spec.dir = ".".into();
    Ok(spec)
}

fn listen(dir: &Path) -> io::Result<UnixListener> {
    // Only for the socket: the harness must create files with the user's own umask.
    let previous = umask(Mode::from_raw_mode(0o177));
    let listener = bind_socket(dir);
    umask(previous);
    let listener = listener?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

fn make_files(spec: &Spec) -> io::Result<(JournalWriter, LogWriter, Syncer)> {
    let journal = JournalWriter::create(&spec.dir.join(JOURNAL))?;
    let log = LogWriter::create(&spec.dir, spec.segment_bytes, spec.max_output_bytes)?;
    Ok((journal, log, Syncer::start()?))
}

fn launch(spec: &Spec) -> Result<(child::Harness, coven_domain::session::ProcessIdentity), String> {
    let program = spec.argv.first().map_or("", String::as_str);
    if !spec.cwd.is_dir() {
        return Err(format!("{program} could not be started: its folder {} does not exist", spec.cwd.display()));
    }
    let harness = child::launch(spec).map_err(|error| format!("{program} could not be started: {error}"))?;
    match process::identity(harness.pid) {
        Ok(identity) => Ok((harness, identity)),
        Err(error) => {
            signal_group(harness.pid, Signal::KILL);
            Err(format!("cannot read the harness's process information: {error}"))
        }
    }
}
