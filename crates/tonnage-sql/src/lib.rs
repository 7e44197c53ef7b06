//! What databases that are reached by a URL and asked by SQL share.
//!
//! [`url`] knows where a URL may hold a password; [`edges`] makes ranges of a table of boundaries that were sampled.

pub mod edges;
pub mod url;
