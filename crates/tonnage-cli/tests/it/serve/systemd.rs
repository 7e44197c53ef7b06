//! What systemd hears of the service, by its own protocol: datagrams to the socket that it names.

use std::{
    fs,
    os::unix::net::UnixDatagram,
    path::Path,
    process::{Command, Stdio},
};

use super::{Serve, state, url};
use crate::{
    process::tonnage,
    support::{Database, TestDatabase},
};

const TABLE: &str = "CREATE TABLE t (id integer PRIMARY KEY)";

/// The service with a socket for systemd and these variables, and who listens there.
fn started(place: &TestDatabase, variables: &[(&str, &str)]) -> (Serve, UnixDatagram) {
    let socket = place.path("notify");
    let listening = UnixDatagram::bind(&socket).expect("a socket");
    let mut command = tonnage();
    command
        .args(["serve", &url(place), "--listen", "127.0.0.1:0", "--state"])
        .arg(state(place))
        .env("NOTIFY_SOCKET", &socket)
        .envs(variables.iter().copied());
    (Serve::run(&mut command), listening)
}

#[test]
fn systemd_hears_of_the_start_of_life_and_of_the_end() {
    let place = TestDatabase::with(Database::Sqlite, TABLE, &[]);
    let (server, listening) = started(&place, &[("WATCHDOG_USEC", "100000")]);
    let heard = || {
        let mut datagram = [0; 100];
        let count = listening.recv(&mut datagram).expect("a datagram");
        String::from_utf8_lossy(&datagram[..count]).into_owned()
    };
    assert_eq!(heard(), "READY=1");
    assert_eq!(heard(), "WATCHDOG=1");
    assert_eq!(heard(), "WATCHDOG=1");
    server.get("/readyz").expect(200);
    server.signal(15);
    while heard() != "STOPPING=1" {}
    server.stop().expect(0);
}

#[test]
fn who_does_not_ask_for_a_watchdog_hears_none() {
    let place = TestDatabase::with(Database::Sqlite, TABLE, &[]);
    // Of another process, which this one was started by.
    let (server, listening) = started(&place, &[("WATCHDOG_USEC", "1000"), ("WATCHDOG_PID", "1")]);
    server.stop().expect(0);
    listening.set_nonblocking(true).expect("a socket");
    let mut datagram = [0; 100];
    let mut all = Vec::new();
    while let Ok(count) = listening.recv(&mut datagram) {
        all.push(String::from_utf8_lossy(&datagram[..count]).into_owned());
    }
    assert_eq!(all, ["READY=1", "STOPPING=1"]);
}

#[test]
fn the_unit_is_one_that_systemd_takes() {
    let has_systemd = Command::new("systemd-analyze")
        .arg("--version")
        .stdout(Stdio::null())
        .status();
    if !has_systemd.is_ok_and(|ended| ended.success()) {
        eprintln!("not run: there is no systemd-analyze here");
        return;
    }
    let unit = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../dist/tonnage-serve.service");
    let unit = fs::read_to_string(unit).expect("the unit");
    // The program has to be there.
    let unit = unit.replace("/usr/bin/tonnage", env!("CARGO_BIN_EXE_tonnage"));
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("tonnage-serve.service");
    let verify = |text: &str| {
        fs::write(&file, text).expect("a file");
        let ran = Command::new("systemd-analyze")
            .args(["verify", "--man=no"])
            .arg(&file)
            .output();
        String::from_utf8_lossy(&ran.expect("it runs").stderr).into_owned()
    };
    let said = verify(&unit);
    assert!(!said.contains("tonnage-serve.service"), "{said}");
    let said = verify(&unit.replace("Type=notify", "Type=nothing"));
    assert!(
        said.contains("tonnage-serve.service"),
        "a unit that is wrong is told: {said}"
    );
}
