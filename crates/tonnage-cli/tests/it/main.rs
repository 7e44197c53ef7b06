//! The `tonnage` binary on real files and real databases. `make test` starts the servers; see scripts/with-servers.

mod conformance;
mod connections;
mod database;
mod events;
mod flights;
mod kill;
mod process;
mod proxy;
