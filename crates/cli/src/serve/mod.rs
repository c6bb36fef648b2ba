//! The daemon process: connects store, engine and server. Locks the home, opens the store, listens, recovers, reports that it is
//! ready, runs and stops.

mod log_writer;

use std::env;
use std::fs;
use std::io::{self, Seek as _, Write};
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use coven_host::config::{self, Config, ConfigError, HttpConfig};
use coven_host::daemon_start::{self, StartupReport};
use coven_host::{Home, HomeError, trust};
use coven_interop::conversations::Conversations;
use coven_interop::questions::QuestionFolder;
use coven_store::{SqliteStore, Store, StoreError};
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;
use tracing::Level;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use uuid::Uuid;

use self::log_writer::DailyLog;

use coven_engine::EngineError;
use coven_engine::events::Hub;
use coven_engine::loops::{
    activity, idle, launch_queue, notify, question_sets, recovery, retention, scheduler, stored_calls, terminal_prompts,
};
use coven_engine::notification::NOTIFICATION_QUEUE;
use coven_engine::workflow::recover;
use coven_engine::{Engine, EngineDeps};
use coven_server::guard::Guard;
use coven_server::socket::{self, OurUsersOnly};
use coven_server::{App, event, listen, operation, router};

/// How long open requests may take to end once the daemon stops.
const STOP_LIMIT: Duration = Duration::from_secs(2);

/// How long blocking work may continue when the daemon stops; git is cancelled by then.
const BACKGROUND_STOP_LIMIT: Duration = Duration::from_secs(1);

pub const TOKEN_FILE: coven_files::Limit = coven_files::Limit::new("a token file", 4096);

#[derive(Debug, Clone)]
pub struct ServeOptions {
    pub home: PathBuf,
    /// Overrides `http.listen`.
    pub listen: Option<String>,
}

#[derive(Debug, thiserror::Error)]
enum ServeError {
    #[error("{0}")]
    Home(#[from] HomeError),
    #[error("{0}")]
    Config(#[from] ConfigError),
    #[error("{0}")]
    Store(#[from] StoreError),
    #[error("--listen {0:?} is not an address and port such as 127.0.0.1:7777")]
    BadListen(String),
    #[error("{0} is not a loopback address; set http.allowRemote in the config to listen there")]
    NotLoopback(SocketAddr),
    #[error("cannot listen on {place}: {source}")]
    Listen { place: String, source: io::Error },
    #[error(
        "cannot start {THREADS} threads: {0}; this user's process limit (`ulimit -u`) is reached: \
         stop some processes, or raise it"
    )]
    Threads(#[source] io::Error),
    #[error("cannot {doing}: {source}")]
    Io { doing: &'static str, source: io::Error },
    #[error("{0}")]
    Engine(#[from] EngineError),
}

impl ServeError {
    const fn exit_code(&self) -> u8 {
        match self {
            Self::Home(error) => error.exit_code(),
            Self::Config(_) | Self::BadListen(_) | Self::NotLoopback(_) => 2,
            Self::Store(StoreError::Locked) => 5,
            Self::Store(_) | Self::Listen { .. } | Self::Threads(_) | Self::Io { .. } | Self::Engine(_) => 1,
        }
    }
}

/// Number of threads of a daemon with a few requests.
const THREADS: usize = 24;
/// Whether the daemon has reported that it is ready.
static IS_READY: AtomicBool = AtomicBool::new(false);

/// Nice value of the session-following threads, relative to request handling.
const FOLLOWING_NICE: i32 = 5;

/// The hidden subcommand `daemon serve`.
pub fn serve(options: &ServeOptions) -> ExitCode {
    close_inherited_files();
    let _ = rustix::thread::set_name(coven_holder::process::DAEMON_NAME);
    std::panic::set_hook(Box::new(|panic| {
        // Only the panicking task ends; the log must have the reason.
        tracing::error!(%panic, "a task panicked; please report this bug");
        if !IS_READY.load(Ordering::Acquire) {
            // A start without one of its threads would never become ready.
            report_start(&StartupReport::Failed {
                message: format!("the daemon could not start: {panic}"),
                exit_code: 1,
            });
            std::process::exit(1);
        }
    }));
    if let Err(error) = check_threads() {
        return fail(&ServeError::Threads(error));
    }
    let runtime = match tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return fail(&ServeError::Io { doing: "start the runtime", source: error }),
    };
    let background = match tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build() {
        Ok(background) => background,
        Err(error) => return fail(&ServeError::Io { doing: "start the runtime", source: error }),
    };
    background.spawn(async {
        // Requests have priority over following sessions. This runtime has one thread, so this sets its nice value.
        let _ = rustix::process::nice(FOLLOWING_NICE);
    });
    let outcome = runtime.block_on(run(options, background.handle().clone()));
    background.shutdown_timeout(BACKGROUND_STOP_LIMIT);
    // Interrupts tasks that read or compress logs; they leave no incomplete files.
    runtime.shutdown_timeout(Duration::from_millis(200));
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => fail(&error),
    }
}

fn fail(error: &ServeError) -> ExitCode {
    tracing::error!(%error, "the daemon cannot run");
    report_start(&StartupReport::Failed { message: error.to_string(), exit_code: error.exit_code() });
    ExitCode::from(error.exit_code())
}

/// Fails if the system cannot start enough threads. The runtime would panic, or wait for them forever.
fn check_threads() -> io::Result<()> {
    let gate = Mutex::new(());
    let closed = gate.lock();
    std::thread::scope(|scope| {
        let mut started = Ok(());
        for _ in 0..THREADS {
            let waiting = std::thread::Builder::new().stack_size(64 << 10).spawn_scoped(scope, || drop(gate.lock()));
            if let Err(error) = waiting {
                started = Err(error);
                break;
            }
        }
        drop(closed);
        started
    })
}

/// Reports to the process that started the daemon, then closes its pipe.
fn report_start(word: &StartupReport) {
    let mut line = serde_json::to_string(word).expect("plain data");
    line.push('\n');
    let mut stdout = io::stdout().lock();
    let _ = stdout.write_all(line.as_bytes()).and_then(|()| stdout.flush());
    if let Ok(null) = fs::File::options().write(true).open("/dev/null") {
        let _ = rustix::stdio::dup2_stdout(&null);
    }
}

/// Closes inherited files, which would otherwise stay open as long as the daemon and its holders.
fn close_inherited_files() {
    let Ok(entries) = fs::read_dir("/proc/self/fd") else { return };
    let open: Vec<i32> = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    for fd in open.into_iter().filter(|fd| *fd > 2) {
        // SAFETY: this process has opened nothing yet. The folder read above is already closed, which the check detects.
        unsafe {
            if rustix::io::fcntl_getfd(std::os::fd::BorrowedFd::borrow_raw(fd)).is_ok() {
                rustix::io::close(fd);
            }
        }
    }
}

/// Raises the limit of open files, because every session needs some. Returns the old limit, for the harnesses.
fn raise_open_files() -> Option<u64> {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let before = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: before.maximum, maximum: before.maximum });
    before.current
}

async fn run(options: &ServeOptions, background: tokio::runtime::Handle) -> Result<(), ServeError> {
    let open_files = raise_open_files();
    let home = Home::at(&options.home)?;
    home.create()?;
    home.refuse_tracked_state()?;
    let socket = home.socket()?;
    let (config, withheld) = config::load_for_daemon(&home)?;
    start_log(&home);
    let mut notices = Vec::new();
    if coven_interop::legacy::is_in(home.path()) {
        notices.push(daemon_start::MIGRATE_NOTICE.to_owned());
    }
    notices.extend(withheld.notice(home.path()));
    trust::mark_withheld(&home, &withheld);
    notices.extend(config.warnings().iter().map(|warning| format!("{}: {warning}", home.config_file().display())));
    // The store's lock ensures that this is the home's only daemon; the rest relies on it.
    let mut store = SqliteStore::open(home.db(), event::render)?;
    let last = store.event_range().await?.end.saturating_sub(1);
    let hub = Arc::new(Hub::new(last, event::append_sse));
    let feed = hub.clone();
    store.publish_to(Box::new(move |events| feed.publish(events)));
    let feed = hub.clone();
    let waking = tokio::spawn(async move { feed.wake_later().await });
    let program =
        std::env::current_exe().map_err(|source| ServeError::Io { doing: "find the coven program", source })?;
    let tcp = listen_tcp(options, &config).await?;
    let token =
        write_token(&home.token_file()).map_err(|source| ServeError::Io { doing: "write the token", source })?;
    let (notifications, received) = mpsc::channel(NOTIFICATION_QUEUE);
    let (questions, conversations) = (QuestionFolder::locate(), Conversations::locate());
    let http = config.http.clone();
    let deps = EngineDeps {
        store: Arc::new(store),
        home,
        config,
        withheld,
        questions,
        conversations,
        notifications,
        operation_render: operation::RENDER,
        hub,
        program,
        open_files,
        background,
    };
    let engine = Engine::new(deps).map_err(|source| ServeError::Io { doing: "start the screens' thread", source })?;
    let engine = Arc::new(engine);
    let unix =
        socket::listen(&socket).map_err(|source| ServeError::Listen { place: socket.display().to_string(), source })?;

    let recovered = recovery::recover(&engine).await?;
    let queued = engine.restore_launch_queue().await?;
    let agents = recover::recover(&engine).await?;
    tracing::info!(?recovered, ?agents, queued, pid = std::process::id(), "the daemon is ready");
    let scheduler = tokio::spawn(scheduler::run(engine.clone()));
    let terminal_prompts = tokio::spawn(terminal_prompts::run(engine.clone()));
    let activity = tokio::spawn(activity::run(engine.clone()));
    let stored_calls = tokio::spawn(stored_calls::run(engine.clone()));
    let launch_queue = tokio::spawn(launch_queue::run(engine.clone()));
    let retention = tokio::spawn(retention::run(engine.clone()));
    let idle = tokio::spawn(idle::run(engine.clone()));
    let question_sets = tokio::spawn(question_sets::run(engine.clone()));
    let notifying = tokio::spawn(notify::run(engine.clone(), received));
    recovery::tidy_up(&engine).await?;
    let listen = tcp.as_ref().and_then(|tcp| tcp.local_addr().ok());
    let app = App::new(engine.clone(), listen.map(|address| address.to_string().into()));
    let (accepting, on_socket) = (OurUsersOnly::new(unix, &socket), router(app.clone(), Guard::Socket));
    let on_socket = tokio::spawn(listen::serve(accepting, on_socket, listen::SOCKET, engine.stopping()));
    let on_tcp = tcp.zip(listen).map(|(tcp, address)| {
        let guard = tcp_guard(&http, token, address);
        tokio::spawn(listen::serve(tcp, router(app, guard), listen::TCP, engine.stopping()))
    });
    IS_READY.store(true, Ordering::Release);
    report_start(&StartupReport::Ready { pid: std::process::id(), notices });

    wait_for_stop(&engine).await;
    tracing::info!("the daemon stops; sessions keep running");
    let _ = tokio::time::timeout(STOP_LIMIT, async {
        let _ = on_socket.await;
        if let Some(on_tcp) = on_tcp {
            let _ = on_tcp.await;
        }
        engine.finish_operations().await;
        engine.finish_following().await;
    })
    .await;
    let _ = fs::remove_file(&socket);
    waking.abort();
    retention.abort();
    scheduler.abort();
    terminal_prompts.abort();
    activity.abort();
    stored_calls.abort();
    launch_queue.abort();
    idle.abort();
    question_sets.abort();
    notifying.abort();
    Ok(())
}

async fn wait_for_stop(engine: &Engine) {
    let (Ok(mut terminate), Ok(mut interrupt)) = (signal(SignalKind::terminate()), signal(SignalKind::interrupt()))
    else {
        return engine.stopped().await;
    };
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
        () = engine.stopped() => {}
    }
    engine.stop();
}

fn start_log(home: &Home) {
    let writer = Mutex::new(DailyLog::in_folder(home.logs_dir()));
    // `EnvFilter` would also accept regular expressions, but costs twenty seconds of build time.
    let wanted = env::var("COVEN_LOG").ok().and_then(|filter| filter.parse().ok());
    let filter: Targets = wanted.unwrap_or_else(|| Targets::new().with_default(Level::INFO));
    let lines = tracing_subscriber::fmt::layer().with_writer(writer).with_ansi(false);
    let _ = tracing_subscriber::registry().with(lines).with(filter).try_init();
}

async fn listen_tcp(options: &ServeOptions, config: &Config) -> Result<Option<TcpListener>, ServeError> {
    let Some(wanted) = options.listen.as_ref().or(config.http.listen.as_ref()) else { return Ok(None) };
    let address: SocketAddr = wanted.parse().map_err(|_| ServeError::BadListen(wanted.clone()))?;
    if !address.ip().is_loopback() && !config.http.allow_remote {
        return Err(ServeError::NotLoopback(address));
    }
    let bound = TcpListener::bind(address).await;
    bound.map(Some).map_err(|source| ServeError::Listen { place: address.to_string(), source })
}

fn tcp_guard(http: &HttpConfig, token: String, address: SocketAddr) -> Guard {
    let mut hosts = vec![address.to_string()];
    if address.ip().is_loopback() {
        hosts.push(format!("localhost:{}", address.port()));
    }
    hosts.extend(http.allowed_hosts.iter().cloned());
    Guard::Tcp { token, hosts, origins: http.allowed_origins.clone() }
}

/// Returns the home's token; creates one if the home has no valid token.
fn write_token(path: &Path) -> io::Result<String> {
    // Rejects a symbolic link, whose target would be overwritten.
    let mut file = trust::open_own(path)?;
    let text = coven_files::read_opened(file.try_clone()?, path, TOKEN_FILE)?;
    file.set_permissions(fs::Permissions::from_mode(0o600))?;
    let token = String::from_utf8_lossy(&text).trim().to_owned();
    if token.len() >= 32 {
        return Ok(token);
    }
    let token = format!("{}{}", Uuid::new_v4().simple(), Uuid::new_v4().simple());
    file.set_len(0)?;
    file.rewind()?;
    file.write_all(token.as_bytes())?;
    file.sync_all()?;
    Ok(token)
}
