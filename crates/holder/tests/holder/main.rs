//! Tests the holder with real terminals, pipes, processes and disks.

mod abuse;
mod bounds;
mod bytes;
mod ending;
mod fixture;
mod launch;
mod offsets;
mod pipes;
mod player;
mod quiet;
mod sizes;
mod typing;

/// Not a test: runs the holder if this binary was started in that role.
#[test]
fn holder_process() {
    if std::env::var_os(fixture::ROLE).is_some_and(|role| role == "holder") {
        let code = coven_holder::run();
        std::process::exit(i32::from(code != std::process::ExitCode::SUCCESS));
    }
}

/// Not a test: runs the scripted harness if this binary was started with a script.
#[test]
fn player_process() {
    if let Ok(script) = std::env::var(player::SCRIPT) {
        player::play(&script);
    }
}

/// Not a test: connects as another user if this binary was started in that role.
#[test]
fn other_user_process() {
    if std::env::var_os(fixture::ROLE).is_some_and(|role| role == "other user") {
        std::process::exit(abuse::try_as_other_user());
    }
}
