//! Files that are not what they should be. Each ends in an error that says what is wrong and what to do, or, where the
//! damage leaves something to be read, in an account to which every row belongs: in bounded memory, and never in a
//! panic.
//!
//! A thousand small ones are broken by chance and read in this process; what is hostile, and what is large, is read by
//! the program itself, which has little memory.

mod breaking;
mod files;
mod hostile;

use std::{
    fs,
    panic::{AssertUnwindSafe, catch_unwind},
    path::Path,
    sync::Arc,
};

use tonnage::{
    Error, ErrorKind, load,
    plan::{Create, LoadOptions, OnError, RejectsMax},
    sources,
};
use tonnage_testing::memory::Memory;

use crate::events::Chance;

const FILES: usize = 1_000;

/// How a load ended: the rows of the account, or the error before there was one.
struct LoadOutcome {
    error: Option<Error>,
    /// The rows that the table has, and that the account says it got.
    rows: Option<(u64, u64)>,
}

async fn load(path: &Path) -> LoadOutcome {
    let told = |error| LoadOutcome {
        error: Some(error),
        rows: None,
    };
    let inputs = [path.display().to_string()];
    let source = match sources::open(&inputs, None, &sources::TextOptions::default()) {
        Ok(source) => source,
        Err(error) => return told(error),
    };
    let memory = Memory::new();
    let options = LoadOptions {
        create: Create::Missing,
        on_error: OnError::Reject,
        rejects: Some(path.with_extension("rejects")),
        rejects_max: RejectsMax::Rows(u64::MAX),
        ..LoadOptions::new("orders".parse().expect("a name"))
    };
    let prepared = load::prepare(Arc::new(memory.clone()), "memory:".to_owned(), source, options).await;
    let prepared = match prepared {
        Ok(prepared) => prepared,
        Err(error) => return told(error),
    };
    match prepared.run(Arc::default(), tonnage::stop::Stop::default()).await {
        Ok(ended) => LoadOutcome {
            rows: Some((memory.rows("orders").len() as u64, ended.report.rows.written)),
            error: ended.error,
        },
        Err(error) => told(error),
    }
}

/// What is wrong with how a load ended; none where all is well.
fn complaint(told: &LoadOutcome) -> Option<String> {
    if let Some((there, written)) = told.rows
        && there != written
    {
        return Some(format!("{there} rows are there, {written} are accounted for"));
    }
    let error = told.error.as_ref()?;
    let blamed = matches!(
        error.kind(),
        ErrorKind::Input | ErrorKind::Schema | ErrorKind::Config | ErrorKind::Rejected
    );
    match error.hint_text() {
        _ if !blamed => Some(format!("{:?}: {error}", error.kind())),
        None => Some(format!("no hint: {error}")),
        Some(_) => None,
    }
}

#[test]
fn a_thousand_broken_files_end_in_an_error_or_an_account() {
    let mut chance = Chance::named("TONNAGE_BROKEN_SEED");
    let wholes = files::all();
    let directory = tempfile::tempdir().expect("a temporary directory");
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let read = |bytes: &[u8], name: &str| {
        let path = directory.path().join(name);
        fs::write(&path, bytes).expect("a file");
        catch_unwind(AssertUnwindSafe(|| runtime.block_on(load(&path))))
    };
    for whole in &wholes {
        let told = read(&whole.bytes, &whole.name).expect("no panic");
        assert!(told.error.is_none(), "{}: {:?}", whole.name, told.error);
        assert!(told.rows.is_some_and(|(there, _)| there > 0), "{}", whole.name);
    }
    let mut errors = 0;
    let mut complaints = Vec::new();
    for number in 0..FILES {
        let whole = &wholes[number % wholes.len()];
        let other = &wholes[chance.below(wholes.len() as u64) as usize];
        let (bytes, how) = breaking::broken(whole, other, &mut chance);
        let complaint = match read(&bytes, &whole.name) {
            Err(_) => Some("a panic".to_owned()),
            Ok(told) => {
                errors += usize::from(told.error.is_some());
                complaint(&told)
            }
        };
        complaints.extend(complaint.map(|what| format!("file {number}, {} with {how}: {what}", whole.name)));
    }
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
    // Damage that is never noticed would be no damage.
    assert!(errors > FILES / 4, "{errors} of {FILES} files were refused");
}
