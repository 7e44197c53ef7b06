//! Places with files: the disk, object stores, HTTP.
//!
//! [`is_url`] tells a URL from a path. [`find`] is what a URL names: one object, a prefix, a glob. An [`Object`] is one
//! version of one object: every range of it is asked for with the condition that it has not changed. [`File`] is a
//! file of any place, read from a position; [`Positioned`] the same for readers that jump. [`ObjectWriter`] uploads in
//! parts and shows nothing before it is finished. All requests run on threads of this crate, so that whoever reads
//! may block.
//!
//! Bounds: a file that is read from end to end holds at most [`READ_BYTES_MAX`], and [`KEPT_BYTES_MAX`] are kept of the
//! ends of those that were looked at last; one that is written
//! [`WRITE_BYTES_MAX`] up to 40 GB, and twice that for each further 80 GB, 160 GB and so on.

mod aws;
mod error;
mod file;
mod http;
mod kept;
mod keys;
mod listing;
mod named;
mod object;
mod reader;
mod rewritten;
mod runtime;
mod store;
mod url;
mod writer;

pub use self::{
    error::of_io,
    file::{File, Positioned, ReadFrom},
    kept::{END_BYTES, KEPT_BYTES_MAX},
    listing::{OBJECTS_MAX, find, names},
    named::{Lookup, StoreSettings, set_names},
    object::Object,
    reader::{COLUMNS_BYTES_MAX, ObjectReader, READ_BYTES_MAX, Share},
    rewritten::{REWRITTEN_BYTES_MAX, Rewritten},
    store::{exists, remove},
    url::{is_url, name_of, no_place, redacted, url_of},
    writer::{ObjectWriter, WRITE_BYTES_MAX, write_whole},
};
