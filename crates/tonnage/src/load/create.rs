//! The table that `--create` makes for a source.

use crate::{
    error::{Error, Result},
    plan::LoadOptions,
    source::Source,
    table::{Column, ColumnSpec, Equality, Key, Table, TableIdentity, TableSpec, columns_hint, find_by_name},
    types::ColumnType,
};

/// The table that `--create` makes for a source.
pub fn spec(from: &dyn Source, options: &LoadOptions) -> Result<TableSpec> {
    let source = from.schema();
    let likeness = from.likeness();
    if !source.named && options.columns.is_none() && source.columns.is_empty() {
        return Err(Error::schema("the source has no columns to make a table of"));
    }
    let mut columns: Vec<ColumnSpec> = Vec::new();
    // The new names of the key of the table that the rows come from.
    let mut key_of_source: Vec<Option<String>> = likeness
        .map(|table| vec![None; table.key.len()])
        .unwrap_or_default();
    for (index, column) in source.columns.iter().enumerate() {
        let mapped = options
            .map
            .iter()
            .find(|(from, _)| from.to_lowercase() == column.name.to_lowercase())
            .map_or(column.name.as_str(), |(_, to)| to.as_str());
        let name = match (&options.columns, source.named) {
            (Some(names), false) => match names.get(index) {
                Some(name) => name.as_str(),
                None => continue,
            },
            (Some(names), true) if !names.iter().any(|n| n.to_lowercase() == mapped.to_lowercase()) => {
                continue;
            }
            _ => mapped,
        };
        let asked = options
            .types
            .iter()
            .find(|(n, _)| n.to_lowercase() == name.to_lowercase());
        let ty = match (asked, column.suggested) {
            (Some((_, ty)), _) => *ty,
            (None, Some(ty)) => ty,
            (None, None) => {
                return Err(Error::schema(format!(
                    "column '{}': no table column can carry {} exactly",
                    column.name, column.arrow
                ))
                .hint("leave it out: --columns names the columns to load"));
            }
        };
        let nullable = !options
            .key
            .iter()
            .any(|k| k.to_lowercase() == name.to_lowercase());
        let is_required = likeness.is_some_and(|table| table.required.contains(&column.name));
        let at = likeness.and_then(|table| table.key.iter().position(|part| *part == column.name));
        if let Some(part) = at.and_then(|at| key_of_source.get_mut(at)) {
            *part = Some(name.to_owned());
        }
        columns.push(ColumnSpec {
            name: name.to_owned(),
            ty,
            nullable: nullable && !is_required,
        });
    }
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

/// The table that `spec` will be, as far as it can be known before it is made: for the plan of a dry run.
pub fn provisional(spec: &TableSpec) -> Table {
    let columns = spec.columns.iter().map(|c| Column {
        name: c.name.clone(),
        ty: Some(c.ty),
        declared: c.ty.to_string(),
        nullable: c.nullable,
        has_default: false,
        generated: false,
        numbered: None,
        equality: match c.ty {
            ColumnType::Float32 | ColumnType::Float64 | ColumnType::Numeric | ColumnType::Char { .. } => {
                Equality::ServerOnly
            }
            _ => Equality::Provable,
        },
    });
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
        notes: Vec::new(),
    }
}
