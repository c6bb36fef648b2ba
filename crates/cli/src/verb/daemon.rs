//! `coven daemon`: starts, stops and looks at the daemon of a home.

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

/// How long a daemon may take to write down what it holds and end.
const STOPS_WITHIN: Duration = Duration::from_secs(20);
/// How long a daemon may take to notice that its socket is gone, and to make a new one.
const BINDS_WITHIN: Duration = Duration::from_secs(5);

/// Starts, stops and looks at the daemon; sessions outlive it
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  coven daemon status
  coven daemon restart                         sessions go on
  coven daemon start --listen 127.0.0.1:7777   also on TCP, with the token of the home
  coven daemon stop --kill-sessions
  coven daemon logs --follow")]
pub struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Starts it, if it does not run; commands do that by themselves
    #[command(after_help = "Examples:
  coven daemon start --listen 127.0.0.1:7777")]
    Start(StartArgs),
    /// Stops it; sessions go on
    #[command(after_help = "Examples:
  coven daemon stop
  coven daemon stop --kill-sessions")]
    Stop {
        /// End all sessions too
        #[arg(long)]
        kill_sessions: bool,
    },
    /// Stops and starts it; sessions go on
    #[command(after_help = "Examples:
  coven daemon restart")]
    Restart(StartArgs),
    /// Says whether it runs and how it is
    #[command(after_help = "Examples:
  coven daemon status --json | jq .pid")]
    Status {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Prints the daemon's own log
    #[command(after_help = "Examples:
  coven daemon logs --follow -n 20")]
    Logs(daemon_logs::Args),
    /// Runs it in the foreground
    #[command(hide = true)]
    Serve {
        #[arg(long)]
        listen: Option<String>,
    },
}

#[derive(Debug, clap::Args)]
struct StartArgs {
    /// Listen on this address too, e.g. 127.0.0.1:7777
    #[arg(long, value_name = "ADDR")]
    listen: Option<String>,
}

pub fn run(args: Args, place: &Place) -> Result<ExitCode, Failure> {
    match args.verb {
        // With --home in front of it; the usual spelling never comes here.
        Verb::Serve { listen } => return Ok(super::serve::serve(place, listen)),
        Verb::Start(args) => start(&place.home()?, args)?,
        Verb::Stop { kill_sessions } => {
            let was_running = stop(&place.home()?, kill_sessions)?.is_some();
            output::line(format_args!("{}", if was_running { "stopped" } else { "it did not run" }))?;
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

/// Refuses what a new daemon would refuse, before anything is stopped or started.
fn check_settings(home: &Home) -> Result<Config, Failure> {
    Ok(config::load_for_daemon(home)?.0)
}

fn check_listen(listen: &str, config: &Config) -> Result<(), Failure> {
    let address: SocketAddr = listen.parse().map_err(|_| {
        let hint = "Give an address and port such as 127.0.0.1:7777";
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
            "the daemon runs already and keeps the addresses it has",
            "Give --listen to `coven daemon restart`",
        ));
    }
    let word = if started.is_new { "started" } else { "it runs already" };
    output::line(format_args!("{word}: {}", started.socket.display()))
}

/// What there is of a home's daemon.
enum Found {
    Answering(DaemonClient),
    /// It has the store and does not answer on its socket.
    Silent(u32),
    Nothing,
}

/// Looks for the daemon. One that has lost its socket gets time to make a new one.
async fn find(home: &Home) -> Result<Found, Failure> {
    let deadline = Instant::now() + BINDS_WITHIN;
    loop {
        if let Some(link) = DaemonClient::running(home).await? {
            return Ok(Found::Answering(link));
        }
        match daemon_start::store_owner(home) {
            None => return Ok(Found::Nothing),
            Some(pid) if Instant::now() >= deadline => return Ok(Found::Silent(pid)),
            Some(_) => tokio::time::sleep(Duration::from_millis(50)).await,
        }
    }
}

/// A daemon that has ended.
struct Stopped {
    /// The TCP address on which it listened.
    listen: Option<String>,
}

/// Stops the daemon and waits until it is gone; none if there was none.
fn stop(home: &Home, kill_sessions: bool) -> Result<Option<Stopped>, Failure> {
    block_on(async {
        let (pid, listen) = match find(home).await? {
            Found::Nothing => return Ok(None),
            Found::Answering(mut link) => {
                let health = link.call(Health::request()).await?;
                link.call(StopDaemon::request().body(&StopRequest { kill_sessions })).await?;
                (health.pid, health.listen)
            }
            Found::Silent(pid) if kill_sessions => {
                return Err(Failure::failed(
                    format!("the sessions cannot be killed: the daemon (pid {pid}) does not answer on its socket"),
                    "Run `coven daemon restart`, then try again",
                ));
            }
            Found::Silent(pid) => {
                terminate(pid);
                (pid, None)
            }
        };
        let deadline = Instant::now() + STOPS_WITHIN;
        // The process, not only its socket: until it is gone it holds the store.
        while process::stat(pid).is_ok_and(|it| !it.is_zombie()) {
            if Instant::now() > deadline {
                return Err(Failure::failed(
                    format!("the daemon (pid {pid}) has not ended after {} seconds", STOPS_WITHIN.as_secs()),
                    "See what it is doing with `coven daemon logs`",
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

/// Restarts a daemon that runs, so that it reads its config again.
pub fn restart_if_running(home: &Home) -> Result<(), Failure> {
    let Some(stopped) = stop(home, false)? else { return Ok(()) };
    // An address that was given when it was started is given again, unless the config has one.
    let listen = stopped.listen.filter(|_| config::load(home).is_ok_and(|(config, _)| config.http.listen.is_none()));
    let extra: Vec<String> = listen.into_iter().flat_map(|address| ["--listen".to_owned(), address]).collect();
    daemon_start::ensure_running(home, &extra)?;
    Ok(())
}

pub fn stop_if_running(home: &Home) -> Result<(), Failure> {
    stop(home, false).map(drop)
}

/// Asks a process to end; SIGCONT lets a stopped one handle it.
fn terminate(pid: u32) {
    if let Some(pid) = Pid::from_raw(pid.cast_signed()) {
        let _ = kill_process(pid, Signal::TERM);
        let _ = kill_process(pid, Signal::CONT);
    }
}

fn status(home: &Home, as_json: bool) -> Result<ExitCode, Failure> {
    block_on(async {
        let (mut link, pid) = match find(home).await? {
            Found::Answering(link) => (Some(link), None),
            Found::Silent(pid) => (None, Some(pid)),
            Found::Nothing => (None, None),
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
        output::text(&words(&health))?;
        Ok(ExitCode::SUCCESS)
    })
}

fn words(health: &HealthResponse) -> String {
    let age = format::format_duration(clock::now().since(health.started_at));
    let mut out = format!("running    pid {}, version {}, for {age}\n", health.pid, health.version);
    out.push_str(&format!("home       {}\n", health.home));
    out.push_str(&format!("sessions   {} live of {}\n", health.sessions_live, health.sessions_total));
    if let Some(listen) = &health.listen {
        out.push_str(&format!("listens    {listen}\n"));
    }
    for problem in &health.problems {
        out.push_str(&format!("problem    {}\n", format::sanitize_line(problem)));
    }
    out
}
