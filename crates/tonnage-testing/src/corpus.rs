//! The corpora of fuzzing, for tests.

use std::{cell::RefCell, fs, path::Path};

/// A function of any bytes, which ends without a panic whatever they are.
pub type Fuzzed = fn(&[u8]);

/// Broken forms of each file.
const FORMS: usize = 40;

/// A directory that lasts as long as the thread.
///
/// # Panics
/// Where no temporary directory can be made.
pub fn with_directory<T>(use_: impl FnOnce(&Path) -> T) -> T {
    thread_local! {
        static DIRECTORY: RefCell<Option<tempfile::TempDir>> = const { RefCell::new(None) };
    }
    DIRECTORY.with_borrow_mut(|directory| {
        let directory = directory.get_or_insert_with(|| tempfile::tempdir().expect("a temporary directory"));
        use_(directory.path())
    })
}

/// Gives `fuzzed` the files of the corpus `name`, and broken forms of each.
///
/// # Panics
/// Where `fuzzed` does, or the corpus is missing or empty.
pub fn check(name: &str, fuzzed: Fuzzed) {
    let corpora = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus");
    let entries = fs::read_dir(corpora.join(name)).unwrap_or_else(|error| panic!("{name}: {error}"));
    let mut files: Vec<_> = entries.map(|entry| entry.expect("an entry").path()).collect();
    files.sort();
    assert!(!files.is_empty(), "{name} has a corpus");
    fuzzed(b"");
    for file in files {
        let whole = fs::read(&file).expect("a file of the corpus");
        fuzzed(&whole);
        for form in 0..FORMS.min(whole.len()) {
            let at = whole.len() * form / FORMS;
            let mut bytes = whole.clone();
            bytes[at] ^= 1 << (form % 8);
            fuzzed(&bytes);
            bytes.truncate(at);
            fuzzed(&bytes);
        }
    }
}
