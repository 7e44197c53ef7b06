//! The command line as people use it: the real program, real files, real databases. `make test` starts the
//! servers; see scripts/with-servers.

mod mistakes;
mod options;
mod readme;
mod rejects;
mod snapshots;
mod support;
