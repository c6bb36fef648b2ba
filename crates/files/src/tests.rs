use std::fs;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;

use super::*;

const SMALL: Limit = Limit::new("a test file", 1024);

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("a temporary folder")
}

#[test]
fn a_file_up_to_the_limit_is_read_and_one_byte_more_is_refused() {
    let folder = folder();
    let path = folder.path().join("f");
    fs::write(&path, vec![b'x'; 1024]).expect("room on disk");
    assert_eq!(read(&path, SMALL, Links::Refuse).expect("within the limit").len(), 1024);
    fs::write(&path, vec![b'x'; 1025]).expect("room on disk");
    let error = read(&path, SMALL, Links::Refuse).expect_err("too large").to_string();
    assert!(error.ends_with("is larger than 1 KiB, the limit for a test file"), "{error}");
}

#[test]
fn a_sparse_file_is_refused_without_reserving_its_size() {
    let folder = folder();
    let path = folder.path().join("sparse");
    fs::File::create(&path).and_then(|file| file.set_len(1 << 40)).expect("a sparse file");
    assert!(matches!(read(&path, SMALL, Links::Follow), Err(ReadError::TooLarge { .. })));
}

#[test]
fn a_fifo_a_socket_a_folder_and_a_device_are_refused_without_waiting() {
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
fn a_link_is_followed_only_where_links_are_allowed() {
    let folder = folder();
    let (target, link) = (folder.path().join("target"), folder.path().join("link"));
    fs::write(&target, "text").expect("room on disk");
    symlink(&target, &link).expect("a link");
    assert_eq!(read_text(&link, SMALL, Links::Follow).expect("followed"), "text");
    assert!(matches!(read(&link, SMALL, Links::Refuse), Err(ReadError::Link { .. })));
}

#[test]
fn a_missing_file_keeps_its_kind_of_error() {
    let folder = folder();
    let error = read(&folder.path().join("none"), SMALL, Links::Refuse).expect_err("missing");
    assert!(error.is_not_found());
    assert_eq!(io::Error::from(error).kind(), io::ErrorKind::NotFound);
}

#[test]
fn a_line_longer_than_the_limit_is_skipped_and_the_next_one_read() {
    let text = [&b"first\n"[..], &[b'x'; 1024], b"\n", &[b'y'; 5000], b"\nlast\n", &[b'z'; 1025]].concat();
    // A small buffer: a line spans many of them.
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
fn a_stream_without_an_end_is_refused_at_the_limit() {
    let error = read_stream(io::repeat(b'x'), SMALL).expect_err("it never ends");
    assert_eq!(error.kind(), io::ErrorKind::FileTooLarge);
    assert_eq!(error.to_string(), "the input is larger than 1 KiB, the limit for a test file");
    assert_eq!(read_stream_text(&[b'x'; 1024][..], SMALL).expect("within the limit").len(), 1024);
}
