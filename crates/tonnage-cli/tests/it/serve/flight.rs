//! Arrow Flight SQL, as a client does it that was written elsewhere: the ADBC driver.

use std::{path::Path, process::Command};

use super::{Serve, access::token, state, url};
use crate::support::{ALL, TestDatabase};

/// A Python that has the driver.
fn python() -> String {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/fetch-adbc");
    let ran = Command::new(script).output().expect("it runs");
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    String::from_utf8(ran.stdout).expect("a path").trim().to_owned()
}

#[test]
fn the_adbc_driver_reads_and_writes() {
    let python = python();
    for database in ALL.iter().copied() {
        let place = TestDatabase::with(database, "CREATE TABLE elsewhere (id integer)", &[]);
        let (all, weak) = (token(), token());
        let text = format!(
            "state = {:?}\n[databases.d]\nurl = {:?}\ncreate = true\n[[listen]]\naddress = \"127.0.0.1:0\"\n\
             [tokens.all]\nsha256 = \"{}\"\nread = [\"*\"]\nwrite = [\"*\"]\nsql = true\n\
             [tokens.weak]\nsha256 = \"{}\"\nwrite = [\"readings\"]\n",
            state(&place).display().to_string(),
            url(&place),
            all.1,
            weak.1,
        );
        place.write("serve.toml", &text);
        let server = Serve::start(&["--config", &place.path("serve.toml").display().to_string()]);
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/serve/flight.py");
        let uri = format!("grpc://{}", server.address());
        let ran = Command::new(&python)
            .arg(script)
            .args([&uri, &all.0, &weak.0])
            .output()
            .expect("it runs");
        let said = String::from_utf8_lossy(&ran.stderr);
        assert!(ran.status.success(), "{database:?}: {said}\n{}", server.said());
        assert_eq!(String::from_utf8_lossy(&ran.stdout).trim(), "all of it");
        server.stop().expect(0);
    }
}
