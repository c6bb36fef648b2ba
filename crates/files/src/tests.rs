use std::fs;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;

use super::*;

const SMALL: Limit = Limit::new("a test file", 1024);

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("a temporary folder")
}

#[test]
fn reads_a_file_up_to_the_limit_and_refuses_a_larger_one() {
    let folder = folder();
    let path = folder.path().join("f");
    fs::write(&path, vec![b'x'; 1024]).expect("enough disk space");
    assert_eq!(read(&path, SMALL, Links::Refuse).expect("within the limit").len(), 1024);
    fs::write(&path, vec![b'x'; 1025]).expect("enough disk space");
    let error = read(&path, SMALL, Links::Refuse).expect_err("too large").to_string();
    assert!(error.ends_with("is larger than 1 KiB, the limit for a test file"), "{error}");
}

#[test]
fn refuses_a_sparse_file_without_reserving_its_size() {
    let folder = folder();
    let path = folder.path().join("sparse");
    fs::File::create(&path).and_then(|file| file.set_len(1 << 40)).expect("a sparse file");
    assert!(matches!(read(&path, SMALL, Links::Follow), Err(ReadError::TooLarge { .. })));
}

#[test]
fn refuses_fifos_sockets_folders_and_devices_without_blocking() {
    let folder = folder();
    let fifo = folder.path().join("fifo");
    rustix::fs::mkfifoat(rustix::fs::CWD, &fifo, Mode::from_raw_mode(0o600)).expect("a fifo");
    let socket = folder.path().join("socket");
    let _listener = UnixListener::bind(&socket).expect("a socket");
    for (path, kind) in [
        (fifo.as_path(), "a fifo"),
        (&socket, "a socket"),
        (folder.path(), "a folder"),
        (Path::new("/dev/zero"), "a device"),
    ] {
        match read(path, SMALL, Links::Follow) {
            Err(ReadError::NotRegular { kind: found, .. }) => assert_eq!(found, kind),
            other => panic!("{}: {other:?}", path.display()),
        }
    }
}

#[test]
fn follows_a_link_only_if_links_are_allowed() {
    let folder = folder();
    let (target, link) = (folder.path().join("target"), folder.path().join("link"));
    fs::write(&target, "text").expect("enough disk space");
    symlink(&target, &link).expect("a link");
    assert_eq!(read_text(&link, SMALL, Links::Follow).expect("followed"), "text");
    assert!(matches!(read(&link, SMALL, Links::Refuse), Err(ReadError::Link { .. })));
}

#[test]
fn a_missing_file_keeps_its_error_kind() {
    let folder = folder();
    let error = read(&folder.path().join("none"), SMALL, Links::Refuse).expect_err("missing");
    assert!(error.is_not_found());
    assert_eq!(io::Error::from(error).kind(), io::ErrorKind::NotFound);
}

#[test]
fn skips_a_line_longer_than_the_limit_and_reads_the_next_one() {
    let text = [&b"first\n"[..], &[b'x'; 1024], b"\n", &[b'y'; 5000], b"\nlast\n", &[b'z'; 1025]].concat();
    // A small buffer, so that a line spans several buffers.
    let mut lines = Lines::new(io::BufReader::with_capacity(100, &text[..]), SMALL);
    let mut read = Vec::new();
    while let Some(line) = lines.next_line().expect("memory is readable") {
        read.push(match line {
            BoundedLine::Whole(bytes) => format!("{} bytes", bytes.len()),
            BoundedLine::TooLong { bytes, has_end } => format!("skipped {bytes}, ended: {has_end}"),
        });
    }
    let expected = ["6 bytes", "1025 bytes", "skipped 5001, ended: true", "5 bytes", "skipped 1025, ended: false"];
    assert_eq!(read, expected);
}

#[test]
fn refuses_an_endless_stream_at_the_limit() {
    let error = read_stream(io::repeat(b'x'), SMALL).expect_err("an endless stream");
    assert_eq!(error.kind(), io::ErrorKind::FileTooLarge);
    assert_eq!(error.to_string(), "the input is larger than 1 KiB, the limit for a test file");
    assert_eq!(read_stream_text(&[b'x'; 1024][..], SMALL).expect("within the limit").len(), 1024);
}
