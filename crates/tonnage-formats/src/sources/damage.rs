//! What sources of a binary format share about files that are not what they should be.
//!
//! The readers of these formats trust much of what a file says. Lengths that would be allocated are therefore checked
//! before; what they trust beyond that ends in a panic, which is caught here. A failed allocation could not be.

use std::{
    cell::Cell,
    fmt::Display,
    panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook},
    sync::{Arc, Once},
};

use tonnage_core::{error::Error, slot::BlockMark};

/// The most bytes of a binary file that are held in memory at once, as they lie there or decompressed: a message of
/// Arrow, a page of Parquet. Writers make them of some MiB.
pub(crate) const HELD_BYTES_MAX: u64 = 4 << 30;

/// The most bytes of what describes the rest: a footer, the head of a message.
pub(crate) const METADATA_BYTES_MAX: u64 = 256 << 20;

/// Fewer bytes than this are always to be had.
const ROOM_BYTES_MIN: u64 = 64 << 20;

/// Whether the system gives as much memory as a reader is about to ask for: where it does not, the reader would end the
/// process.
pub(crate) fn is_room(bytes: u64) -> bool {
    let room = || Vec::<u8>::new().try_reserve_exact(usize::try_from(bytes).unwrap_or(usize::MAX));
    bytes < ROOM_BYTES_MIN || room().is_ok()
}

thread_local! {
    /// Whether what this thread does is guarded, so that a panic is not for the terminal.
    static GUARDED: Cell<bool> = const { Cell::new(false) };
}

/// Does what may panic on a damaged file: the reader indexes by what pages and footers claim (found by
/// flipping bits; see the tests). What `read` borrows mutably must not be used after an error.
pub(crate) fn guarded<T, E: Display>(
    read: impl FnOnce() -> std::result::Result<T, E>,
) -> std::result::Result<T, String> {
    caught(read)?.map_err(|cause| cause.to_string())
}

/// [`guarded`] for what has errors of its own: the error is what a panic said.
pub(crate) fn caught<T>(read: impl FnOnce() -> T) -> std::result::Result<T, String> {
    keep_quiet();
    let before = GUARDED.replace(true);
    let ended = catch_unwind(AssertUnwindSafe(read));
    GUARDED.set(before);
    ended.map_err(|panic| {
        let said = panic.downcast_ref::<String>().cloned();
        said.or_else(|| panic.downcast_ref::<&str>().map(ToString::to_string))
            .unwrap_or_else(|| "the reader failed".to_owned())
    })
}

/// Has panics that become errors print nothing; all others go to the hook that was there. The hook is the process's,
/// so it is put in once.
fn keep_quiet() {
    static ONCE: Once = Once::new();
    if std::thread::panicking() {
        return;
    }
    ONCE.call_once(|| {
        let others = take_hook();
        set_hook(Box::new(move |panic| {
            // A thread that is ending has no locals any more, and guards nothing.
            if !GUARDED.try_with(Cell::get).unwrap_or(false) {
                others(panic);
            }
        }));
    });
}

/// `orders.parquet has changed since the run began`.
pub fn has_changed(shown: impl Display) -> Error {
    Error::input(format!("{shown} has changed since the run began"))
        .hint("put back the file that the run began with, or start again with --restart")
}

/// The error of what lies before `mark` and is not what it was: the file of the mark, or one before it.
pub(crate) fn changed_before<'a>(shown: impl Fn(usize) -> Option<&'a Arc<str>>, mark: &BlockMark) -> Error {
    let shown = shown(mark.file as usize).map_or("the input", |shown| shown);
    match (mark.file, mark.offset) {
        (0, _) => has_changed(shown),
        (_, 0) => has_changed(format_args!("a file before {shown}")),
        _ => has_changed(format_args!("{shown} or a file before it")),
    }
}

/// `orders.arrow: there is not enough memory for a message of 5 bytes`.
pub(crate) fn no_memory(shown: impl Display, what: &str, bytes: u64) -> Error {
    Error::input(format!(
        "{shown}: there is not enough memory for {what} of {bytes} bytes"
    ))
    .hint("if the file is whole, write it with fewer rows at a time")
}
