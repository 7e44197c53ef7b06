//! Definitions of tables, out of a database and into one.
//!
//! A table in the words of the server is its SHOW CREATE TABLE, which has a key or a foreign key on a line of its own: these
//! lines come after the rows. The primary key stays, as InnoDB keeps rows in its order, and so do all keys where a column
//! is numbered that the primary key does not begin with.

use std::sync::Arc;

use async_trait::async_trait;
use mysql_async::Conn;
use tonnage_core::{
    error::{Error, Result},
    schema::{
        Action, Additions, ColumnDefinition, Counter, DatabaseDefinition, DefaultValue, DefaultWords,
        ForeignKeyDefinition, SecondaryIndex, Step, TableDefinition, TableStatements,
    },
    table::TableName,
    target::{Schemas, Target},
    types::ColumnType,
};

use super::{
    MysqlTarget,
    catalog::{get, names, rows},
    definition::quote_text,
    product::{Product, Version},
    types::{KEY_CHARACTERS_MAX, create_statement_with, key_characters, quote},
};

#[async_trait]
impl Schemas for MysqlTarget {
    fn kind(&self) -> &str {
        self.version.product.name()
    }

    async fn definitions(&self) -> Result<DatabaseDefinition> {
        let mut session = self.session().await?;
        let database = &self.settings.database;
        let mut tables = Vec::new();
        for name in names(&mut session, database).await? {
            tables.push(table(&mut session, database, &name, &self.version).await?);
        }
        let others = "SELECT lower(concat(table_type, ' ', table_name)) FROM information_schema.tables \
            WHERE table_schema = ? AND table_type IN ('VIEW', 'SEQUENCE') \
            UNION ALL SELECT lower(concat(routine_type, ' ', routine_name)) FROM information_schema.routines \
            WHERE routine_schema = ? ORDER BY 1";
        Ok(DatabaseDefinition {
            tables,
            others: texts(&mut session, others, &[database, database]).await?,
        })
    }

    fn statements(&self, table: &TableDefinition) -> Result<TableStatements> {
        statements(table, &self.version)
    }

    async fn unchecked(&self) -> Result<Option<Arc<dyn Target>>> {
        Ok(None)
    }

    async fn broken_foreign_keys(&self, _: &TableName) -> Result<Option<String>> {
        Ok(None)
    }
}

/// The first column of the answer.
async fn texts(conn: &mut Conn, sql: &str, parameters: &[&str]) -> Result<Vec<String>> {
    let mut found = rows(conn, sql, parameters).await?;
    found.iter_mut().map(|row| get(row, 0)).collect()
}

async fn table(conn: &mut Conn, database: &str, name: &str, version: &Version) -> Result<TableDefinition> {
    let place = [database, name];
    let shown = quote(name);
    let mut made = rows(conn, &format!("SHOW CREATE TABLE {shown}"), &[]).await?;
    let Some(row) = made.first_mut() else {
        return Err(Error::bug(format!("the server does not say how {name} was made")));
    };
    let (own, names) = own(&shown, &get::<String>(row, 1)?);
    let mut only_own = Vec::new();
    let columns = columns(conn, &place, version, &mut only_own).await?;
    let (primary_key, indexes) = indexes(conn, &place, &mut only_own).await?;
    if version.product == Product::MariaDb {
        let checks = "SELECT concat('the check ', check_clause) FROM information_schema.check_constraints \
            WHERE constraint_schema = ? AND table_name = ? AND check_clause NOT LIKE 'json\\_valid(%' ORDER BY 1";
        only_own.extend(texts(conn, checks, &place).await?);
    }
    let triggers = "SELECT concat('the trigger ', trigger_name) FROM information_schema.triggers \
        WHERE event_object_schema = ? AND event_object_table = ? ORDER BY 1";
    Ok(TableDefinition {
        name: TableName {
            schema: Some(database.to_owned()),
            name: name.to_owned(),
        },
        columns,
        primary_key,
        indexes,
        foreign_keys: foreign_keys(conn, &place).await?,
        named_by: Vec::new(),
        own,
        only_own,
        left_out: texts(conn, triggers, &place).await?,
        names,
    })
}

/// The statements of a table whose name in SQL is `table`, and the names of its keys.
fn own(table: &str, definition: &str) -> (TableStatements, Vec<String>) {
    let lines: Vec<&str> = definition.lines().collect();
    let end = lines
        .iter()
        .rposition(|line| line.starts_with(')'))
        .unwrap_or(lines.len());
    let is_key = |line: &str| {
        ["UNIQUE KEY ", "KEY ", "FULLTEXT KEY ", "SPATIAL KEY "]
            .iter()
            .any(|key| line.starts_with(key))
    };
    let body: Vec<&str> = lines[1..end]
        .iter()
        .map(|line| line.trim().trim_end_matches(','))
        .collect();
    let numbered = body
        .iter()
        .find(|line| line.starts_with('`') && line.contains(" AUTO_INCREMENT"));
    let name_of = |line: &str| line.split('`').nth(1).unwrap_or_default().to_owned();
    let keeps_keys = numbered.is_some_and(|line| {
        let begins = format!("PRIMARY KEY ({}", quote(&name_of(line)));
        !body.iter().any(|line| line.starts_with(&begins))
    });
    let mut statements = TableStatements::default();
    let (mut kept, mut names) = (Vec::new(), Vec::new());
    for line in body {
        let name = name_of(line);
        let step = |what: &str| Step {
            what: format!("{what} {name}"),
            name: Some(name.clone()),
            sql: format!("ALTER TABLE {table} ADD {line}"),
        };
        if is_key(line) {
            match keeps_keys {
                true => kept.push(line),
                false => statements.after_rows.push(step("index")),
            }
            names.push(name);
        } else if line.starts_with("CONSTRAINT ") && line.contains("` FOREIGN KEY (") {
            statements.foreign_keys.push(step("foreign key"));
            names.push(name);
        } else {
            kept.push(line);
        }
    }
    let head = lines.first().copied().unwrap_or_default();
    let create = format!("{head}\n  {}\n{}", kept.join(",\n  "), lines[end..].join("\n"));
    statements.create.push(create);
    (statements, names)
}

async fn columns(
    conn: &mut Conn,
    place: &[&str],
    version: &Version,
    only_own: &mut Vec<String>,
) -> Result<Vec<ColumnDefinition>> {
    let counter = "SELECT cast(auto_increment - 1 AS signed) FROM information_schema.tables \
        WHERE table_schema = ? AND table_name = ? AND auto_increment IS NOT NULL";
    let mut counter = rows(conn, counter, place).await?;
    let last: Option<i64> = counter.first_mut().map(|row| get(row, 0)).transpose()?.flatten();
    let sql = "SELECT column_name, column_default, is_nullable, lower(extra), data_type \
        FROM information_schema.columns WHERE table_schema = ? AND table_name = ? ORDER BY ordinal_position";
    let mut columns = Vec::new();
    for mut row in rows(conn, sql, place).await? {
        let row = &mut row;
        let (name, default): (String, Option<String>) = (get(row, 0)?, get(row, 1)?);
        let (nullable, extra, ty): (String, String, String) = (get(row, 2)?, get(row, 3)?, get(row, 4)?);
        let generated = extra.split([' ', ',']).any(|word| word == "generated");
        if generated {
            only_own.push(format!("how {name} is computed"));
        }
        if extra.contains("on update") {
            only_own.push(format!("that {name} is set when its row changes"));
        }
        let default = default.and_then(|text| {
            match version.product == Product::MariaDb || extra.contains("default_generated") {
                true => DefaultValue::of_sql(&text),
                // Elsewhere it is the value and no SQL.
                false => Some(plain_default(&text, &ty)),
            }
        });
        columns.push(ColumnDefinition {
            ty: ColumnType::Any,
            nullable: nullable == "YES",
            default: default.filter(|_| !generated),
            numbered: extra.contains("auto_increment").then_some(Counter { last }),
            generated,
            name,
        });
    }
    Ok(columns)
}

fn plain_default(text: &str, ty: &str) -> DefaultValue {
    let is_text = ["char", "text", "blob", "binary", "enum", "set"]
        .iter()
        .any(|part| ty.contains(part));
    match DefaultValue::of_sql(text) {
        Some(other) if !is_text => other,
        _ => DefaultValue::Text(text.to_owned()),
    }
}

/// The primary key, and the other indexes.
async fn indexes(
    conn: &mut Conn,
    place: &[&str],
    only_own: &mut Vec<String>,
) -> Result<(Vec<String>, Vec<SecondaryIndex>)> {
    // Null for an expression; `sub_part` is the length of a prefix.
    let sql = "SELECT index_name, column_name, non_unique, sub_part IS NULL AND index_type IN ('BTREE', 'HASH') \
        FROM information_schema.statistics WHERE table_schema = ? AND table_name = ? \
        ORDER BY index_name, seq_in_index";
    let mut lines = Vec::new();
    for mut row in rows(conn, sql, place).await? {
        let row = &mut row;
        let line: (String, Option<String>, i64, i64) =
            (get(row, 0)?, get(row, 1)?, get(row, 2)?, get(row, 3)?);
        lines.push(line);
    }
    let (mut primary, mut others) = (Vec::new(), Vec::new());
    for lines in lines.chunk_by(|a, b| a.0 == b.0) {
        let (name, _, non_unique, _) = &lines[0];
        let columns: Option<Vec<String>> = lines.iter().map(|line| line.1.clone()).collect();
        let is_whole = lines.iter().all(|line| line.3 != 0);
        match columns {
            Some(columns) if is_whole && name == "PRIMARY" => primary = columns,
            Some(columns) if is_whole => others.push(SecondaryIndex {
                name: name.clone(),
                columns,
                unique: *non_unique == 0,
            }),
            _ => only_own.push(format!("the index {name}")),
        }
    }
    Ok((primary, others))
}

async fn foreign_keys(conn: &mut Conn, place: &[&str]) -> Result<Vec<ForeignKeyDefinition>> {
    let sql = "SELECT k.constraint_name, k.column_name, k.referenced_table_schema, k.referenced_table_name, \
        k.referenced_column_name, r.delete_rule, r.update_rule \
        FROM information_schema.key_column_usage k JOIN information_schema.referential_constraints r \
          ON r.constraint_schema = k.constraint_schema AND r.constraint_name = k.constraint_name \
          AND r.table_name = k.table_name \
        WHERE k.table_schema = ? AND k.table_name = ? AND k.referenced_table_name IS NOT NULL \
        ORDER BY k.constraint_name, k.ordinal_position";
    let mut keys: Vec<ForeignKeyDefinition> = Vec::new();
    for mut row in rows(conn, sql, place).await? {
        let row = &mut row;
        let (name, column, key): (String, String, String) = (get(row, 0)?, get(row, 1)?, get(row, 4)?);
        let (on_delete, on_update): (String, String) = (get(row, 5)?, get(row, 6)?);
        match keys.last_mut().filter(|last| last.name == name) {
            Some(last) => {
                last.columns.push(column);
                last.key.push(key);
            }
            None => keys.push(ForeignKeyDefinition {
                name,
                columns: vec![column],
                table: TableName {
                    schema: Some(get(row, 2)?),
                    name: get(row, 3)?,
                },
                key: vec![key],
                on_delete: Action::named(&on_delete),
                on_update: Action::named(&on_update),
            }),
        }
    }
    Ok(keys)
}

const WORDS: DefaultWords = DefaultWords {
    quote: quote_text,
    now: "CURRENT_TIMESTAMP(6)",
    now_tz: "CURRENT_TIMESTAMP(6)",
    today: "(CURRENT_DATE)",
};

/// Characters of a text of which an index of rows that may be alike has no more.
const PREFIX_CHARACTERS: u32 = 191;

/// Whether values have no limit to their length.
fn is_long(ty: ColumnType) -> bool {
    match ty {
        ColumnType::Text { chars_max } => chars_max.is_none_or(|chars| chars > KEY_CHARACTERS_MAX),
        ColumnType::Bytes | ColumnType::Json => true,
        _ => false,
    }
}

fn statements(table: &TableDefinition, version: &Version) -> Result<TableStatements> {
    let mut table = table.clone();
    // Texts that tell rows apart have a limit here.
    let unique = table.indexes.iter().filter(|index| index.unique);
    let mut keys: Vec<&Vec<String>> = unique.map(|index| &index.columns).collect();
    keys.push(&table.primary_key);
    keys.extend(table.foreign_keys.iter().map(|key| &key.columns));
    keys.extend(&table.named_by);
    let limits: Vec<(String, u32)> = keys
        .iter()
        .flat_map(|key| key.iter().map(|name| (name.clone(), key_characters(key.len()))))
        .collect();
    for column in &mut table.columns {
        let limits = limits.iter().filter(|(name, _)| *name == column.name);
        if let (ColumnType::Text { chars_max: None }, Some(chars)) =
            (column.ty, limits.map(|(_, chars)| *chars).min())
        {
            column.ty = ColumnType::Text {
                chars_max: Some(chars),
            };
        }
    }
    let table = &table;
    let mut lost = Vec::new();
    let mut additions = Additions {
        columns: table.defaults(&WORDS, &mut lost),
        lines: Vec::new(),
    };
    let shown = quote(&table.name.name);
    let mut after_rows = Vec::new();
    for column in &table.columns {
        if version.product != Product::MariaDb
            && is_long(column.ty)
            && additions.columns.remove(&column.name).is_some()
        {
            lost.push(format!("the default of {}, as it is long", column.name));
        }
        let Some(counter) = column.numbered else { continue };
        let is_integer = matches!(
            column.ty,
            ColumnType::Int16 | ColumnType::Int32 | ColumnType::Int64
        );
        if !is_integer || table.primary_key.first() != Some(&column.name) {
            lost.push(format!(
                "numbers for {}: only an integer that the primary key begins with is numbered",
                column.name
            ));
            continue;
        }
        additions
            .columns
            .insert(column.name.clone(), " AUTO_INCREMENT".to_owned());
        after_rows.extend(counter.last.map(|last| Step {
            what: format!("the counter of {}", column.name),
            name: None,
            sql: format!("ALTER TABLE {shown} AUTO_INCREMENT = {}", last.saturating_add(1)),
        }));
    }
    after_rows.extend(table.indexes.iter().map(|index| index_step(table, index)));
    let foreign_keys = table.foreign_keys.iter().map(|key| Step {
        what: format!("foreign key {}", key.name),
        name: Some(key.name.clone()),
        sql: format!(
            "ALTER TABLE {shown} ADD CONSTRAINT {} {}",
            quote(&key.name),
            key.sql(quote, |name| quote(&name.name))
        ),
    });
    Ok(TableStatements {
        create: vec![create_statement_with(
            &table.spec(&table.primary_key),
            version,
            &additions,
        )?],
        after_rows,
        foreign_keys: foreign_keys.collect(),
        lost,
    })
}

/// Makes an index; one of long values is of their beginnings.
fn index_step(table: &TableDefinition, index: &SecondaryIndex) -> Step {
    let part = |name: &String| {
        let column = table.columns.iter().find(|column| column.name == *name);
        match column.is_some_and(|column| is_long(column.ty)) && !index.unique {
            true => format!("{}({PREFIX_CHARACTERS})", quote(name)),
            false => quote(name),
        }
    };
    let columns: Vec<_> = index.columns.iter().map(part).collect();
    let unique = if index.unique { "UNIQUE " } else { "" };
    Step {
        what: format!("index {}", index.name),
        name: Some(index.name.clone()),
        sql: format!(
            "CREATE {unique}INDEX {} ON {} ({})",
            quote(&index.name),
            quote(&table.name.name),
            columns.join(", ")
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::own;

    #[test]
    fn keys_come_after_the_rows() {
        let made = "CREATE TABLE `t` (\n  `id` int(11) NOT NULL AUTO_INCREMENT,\n  `a` text DEFAULT 'KEY x,',\n  \
                    PRIMARY KEY (`id`),\n  UNIQUE KEY `u` (`a`(10)),\n  KEY `k` (`a`(5)) USING BTREE,\n  \
                    CONSTRAINT `f` FOREIGN KEY (`id`) REFERENCES `p` (`id`),\n  CONSTRAINT `c` CHECK (`id` > 0)\n) \
                    ENGINE=InnoDB";
        let (statements, names) = own("`t`", made);
        assert_eq!(
            statements.create,
            [
                "CREATE TABLE `t` (\n  `id` int(11) NOT NULL AUTO_INCREMENT,\n  `a` text DEFAULT 'KEY x,',\n  \
              PRIMARY KEY (`id`),\n  CONSTRAINT `c` CHECK (`id` > 0)\n) ENGINE=InnoDB"
            ]
        );
        let after: Vec<_> = statements
            .after_rows
            .iter()
            .map(|step| step.sql.as_str())
            .collect();
        assert_eq!(
            after,
            [
                "ALTER TABLE `t` ADD UNIQUE KEY `u` (`a`(10))",
                "ALTER TABLE `t` ADD KEY `k` (`a`(5)) USING BTREE"
            ]
        );
        let foreign: Vec<_> = statements
            .foreign_keys
            .iter()
            .map(|step| step.sql.as_str())
            .collect();
        assert_eq!(
            foreign,
            ["ALTER TABLE `t` ADD CONSTRAINT `f` FOREIGN KEY (`id`) REFERENCES `p` (`id`)"]
        );
        assert_eq!(names, ["u", "k", "f"]);

        let (statements, _) = own("`t`", &made.replace("PRIMARY KEY (`id`)", "KEY `i` (`id`)"));
        assert_eq!(statements.after_rows.len(), 0);
        assert!(statements.create[0].contains("KEY `i` (`id`)"));
    }
}
