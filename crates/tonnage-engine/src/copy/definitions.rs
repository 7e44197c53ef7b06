//! Which tables are copied, what they are called, and in which order.

use std::collections::{HashMap, HashSet};

use glob::{MatchOptions, Pattern};
use tonnage_core::{
    error::{Error, Result},
    schema::TableDefinition,
    table::{Table, TableName, nearest},
    target::Target,
};

use super::CopyOptions;

/// The longest name of an index or constraint, in bytes: PostgreSQL cuts what is longer than 63.
const NAME_BYTES_MAX: usize = 60;

/// The tables that are asked for. `Config` where a name or pattern means none.
pub fn chosen(all: Vec<TableDefinition>, options: &CopyOptions) -> Result<Vec<TableDefinition>> {
    let wanted = patterns(&options.tables, &all, "--tables")?;
    let unwanted = patterns(&options.exclude, &all, "--exclude")?;
    let is_chosen = |table: &TableDefinition| {
        (wanted.is_empty() || wanted.iter().any(|pattern| matches(pattern, &table.name)))
            && !unwanted.iter().any(|pattern| matches(pattern, &table.name))
    };
    Ok(all.into_iter().filter(is_chosen).collect())
}

fn patterns(texts: &[String], all: &[TableDefinition], option: &str) -> Result<Vec<Pattern>> {
    let pattern = |text: &String| {
        let pattern = Pattern::new(text).map_err(|cause| {
            Error::config(format!("{option} {text}: {cause}")).hint("* stands for any letters, ? for one")
        })?;
        if all.iter().any(|table| matches(&pattern, &table.name)) {
            return Ok(pattern);
        }
        let names: Vec<String> = all.iter().map(|table| table.name.name.clone()).collect();
        let close = nearest(text, names.iter().map(String::as_str));
        Err(
            Error::config(format!("{option} {text}: there is no such table")).hint(match close.is_empty() {
                true => format!("the tables are {}", shortened(&names)),
                false => format!("did you mean {}?", close.join(" or ")),
            }),
        )
    };
    texts.iter().map(pattern).collect()
}

fn shortened(names: &[String]) -> String {
    const SHOWN_MAX: usize = 12;
    let mut shown = names[..names.len().min(SHOWN_MAX)].join(", ");
    if names.len() > SHOWN_MAX {
        shown.push_str(", ..");
    }
    shown
}

/// By the plain name or with the schema, without regard to case.
fn matches(pattern: &Pattern, table: &TableName) -> bool {
    let options = MatchOptions {
        case_sensitive: false,
        ..MatchOptions::default()
    };
    pattern.matches_with(&table.name, options) || pattern.matches_with(&table.to_string(), options)
}

/// Takes foreign keys away that lead to tables which are not copied, and says which.
pub fn without_absent_parents(tables: &mut [TableDefinition]) -> Vec<String> {
    let names: HashSet<TableName> = tables.iter().map(|table| table.name.clone()).collect();
    let mut left_out = Vec::new();
    for table in tables {
        let TableDefinition {
            name,
            foreign_keys,
            own,
            ..
        } = table;
        foreign_keys.retain(|key| {
            let is_there = names.contains(&key.table);
            if !is_there {
                left_out.push(format!(
                    "the foreign key {} to {}, which is not copied (of {name})",
                    key.name, key.table
                ));
                own.foreign_keys
                    .retain(|step| step.name.as_ref() != Some(&key.name));
            }
            is_there
        });
    }
    left_out
}

/// Tables before those whose foreign keys lead to them; where they lead round in a circle, by name.
pub fn parents_first(tables: Vec<TableDefinition>) -> Vec<TableDefinition> {
    let mut waiting = tables;
    let mut ordered = Vec::with_capacity(waiting.len());
    while !waiting.is_empty() {
        let names: HashSet<&TableName> = waiting.iter().map(|table| &table.name).collect();
        let is_free = |table: &TableDefinition| {
            let mut parents = table.foreign_keys.iter();
            parents.all(|key| key.table == table.name || !names.contains(&key.table))
        };
        let free: Vec<bool> = waiting.iter().map(is_free).collect();
        let is_circle = !free.contains(&true);
        let mut rest = Vec::new();
        for (index, table) in waiting.into_iter().enumerate() {
            match free[index] || (is_circle && index == 0) {
                true => ordered.push(table),
                false => rest.push(table),
            }
        }
        waiting = rest;
    }
    ordered
}

/// With the names that tables, indexes and foreign keys have in a database of another kind: without schemas, and each one
/// once in the database. `Config` where two tables would have one name.
pub fn renamed(mut tables: Vec<TableDefinition>) -> Result<Vec<TableDefinition>> {
    let mut taken: HashMap<String, TableName> = HashMap::new();
    for table in &tables {
        if let Some(other) = taken.insert(table.name.name.to_lowercase(), table.name.clone()) {
            return Err(Error::config(format!(
                "{other} and {} would have one name in the target",
                table.name
            ))
            .hint("--exclude leaves one of them out; copy the other into another database"));
        }
    }
    let mut taken: HashSet<String> = taken.into_keys().collect();
    let named_by: Vec<(TableName, Vec<String>)> = tables
        .iter()
        .flat_map(|table| &table.foreign_keys)
        .map(|key| (key.table.clone(), key.key.clone()))
        .collect();
    for table in &mut tables {
        let of_table = named_by.iter().filter(|(name, _)| *name == table.name);
        table.named_by = of_table.map(|(_, key)| key.clone()).collect();
        table.name = TableName::bare(table.name.name.clone());
        let prefix = &table.name.name;
        // The name that PostgreSQL gives the primary key.
        taken.insert(format!("{prefix}_pkey").to_lowercase());
        for index in &mut table.indexes {
            index.name = free_name(&index.name, prefix, &mut taken);
        }
        for key in &mut table.foreign_keys {
            key.table = TableName::bare(key.table.name.clone());
            key.name = free_name(&key.name, prefix, &mut taken);
        }
    }
    Ok(tables)
}

/// `name`, else with the table's before it, else with a number behind it, as far as no other has it.
fn free_name(name: &str, table: &str, taken: &mut HashSet<String>) -> String {
    let first = [name.to_owned(), format!("{table}_{name}")];
    let numbered = (2..).map(|number: u32| format!("{}_{number}", cut(name, NAME_BYTES_MAX - 8)));
    let mut names = first
        .into_iter()
        .map(|name| cut(&name, NAME_BYTES_MAX).to_owned())
        .chain(numbered);
    names
        .find(|name| taken.insert(name.to_lowercase()))
        .unwrap_or_else(|| name.to_owned())
}

fn cut(text: &str, bytes_max: usize) -> &str {
    match text.len() > bytes_max {
        true => &text[..text.floor_char_boundary(bytes_max)],
        false => text,
    }
}

/// The table of exactly this name.
pub async fn existing(target: &dyn Target, name: &TableName) -> Result<Option<Table>> {
    let found = target.table(name).await?;
    Ok(found.filter(|found| found.name.name == name.name))
}

#[cfg(test)]
mod tests {
    use tonnage_core::schema::{Action, ForeignKeyDefinition, SecondaryIndex, TableStatements};

    use super::*;

    fn table(name: &str, parents: &[&str]) -> TableDefinition {
        let key = |parent: &&str| ForeignKeyDefinition {
            name: format!("to_{parent}"),
            columns: vec!["a".to_owned()],
            table: TableName::bare(*parent),
            key: vec!["id".to_owned()],
            on_delete: Action::NoAction,
            on_update: Action::NoAction,
        };
        TableDefinition {
            name: TableName::bare(name),
            columns: Vec::new(),
            primary_key: Vec::new(),
            indexes: vec![SecondaryIndex {
                name: "by_a".to_owned(),
                columns: vec!["a".to_owned()],
                unique: false,
            }],
            foreign_keys: parents.iter().map(key).collect(),
            named_by: Vec::new(),
            own: TableStatements::default(),
            only_own: Vec::new(),
            left_out: Vec::new(),
            names: Vec::new(),
        }
    }

    fn names(tables: &[TableDefinition]) -> Vec<&str> {
        tables.iter().map(|table| table.name.name.as_str()).collect()
    }

    #[test]
    fn parents_come_before_their_children() {
        let tables = vec![table("a", &["c", "a"]), table("b", &[]), table("c", &["b"])];
        assert_eq!(names(&parents_first(tables)), ["b", "c", "a"]);
        let circle = vec![table("a", &["b"]), table("b", &["a"]), table("c", &["b"])];
        assert_eq!(names(&parents_first(circle)), ["a", "b", "c"]);
    }

    #[test]
    fn no_two_indexes_have_one_name() {
        let renamed = renamed(vec![table("a", &[]), table("b", &["a"]), table("by_a", &[])]).unwrap();
        let indexes: Vec<_> = renamed
            .iter()
            .map(|table| table.indexes[0].name.as_str())
            .collect();
        assert_eq!(indexes, ["a_by_a", "b_by_a", "by_a_by_a"]);
        assert_eq!(renamed[0].named_by, [["id"]]);
    }

    #[test]
    fn tables_are_chosen_by_pattern() {
        let all = || {
            vec![
                table("orders", &[]),
                table("order_lines", &[]),
                table("users", &[]),
            ]
        };
        let options = CopyOptions {
            tables: vec!["order*".to_owned()],
            exclude: vec!["ORDERS".to_owned()],
            ..CopyOptions::default()
        };
        assert_eq!(names(&chosen(all(), &options).unwrap()), ["order_lines"]);
        let options = CopyOptions {
            tables: vec!["oders".to_owned()],
            ..CopyOptions::default()
        };
        let error = chosen(all(), &options).unwrap_err();
        assert_eq!(error.hint_text(), Some("did you mean orders?"));
    }
}
