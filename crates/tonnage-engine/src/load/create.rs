//! The table that `--create` makes for a source.

use tonnage_core::{
    error::{Error, Result},
    source::{Source, SourceSchema},
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
    let has_names = source.named && !replaces_header(source, options);
    let by_position = options.columns.as_deref().filter(|_| !has_names);
    for (index, column) in source.columns.iter().enumerate() {
        let name = match by_position {
            Some(names) => names.get(index).cloned(),
            None => chosen_name(source, options, &column.name),
        };
        let Some(name) = name else { continue };
        let is_key = options.key.iter().any(|k| is_alike(k, &name));
        let part = match is_key {
            true => KeyPart::Of(options.key.len()),
            false => KeyPart::No,
        };
        let asked = options.types.iter().find(|(n, _)| is_alike(n, &name));
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
            *part = Some(name.clone());
        }
        columns.push(ColumnSpec {
            name,
            ty,
            nullable: !is_key && !is_required,
        });
    }
    refused_columns(&options.table, wrong)?;
    for (name, _) in &options.types {
        named(&columns, name, || format!("--type {name}=.."))?;
    }
    let key = options.key.iter().map(|name| {
        let column = named(&columns, name, || format!("--key {name}"))?;
        Ok(column.name.clone())
    });
    let mut key = key.collect::<Result<Vec<_>>>()?;
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

/// What the table calls a column of the source; none where it was not chosen.
fn chosen_name(source: &SourceSchema, options: &LoadOptions, name: &str) -> Option<String> {
    let mapped = mapped(source, options, name);
    let is_chosen = |names: &Vec<String>| names.iter().any(|name| is_alike(name, &mapped));
    let is_chosen = options.columns.as_ref().is_none_or(is_chosen);
    is_chosen.then(|| mapped.into_owned())
}

fn is_alike(name: &str, other: &str) -> bool {
    name.to_lowercase() == other.to_lowercase()
}

/// The column of the new table that an option names.
fn named<'a>(
    columns: &'a [ColumnSpec],
    name: &str,
    option: impl FnOnce() -> String,
) -> Result<&'a ColumnSpec> {
    find_by_name(columns, name, |c| &c.name).ok_or_else(|| {
        Error::config(format!("{}: the new table has no column '{name}'", option()))
            .hint(columns_hint(name, columns.iter().map(|c| c.name.as_str())))
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
