//! The engine: what moves rows, for any database and any files.
//!
//! [`load`] takes the blocks of a source through slots and lanes to writers and commits; what it does is decided by
//! [`plan`] before, as a pure function. [`unload`] is the way out, [`fetch`] rows by key, [`put`] many streams at once,
//! [`buffer`] rows that come one by one and are drained in the background. [`sharded`] is several databases of one kind
//! as one target. [`verify`] compares rows with those of a table, and [`copy`]
//! takes whole databases from one to another. [`job`] is one load in parts that many processes carry out. [`connected`] is a database at hand, from which each of them is begun.
//!
//! To follow a load, start at [`load::prepare`]; to follow a row, at `load/deal.rs` and `load/lane.rs`.

pub mod buffer;
pub mod connected;
pub mod copy;
pub mod fetch;
pub mod job;
pub mod load;
pub mod plan;
pub mod progress;
pub mod put;
pub mod sharded;
pub mod unload;
pub mod verify;
