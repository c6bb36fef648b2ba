//! Limits: the maximum log size and a full disk.

use std::path::{Path, PathBuf};
use std::process::Command;

use coven_domain::session::ExitStatus;
use coven_holder::journal::Record;
use coven_holder::log::LogReader;
use coven_holder::wire::{Reply, Request};

use crate::fixture::{Given, eventually, is_root, log_from, skip};
use crate::player::Noise;

const MIB: usize = 1 << 20;

#[test]
fn deletes_and_records_the_oldest_bytes_beyond_the_limit() {
    let mut holder = Given::player(&format!("raw; flood 6 {}; exit 0", 20 * MIB))
        .with(|spec| {
            spec.max_output_bytes = 4 * MIB as u64;
            spec.segment_bytes = 8 * MIB as u64;
        })
        .start();
    assert_eq!(holder.ends(), ExitStatus::Code(0));
    let range = LogReader::new(holder.dir()).range().expect("a log");
    assert_eq!(range.end, 20 * MIB as u64);
    assert!(range.end - range.start <= 4 * MIB as u64, "the log is within its limit: {range:?}");
    assert!(range.end - range.start >= 3 * MIB as u64, "no more than necessary is deleted: {range:?}");
    let first = usize::try_from(range.start).expect("the value fits");
    assert!(log_from(holder.dir(), range.start) == Noise::bytes(6, 20 * MIB)[first..]);
    let cuts = |record| if let Record::Truncated { first } = record { Some(first) } else { None };
    let cuts: Vec<u64> = holder.records().into_iter().filter_map(|it| cuts(it.record)).collect();
    assert!(cuts.is_sorted());
    assert_eq!(cuts.last(), Some(&range.start));
    holder.check_files();
}

#[test]
fn a_viewer_before_the_first_byte_jumps_to_it() {
    let mut holder = Given::player(&format!("raw; flood 7 {}; wait /nowhere", 8 * MIB))
        .with(|spec| spec.max_output_bytes = MIB as u64)
        .start();
    eventually("the flood is complete and the log is trimmed", || {
        let welcome = holder.client().welcome;
        (welcome.end == 8 * MIB as u64 && welcome.first >= 7 * MIB as u64).then_some(())
    });
    let mut client = holder.client();
    client.send(&Request::Follow { from: 0 }).expect("the holder accepts requests");
    let all = Noise::bytes(7, 8 * MIB);
    let mut next = None;
    while next != Some(all.len()) {
        let Reply::Data { offset, bytes, .. } = client.next().expect("a reply") else { continue };
        let offset = usize::try_from(offset).expect("the value fits");
        assert!(next.is_none_or(|next| next == offset));
        assert!(next.is_some() || offset >= 7 * MIB, "the first frame is a jump");
        assert!(all[offset..offset + bytes.len()] == bytes);
        next = Some(offset + bytes.len());
    }
    holder.kill_hard();
}

/// A small tmpfs, unmounted when dropped.
struct Disk(PathBuf);

impl Disk {
    fn mount(at: &Path, size: &str) -> Option<Self> {
        let done = Command::new("mount").args(["-t", "tmpfs", "-o", &format!("size={size}"), "tmpfs"]).arg(at).status();
        done.is_ok_and(|status| status.success()).then(|| Self(at.to_owned()))
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

#[test]
fn a_full_disk_blocks_the_harness_without_data_loss() {
    const NAME: &str = "a_full_disk_blocks_the_harness_without_data_loss";
    if !is_root() {
        return skip(NAME, "mounting a tmpfs requires root");
    }
    let place = tempfile::tempdir().expect("a folder");
    let Some(_disk) = Disk::mount(place.path(), "4m") else {
        return skip(NAME, "cannot mount a tmpfs here");
    };
    let ballast = place.path().join("ballast");
    std::fs::write(&ballast, vec![0; 2 * MIB]).expect("enough disk space");
    let dir = place.path().join("session");
    let mut holder = Given::player(&format!("raw; flood 8 {}; say end; exit 3", 3 * MIB))
        .with(|spec| {
            spec.dir = dir;
            spec.segment_bytes = 256 << 10;
        })
        .start();
    let range = || LogReader::new(holder.dir()).range().expect("a log");
    eventually("the disk is full", || {
        let free = rustix::fs::statvfs(place.path()).expect("a disk").f_bavail;
        (free == 0).then_some(())
    });
    assert!(range().end < 3 * MIB as u64, "the harness is blocked");
    // The holder still replies and queues the input records.
    holder.type_in("typed on a full disk");
    holder.ask(&Request::Resize { rows: 30, cols: 90 });
    assert!(crate::fixture::is_alive(holder.pid));
    std::fs::remove_file(&ballast).expect("the file exists");
    assert_eq!(holder.ends(), ExitStatus::Code(3));
    assert!(holder.log() == [Noise::bytes(8, 3 * MIB), b"end".to_vec()].concat(), "the log is complete");
    let records: Vec<Record> = holder.records().into_iter().map(|it| it.record).collect();
    assert!(records.contains(&Record::Input(b"typed on a full disk".to_vec())));
    assert!(records.contains(&Record::Resize { rows: 30, cols: 90 }));
    holder.check_files();
}

#[test]
fn an_exit_on_a_full_disk_is_recorded_once_there_is_space() {
    const NAME: &str = "an_exit_on_a_full_disk_is_recorded_once_there_is_space";
    if !is_root() {
        return skip(NAME, "mounting a tmpfs requires root");
    }
    let place = tempfile::tempdir().expect("a folder");
    let Some(_disk) = Disk::mount(place.path(), "1m") else {
        return skip(NAME, "cannot mount a tmpfs here");
    };
    let dir = place.path().join("session");
    let mut holder = Given::shell("echo ready; read x; head -c 9000 /dev/zero | tr '\\0' y; exit 4")
        .with(|spec| spec.dir = dir)
        .start();
    holder.shows("ready");
    let ballast = place.path().join("ballast");
    // Fills the disk to the last page.
    let _ = std::fs::write(&ballast, vec![0; 2 * MIB]);
    holder.type_in("\n");
    let pid = holder.pid;
    eventually("the harness has exited", || (!crate::fixture::is_alive(pid)).then_some(()));
    assert!(!holder.records().iter().any(|it| matches!(it.record, Record::Exit(_))));
    std::fs::remove_file(&ballast).expect("the file exists");
    assert_eq!(holder.ends(), ExitStatus::Code(4));
    assert_eq!(holder.log().len(), 7 + 2 + 9000);
    holder.check_files();
}
