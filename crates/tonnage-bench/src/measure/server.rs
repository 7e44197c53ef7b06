//! The processes of a server on this machine, and the processor time that they take.
//!
//! Invariants:
//! - Only a server that listens at an address of this machine is looked for, and only processes that bear one of the names
//!   that its target knows are taken for it: what merely passes connections on is not measured in its place.
//! - The time of a process that has ended is in that of its parent, so the sum never loses what was in it.
//! - Nothing but `/proc` is read, and no right is needed for more than its first look.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs, io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, ToSocketAddrs, UdpSocket},
    path::{Path, PathBuf},
};

use tonnage_core::instruments::{Address, Listening, Servers};

/// Ticks a second, on every Linux that Rust's standard library supports.
const TICKS: f64 = 100.0;
/// How often processes are counted until none ends meanwhile.
const LOOKS: usize = 5;
/// A TCP socket that listens, in the kernel's tables.
const LISTENING: &str = "0A";
/// The same of a unix socket, as a bit of its flags.
const ACCEPTS: u32 = 0x1_0000;

/// The processes of servers on this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Processes {
    proc: PathBuf,
    /// Those that listen; the others are their children, and theirs.
    owners: BTreeSet<u32>,
    /// For people: `postgres (process 1234)`.
    pub(super) shown: String,
}

/// What is known of one process.
struct Status {
    parent: u32,
    /// Of itself and of its children that have ended, in ticks.
    ticks: u64,
    /// The share of those that have ended.
    ended: u64,
}

impl Processes {
    /// Finds those of `servers`, or says why they cannot be. Blocks.
    pub(super) fn find(servers: &Servers) -> Result<Self, String> {
        Self::find_in(Path::new("/proc"), servers)
    }

    fn find_in(proc: &Path, servers: &Servers) -> Result<Self, String> {
        let mut owners = BTreeSet::new();
        for listening in &servers.listening {
            let sockets = sockets(proc, listening)?;
            let mut found = holders(proc, &sockets);
            // A child holds what its parent holds until it has closed it, and may have ended by now.
            let all = found.clone();
            found.retain(|id| status(proc, *id).is_some_and(|status| !all.contains(&status.parent)));
            if found.is_empty() {
                found.push(by_user(proc, &sockets, servers.programs)?);
            }
            for owner in found {
                let name = name(proc, owner).unwrap_or_default();
                if !servers.programs.contains(&name.as_str()) {
                    return Err(format!(
                        "{listening} is held by a process called {name}, not {}",
                        servers.programs.join(" or ")
                    ));
                }
                owners.insert(owner);
            }
        }
        let shown: Vec<_> = owners
            .iter()
            .map(|owner| format!("{} (process {owner})", name(proc, *owner).unwrap_or_default()))
            .collect();
        Ok(Self {
            proc: proc.to_owned(),
            owners,
            shown: shown.join(", "),
        })
    }

    /// Processor seconds that they have taken, all together; none where one of the servers has ended.
    pub(super) fn processor_seconds(&self) -> Option<f64> {
        let mut seconds = None;
        for _ in 0..LOOKS {
            let before = self.ended()?;
            let all = statuses(&self.proc);
            let family = descendants(&all, &self.owners)?;
            let ticks: u64 = family.iter().filter_map(|id| Some(all.get(id)?.ticks)).sum();
            seconds = Some(ticks as f64 / TICKS);
            // One that ends between two looks is missing, or there twice.
            if self.ended()? == before {
                break;
            }
        }
        seconds
    }

    /// The ticks of children that have ended.
    fn ended(&self) -> Option<u64> {
        let of = |owner: &u32| status(&self.proc, *owner).map(|status| status.ended);
        self.owners.iter().map(of).sum()
    }
}

/// A socket of the kernel's tables: its number, and its owner where that is shown.
struct Socket {
    inode: u64,
    user: Option<u32>,
}

/// The sockets at which somebody of this machine listens there.
fn sockets(proc: &Path, listening: &Listening) -> Result<Vec<Socket>, String> {
    let found: Vec<Socket> = match listening {
        Listening::Tcp(address) => {
            let here = here(address)?;
            let tables = ["net/tcp", "net/tcp6"].map(|table| fs::read_to_string(proc.join(table)));
            if tables.iter().all(Result::is_err) {
                return Err("the system does not tell who listens at which port".to_owned());
            }
            let lines = tables.iter().flatten().flat_map(|table| table.lines());
            lines.filter_map(|line| tcp(line, &here, address.port)).collect()
        }
        Listening::Socket(path) => {
            let table = fs::read_to_string(proc.join("net/unix"))
                .map_err(|_| "the system does not tell who listens at which socket".to_owned())?;
            table.lines().filter_map(|line| unix(line, path)).collect()
        }
    };
    match found.is_empty() {
        true => Err(format!(
            "no process that can be seen here listens at {listening}; it may be in a container"
        )),
        false => Ok(found),
    }
}

/// The addresses of a host that are this machine's.
fn here(address: &Address) -> Result<Vec<IpAddr>, String> {
    let resolved = (address.host.as_str(), address.port).to_socket_addrs();
    let resolved = resolved.map_err(|e| format!("{address} has no address: {e}"))?;
    // Only an address of this machine can be listened at.
    let is_here = |ip: &IpAddr| UdpSocket::bind((*ip, 0)).is_ok();
    let here: Vec<IpAddr> = resolved.map(|at| at.ip()).filter(is_here).collect();
    match here.is_empty() {
        true => Err(format!("{address} is on another machine")),
        false => Ok(here),
    }
}

/// A line of the kernel's table of TCP sockets, if it listens at one of `here`.
fn tcp(line: &str, here: &[IpAddr], port: u16) -> Option<Socket> {
    let mut fields = line.split_whitespace().skip(1);
    let (address, at) = fields.next()?.split_once(':')?;
    if fields.nth(1)? != LISTENING || u16::from_str_radix(at, 16) != Ok(port) {
        return None;
    }
    let words: Option<Vec<u32>> = (0..address.len() / 8)
        .map(|word| u32::from_str_radix(address.get(word * 8..word * 8 + 8)?, 16).ok())
        .collect();
    // A word has the bytes of an address in their order in memory.
    let listens_at: IpAddr = match words?.as_slice() {
        [word] => Ipv4Addr::from(word.to_ne_bytes()).into(),
        words @ [_, _, _, _] => {
            let mut bytes = [0; 16];
            for (four, word) in bytes.chunks_exact_mut(4).zip(words) {
                four.copy_from_slice(&word.to_ne_bytes());
            }
            Ipv6Addr::from(bytes).to_canonical()
        }
        _ => return None,
    };
    if !listens_at.is_unspecified() && !here.contains(&listens_at) {
        return None;
    }
    // Queues, timer and retransmissions are between.
    let user = fields.nth(3)?.parse().ok();
    let inode = fields.nth(1)?.parse().ok()?;
    Some(Socket { inode, user })
}

/// A line of the kernel's table of unix sockets, if it listens at `path`.
fn unix(line: &str, path: &Path) -> Option<Socket> {
    let mut fields = line.split_whitespace().skip(3);
    let flags = u32::from_str_radix(fields.next()?, 16).ok()?;
    let inode = fields.nth(2)?.parse().ok()?;
    let at = line.find('/').map(|from| Path::new(&line[from..]))?;
    (flags & ACCEPTS != 0 && at == path).then_some(Socket { inode, user: None })
}

/// The processes that hold one of `sockets`, as far as this user may look.
fn holders(proc: &Path, sockets: &[Socket]) -> Vec<u32> {
    let links: BTreeSet<PathBuf> = sockets
        .iter()
        .map(|socket| format!("socket:[{}]", socket.inode).into())
        .collect();
    let holds = |id: &u32| {
        let Ok(files) = fs::read_dir(proc.join(id.to_string()).join("fd")) else {
            return false;
        };
        let mut files = files.flatten().filter_map(|file| fs::read_link(file.path()).ok());
        files.any(|link| links.contains(&link))
    };
    ids(proc).filter(holds).collect()
}

/// The one process that bears one of the names, belongs to the user whose socket it is and is no child of such a one.
/// What a process holds only its own user and root may see; whose it is, everybody.
fn by_user(proc: &Path, sockets: &[Socket], programs: &[&str]) -> Result<u32, String> {
    let users: Vec<u32> = sockets.iter().filter_map(|socket| socket.user).collect();
    let all: BTreeMap<u32, Status> = ids(proc)
        .filter(|id| name(proc, *id).is_some_and(|name| programs.contains(&name.as_str())))
        .filter(|id| user(&proc.join(id.to_string())).is_ok_and(|user| users.contains(&user)))
        .filter_map(|id| Some((id, status(proc, id)?)))
        .collect();
    let mut first = all
        .iter()
        .filter(|(_, status)| !all.contains_key(&status.parent))
        .map(|(id, _)| *id);
    match (first.next(), first.next()) {
        (Some(only), None) => Ok(only),
        _ => Err("which process listens there only its own user and root may see".to_owned()),
    }
}

#[cfg(unix)]
fn user(process: &Path) -> io::Result<u32> {
    use std::os::unix::fs::MetadataExt;
    Ok(fs::metadata(process)?.uid())
}

#[cfg(not(unix))]
fn user(_: &Path) -> io::Result<u32> {
    Err(io::ErrorKind::Unsupported.into())
}

/// The processes that there are.
fn ids(proc: &Path) -> impl Iterator<Item = u32> {
    let entries = fs::read_dir(proc).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

fn name(proc: &Path, id: u32) -> Option<String> {
    let name = fs::read_to_string(proc.join(id.to_string()).join("comm")).ok()?;
    Some(name.trim_end().to_owned())
}

fn status(proc: &Path, id: u32) -> Option<Status> {
    let stat = fs::read_to_string(proc.join(id.to_string()).join("stat")).ok()?;
    // A name may have anything in it, a bracket as well.
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let number = |at: usize| fields.get(at)?.parse::<u64>().ok();
    let ended = number(13)? + number(14)?;
    Some(Status {
        parent: u32::try_from(number(1)?).ok()?,
        ticks: number(11)? + number(12)? + ended,
        ended,
    })
}

fn statuses(proc: &Path) -> BTreeMap<u32, Status> {
    ids(proc).filter_map(|id| Some((id, status(proc, id)?))).collect()
}

/// `owners`, their children, and theirs; none where an owner is not there any more.
fn descendants(all: &BTreeMap<u32, Status>, owners: &BTreeSet<u32>) -> Option<BTreeSet<u32>> {
    if !owners.iter().all(|owner| all.contains_key(owner)) {
        return None;
    }
    let mut family = owners.clone();
    loop {
        let is_new =
            |(id, status): &(&u32, &Status)| family.contains(&status.parent) && !family.contains(*id);
        let children: Vec<u32> = all.iter().filter(is_new).map(|(id, _)| *id).collect();
        if children.is_empty() {
            return Some(family);
        }
        family.extend(children);
    }
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    const PROGRAMS: &[&str] = &["exampled"];

    /// Processes as the system would show them.
    struct Shown(tempfile::TempDir);

    impl Shown {
        fn new(tcp: &str) -> Self {
            let shown = Self(tempfile::tempdir().unwrap());
            fs::create_dir(shown.path("net")).unwrap();
            let head = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n";
            fs::write(shown.path("net/tcp"), format!("{head}{tcp}")).unwrap();
            shown
        }

        fn path(&self, place: &str) -> PathBuf {
            self.0.path().join(place)
        }

        /// Ticks: of its own by itself and by the system, and of its children that have ended the same.
        fn process(&self, id: u32, parent: u32, name: &str, ticks: [u64; 4]) {
            let of = self.path(&id.to_string());
            fs::create_dir_all(of.join("fd")).unwrap();
            fs::write(of.join("comm"), format!("{name}\n")).unwrap();
            let [user, system, ended_user, ended_system] = ticks;
            let stat = format!(
                "{id} ({name} :) x) S {parent} 1 1 0 -1 4194304 97 0 0 0 {user} {system} {ended_user} {ended_system} 20 0 1"
            );
            fs::write(of.join("stat"), stat).unwrap();
        }

        fn holds(&self, id: u32, file: u32, inode: u64) {
            let link = self.path(&format!("{id}/fd/{file}"));
            symlink(format!("socket:[{inode}]"), link).unwrap();
        }

        fn find(&self, host: &str) -> Result<Processes, String> {
            let address = Address {
                host: host.to_owned(),
                port: 5_432,
            };
            let servers = Servers {
                listening: vec![Listening::Tcp(address)],
                programs: PROGRAMS,
            };
            Processes::find_in(self.0.path(), &servers)
        }
    }

    /// A line of a socket that listens at 127.0.0.1:5432, of this user.
    fn local(inode: u64) -> String {
        let word = u32::from_ne_bytes([127, 0, 0, 1]);
        let user = user(Path::new("/proc/self")).unwrap_or_default();
        format!(
            "   0: {word:08X}:1538 00000000:0000 0A 00000000:00000000 00:00000000 00000000  {user}        0 {inode} 1 0 100\n"
        )
    }

    #[test]
    fn a_server_is_who_listens_and_all_its_children() {
        let shown = Shown::new(&local(77));
        shown.process(1, 0, "init", [500, 500, 9_000, 9_000]);
        shown.process(10, 1, "exampled", [3, 4, 100, 50]);
        shown.process(11, 10, "exampled", [20, 5, 0, 0]);
        shown.process(12, 11, "worker", [1, 0, 0, 2]);
        shown.process(13, 1, "exampled", [1_000, 0, 0, 0]);
        shown.holds(1, 5, 76);
        shown.holds(10, 5, 77);
        // One that has just begun and has not closed it yet.
        shown.holds(11, 5, 77);
        let found = shown.find("127.0.0.1").unwrap();
        assert_eq!(found.shown, "exampled (process 10)");
        assert_eq!(found.processor_seconds(), Some(1.85));
        // A child that ends leaves its time to its parent.
        shown.process(10, 1, "exampled", [3, 4, 120, 55]);
        fs::remove_dir_all(shown.path("11")).unwrap();
        shown.process(12, 10, "worker", [1, 0, 0, 2]);
        assert_eq!(found.processor_seconds(), Some(1.85));
        fs::remove_dir_all(shown.path("10")).unwrap();
        assert_eq!(found.processor_seconds(), None);
    }

    #[test]
    fn whoever_else_listens_is_not_taken_for_the_server() {
        let shown = Shown::new(&local(77));
        shown.process(20, 1, "forwarder", [1, 1, 0, 0]);
        shown.holds(20, 3, 77);
        assert_eq!(
            shown.find("127.0.0.1"),
            Err("127.0.0.1:5432 is held by a process called forwarder, not exampled".to_owned())
        );
        let nobody = Shown::new("");
        assert!(
            nobody
                .find("127.0.0.1")
                .is_err_and(|why| why.contains("no process that can be seen here listens at 127.0.0.1:5432"))
        );
        // An address that is set aside for documentation, which no machine has.
        assert_eq!(
            shown.find("192.0.2.1"),
            Err("192.0.2.1:5432 is on another machine".to_owned())
        );
    }

    #[test]
    fn what_a_process_holds_need_not_be_seen_where_only_one_can_be_meant() {
        let shown = Shown::new(&local(77));
        shown.process(30, 1, "exampled", [1, 1, 0, 0]);
        shown.process(31, 30, "exampled", [1, 1, 0, 0]);
        assert_eq!(
            shown.find("127.0.0.1").map(|found| found.shown),
            Ok("exampled (process 30)".to_owned())
        );
        shown.process(40, 1, "exampled", [1, 1, 0, 0]);
        assert!(shown.find("127.0.0.1").is_err());
    }

    #[test]
    fn addresses_are_read_as_the_kernel_writes_them() {
        let here = ["127.0.0.1".parse().unwrap(), "::1".parse().unwrap()];
        let line = |address: &str, state: &str| {
            let line = format!("1: {address} 0:0 {state} 0:0 00:0 0  999        0 4711 1");
            tcp(&line, &here, 5_432).map(|socket| (socket.inode, socket.user))
        };
        let words = |bytes: [u8; 16]| -> String {
            let four = |four: &[u8]| u32::from_ne_bytes([four[0], four[1], four[2], four[3]]);
            bytes
                .chunks(4)
                .map(|word| format!("{:08X}", four(word)))
                .collect()
        };
        let found = Some((4711, Some(999)));
        let one = words(Ipv6Addr::LOCALHOST.octets());
        let mapped = words(Ipv4Addr::LOCALHOST.to_ipv6_mapped().octets());
        assert_eq!(line("00000000:1538", "0A"), found);
        assert_eq!(line(&format!("{one}:1538"), "0A"), found);
        assert_eq!(line(&format!("{mapped}:1538"), "0A"), found);
        assert_eq!(line(&format!("{}:1538", "0".repeat(32)), "0A"), found);
        // Another port, one that is connected, another address.
        assert_eq!(line("00000000:1539", "0A"), None);
        assert_eq!(line("00000000:1538", "01"), None);
        let other = format!("{:08X}:1538", u32::from_ne_bytes([127, 0, 0, 2]));
        assert_eq!(line(&other, "0A"), None);
        assert!(tcp("garbage", &here, 1).is_none() && tcp("a b:c d 0A", &here, 0xc).is_none());

        let path = Path::new("/run/example/.s.5432");
        let line = "0000000000000000: 00000002 00000000 00010000 0001 01 4712 /run/example/.s.5432";
        assert_eq!(unix(line, path).map(|socket| socket.inode), Some(4712));
        assert!(unix(&line.replace("00010000", "00000000"), path).is_none());
        assert!(unix("Num RefCount Protocol Flags Type St Inode Path", path).is_none());
    }
}
