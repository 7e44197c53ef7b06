//! Upserts and ignores that go by more keys than the one that is meant.
//!
//! In some databases a statement cannot say by which unique key a row is recognised: any that it meets decides. Where a
//! table has further ones that is refused, or asked for and disclosed.

use tonnage_core::{
    error::{Error, Result},
    operation::Operation,
};

use super::PlanInputs;

/// By what the database recognises the row that is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RecognisedBy {
    /// The operation's key, or nothing.
    TheKey,
    /// Whichever unique key it meets first.
    AnyKey,
}

/// What is given up where rows go by any key, as it was asked for; none where they go by the key of `operation`.
pub(super) fn any(inputs: &PlanInputs, operation: &Operation) -> Result<Option<String>> {
    const OPTION: &str = "--any-unique-key";
    let asked = inputs.options.any_unique_key;
    let (Operation::Upsert { key } | Operation::Ignore { key }) = operation else {
        return match asked {
            false => Ok(None),
            true => Err(Error::config(format!(
                "{OPTION} is about rows whose key is there, and {} does not look for them",
                match operation {
                    Operation::Insert => "an insert",
                    _ => "this operation",
                }
            ))
            .hint("it goes with --mode upsert and --mode ignore")),
        };
    };
    let table = &inputs.table.name;
    let shown = |columns: &[String]| format!("({})", columns.join(", "));
    let further = match ((inputs.other_unique_keys)(key), asked) {
        (None, false) => return Ok(None),
        (None, true) => {
            return Err(Error::config(format!(
                "the database goes by {} and by no other key, so {OPTION} would have no effect",
                shown(key)
            ))
            .hint("leave it out"));
        }
        (Some(further), _) => further,
    };
    let Some(first) = further.first() else {
        return Ok(None);
    };
    if !asked {
        return Err(Error::config(format!(
            "{}: the further unique key {} of {table} could take a row for another one",
            operation.name(),
            shown(first)
        ))
        .hint(format!(
            "{OPTION} goes by whichever key a row meets; --mode update is for rows that are there, --mode insert for \
             new ones"
        )));
    }
    let others: Vec<_> = further.iter().map(|columns| shown(columns)).collect();
    let (others, key) = (others.join(" or "), shown(key));
    Ok(Some(match operation {
        Operation::Ignore { .. } => {
            format!("any unique key decides: a row whose {others} is there is left out, whatever its {key}")
        }
        _ => format!(
            "any unique key decides: a row whose {others} is there changes that row, whatever its {key}, which stays as \
             it is there; one that meets several rows changes one of them or is refused"
        ),
    }))
}
