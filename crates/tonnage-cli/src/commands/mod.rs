//! One file a command.

pub mod documents;
pub mod generate;
pub mod ingest;
pub mod load;
pub mod runs;
pub mod targets;
