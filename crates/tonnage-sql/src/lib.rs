//! What databases that are reached by a URL and asked by SQL share.
//!
//! [`settings`] has secrets, TLS and values of URLs; [`url`] knows where a URL may hold a password; [`edges`] makes ranges
//! of a table of boundaries that were sampled; [`ledger`] is the ledger in SQL; [`thread`] and
//! [`splits`] are for drivers that block.

pub mod edges;
pub mod ledger;
pub mod settings;
pub mod splits;
pub mod thread;
pub mod url;
