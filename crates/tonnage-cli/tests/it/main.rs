//! The command line as people use it.

mod readme;
