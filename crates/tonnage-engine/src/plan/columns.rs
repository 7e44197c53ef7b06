//! Which source column goes to which table column.

use std::{borrow::Cow, collections::HashSet};

use tonnage_core::{
    error::{Error, Result},
    operation::Operation,
    source::{SourceColumn, SourceSchema},
    table::{Column, Names, Numbered, Table, columns_hint, find_by_name, nearest},
    types::ColumnType,
};
use tonnage_formats::sources::{Scan, added::used_columns, csv::suspicious_delimiter};

use super::{Create, LoadOptions, PlanInputs, WriteColumn, operation, statement};

/// The columns that are written, and what is done with them.
pub(super) struct WrittenColumns {
    pub columns: Vec<WriteColumn>,
    pub operation: Operation,
    /// Those of a table to be made whose types were inferred from the first rows.
    pub inferred: Vec<String>,
    pub notes: Vec<String>,
}

/// Decides which columns are written, and the operation.
pub(super) fn decide(inputs: &PlanInputs) -> Result<WrittenColumns> {
    let PlanInputs {
        table,
        source,
        options,
        ..
    } = inputs;
    let (columns, operation) = match &inputs.statement {
        Some(statement) => (
            statement::match_parameters(table, source, options)?,
            statement::operation(statement, table, options)?,
        ),
        None => {
            let columns = match_columns(table, source, options)?;
            let operation = operation::operation(table, source, &columns, options)?;
            (columns, operation)
        }
    };
    let columns: Vec<WriteColumn> = match &operation {
        Operation::Delete { key } => columns.into_iter().filter(|c| key.contains(&c.name)).collect(),
        _ => columns,
    };
    let mut notes = notes(inputs);
    notes.extend(check_numbered(table, source, &columns, &operation, options)?);
    if options.create != Create::No
        && source.header
        && !replaces_header(source, options)
        && let Some(delimiter) = suspicious_delimiter(source)
    {
        let delimiter = delimiter.escape_default();
        return Err(Error::input(format!(
            "the header of {} is one field with '{delimiter}' in it, and no table is made of that",
            source.shown
        ))
        .hint(format!(
            "--delimiter '{delimiter}' cuts it; where it is one column, --columns NAME names it"
        )));
    }
    notes.extend(columns.iter().filter_map(|column| null_word(inputs, column)));
    Ok(WrittenColumns {
        inferred: inferred(inputs, &columns),
        columns,
        operation,
        notes,
    })
}

/// What there is to say of the source and its header.
fn notes(inputs: &PlanInputs) -> Vec<String> {
    let mut notes: Vec<String> = inputs.source.notes.clone();
    if replaces_header(inputs.source, inputs.options) {
        notes.push(format!(
            "--columns takes the place of the names in the header of {}",
            inputs.source.shown
        ));
    }
    notes
}

/// The columns of a table to be made whose types were inferred from the first rows.
fn inferred(inputs: &PlanInputs, columns: &[WriteColumn]) -> Vec<String> {
    let options = inputs.options;
    if inputs.create.is_none() || !inputs.source.text || options.scan == Scan::All {
        return Vec::new();
    }
    let is_asked = |name: &str| {
        let mut asked = options.types.iter();
        asked.any(|(asked, _)| asked.to_lowercase() == name.to_lowercase())
    };
    let names = columns.iter().map(|column| &column.name);
    names.filter(|name| !is_asked(name)).cloned().collect()
}

/// What to say of a column of a table to be made that is text only because of a word that may mean null.
fn null_word(inputs: &PlanInputs, column: &WriteColumn) -> Option<String> {
    inputs.create.as_ref()?;
    let (word, ty) = inputs.source.columns[column.source].null_word.as_ref()?;
    let is_asked = inputs.options.types.iter().any(|(name, _)| *name == column.name);
    (!is_asked).then(|| {
        format!(
            "column '{}' is text because of '{word}', without which it would be {ty}: --null '{word}'",
            column.name
        )
    })
}

/// What --map calls the source's column `name`: by exactly this name, else by one that no column of the source has; else
/// what --normalize-names makes of it.
pub(crate) fn mapped<'a>(source: &SourceSchema, options: &'a LoadOptions, name: &'a str) -> Cow<'a, str> {
    let exact = options.map.iter().find(|(from, _)| from == name);
    let is_alike = |(from, _): &&(String, String)| {
        from.to_lowercase() == name.to_lowercase() && source.columns.iter().all(|other| other.name != *from)
    };
    match exact.or_else(|| options.map.iter().find(is_alike)) {
        Some((_, to)) => to.into(),
        None if options.normalize_names => normalized(name).into(),
        None => name.into(),
    }
}

/// `name` in small letters, with `_` for whatever is no letter or digit, and before a digit that it begins with.
fn normalized(name: &str) -> String {
    let words = name
        .split(|sign: char| !sign.is_alphanumeric())
        .filter(|word| !word.is_empty());
    let plain = words.collect::<Vec<_>>().join("_").to_lowercase();
    match plain.chars().next() {
        None => "unnamed".to_owned(),
        Some(first) if first.is_numeric() => format!("_{plain}"),
        Some(_) => plain,
    }
}

/// Matches them by name, else by position; an extra source column is an error, an absent one takes its default.
pub(crate) fn match_columns(
    table: &Table,
    source: &SourceSchema,
    options: &LoadOptions,
) -> Result<Vec<WriteColumn>> {
    check_map(table, source, options)?;
    let wanted = options.columns.as_ref().map(|names| {
        let names = names.iter().map(|name| match table.column(name) {
            Some(column) => Ok(column.name.as_str()),
            None => Err(missing(table, name)),
        });
        names.collect::<Result<Vec<_>>>()
    });
    let wanted = wanted.transpose()?;
    let has_names = (source.named || !options.map.is_empty()) && !replaces_header(source, options);
    let pairs = match has_names {
        true => pairs_by_name(table, source, options, wanted.as_deref())?,
        false => pairs_by_position(table, source, wanted.as_deref())?,
    };
    let mut columns = Vec::with_capacity(pairs.len());
    for (index, at) in pairs {
        let (from, to) = (&source.columns[index], &table.columns[at]);
        if let Some(other) = columns.iter().find(|c: &&WriteColumn| c.target == at) {
            return Err(Error::config(format!(
                "columns '{}' and '{}' of {} both go to column '{}'",
                other.source_name, from.name, source.shown, to.name
            ))
            .hint("--map sends one of them to another column"));
        }
        columns.push(WriteColumn {
            source: index,
            source_name: from.name.clone(),
            target: at,
            name: to.name.clone(),
            ty: column_type(table, to, from, source)?,
        });
    }
    if columns.is_empty() {
        return Err(Error::schema(format!(
            "no column of {} goes to table {}",
            source.shown, table.name
        )));
    }
    check_types(table, options)?;
    Ok(columns)
}

/// Refuses a `--map` from a column that the source lacks, or to one that the table lacks.
fn check_map(table: &Table, source: &SourceSchema, options: &LoadOptions) -> Result<()> {
    for (from, to) in &options.map {
        if table.column(to).is_none() {
            let error = missing(table, to).at(format!("--map {from}={to}"));
            let is_reversed =
                table.column(from).is_some() && find_by_name(&source.columns, to, |c| &c.name).is_some();
            return Err(match is_reversed {
                true => error.hint(format!("the input's column comes first: --map {to}={from}")),
                false => error,
            });
        }
        if find_by_name(&source.columns, from, |c| &c.name).is_none() {
            return Err(Error::config(format!(
                "--map {from}=..: {} has no column '{from}'",
                source.shown
            ))
            .hint(columns_hint(from, source.columns.iter().map(|c| c.name.as_str()))));
        }
    }
    Ok(())
}

/// The places of columns in the source and in the table, of those that have one name.
fn pairs_by_name(
    table: &Table,
    source: &SourceSchema,
    options: &LoadOptions,
    wanted: Option<&[&str]>,
) -> Result<Vec<(usize, usize)>> {
    // Tables have thousands of columns.
    let names = Names::of(table.columns.iter().map(|c| c.name.as_str()));
    let used = used_columns(&options.add)?;
    let mut pairs = Vec::new();
    for (index, column) in source.columns.iter().enumerate() {
        let mapped = mapped(source, options, &column.name);
        match (names.find(&mapped), wanted) {
            (Some(at), Some(wanted)) if !wanted.contains(&table.columns[at].name.as_str()) => {}
            (None, Some(_)) => {}
            (Some(at), _) => pairs.push((index, at)),
            // Its values are in a column that was made of them.
            (None, None) if find_by_name(&used, &column.name, |name| name).is_some() => {}
            (None, None) => return Err(unknown_source_column(table, source, options, &mapped)),
        }
    }
    let is_filled = |name: &&&str| pairs.iter().any(|(_, at)| table.columns[*at].name == **name);
    match wanted.into_iter().flatten().find(|name| !is_filled(name)) {
        None => Ok(pairs),
        Some(name) => Err(Error::schema(format!(
            "{} has no column '{name}', which --columns names",
            source.shown
        ))
        .hint("--map fills it from a column of another name; without it in --columns it takes its default")),
    }
}

/// The places of columns in the source and in the table: each field goes to the next column that takes one.
fn pairs_by_position(
    table: &Table,
    source: &SourceSchema,
    wanted: Option<&[&str]>,
) -> Result<Vec<(usize, usize)>> {
    let place = |name: &&str| table.columns.iter().position(|c| c.name == *name);
    let takes_values = |at: &usize| {
        let column = &table.columns[*at];
        !column.generated && column.numbered != Some(Numbered::Always)
    };
    let places: Vec<usize> = match wanted {
        Some(names) => names.iter().filter_map(place).collect(),
        None => (0..table.columns.len()).filter(takes_values).collect(),
    };
    if places.len() != source.columns.len() {
        return Err(Error::schema(format!(
            "{} has {} fields a row, {} has {} columns to fill",
            source.shown,
            source.columns.len(),
            table.name,
            places.len()
        ))
        .hint("name the table columns of the fields, in order: --columns a,b,c"));
    }
    Ok(places.into_iter().enumerate().collect())
}

/// Refuses a `--type` that is not that of the column.
fn check_types(table: &Table, options: &LoadOptions) -> Result<()> {
    for (name, ty) in &options.types {
        let column = table.column(name).ok_or_else(|| missing(table, name))?;
        if column.ty != Some(*ty) && column.ty != Some(ColumnType::Any) {
            return Err(Error::config(format!(
                "--type {name}={ty}: column '{}' of {} is there already, as {}",
                column.name, table.name, column.declared
            ))
            .hint("--type is for tables that --create makes; a column's own type decides how text is read"));
        }
    }
    Ok(())
}

/// Whether `--columns` renames the columns of a file: as many as its header does, some that are not there and the
/// others in their places. Otherwise it chooses among those that are there.
pub(crate) fn replaces_header(source: &SourceSchema, options: &LoadOptions) -> bool {
    let Some(names) = options.columns.as_ref().filter(|_| source.header) else {
        return false;
    };
    let place = |name: &String| {
        let found = find_by_name(&source.columns, name, |column| &column.name)?;
        source.columns.iter().position(|column| column.name == found.name)
    };
    let places: Vec<_> = names.iter().map(place).collect();
    options.map.is_empty()
        && names.len() == source.columns.len()
        && places.contains(&None)
        && places
            .iter()
            .enumerate()
            .all(|(at, place)| place.is_none_or(|place| place == at))
}

/// The type of the values that a column is given from a column of the source.
pub(super) fn column_type(
    table: &Table,
    column: &Column,
    from: &SourceColumn,
    source: &SourceSchema,
) -> Result<ColumnType> {
    if column.generated {
        return Err(Error::schema(format!(
            "column '{}' of {} is computed by the database and takes no values",
            column.name, table.name
        ))
        .hint("leave it out: --columns names the columns to load"));
    }
    match column.ty {
        Some(ColumnType::Any) if source.text => Ok(ColumnType::TEXT),
        Some(ColumnType::Any) => from.suggested.ok_or_else(|| {
            Error::schema(format!(
                "column '{}': the source's type cannot be carried",
                column.name
            ))
        }),
        Some(ty) => Ok(ty),
        None => Err(Error::schema(format!(
            "column '{}' of {} has type {}, which this release cannot write exactly",
            column.name, table.name, column.declared
        ))
        .hint("leave it out: --columns names the columns to load")),
    }
}

/// Columns that the database always numbers are filled only where they are asked for, and never updated. Returns what a
/// user should know of those that are filled, a sentence each.
pub(super) fn check_numbered(
    table: &Table,
    source: &SourceSchema,
    columns: &[WriteColumn],
    operation: &Operation,
    options: &LoadOptions,
) -> Result<Vec<String>> {
    let key = operation.key();
    let (inserts, updates) = match operation {
        Operation::Insert | Operation::Ignore { .. } => (true, false),
        Operation::Upsert { .. } => (true, true),
        Operation::Update { .. } => (false, true),
        Operation::Delete { .. } | Operation::Statement { .. } => (false, false),
    };
    let asked = |name: &str| {
        let named = |given: &str| table.column(given).is_some_and(|c| c.name == name);
        options.columns.iter().flatten().any(|given| named(given))
            || options.map.iter().any(|(_, to)| named(to))
    };
    let mut filled = Vec::new();
    for column in columns {
        let Some(numbered) = table.columns[column.target].numbered else {
            continue;
        };
        let name = &column.name;
        let always = numbered == Numbered::Always;
        if always && updates && !key.contains(name) {
            return Err(Error::schema(format!(
                "column '{name}' of {} is always numbered by the database and cannot be updated",
                table.name
            ))
            .hint("leave it out: --columns names the columns to load"));
        }
        if always && inserts && !asked(name) {
            return Err(Error::schema(format!(
                "{} has a column '{}', and column '{name}' of {} is always numbered by the database",
                source.shown, column.source_name, table.name
            ))
            .hint("--columns names the columns to load: leave it out there, or name it to load its values as they are"));
        }
        if inserts {
            filled.push(name.as_str());
        }
    }
    if filled.is_empty() {
        return Ok(Vec::new());
    }
    Ok(vec![format!(
        "the values of {} do not move its sequence, which may come to the same ones later: move it after the load",
        filled.join(", ")
    )])
}

pub(super) fn missing(table: &Table, name: &str) -> Error {
    Error::schema(format!("table {} has no column '{name}'", table.name))
        .hint(columns_hint(name, table.columns.iter().map(|c| c.name.as_str())))
}

fn unknown_source_column(table: &Table, source: &SourceSchema, options: &LoadOptions, name: &str) -> Error {
    let error = Error::schema(format!(
        "{} has a column '{name}', which table {} lacks",
        source.shown, table.name
    ));
    if let Some(delimiter) = suspicious_delimiter(source) {
        let shown = delimiter.escape_default();
        return error.hint(format!(
            "the header is one field with '{shown}' in it: --delimiter '{shown}'"
        ));
    }
    // What another column fills cannot be meant.
    let filled: HashSet<&str> = source
        .columns
        .iter()
        .filter_map(|column| table.column(&mapped(source, options, &column.name)))
        .map(|column| column.name.as_str())
        .collect();
    let names = table.columns.iter().map(|c| c.name.as_str());
    let unfilled = names.clone().filter(|name| !filled.contains(name));
    match nearest(name, unfilled).first() {
        Some(close) => error.hint(format!("--map {name}={close}, or --columns to leave it out")),
        None if !nearest(name, names.clone()).is_empty() => error.hint(format!(
            "other columns go to {}: --columns leaves this one out",
            nearest(name, names).join(" and ")
        )),
        None => error.hint(format!(
            "{}; --map names another, --columns leaves it out",
            columns_hint(name, names)
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::normalized;

    #[test]
    fn names_are_made_plain() {
        for (name, plain) in [
            ("First Name (mm)", "first_name_mm"),
            ("  a--b  ", "a_b"),
            ("2019", "_2019"),
            ("Größe", "größe"),
            ("%", "unnamed"),
            ("id", "id"),
        ] {
            assert_eq!(normalized(name), plain, "{name}");
        }
    }
}
