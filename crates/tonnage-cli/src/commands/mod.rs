//! One file a command.

pub mod bench;
pub mod copy;
pub mod documents;
pub mod exec;
pub mod explain;
pub mod generate;
pub mod get;
pub mod ingest;
pub mod init;
pub mod job;
pub mod kept;
pub mod load;
pub mod read;
pub mod rows;
pub mod runs;
#[cfg(feature = "serve")]
pub mod serve;
pub mod tables;
pub mod targets;
pub mod tune;
pub mod unload;
pub mod verify;
