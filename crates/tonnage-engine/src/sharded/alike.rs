//! Whether members have the same table: a row must mean the same wherever it lands.

use tonnage_core::{
    error::{Error, Result},
    table::{Column, Equality, Key, Table, columns_hint},
    types::ColumnType,
};

use super::key::form;

/// Refuses a table that is not defined as that of the first member is; the error names member and column.
pub(super) fn check(first: (&str, &Table), other: (&str, &Table)) -> Result<()> {
    let ((first_name, first), (name, table)) = (first, other);
    let differ = |what: String| {
        Err(Error::schema(format!("{name}: {what}"))
            .hint("the table of a sharded target is defined alike in all its members"))
    };
    // Schemas may differ: a search path may lead to another one in each.
    if first.name.name != table.name.name {
        return differ(format!(
            "the table is {}, and {} in {first_name}",
            table.name, first.name
        ));
    }
    for (at, wanted) in first.columns.iter().enumerate() {
        let Some(column) = table.columns.iter().find(|column| column.name == wanted.name) else {
            return differ(format!(
                "{} has no column '{}', which {first_name} has",
                table.name, wanted.name
            ));
        };
        if let Some(difference) = difference(wanted, column) {
            return differ(format!(
                "column '{}' of {} is {}, and {} in {first_name}",
                wanted.name, table.name, difference.1, difference.0
            ));
        }
        if table.columns.get(at).map(|column| &column.name) != Some(&wanted.name) {
            return differ(format!(
                "column '{}' of {} stands in another place than in {first_name}",
                wanted.name, table.name
            ));
        }
    }
    if let Some(column) = table
        .columns
        .iter()
        .find(|column| !first.columns.iter().any(|known| known.name == column.name))
    {
        return differ(format!(
            "column '{}' of {} is not in {first_name}",
            column.name, table.name
        ));
    }
    let missing = |of: &Table, within: &Table| of.keys.iter().find(|key| !within.keys.contains(key)).cloned();
    if let Some(key) = missing(first, table) {
        return differ(format!(
            "{} has no {} as {first_name} has",
            table.name,
            shown(&key)
        ));
    }
    if let Some(key) = missing(table, first) {
        return differ(format!(
            "the {} of {} is not in {first_name}",
            shown(&key),
            table.name
        ));
    }
    if first.transactional != table.transactional {
        let takes = |table: &Table| {
            if table.transactional {
                "takes"
            } else {
                "does not take"
            }
        };
        return differ(format!(
            "{} {} part in transactions, and {} in {first_name}",
            table.name,
            takes(table),
            takes(first)
        ));
    }
    Ok(())
}

fn shown(key: &Key) -> String {
    let kind = if key.primary { "primary key" } else { "unique key" };
    format!("{kind} ({})", key.columns.join(", "))
}

/// What tells two columns of one name apart: of the first and of the second.
fn difference(a: &Column, b: &Column) -> Option<(String, String)> {
    if a.declared != b.declared || a.ty != b.ty {
        return Some((a.declared.clone(), b.declared.clone()));
    }
    type Property = (fn(&Column) -> bool, &'static str, &'static str);
    let properties: [Property; 5] = [
        (|c| c.nullable, "nullable", "NOT NULL"),
        (|c| c.has_default, "filled by a default", "without a default"),
        (|c| c.generated, "computed by the database", "not computed"),
        (
            |c| c.numbered.is_some(),
            "numbered by the database",
            "not numbered",
        ),
        (
            |c| c.equality == Equality::Provable,
            "compared byte by byte",
            "compared by a collation or by the server's rules",
        ),
    ];
    let shown = |(has, yes, no): &Property, c: &Column| if has(c) { *yes } else { *no }.to_owned();
    properties
        .iter()
        .find(|property| property.0(a) != property.0(b))
        .map(|property| (shown(property, a), shown(property, b)))
}

/// The types of the columns of the shard key in `table`. `Schema` where a column is not there, or where values that are
/// equal could land apart.
pub(super) fn key_types(table: &Table, key: &[String]) -> Result<Vec<ColumnType>> {
    let one = |name: &String| {
        let names = table.columns.iter().map(|column| column.name.as_str());
        let Some(column) = table.columns.iter().find(|column| column.name == *name) else {
            return Err(Error::schema(format!(
                "{} has no column '{name}', by which it is sharded",
                table.name
            ))
            .hint(columns_hint(name, names)));
        };
        let known = column
            .ty
            .filter(|ty| form(ty).is_some() && column.equality == Equality::Provable && !column.generated);
        known.ok_or_else(|| {
            let why = match column.generated {
                true => "the database computes it".to_owned(),
                false => format!(
                    "only the server can tell whether two values of type {} are equal",
                    column.declared
                ),
            };
            Error::schema(format!(
                "{} cannot be sharded by '{name}': {why}",
                table.name
            ))
            .hint("integers, uuids, bytes, exact decimals, times, and text under a binary or deterministic collation can")
        })
    };
    key.iter().map(one).collect()
}

/// The definition as text that is the same for tables that [`check`] takes for alike.
pub(super) fn shape(table: &Table) -> String {
    let mut lines: Vec<String> = table
        .columns
        .iter()
        .map(|column| {
            format!(
                "{} {} nullable={} default={} computed={} numbered={}",
                column.name,
                column.declared,
                column.nullable,
                column.has_default,
                column.generated,
                column.numbered.is_some()
            )
        })
        .collect();
    let mut keys: Vec<String> = table.keys.iter().map(shown).collect();
    keys.sort_unstable();
    lines.extend(keys);
    lines.join("\n")
}
