//! What the tests of all crates share.
//!
//! [`memory`] is the reference target: a database in memory that does what the seams say and fails on request.
//! [`corpus`] gives the files of `fuzz/corpus`, and broken forms of them, to what reads foreign bytes.

pub mod corpus;
pub mod memory;
