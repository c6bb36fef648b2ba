//! The stub model's process, which is killed when its value is dropped.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use super::{TrialResult, eventually};

/// Folder for the complete requests, one file each, below a trial's folder.
pub const BODIES: &str = "stub-bodies";

pub struct Stub {
    child: Child,
    pub url: String,
}

impl Stub {
    /// Starts the stub model, which writes its port file, a request log and the complete requests to `folder`.
    pub fn start(program: &Path, folder: &Path) -> TrialResult<Self> {
        let port_file = folder.join("stub-port");
        let errors = fs::File::create(folder.join("stub-errors"))?;
        let child = Command::new("python3")
            .arg(program)
            .args(["--port", "0", "--port-file"])
            .arg(&port_file)
            .arg("--log")
            .arg(folder.join("stub-requests.jsonl"))
            .arg("--dump")
            .arg(folder.join(BODIES))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(errors)
            .spawn()
            .map_err(|error| format!("cannot start python3 for the stub model: {error}"))?;
        let mut stub = Self { child, url: String::new() };
        let port = eventually(Duration::from_secs(20), || fs::read_to_string(&port_file).ok())
            .ok_or("the stub model does not start")?;
        stub.url = format!("http://127.0.0.1:{}", port.trim());
        Ok(stub)
    }
}

impl Drop for Stub {
    fn drop(&mut self) {
        // Both fail only if the process has already exited.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
