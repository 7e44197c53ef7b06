//! The table that `--create` makes for a source.

use tonnage_core::{
    error::{Error, Result},
    source::Source,
    table::{
        Column, ColumnSpec, Equality, Key, Table, TableIdentity, TableSpec, columns_hint, find_by_name,
        refused_columns,
    },
    target::{KeyPart, Target},
    types::ColumnType,
};

use tonnage_formats::sources::added::used_columns;

use crate::plan::{LoadOptions, mapped, replaces_header};

/// A column of such a table.
pub fn provisional_column(column: &ColumnSpec) -> Column {
    Column {
        name: column.name.clone(),
        ty: Some(column.ty),
        declared: column.ty.to_string(),
        nullable: column.nullable,
        has_default: false,
        generated: false,
        numbered: None,
        equality: match column.ty {
            ColumnType::Float32 | ColumnType::Float64 | ColumnType::Numeric | ColumnType::Char { .. } => {
                Equality::ServerOnly
            }
            _ => Equality::Provable,
        },
    }
}

/// The table that `--create` makes in `target` for a source. `Schema` that names all columns that it cannot have.
pub fn spec(from: &dyn Source, options: &LoadOptions, target: &dyn Target) -> Result<TableSpec> {
    let source = from.schema();
    let table_info = from.table_info();
    if source.columns.is_empty() {
        let nothing = format!(
            "{} has no rows, and so no columns to make a table of",
            source.shown
        );
        return Err(Error::schema(nothing).hint("make the table first; it then loads nothing into it"));
    }
    let mut columns: Vec<ColumnSpec> = Vec::new();
    let mut wrong = Vec::new();
    // The new names of the key of the table that the rows come from.
    let mut key_of_source: Vec<Option<String>> = table_info
        .map(|table| vec![None; table.key.len()])
        .unwrap_or_default();
    let named = source.named && !replaces_header(source, options);
    for (index, column) in source.columns.iter().enumerate() {
        let mapped = mapped(source, options, &column.name);
        let name = match (&options.columns, named) {
            (Some(names), false) => match names.get(index) {
                Some(name) => name.as_str(),
                None => continue,
            },
            (Some(names), true) if !names.iter().any(|n| n.to_lowercase() == mapped.to_lowercase()) => {
                continue;
            }
            _ => &*mapped,
        };
        let asked = options
            .types
            .iter()
            .find(|(n, _)| n.to_lowercase() == name.to_lowercase());
        let nullable = !options
            .key
            .iter()
            .any(|k| k.to_lowercase() == name.to_lowercase());
        let part = match nullable {
            true => KeyPart::No,
            false => KeyPart::Of(options.key.len()),
        };
        let ty = match (asked, column.suggested, from.extents().get(index)) {
            (Some((_, ty)), ..) => *ty,
            (None, Some(ty), Some(extent)) => target.column_type(ty, extent, part),
            (None, Some(ty), None) => ty,
            (None, None, _) => {
                wrong.push(
                    Error::schema(format!(
                        "column '{}': no table column can carry {} exactly",
                        column.name, column.arrow
                    ))
                    .hint("leave it out: --columns names the columns to load"),
                );
                continue;
            }
        };
        let is_required = table_info.is_some_and(|table| table.required.contains(&column.name));
        let at = table_info.and_then(|table| table.key.iter().position(|part| *part == column.name));
        if let Some(part) = at.and_then(|at| key_of_source.get_mut(at)) {
            *part = Some(name.to_owned());
        }
        columns.push(ColumnSpec {
            name: name.to_owned(),
            ty,
            nullable: nullable && !is_required,
        });
    }
    refused_columns(&options.table, wrong)?;
    for (name, _) in &options.types {
        if find_by_name(&columns, name, |c| &c.name).is_none() {
            return Err(
                Error::config(format!("--type {name}=..: the new table has no column '{name}'"))
                    .hint(columns_hint(name, columns.iter().map(|c| c.name.as_str()))),
            );
        }
    }
    let mut key = Vec::new();
    for name in &options.key {
        match find_by_name(&columns, name, |c| &c.name) {
            Some(column) => key.push(column.name.clone()),
            None => {
                return Err(
                    Error::config(format!("--key {name}: the new table has no column '{name}'"))
                        .hint(columns_hint(name, columns.iter().map(|c| c.name.as_str()))),
                );
            }
        }
    }
    if key.is_empty() {
        // A part of a key is no key.
        key = key_of_source
            .into_iter()
            .collect::<Option<_>>()
            .unwrap_or_default();
    }
    Ok(TableSpec {
        name: options.table.clone(),
        columns,
        key,
    })
}

/// The columns of a source that `table` lacks, as it can be given them. `Schema` where it cannot have one.
pub fn missing_columns(
    from: &dyn Source,
    options: &LoadOptions,
    target: &dyn Target,
    table: &Table,
) -> Result<Vec<ColumnSpec>> {
    let source = from.schema();
    if !source.named || replaces_header(source, options) {
        return Err(
            Error::config("--add-columns needs names, and the columns of the input have none")
                .hint("a header names them"),
        );
    }
    let used = used_columns(&options.add)?;
    let asked = &options.types;
    // The key is the table's, and so are the types of columns that it has.
    let options = LoadOptions {
        key: Vec::new(),
        types: Vec::new(),
        ..options.clone()
    };
    let mut columns = spec(from, &options, target)?.columns;
    columns.retain(|column| {
        let is_used = find_by_name(&used, &column.name, |name| name).is_some();
        table.column(&column.name).is_none() && !is_used
    });
    for column in &mut columns {
        column.nullable = true;
        if let Some((_, ty)) = find_by_name(asked, &column.name, |(name, _)| name) {
            column.ty = *ty;
        }
    }
    Ok(columns)
}

/// The table that `spec` will be, as far as it can be known before it is made: for the plan of a dry run.
pub fn provisional(spec: &TableSpec) -> Table {
    let columns = spec.columns.iter().map(provisional_column);
    let keys = match spec.key.is_empty() {
        true => Vec::new(),
        false => vec![Key {
            columns: spec.key.clone(),
            primary: true,
        }],
    };
    Table {
        name: spec.name.clone(),
        identity: TableIdentity {
            object: String::new(),
            shape: String::new(),
        },
        columns: columns.collect(),
        keys,
        transactional: true,
        less_durable: None,
        notes: Vec::new(),
    }
}
