//! The command line as people use it: the real program, real files, real databases. `make test` starts the
//! servers; see scripts/with-servers.

mod around;
mod bench;
mod broken;
mod browser;
mod cassandra;
mod comforts;
mod conformance;
mod connections;
mod credentials;
mod database;
mod dimensions;
mod documents;
mod events;
mod exec;
mod explain;
mod faults;
mod flights;
mod formats;
mod gets;
mod ingest;
mod interrupts;
mod keyspace;
mod kill;
mod mistakes;
mod options;
mod packing;
mod process;
mod proxy;
mod readme;
mod rejects;
mod related;
#[path = "../../../tonnage/tests/it/cassandra/session.rs"]
mod session;
mod sharded;
mod snapshots;
mod support;
mod unload;
mod whole;
