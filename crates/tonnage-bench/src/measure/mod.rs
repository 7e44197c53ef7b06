//! Measuring: which way of writing a database takes best, and what it makes of the rows.
//!
//! [`Bench`] runs the cells of a matrix of settings and decides ([`answer`]); [`Explain`] looks at how rows reach the
//! pages and the log of one table. Both go by loads like any other, on tables of their own: what a database has to do
//! for that is its [`Instruments`](tonnage_core::instruments::Instruments). Words and numbers are apart: [`BenchReport`] and [`Explained`] hold what was measured,
//! and who prints them is not known here.

pub mod answer;
mod bench;
pub mod beside;
pub mod compare;
pub mod decided;
pub mod explain;
pub mod figures;
pub mod form;
mod judge;
pub mod latency_proxy;
pub mod left;
mod look;
mod made_up;
mod meter;
pub mod method;
mod offered;
mod own;
pub mod published;
mod rotated;
mod rows;
pub mod server;
pub mod setting;
pub mod statistics;
pub mod touch;
pub mod verdict;

pub use self::{
    answer::Answer,
    bench::{Bench, BenchOptions, Event, Goal, Until},
    explain::{Explain, ExplainOptions, Explained},
    figures::BenchReport,
    method::BenchMethod,
    own::OwnRows,
    setting::{Budget, Kind, Matrix, RowKind, Setting},
};
