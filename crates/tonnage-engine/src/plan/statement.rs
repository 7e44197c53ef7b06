//! What a statement of the user's adds to a plan: its parameters are the columns of a table that is none.

use std::sync::Arc;

use tonnage_core::{
    error::{Error, Result},
    operation::Operation,
    source::{SourceColumn, SourceSchema},
    statement::Statement,
    table::{Table, columns_hint, find_by_name, nearest},
    types::ColumnType,
};

use super::{
    LoadOptions, SlotBy, WriteColumn,
    columns::{column_type, replaces_header},
};

/// Matches every parameter with a source column, by name or as `--map` says, else by position where columns have no
/// names; the source may have further columns.
pub(super) fn match_parameters(
    parameters: &Table,
    source: &SourceSchema,
    options: &LoadOptions,
) -> Result<Vec<WriteColumn>> {
    let names = || source.columns.iter().map(|c| c.name.as_str());
    let absent = |name: &str, why: String| {
        Error::schema(format!("{} has no column '{name}'{why}", source.shown))
            .hint(columns_hint(name, names()))
    };
    for (from, to) in &options.map {
        if parameters.column(to).is_none() {
            return Err(no_parameter(parameters, to).at(format!("--map {from}={to}")));
        }
    }
    if source.named && options.columns.is_some() && !replaces_header(source, options) {
        return Err(Error::config(format!(
            "--columns names fields that have no names; those of {} have",
            source.shown
        ))
        .hint("--map SRC=PARAMETER takes a parameter from a column of another name"));
    }
    let fields = options.columns.as_deref();
    let named = source.named || fields.is_some();
    let mut columns = Vec::with_capacity(parameters.columns.len());
    for (target, parameter) in parameters.columns.iter().enumerate() {
        let mapped = options
            .map
            .iter()
            .find(|(_, to)| parameters.column(to).is_some_and(|c| c.name == parameter.name));
        let wanted = mapped.map_or(parameter.name.as_str(), |(from, _)| from);
        let found = match (fields, mapped, named) {
            (Some(fields), None, _) => fields
                .iter()
                .position(|field| field == wanted)
                .and_then(|at| source.columns.get(at)),
            (None, None, false) if parameters.columns.len() == source.columns.len() => {
                source.columns.get(target)
            }
            _ => find_by_name(&source.columns, wanted, |c| &c.name),
        };
        let Some(column) = found else {
            return Err(match (mapped, named) {
                (Some((from, to)), _) => absent(from, format!(", which --map {from}={to} names")),
                (None, false) => Error::schema(format!(
                    "{} has {} fields a row, the statement has {} parameters",
                    source.shown,
                    source.columns.len(),
                    parameters.columns.len()
                ))
                .hint("name the fields in order: --columns a,b,c"),
                (None, true) => match nearest(wanted, names()).first() {
                    Some(close) => {
                        let error = absent(wanted, format!(" for the parameter :{wanted}"));
                        error.hint(format!("did you mean {close}? --map {close}={wanted}"))
                    }
                    None => absent(wanted, format!(" for the parameter :{wanted}")),
                },
            });
        };
        let index = source.columns.iter().position(|c| c.name == column.name);
        let same = |c: &&WriteColumn| Some(c.source) == index;
        if let Some(other) = columns.iter().find(same) {
            return Err(Error::config(format!(
                "column '{}' of {} fills both :{} and :{}",
                column.name, source.shown, other.name, parameter.name
            ))
            .hint("use one of these names for both in the statement"));
        }
        columns.push(WriteColumn {
            source: index.unwrap_or(target),
            source_name: column.name.clone(),
            target,
            name: parameter.name.clone(),
            ty: parameter_type(parameters, target, column, source, options)?,
        });
    }
    check_types(parameters, options)?;
    Ok(columns)
}

/// Refuses a `--type` that is not that of the parameter.
fn check_types(parameters: &Table, options: &LoadOptions) -> Result<()> {
    for (name, ty) in &options.types {
        let parameter = parameters
            .column(name)
            .ok_or_else(|| no_parameter(parameters, name))?;
        if parameter.ty != Some(*ty) && parameter.ty != Some(ColumnType::Any) {
            return Err(Error::config(format!(
                "--type {name}={ty}: the database takes :{name} as {}",
                parameter.declared
            ))
            .hint("leave --type out, or cast the parameter in the statement"));
        }
    }
    Ok(())
}

/// Where the database has no type for a parameter, the one that was asked for, else the source's own; of text files
/// the one that their values suggest, so that a number is a number.
fn parameter_type(
    parameters: &Table,
    at: usize,
    from: &SourceColumn,
    source: &SourceSchema,
    options: &LoadOptions,
) -> Result<ColumnType> {
    let parameter = &parameters.columns[at];
    if parameter.ty != Some(ColumnType::Any) {
        return match parameter.ty {
            Some(ty) => Ok(ty),
            None => Err(Error::schema(format!(
                "parameter :{} has type {}, which this release cannot send exactly",
                parameter.name, parameter.declared
            ))
            .hint("send it as text and cast it in the statement: CAST(CAST(:name AS text) AS type)")),
        };
    }
    let asked = options
        .types
        .iter()
        .find(|(name, _)| parameters.column(name).is_some_and(|c| c.name == parameter.name));
    match (asked, from.suggested) {
        (Some((_, ty)), _) => Ok(*ty),
        (None, Some(suggested)) if source.text => Ok(suggested),
        (None, _) => column_type(parameters, parameter, from, source),
    }
}

/// The operation, its key resolved.
pub(super) fn operation(
    statement: &Statement,
    parameters: &Table,
    options: &LoadOptions,
) -> Result<Operation> {
    let key = options.key.iter().map(|name| {
        let found = parameters.column(name).map(|c| c.name.clone());
        found.ok_or_else(|| no_parameter(parameters, name).at("--key"))
    });
    Ok(Operation::Statement {
        key: key.collect::<Result<_>>()?,
        statement: Arc::new(statement.clone()),
    })
}

/// In which order executions go, and why, where that is more than the key says.
pub(super) fn order(operation: &Operation, slot_by: SlotBy, one_job: &str) -> Option<String> {
    let Operation::Statement { key, .. } = operation else {
        return None;
    };
    Some(match slot_by {
        SlotBy::One if key.is_empty() => format!(
            "rows are applied in their order by {one_job}: nothing says which rows the \
             statement touches (--key names the parameters that do)"
        ),
        SlotBy::One => return None,
        SlotBy::Key => format!(
            "rows of one ({}) are applied in their order; others at the same time",
            key.join(", ")
        ),
        SlotBy::Block | SlotBy::Shard => {
            "every row stands alone, so jobs may apply them in any order".to_owned()
        }
    })
}

fn no_parameter(parameters: &Table, name: &str) -> Error {
    let names: Vec<_> = parameters
        .columns
        .iter()
        .map(|c| format!(":{}", c.name))
        .collect();
    let close = nearest(name, parameters.columns.iter().map(|c| c.name.as_str()));
    Error::config(format!("the statement has no parameter :{name}")).hint(match close.first() {
        Some(close) => format!("did you mean {close}?"),
        None => format!("its parameters are {}", names.join(", ")),
    })
}
