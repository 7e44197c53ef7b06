//! The binary under test, as a process.

use std::{
    fs::File,
    io::Read,
    path::Path,
    process::{Child, Command, ExitStatus, Stdio},
    thread::sleep,
    time::{Duration, Instant},
};

use tempfile::NamedTempFile;

/// The binary.
pub fn tonnage() -> Command {
    Command::new(env!("CARGO_BIN_EXE_tonnage"))
}

/// What a process may take that is waited for, so that one that hangs ends in a failure. The longest takes minutes.
const TIME_MAX: Duration = Duration::from_secs(30 * 60);

/// A process that runs beside the test. Killed if the test ends first.
pub struct Running {
    child: Child,
    stderr: NamedTempFile,
}

/// How a process ended.
#[derive(Debug)]
pub struct Ended {
    pub status: ExitStatus,
    pub stderr: String,
}

impl Running {
    /// Starts `command`. What it says goes to a file, so that it never waits for a reader.
    pub fn start(command: &mut Command) -> Self {
        Self::start_with(command, Stdio::null())
    }

    /// Starts `command` with `input` to read.
    pub fn start_with(command: &mut Command, input: Stdio) -> Self {
        let stderr = NamedTempFile::new().expect("a temporary file");
        let file: File = stderr.reopen().expect("the temporary file again");
        let child = command
            .stdin(input)
            .stdout(Stdio::null())
            .stderr(file)
            .spawn()
            .expect("the binary starts");
        Self { child, stderr }
    }

    /// Its number.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Whether it has ended by itself.
    pub fn has_ended(&mut self) -> bool {
        self.child.try_wait().expect("the child can be asked").is_some()
    }

    /// Waits until it listens for a signal, by its number: before, a signal ends it by itself.
    pub fn until_it_listens(&mut self, number: i32) {
        while !self.listens(number) {
            assert!(!self.has_ended(), "it ended before it listened");
            sleep(Duration::from_millis(1));
        }
        // The kernel knows a moment before whoever waits does.
        sleep(Duration::from_millis(50));
    }

    /// As the kernel shows it: the signals that a process catches, a bit each.
    fn listens(&self, number: i32) -> bool {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id()));
        let status = status.expect("Linux shows its processes in /proc");
        let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
        let caught = caught.and_then(|bits| u64::from_str_radix(bits.trim(), 16).ok());
        caught.is_some_and(|bits| bits & (1 << (number - 1)) != 0)
    }

    /// Sends it a signal, by its number.
    pub fn signal(&self, number: i32) {
        // Until it is waited for it can be sent signals, also when it has ended.
        let sent = Command::new("kill")
            .arg(format!("-{number}"))
            .arg(self.child.id().to_string())
            .status()
            .expect("kill starts");
        assert!(sent.success(), "signal {number} is sent");
    }

    /// SIGKILL: nothing is finished, closed or said.
    pub fn kill(mut self) -> Ended {
        self.child.kill().expect("the child can be killed");
        self.wait()
    }

    /// Waits for its end.
    pub fn wait(mut self) -> Ended {
        let until = Instant::now() + TIME_MAX;
        while !self.has_ended() {
            assert!(Instant::now() < until, "it has no end:\n{}", self.said());
            sleep(Duration::from_millis(1));
        }
        let status = self.child.wait().expect("the child can be waited for");
        let stderr = self.said();
        Ended { status, stderr }
    }

    /// What it has said so far.
    pub fn said(&self) -> String {
        let mut said = String::new();
        let mut stderr = self.stderr.reopen().expect("the temporary file again");
        stderr.read_to_string(&mut said).expect("text");
        said
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Ended {
    /// Fails unless the exit code is `code`.
    #[track_caller]
    pub fn expect(&self, code: i32) {
        assert_eq!(
            self.status.code(),
            Some(code),
            "{:?}\n{}",
            self.status,
            self.stderr
        );
    }
}

/// The report that `--report` wrote.
#[track_caller]
pub fn report(path: &Path) -> serde_json::Value {
    let text = std::fs::read_to_string(path).expect("a report");
    let report: serde_json::Value = serde_json::from_str(&text).expect("a report is JSON");
    let count = |pointer: &str| report.pointer(pointer).and_then(serde_json::Value::as_u64);
    let parts = [
        "/rows/written",
        "/rows/skipped/conflict",
        "/rows/skipped/unmatched",
        "/rows/skipped/superseded",
        "/rows/skipped/resumed",
        "/rows/rejected",
        "/rows/unfinished",
    ];
    let sum: Option<u64> = parts.iter().map(|part| count(part)).sum();
    assert!(
        sum.is_some() && count("/rows/read") == sum,
        "the account balances: {report:#}"
    );
    report
}

/// A count of a report.
#[track_caller]
pub fn count(report: &serde_json::Value, pointer: &str) -> u64 {
    let found = report.pointer(pointer).and_then(serde_json::Value::as_u64);
    found.unwrap_or_else(|| panic!("{pointer} in {report:#}"))
}
