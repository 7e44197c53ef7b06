//! What all of tonnage speaks of.
//!
//! - The nouns: [`table`] and [`types`], [`operation`], [`statement`] (a user's own, taken apart), [`slot`] (blocks, slots,
//!   positions), [`reject`], [`report`], [`error`].
//! - The seams: [`source`] (what yields rows), [`target`] with its writers (what takes them), [`reader`] and [`getter`] (the
//!   ways out), [`ledger`] (how far a run has come), [`router`] (where a row belongs), [`instruments`] (what measuring
//!   needs), [`driver`] (how a database is reached).
//! - What works on values alone: [`parse`] (text to typed columns), [`convert`] (the Arrow types of a source to the one of
//!   each column type), [`digits`] (numbers and times to text), [`calendar`], [`spill`] (rows sorted in bounded memory).
//!
//! Nothing here knows a database, a file format or a plan.

pub mod calendar;
pub mod convert;
pub mod digits;
pub mod driver;
pub mod error;
pub mod extent;
pub mod getter;
pub mod instruments;
pub mod ledger;
pub mod operation;
pub mod parse;
pub mod password;
pub mod preparation;
pub mod reader;
pub mod reject;
pub mod report;
pub mod retry;
pub mod router;
pub mod schema;
pub mod slot;
pub mod source;
pub mod spill;
pub mod statement;
pub mod stop;
pub mod student;
pub mod sync;
pub mod table;
pub mod target;
pub mod types;

pub use error::{Error, ErrorKind, Result};
pub use types::ColumnType;
