//! Where the servers of a database are.

use std::{fmt, path::PathBuf};

/// Where a server listens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Address {
    /// Name or address.
    pub host: String,
    /// Port.
    pub port: u16,
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.host.contains(':') {
            true => write!(f, "[{}]:{}", self.host, self.port),
            false => write!(f, "{}:{}", self.host, self.port),
        }
    }
}

/// Where a server listens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Listening {
    /// A host, or its address, and a port.
    Tcp(Address),
    /// The path of a unix socket.
    Socket(PathBuf),
}

impl fmt::Display for Listening {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => address.fmt(f),
            Self::Socket(path) => path.display().fmt(f),
        }
    }
}

/// The servers of a database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Servers {
    /// Where each of them listens.
    pub listening: Vec<Listening>,
    /// What their processes may be called.
    pub programs: &'static [&'static str],
}
