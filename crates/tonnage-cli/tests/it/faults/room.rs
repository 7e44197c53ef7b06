//! A small disk for a server of a test's own: a file system in memory in a mount namespace that the server's processes
//! share. What it has no room for ends in "No space left on device", as on any disk that is full.
//!
//! Root may mount it; others where the kernel lets everybody have a user namespace. Nothing of it is seen outside, and
//! it is gone with the last process that is in it, however the test ends.

use std::{
    ffi::OsStr,
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use super::servers::is_root;

/// Its size in KiB.
const SIZE: u64 = 32 << 10;

/// See the module.
pub struct Disk {
    /// Where it is mounted, for those who are in its namespace.
    place: PathBuf,
    /// Keeps the namespace as long as the test has a pipe to it.
    holder: Child,
    /// User and group of who runs the test; none for root.
    mapped: Option<[String; 2]>,
}

impl Disk {
    /// Mounts one at `place`, an empty directory, for `user` where this is root; why it cannot be had otherwise.
    pub fn mount(place: &Path, user: &str) -> Result<Self, String> {
        let mapped = (!is_root()).then(|| [id("-u"), id("-g")]);
        let mut hold = Command::new("unshare");
        if mapped.is_some() {
            hold.args(["--user", "--map-root-user"]);
        }
        let owner = if mapped.is_some() { "root" } else { user };
        let script = "mount -t tmpfs -o mode=0700,size=\"$2\"k tmpfs \"$1\" && chown \"$3:\" \"$1\" && \
                      echo mounted && exec cat";
        hold.args(["--mount", "sh", "-c", script, "sh"]);
        hold.arg(place).args([&SIZE.to_string(), owner]);
        hold.stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut holder = hold.spawn().map_err(|error| format!("unshare: {error}"))?;
        let mut said = String::new();
        let mut output = BufReader::new(holder.stdout.take().expect("a pipe"));
        output.read_line(&mut said).expect("text");
        if said != "mounted\n" {
            let ended = holder.wait_with_output().expect("it ends");
            return Err(String::from_utf8_lossy(&ended.stderr).trim().to_owned());
        }
        let disk = Self {
            place: place.to_owned(),
            holder,
            mapped,
        };
        // Whether the server could write there: an old unshare maps nobody but root.
        let mut touch = disk.run(user, "touch".into());
        let tried = touch.arg(disk.place.join("touched")).output();
        let tried = tried.map_err(|error| error.to_string())?;
        if !tried.status.success() {
            return Err(String::from_utf8_lossy(&tried.stderr).trim().to_owned());
        }
        disk.must_run(user, "rm", &[disk.place.join("touched").as_os_str()]);
        Ok(disk)
    }

    pub fn place(&self) -> &Path {
        &self.place
    }

    /// `program` as `user`, or as who runs the test where that is not root, where the disk is mounted.
    pub fn run(&self, user: &str, program: PathBuf) -> Command {
        let mut enter = Command::new("nsenter");
        enter.arg(format!("--target={}", self.holder.id())).arg("--mount");
        match &self.mapped {
            None => enter.args(["--", "setpriv"]).args([
                format!("--reuid={user}"),
                format!("--regid={user}"),
                "--init-groups".to_owned(),
            ]),
            // Servers do not run as root, be it root of a namespace.
            Some([user, group]) => enter
                .args(["--user", "--preserve-credentials", "--", "unshare", "--user"])
                .args([format!("--map-user={user}"), format!("--map-group={group}")]),
        };
        enter.arg("--").arg(program);
        enter
    }

    /// Leaves room for so many KiB, or all of it.
    pub fn leave(&self, user: &str, left: Option<u64>) {
        match left {
            Some(left) => self.fill(user, left),
            None => self.empty(user),
        }
    }

    /// Leaves room for so many KiB. A server that writes meanwhile may take the last of it first, which is as
    /// good.
    fn fill(&self, user: &str, left: u64) {
        let script = "room=$(df -k --output=avail \"$1\" | tail -n 1) && \
                      if [ \"$room\" -gt \"$2\" ]; then head -c $((room - $2))k /dev/zero >\"$0\" || \
                      [ \"$(df -k --output=avail \"$1\" | tail -n 1)\" -le \"$2\" ]; fi";
        let (file, left) = (self.ballast(), left.to_string());
        let words = [OsStr::new("-c"), OsStr::new(script), file.as_os_str()];
        let place = [self.place.as_os_str(), OsStr::new(&left)];
        self.must_run(user, "sh", &[&words[..], &place[..]].concat());
    }

    /// There is all the room again.
    fn empty(&self, user: &str) {
        self.must_run(user, "rm", &[OsStr::new("-f"), self.ballast().as_os_str()]);
    }

    fn ballast(&self) -> PathBuf {
        self.place.join("ballast")
    }

    fn must_run(&self, user: &str, program: &str, arguments: &[&OsStr]) {
        let mut command = self.run(user, program.into());
        let ran = command.args(arguments).output().expect("nsenter starts");
        assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = self.holder.kill();
        let _ = self.holder.wait();
    }
}

fn id(of: &str) -> String {
    let id = Command::new("id").arg(of).output().expect("id starts");
    String::from_utf8_lossy(&id.stdout).trim().to_owned()
}
