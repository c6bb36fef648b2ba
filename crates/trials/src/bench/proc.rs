//! Reads CPU time, memory and load from `/proc`.

use std::fs;
use std::time::Duration;

use coven_holder::process;

use super::BenchResult;

/// Returns the CPU time of a process, including ended threads.
pub fn cpu(pid: u32) -> BenchResult<Duration> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    // utime and stime are fields 14 and 15, counted from the pid.
    let ticks: u64 = fields_after_name(&stat).skip(11).take(2).filter_map(|field| field.parse::<u64>().ok()).sum();
    Ok(Duration::from_secs_f64(ticks as f64 / rustix::param::clock_ticks_per_second() as f64))
}

/// Returns the CPU time of the live threads, in nanosecond resolution.
pub fn precise_cpu(pid: u32) -> BenchResult<Duration> {
    let mut nanos = 0;
    for thread in fs::read_dir(format!("/proc/{pid}/task"))? {
        let stat = fs::read_to_string(thread?.path().join("schedstat"))?;
        nanos += stat.split(' ').next().ok_or("schedstat is empty")?.parse::<u64>()?;
    }
    Ok(Duration::from_nanos(nanos))
}

pub fn threads(pid: u32) -> BenchResult<usize> {
    Ok(fs::read_dir(format!("/proc/{pid}/task"))?.count())
}

/// Waits until the process is idle, then returns its CPU time.
pub fn settled_cpu(pid: u32) -> BenchResult<Duration> {
    let mut last = cpu(pid)?;
    loop {
        std::thread::sleep(Duration::from_millis(40));
        let now = cpu(pid)?;
        if now == last {
            return Ok(now);
        }
        last = now;
    }
}

/// Reports whether the process has exited; a zombie counts as exited.
pub fn is_gone(pid: u32) -> bool {
    process::stat(pid).map_or(true, |it| it.is_zombie())
}

pub fn parent(pid: u32) -> BenchResult<u32> {
    Ok(process::stat(pid)?.parent)
}

/// Returns the proportional set size in KiB: private pages plus a share of each shared page.
pub fn pss_kib(pid: u32) -> BenchResult<f64> {
    let rollup = fs::read_to_string(format!("/proc/{pid}/smaps_rollup"))?;
    let line = rollup.lines().find_map(|line| line.strip_prefix("Pss:")).ok_or("smaps_rollup has no Pss line")?;
    Ok(line.trim().trim_end_matches("kB").trim().parse()?)
}

/// Returns the resident set size in KiB.
pub fn rss_kib(pid: u32) -> BenchResult<f64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).ok_or("status has no VmRSS line")?;
    Ok(line.trim().trim_end_matches("kB").trim().parse()?)
}

pub fn load() -> String {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').take(3).collect::<Vec<_>>().join(" ")
}

/// Returns the fields after the name, which may contain spaces and brackets.
fn fields_after_name(stat: &str) -> impl Iterator<Item = &str> {
    stat.rfind(") ").map_or("", |end| &stat[end + 2..]).split(' ')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_name_may_contain_brackets_and_spaces() {
        let fields: Vec<&str> = fields_after_name("7 (a) b (c) S 1 7 7").collect();
        assert_eq!(fields, ["S", "1", "7", "7"]);
    }

    #[test]
    fn this_process_has_a_parent_and_memory() {
        assert!(parent(std::process::id()).is_ok_and(|pid| pid > 0));
        assert!(pss_kib(std::process::id()).is_ok_and(|kib| kib > 0.0));
    }
}
