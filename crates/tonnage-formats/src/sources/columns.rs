//! The columns of several files that are read as one.

use tonnage_core::{
    convert::shown_type,
    error::{Error, Result},
    source::SourceColumn,
};

/// Checks that the file `shown` has the columns of the first one, and notes where it allows nulls that others do not.
pub(crate) fn merge_columns(
    columns: &mut [SourceColumn],
    first: &str,
    others: &[SourceColumn],
    shown: &str,
) -> Result<()> {
    let differs =
        |what: String| Error::input(what).hint("load files with other columns in a run of their own");
    let lacks = |columns: &[SourceColumn], name: &str| columns.iter().all(|column| column.name != name);
    if let Some(missing) = columns.iter().find(|column| lacks(others, &column.name)) {
        return Err(differs(format!(
            "{shown} has no column '{}', {first} has",
            missing.name
        )));
    }
    if let Some(further) = others.iter().find(|column| lacks(columns, &column.name)) {
        return Err(differs(format!(
            "{shown} has a column '{}', {first} has not",
            further.name
        )));
    }
    for (index, (column, other)) in columns.iter_mut().zip(others).enumerate() {
        let (name, other_name) = (&column.name, &other.name);
        if name != other_name {
            return Err(differs(format!(
                "{shown}: column {} is '{other_name}', in {first} it is '{name}'",
                index + 1
            )));
        }
        if column.arrow != other.arrow {
            let (ty, other_ty) = (shown_type(&column.arrow), shown_type(&other.arrow));
            return Err(differs(format!(
                "{shown}: column '{name}' is {other_ty}, in {first} it is {ty}"
            )));
        }
        column.nullable |= other.nullable;
    }
    if columns.len() != others.len() {
        // Every name is in both, so one of them has a name twice.
        return Err(differs(format!(
            "{shown} has {} columns, {first} has {}",
            others.len(),
            columns.len()
        )));
    }
    Ok(())
}
