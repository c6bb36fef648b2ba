//! The holder against real terminals, pipes, processes and disks.

mod abuse;
mod bounds;
mod bytes;
mod ending;
mod launch;
mod offsets;
mod pipes;
mod player;
mod quiet;
mod sizes;
mod stand;
mod typing;

/// Not a test: the holder's process, when this binary is started as one.
#[test]
fn holder_process() {
    if std::env::var_os(stand::ROLE).is_some_and(|role| role == "holder") {
        let code = coven_holder::run();
        std::process::exit(i32::from(code != std::process::ExitCode::SUCCESS));
    }
}

/// Not a test: the scripted harness, when this binary is started as one.
#[test]
fn player_process() {
    if let Ok(script) = std::env::var(player::SCRIPT) {
        player::play(&script);
    }
}

/// Not a test: somebody else, when this binary is started as them.
#[test]
fn other_user_process() {
    if std::env::var_os(stand::ROLE).is_some_and(|role| role == "other user") {
        std::process::exit(abuse::try_as_other_user());
    }
}
