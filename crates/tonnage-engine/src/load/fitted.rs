//! Names of a source's columns that a database does not take, and what they are called in a table made for them.
//!
//! A name is fitted only where the database has refused the table with the names as they are; then it is the same for the same
//! names every time, so that a later load finds its columns again. It is said in the plan.

use std::collections::HashSet;

use tonnage_core::{
    error::{ErrorKind, Result},
    source::Source,
    table::{Table, TableSpec},
    target::Target,
};

use super::create::spec;
use crate::plan::{LoadOptions, mapped};

/// The most bytes of a fitted name; databases take 63 bytes and more. What tells it from another one comes on top.
const NAME_BYTES_MAX: usize = 58;

/// The least bytes of a name that is too long for a database.
const LONG_BYTES_MIN: usize = 64;

/// The most names that notes list.
const NOTES_MAX: usize = 5;

/// The table to be made for a source. Names that `target` does not take are mapped in `options` to others, with a sentence
/// each.
pub fn fitting_spec(
    source: &dyn Source,
    options: &mut LoadOptions,
    target: &dyn Target,
    notes: &mut Vec<String>,
) -> Result<TableSpec> {
    let plain = spec(source, options, target)?;
    let refused = target.create_statement(&plain);
    let is_about_columns = refused.is_err_and(|error| error.kind() == ErrorKind::Schema);
    if !is_about_columns || !keeps_names(source, options) {
        return Ok(plain);
    }
    let fitted = fitted(source, options);
    let with_fitted = LoadOptions {
        map: [options.map.clone(), fitted.clone()].concat(),
        ..options.clone()
    };
    let fitting = spec(source, &with_fitted, target)?;
    if fitted.is_empty() || target.create_statement(&fitting).is_err() {
        return Ok(plain);
    }
    *options = with_fitted;
    say(&fitted, notes);
    Ok(fitting)
}

/// Maps columns of a source to those of `table` that were made for names like theirs.
pub fn find_fitted(source: &dyn Source, table: &Table, options: &mut LoadOptions, notes: &mut Vec<String>) {
    if !keeps_names(source, options) {
        return;
    }
    let has = |name: &str| table.columns.iter().any(|column| column.name == name);
    let mut fitted = fitted(source, options);
    fitted.retain(|(from, to)| has(to) && !has(from));
    say(&fitted, notes);
    options.map.extend(fitted);
}

/// Whether the names of the source's columns are those of the table's.
fn keeps_names(source: &dyn Source, options: &LoadOptions) -> bool {
    source.schema().named && options.columns.is_none()
}

fn say(fitted: &[(String, String)], notes: &mut Vec<String>) {
    for (from, to) in fitted.iter().take(NOTES_MAX) {
        notes.push(format!(
            "column '{from}' is called '{to}' in the table, as the database does not take its name; --map says otherwise"
        ));
    }
    if fitted.len() > NOTES_MAX {
        let more = fitted.len() - NOTES_MAX;
        notes.push(format!("{more} more columns are renamed in the same way"));
    }
}

/// The names that are changed: too long ones, those with signs that not every database has, and those that differ from one
/// before in their case only.
fn fitted(source: &dyn Source, options: &LoadOptions) -> Vec<(String, String)> {
    let columns = &source.schema().columns;
    let mut taken = HashSet::new();
    let mut changed = Vec::new();
    for column in columns {
        let name = mapped(source.schema(), options, &column.name);
        let plain = plain(&name);
        if plain == *name && taken.insert(plain.to_lowercase()) {
            continue;
        }
        changed.push((column.name.clone(), plain));
    }
    for (_, name) in &mut changed {
        let stem = name.clone();
        let numbered = (2u64..).map(|number| format!("{stem}_{number}"));
        let mut candidates = std::iter::once(stem.clone()).chain(numbered);
        if let Some(unused) = candidates.find(|candidate| taken.insert(candidate.to_lowercase())) {
            *name = unused;
        }
    }
    changed
}

/// A name that is short enough, of signs that all databases have in names.
fn plain(name: &str) -> String {
    let mut plain: String = name
        .chars()
        .map(|sign| if u32::from(sign) > 0xffff { '_' } else { sign })
        .collect();
    if plain.len() >= LONG_BYTES_MIN {
        let end = (0..=NAME_BYTES_MAX)
            .rev()
            .find(|end| plain.is_char_boundary(*end));
        plain.truncate(end.unwrap_or(0));
        plain.truncate(plain.trim_end().len());
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_names_are_cut_between_characters() {
        assert_eq!(plain("short"), "short");
        assert_eq!(plain(&"n".repeat(63)), "n".repeat(63));
        assert_eq!(plain(&"n".repeat(64)), "n".repeat(58));
        assert_eq!(plain(&"\u{e9}".repeat(40)), "\u{e9}".repeat(29));
        assert_eq!(plain("a \u{1f600}"), "a _");
    }
}
