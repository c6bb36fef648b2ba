//! `coven daemon`: starts, stops and inspects the daemon of a home.

use std::net::SocketAddr;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Subcommand;
use coven_api::health::{HealthResponse, StopRequest};
use coven_api::routes::{Endpoint, Health, StopDaemon};
use coven_holder::{clock, process};
use coven_host::config::Config;
use coven_host::home::Home;
use coven_host::{config, daemon_start};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use super::{daemon_logs, print_json};
use crate::command_line::Place;
use crate::daemon_client::{DaemonClient, block_on, not_running};
use crate::failure::{self, Failure};
use crate::{format, output, trust_prompt};

/// How long to wait for the daemon to stop.
const STOP_TIMEOUT: Duration = Duration::from_secs(20);
/// How long to wait for a daemon to replace its missing socket.
const SOCKET_TIMEOUT: Duration = Duration::from_secs(5);

/// Starts, stops and inspects the daemon; sessions keep running without it
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  coven daemon status
  coven daemon restart                         sessions keep running
  coven daemon start --listen 127.0.0.1:7777   also on TCP, with the home's token
  coven daemon stop --kill-sessions
  coven daemon logs --follow")]
pub struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Starts the daemon if it is not running; other commands do this automatically
    #[command(after_help = "Examples:
  coven daemon start --listen 127.0.0.1:7777")]
    Start(StartArgs),
    /// Stops the daemon; sessions keep running
    #[command(after_help = "Examples:
  coven daemon stop
  coven daemon stop --kill-sessions")]
    Stop {
        /// Also kill all sessions
        #[arg(long)]
        kill_sessions: bool,
    },
    /// Restarts the daemon; sessions keep running
    #[command(after_help = "Examples:
  coven daemon restart")]
    Restart(StartArgs),
    /// Shows whether the daemon is running, and its state
    #[command(after_help = "Examples:
  coven daemon status --json | jq .pid")]
    Status {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Prints the daemon's log
    #[command(after_help = "Examples:
  coven daemon logs --follow -n 20")]
    Logs(daemon_logs::Args),
    /// Runs the daemon in the foreground
    #[command(hide = true)]
    Serve {
        #[arg(long)]
        listen: Option<String>,
    },
}

#[derive(Debug, clap::Args)]
struct StartArgs {
    /// Also listen on this TCP address, e.g. 127.0.0.1:7777
    #[arg(long, value_name = "ADDR")]
    listen: Option<String>,
}

pub fn run(args: Args, place: &Place) -> Result<ExitCode, Failure> {
    match args.verb {
        // Only with --home before it: `main` handles the usual spelling.
        Verb::Serve { listen } => return Ok(super::serve::serve(place, listen)),
        Verb::Start(args) => start(&place.home()?, args)?,
        Verb::Stop { kill_sessions } => {
            let was_running = stop(&place.home()?, kill_sessions)?.is_some();
            output::line(format_args!("{}", if was_running { "stopped" } else { "the daemon was not running" }))?;
        }
        Verb::Restart(args) => {
            let home = place.home()?;
            // Keep the running daemon if a new one could not start.
            let config = check_settings(&home)?;
            args.listen.as_deref().map_or(Ok(()), |listen| check_listen(listen, &config))?;
            stop(&home, false)?;
            start(&home, args)?;
        }
        Verb::Status { json } => return status(&place.home()?, json),
        Verb::Logs(args) => daemon_logs::run(&args, &place.home()?)?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Fails on a config that a new daemon would reject, before anything is stopped or started.
fn check_settings(home: &Home) -> Result<Config, Failure> {
    Ok(config::load_for_daemon(home)?.0)
}

fn check_listen(listen: &str, config: &Config) -> Result<(), Failure> {
    let address: SocketAddr = listen.parse().map_err(|_| {
        let hint = "Use an address and port such as 127.0.0.1:7777";
        Failure::usage(format!("--listen: {listen:?} is not an address and port"), hint)
    })?;
    match address.ip().is_loopback() || config.http.allow_remote {
        true => Ok(()),
        false => Err(Failure::usage(
            format!("--listen: {address} is not a loopback address"),
            "Set http.allowRemote in the config to listen there",
        )),
    }
}

fn start(home: &Home, args: StartArgs) -> Result<(), Failure> {
    check_settings(home)?;
    trust_prompt::ask_before_start(home)?;
    let wants_listen = args.listen.is_some();
    let extra: Vec<String> = args.listen.into_iter().flat_map(|address| ["--listen".to_owned(), address]).collect();
    let started = daemon_start::ensure_running(home, &extra)?;
    started.notices.iter().for_each(|notice| failure::print_error(notice));
    if !started.is_new && wants_listen {
        return Err(Failure::refused(
            "the daemon is already running; --listen has no effect",
            "Use `coven daemon restart --listen ADDR`",
        ));
    }
    let word = if started.is_new { "started" } else { "already running" };
    output::line(format_args!("{word}: {}", started.socket.display()))
}

/// State of a home's daemon.
enum FoundDaemon {
    Answering(DaemonClient),
    /// The daemon with this pid holds the store but does not answer on its socket.
    Silent(u32),
    NotRunning,
}

/// Finds the daemon. Waits for one that is replacing its socket.
async fn find(home: &Home) -> Result<FoundDaemon, Failure> {
    let deadline = Instant::now() + SOCKET_TIMEOUT;
    loop {
        if let Some(link) = DaemonClient::running(home).await? {
            return Ok(FoundDaemon::Answering(link));
        }
        match daemon_start::store_owner(home) {
            None => return Ok(FoundDaemon::NotRunning),
            Some(pid) if Instant::now() >= deadline => return Ok(FoundDaemon::Silent(pid)),
            Some(_) => tokio::time::sleep(Duration::from_millis(50)).await,
        }
    }
}

/// A daemon that was stopped.
struct Stopped {
    /// Its TCP address.
    listen: Option<String>,
}

/// Stops the daemon and waits for its end. Returns `None` if it was not running.
fn stop(home: &Home, kill_sessions: bool) -> Result<Option<Stopped>, Failure> {
    block_on(async {
        let (pid, listen) = match find(home).await? {
            FoundDaemon::NotRunning => return Ok(None),
            FoundDaemon::Answering(mut link) => {
                let health = link.call(Health::request()).await?;
                link.call(StopDaemon::request().body(&StopRequest { kill_sessions })).await?;
                (health.pid, health.listen)
            }
            FoundDaemon::Silent(pid) if kill_sessions => {
                return Err(Failure::failed(
                    format!("cannot kill the sessions: the daemon (pid {pid}) does not answer on its socket"),
                    "Run `coven daemon restart`, then retry",
                ));
            }
            FoundDaemon::Silent(pid) => {
                terminate(pid);
                (pid, None)
            }
        };
        let deadline = Instant::now() + STOP_TIMEOUT;
        // Wait for the process, not only the socket: it holds the store until it exits.
        while process::stat(pid).is_ok_and(|it| !it.is_zombie()) {
            if Instant::now() > deadline {
                return Err(Failure::failed(
                    format!("the daemon (pid {pid}) did not stop within {} seconds", STOP_TIMEOUT.as_secs()),
                    "See `coven daemon logs`",
                ));
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        Ok(Some(Stopped { listen }))
    })
}

pub fn restart(place: &Place) -> Result<(), Failure> {
    restart_if_running(&place.unchecked_home()?)
}

/// Restarts a running daemon, so that it reads its config again.
pub fn restart_if_running(home: &Home) -> Result<(), Failure> {
    let Some(stopped) = stop(home, false)? else { return Ok(()) };
    // Keep the address of --listen, unless the config has one.
    let listen = stopped.listen.filter(|_| config::load(home).is_ok_and(|(config, _)| config.http.listen.is_none()));
    let extra: Vec<String> = listen.into_iter().flat_map(|address| ["--listen".to_owned(), address]).collect();
    daemon_start::ensure_running(home, &extra)?;
    Ok(())
}

pub fn stop_if_running(home: &Home) -> Result<(), Failure> {
    stop(home, false).map(drop)
}

/// Sends SIGTERM, and SIGCONT so that a stopped process can handle it.
fn terminate(pid: u32) {
    if let Some(pid) = Pid::from_raw(pid.cast_signed()) {
        let _ = kill_process(pid, Signal::TERM);
        let _ = kill_process(pid, Signal::CONT);
    }
}

fn status(home: &Home, as_json: bool) -> Result<ExitCode, Failure> {
    block_on(async {
        let (mut link, pid) = match find(home).await? {
            FoundDaemon::Answering(link) => (Some(link), None),
            FoundDaemon::Silent(pid) => (None, Some(pid)),
            FoundDaemon::NotRunning => (None, None),
        };
        let Some(link) = &mut link else {
            if as_json {
                let answer = json!({"ok": false, "home": home.path(), "pid": pid});
                output::json(answer.to_string().as_bytes())?;
                return Ok(ExitCode::from(failure::UNAVAILABLE));
            }
            return Err(match pid {
                None => not_running(),
                Some(pid) => Failure::unavailable(
                    format!("the daemon (pid {pid}) is running but does not answer on its socket"),
                    "Run `coven daemon restart`",
                ),
            });
        };
        let body = link.bytes(Health::request()).await?;
        if as_json {
            print_json(&body)?;
            return Ok(ExitCode::SUCCESS);
        }
        let health: HealthResponse = serde_json::from_slice(&body).map_err(coven_client::ClientError::from)?;
        output::text(&status_text(&health))?;
        Ok(ExitCode::SUCCESS)
    })
}

fn status_text(health: &HealthResponse) -> String {
    let age = format::format_duration(clock::now().since(health.started_at));
    let mut out = format!("running    pid {}, version {}, for {age}\n", health.pid, health.version);
    out.push_str(&format!("home       {}\n", health.home));
    out.push_str(&format!("sessions   {} running of {}\n", health.sessions_live, health.sessions_total));
    if let Some(listen) = &health.listen {
        out.push_str(&format!("listening  {listen}\n"));
    }
    for problem in &health.problems {
        out.push_str(&format!("problem    {}\n", format::sanitize_line(problem)));
    }
    out
}
