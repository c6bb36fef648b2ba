//! The scripted harness, for behavior that a shell script cannot produce exactly.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::FromRawFd;
use std::path::Path;

use coven_holder::client::HolderClient;
use coven_holder::wire::Request;

pub const SCRIPT: &str = "COVEN_TEST_SCRIPT";

/// A reproducible stream of pseudo-random bytes.
pub struct Noise(u64);

impl Noise {
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub fn fill(&mut self, buffer: &mut [u8]) {
        for piece in buffer.chunks_mut(8) {
            // One step of SplitMix64.
            self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut z = self.0;
            z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            let bytes = (z ^ (z >> 31)).to_le_bytes();
            piece.copy_from_slice(&bytes[..piece.len()]);
        }
    }

    pub fn bytes(seed: u64, count: usize) -> Vec<u8> {
        let mut bytes = vec![0; count];
        Self::new(seed).fill(&mut bytes);
        bytes
    }
}

/// Runs a script. Commands are separated by `;`, words by spaces.
pub fn play(script: &str) -> ! {
    // SAFETY: the shell that started us opened descriptor 3 for this.
    let mut out = unsafe { File::from_raw_fd(3) };
    for command in script.split(';') {
        let words: Vec<&str> = command.split_whitespace().collect();
        match words[..] {
            // Make the terminal pass bytes through unchanged.
            ["raw"] => raw(),
            ["say", text] => out.write_all(text.as_bytes()).expect("the terminal accepts output"),
            ["flood", seed, count] => flood(&mut out, number(seed), number(count)),
            ["echo", count] => echo(&mut out, number(count)),
            ["consume", count] => consume(&mut out, number(count)),
            // Follow a holder from inside its own session and print its reply.
            ["follow", dir] => {
                let mut client = HolderClient::connect(Path::new(dir)).expect("the holder replies");
                client.send(&Request::Follow { from: 0 }).expect("the holder accepts requests");
                write!(out, "{:?}.", client.next().expect("a reply")).expect("the terminal accepts output");
            }
            ["exit", code] => std::process::exit(i32::try_from(number(code)).expect("small")),
            // Close the terminal and open it again when the file appears.
            ["reopen", path] => {
                let path = path.to_owned();
                drop(out);
                out = reopen(&path);
            }
            ["wait", path] => {
                super::fixture::eventually("a file", || std::fs::metadata(path).ok());
            }
            _ => panic!("unknown command {command:?}"),
        }
    }
    std::process::exit(0)
}

fn number(word: &str) -> u64 {
    word.parse().expect("a number")
}

fn raw() {
    let terminal = File::open("/dev/tty").expect("a terminal");
    let mut modes = rustix::termios::tcgetattr(&terminal).expect("a terminal");
    modes.make_raw();
    rustix::termios::tcsetattr(&terminal, rustix::termios::OptionalActions::Now, &modes).expect("a terminal");
}

fn flood(out: &mut File, seed: u64, count: u64) {
    let mut noise = Noise::new(seed);
    let mut buffer = vec![0; 8 << 10];
    let mut left = usize::try_from(count).expect("the value fits");
    while left > 0 {
        let piece = left.min(buffer.len());
        noise.fill(&mut buffer[..piece]);
        out.write_all(&buffer[..piece]).expect("the terminal accepts output");
        left -= piece;
    }
}

fn echo(out: &mut File, count: u64) {
    let mut left = usize::try_from(count).expect("the value fits");
    let mut buffer = vec![0; 4096];
    while left > 0 {
        let most = left.min(buffer.len());
        let got = std::io::stdin().read(&mut buffer[..most]).expect("a terminal");
        assert!(got > 0, "the input ended early");
        out.write_all(&buffer[..got]).expect("the terminal accepts output");
        left -= got;
    }
}

/// Reads a known number of bytes and prints their checksum.
fn consume(out: &mut File, count: u64) {
    let mut left = usize::try_from(count).expect("the value fits");
    let mut buffer = vec![0; 64 << 10];
    let mut crc = crc32fast::Hasher::new();
    while left > 0 {
        let most = left.min(buffer.len());
        let got = std::io::stdin().read(&mut buffer[..most]).expect("a terminal");
        assert!(got > 0, "the input ended early");
        crc.update(&buffer[..got]);
        left -= got;
    }
    write!(out, "consumed {:08x}.", crc.finalize()).expect("the terminal accepts output");
}

fn reopen(path: &str) -> File {
    let null = File::options().read(true).write(true).open("/dev/null").expect("/dev/null exists");
    rustix::stdio::dup2_stdin(&null).expect("a descriptor");
    rustix::stdio::dup2_stderr(&null).expect("a descriptor");
    super::fixture::eventually("a file", || std::fs::metadata(path).ok());
    File::options().read(true).write(true).open("/dev/tty").expect("the controlling terminal is still available")
}
