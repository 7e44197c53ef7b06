//! Definitions of tables, out of a database and into one.
//!
//! The catalogue is read in one transaction whose search path is empty, so that every name that the server writes into a
//! definition has its schema. Keys, indexes, checks and foreign keys come after the rows, as they are made faster so.

use std::sync::Arc;

use async_trait::async_trait;
use tokio_postgres::{GenericClient, Row};
use tonnage_core::{
    error::Result,
    schema::{
        Action, Additions, ColumnDefinition, Counter, DatabaseDefinition, DefaultValue, DefaultWords,
        ForeignKeyDefinition, SecondaryIndex, Step, TableDefinition, TableStatements,
    },
    table::TableName,
    target::{Schemas, Target},
    types::ColumnType,
};

use super::{
    DRIVER, PostgresTarget,
    catalog::{get, ours},
    errors,
    types::{create_statement_with, quote, quote_all, quote_table},
};

#[async_trait]
impl Schemas for PostgresTarget {
    fn kind(&self) -> &str {
        DRIVER.name
    }

    async fn definitions(&self) -> Result<DatabaseDefinition> {
        let mut session = self.session().await?;
        // Dropping it undoes nothing: it only reads.
        let read = session.build_transaction().read_only(true).start().await;
        let read = read.map_err(errors::statement)?;
        let empty_path = read.batch_execute("SET LOCAL search_path = ''").await;
        empty_path.map_err(errors::statement)?;
        let found = read.query(TABLES, &[&ours()]).await.map_err(errors::statement)?;
        let mut tables = Vec::with_capacity(found.len());
        for row in &found {
            tables.push(table(&read, row).await?);
        }
        let others = read.query(OTHERS, &[]).await.map_err(errors::statement)?;
        Ok(DatabaseDefinition {
            tables,
            others: others.iter().map(|row| get(row, 0)).collect::<Result<_>>()?,
        })
    }

    fn statements(&self, table: &TableDefinition) -> Result<TableStatements> {
        statements(table)
    }

    async fn unchecked(&self) -> Result<Option<Arc<dyn Target>>> {
        Ok(None)
    }

    async fn broken_foreign_keys(&self, _: &TableName) -> Result<Option<String>> {
        Ok(None)
    }
}

/// Tables that are no partitions and belong to no extension.
const TABLES: &str = "\
    SELECT c.oid, n.nspname::text, c.relname::text, c.relkind = 'p', c.relpersistence = 'u', \
           EXISTS (SELECT FROM pg_catalog.pg_inherits i WHERE i.inhrelid = c.oid), \
           ARRAY(SELECT t.tgname::text FROM pg_catalog.pg_trigger t \
                 WHERE t.tgrelid = c.oid AND NOT t.tgisinternal ORDER BY 1), \
           ARRAY(SELECT p.polname::text FROM pg_catalog.pg_policy p WHERE p.polrelid = c.oid ORDER BY 1), \
           ARRAY(SELECT r.rulename::text FROM pg_catalog.pg_rewrite r WHERE r.ev_class = c.oid ORDER BY 1) \
    FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace \
    WHERE c.relkind IN ('r', 'p') AND c.relpersistence <> 't' AND NOT c.relispartition \
      AND n.nspname NOT LIKE 'pg\\_%' AND n.nspname <> 'information_schema' AND c.relname <> ALL ($1) \
      AND NOT EXISTS (SELECT FROM pg_catalog.pg_depend d \
                      WHERE d.classid = 'pg_catalog.pg_class'::pg_catalog.regclass AND d.objid = c.oid \
                        AND d.deptype = 'e') \
    ORDER BY 2, 3";

/// What else has rows, or makes them.
const OTHERS: &str = "\
    SELECT CASE c.relkind WHEN 'v' THEN 'view ' WHEN 'm' THEN 'materialized view ' ELSE 'foreign table ' END \
           || n.nspname || '.' || c.relname \
    FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace \
    WHERE c.relkind IN ('v', 'm', 'f') AND n.nspname NOT LIKE 'pg\\_%' AND n.nspname <> 'information_schema' \
      AND NOT EXISTS (SELECT FROM pg_catalog.pg_depend d \
                      WHERE d.classid = 'pg_catalog.pg_class'::pg_catalog.regclass AND d.objid = c.oid \
                        AND d.deptype = 'e') \
    UNION ALL \
    SELECT 'function ' || n.nspname || '.' || p.proname \
    FROM pg_catalog.pg_proc p JOIN pg_catalog.pg_namespace n ON n.oid = p.pronamespace \
    WHERE n.nspname NOT LIKE 'pg\\_%' AND n.nspname <> 'information_schema' \
      AND NOT EXISTS (SELECT FROM pg_catalog.pg_depend d \
                      WHERE d.classid = 'pg_catalog.pg_proc'::pg_catalog.regclass AND d.objid = p.oid \
                        AND d.deptype = 'e') \
    ORDER BY 1";

/// A domain is its base type. The sequence is the one that the column owns, or that its default asks.
const COLUMNS: &str = "\
    SELECT a.attname::text, a.attnotnull, \
           CASE WHEN t.typtype = 'd' THEN pg_catalog.format_type(t.typbasetype, t.typtypmod) \
                ELSE pg_catalog.format_type(a.atttypid, a.atttypmod) END, \
           CASE WHEN t.typtype = 'd' THEN pg_catalog.format_type(t.oid, -1) END, \
           pg_catalog.pg_get_expr(d.adbin, d.adrelid), a.attidentity::text, a.attgenerated::text, \
           CASE WHEN a.attcollation <> t.typcollation THEN (\
                SELECT pg_catalog.quote_ident(m.nspname) || '.' || pg_catalog.quote_ident(l.collname) \
                FROM pg_catalog.pg_collation l JOIN pg_catalog.pg_namespace m ON m.oid = l.collnamespace \
                WHERE l.oid = a.attcollation) END, \
           CASE WHEN e.typtype = 'e' THEN pg_catalog.format_type(e.oid, -1) END, \
           CASE WHEN e.typtype = 'e' THEN ARRAY(SELECT pg_catalog.quote_literal(x.enumlabel) \
                FROM pg_catalog.pg_enum x WHERE x.enumtypid = e.oid ORDER BY x.enumsortorder) END, \
           s.name, \
           pg_catalog.format('START WITH %s INCREMENT BY %s MINVALUE %s MAXVALUE %s CACHE %s %s', q.seqstart, \
                q.seqincrement, q.seqmin, q.seqmax, q.seqcache, CASE WHEN q.seqcycle THEN 'CYCLE' ELSE 'NO CYCLE' END), \
           pg_catalog.format_type(q.seqtypid, -1), \
           CASE WHEN pg_catalog.has_sequence_privilege(s.oid, 'USAGE, SELECT') \
                THEN pg_catalog.pg_sequence_last_value(s.oid) END \
    FROM pg_catalog.pg_attribute a JOIN pg_catalog.pg_type t ON t.oid = a.atttypid \
    JOIN pg_catalog.pg_type e ON e.oid = CASE WHEN t.typcategory = 'A' AND t.typelem <> 0 THEN t.typelem \
                                              WHEN t.typtype = 'd' THEN t.typbasetype ELSE t.oid END \
    LEFT JOIN pg_catalog.pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum \
    LEFT JOIN LATERAL (\
        SELECT c.oid, pg_catalog.quote_ident(m.nspname) || '.' || pg_catalog.quote_ident(c.relname) AS name \
        FROM pg_catalog.pg_depend x JOIN pg_catalog.pg_class c ON c.relkind = 'S' \
        JOIN pg_catalog.pg_namespace m ON m.oid = c.relnamespace \
        WHERE (a.attidentity <> '' AND x.classid = 'pg_catalog.pg_class'::pg_catalog.regclass AND x.objid = c.oid \
               AND x.refobjid = a.attrelid AND x.refobjsubid = a.attnum AND x.deptype = 'i') \
           OR (x.classid = 'pg_catalog.pg_attrdef'::pg_catalog.regclass AND x.objid = d.oid AND x.refobjid = c.oid) \
        LIMIT 1) s ON true \
    LEFT JOIN pg_catalog.pg_sequence q ON q.seqrelid = s.oid \
    WHERE a.attrelid = $1 AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum";

/// Primary key, unique keys, exclusions, checks and foreign keys; those of its own, and not of a partition.
const CONSTRAINTS: &str = "\
    SELECT c.conname::text, c.contype::text, pg_catalog.pg_get_constraintdef(c.oid), \
           ARRAY(SELECT a.attname::text FROM unnest(c.conkey) WITH ORDINALITY k (attnum, position) \
                 JOIN pg_catalog.pg_attribute a ON a.attrelid = c.conrelid AND a.attnum = k.attnum \
                 ORDER BY k.position), \
           m.nspname::text, f.relname::text, \
           ARRAY(SELECT a.attname::text FROM unnest(c.confkey) WITH ORDINALITY k (attnum, position) \
                 JOIN pg_catalog.pg_attribute a ON a.attrelid = c.confrelid AND a.attnum = k.attnum \
                 ORDER BY k.position), \
           c.confdeltype::text, c.confupdtype::text \
    FROM pg_catalog.pg_constraint c LEFT JOIN pg_catalog.pg_class f ON f.oid = c.confrelid \
    LEFT JOIN pg_catalog.pg_namespace m ON m.oid = f.relnamespace \
    WHERE c.conrelid = $1 AND c.contype IN ('p', 'u', 'x', 'c', 'f') AND c.conparentid = 0 \
    ORDER BY pg_catalog.strpos('puxcf', c.contype::text), c.conname";

/// Indexes that no constraint has made; the columns are none where one is an expression.
const INDEXES: &str = "\
    SELECT i.relname::text, pg_catalog.pg_get_indexdef(x.indexrelid), x.indisunique, \
           CASE WHEN x.indexprs IS NULL AND x.indpred IS NULL AND am.amname = 'btree' THEN \
               ARRAY(SELECT a.attname::text FROM unnest(x.indkey) WITH ORDINALITY k (attnum, position) \
                     JOIN pg_catalog.pg_attribute a ON a.attrelid = x.indrelid AND a.attnum = k.attnum \
                     WHERE k.position <= x.indnkeyatts ORDER BY k.position) END \
    FROM pg_catalog.pg_index x JOIN pg_catalog.pg_class i ON i.oid = x.indexrelid \
    JOIN pg_catalog.pg_am am ON am.oid = i.relam \
    WHERE x.indrelid = $1 AND x.indisvalid AND NOT x.indisprimary \
      AND NOT EXISTS (SELECT FROM pg_catalog.pg_constraint c \
                      WHERE c.conindid = x.indexrelid AND c.contype IN ('p', 'u', 'x')) \
    ORDER BY i.relname";

/// The schema that is there in every database.
const PUBLIC: &str = "public";

async fn table(client: &impl GenericClient, row: &Row) -> Result<TableDefinition> {
    let oid: u32 = get(row, 0)?;
    let name = TableName {
        schema: Some(get(row, 1)?),
        name: get(row, 2)?,
    };
    let is_partitioned: bool = get(row, 3)?;
    let mut left_out = Vec::new();
    if is_partitioned {
        left_out.push("its partitions: it becomes one table".to_owned());
    }
    if get(row, 5)? {
        left_out.push("that it inherits from another table".to_owned());
    }
    for (index, what) in [(6, "trigger"), (7, "policy"), (8, "rule")] {
        let names: Vec<String> = get(row, index)?;
        left_out.extend(names.iter().map(|name| format!("the {what} {name}")));
    }
    let mut table = TableDefinition {
        columns: Vec::new(),
        primary_key: Vec::new(),
        indexes: Vec::new(),
        foreign_keys: Vec::new(),
        named_by: Vec::new(),
        own: TableStatements::default(),
        only_own: Vec::new(),
        left_out,
        names: Vec::new(),
        name,
    };
    let kind = if get(row, 4)? { "UNLOGGED TABLE" } else { "TABLE" };
    let columns = client.query(COLUMNS, &[&oid]).await.map_err(errors::statement)?;
    add_columns(&mut table, kind, &columns)?;
    let constraints = client.query(CONSTRAINTS, &[&oid]).await;
    add_constraints(&mut table, &constraints.map_err(errors::statement)?)?;
    let indexes = client.query(INDEXES, &[&oid]).await.map_err(errors::statement)?;
    for row in &indexes {
        let (index, definition): (String, String) = (get(row, 0)?, get(row, 1)?);
        match get::<Option<Vec<String>>>(row, 3)? {
            Some(columns) => table.indexes.push(SecondaryIndex {
                name: index.clone(),
                columns,
                unique: get(row, 2)?,
            }),
            None => table.only_own.push(format!("the index {index}")),
        }
        table.names.push(index.clone());
        table.own.after_rows.push(Step {
            what: format!("index {index}"),
            name: Some(index),
            // What indexes all partitions indexes the one table.
            sql: definition.replacen(" ON ONLY ", " ON ", usize::from(is_partitioned)),
        });
    }
    Ok(table)
}

/// The columns, and the statements that make the table with nothing but them.
fn add_columns(table: &mut TableDefinition, kind: &str, rows: &[Row]) -> Result<()> {
    let shown = quote_table(&table.name);
    let mut before = Vec::new();
    let mut counters = Vec::new();
    let mut lines = Vec::with_capacity(rows.len());
    if let Some(schema) = table.name.schema.as_ref().filter(|schema| *schema != PUBLIC) {
        before.push(format!("CREATE SCHEMA IF NOT EXISTS {}", quote(schema)));
    }
    for row in rows {
        let name: String = get(row, 0)?;
        let is_required: bool = get(row, 1)?;
        let (declared, domain): (String, Option<String>) = (get(row, 2)?, get(row, 3)?);
        let default: Option<String> = get(row, 4)?;
        let (identity, generated): (String, String) = (get(row, 5)?, get(row, 6)?);
        let (options, sequence_type): (Option<String>, Option<String>) = (get(row, 11)?, get(row, 12)?);
        let sequence: Option<String> = get(row, 10)?;
        let options = options.filter(|_| sequence.is_some()).unwrap_or_default();
        if let Some(domain) = domain {
            table
                .left_out
                .push(format!("the domain {domain} of {name}, which is {declared}"));
        }
        if let (Some(ty), Some(labels)) = (
            get::<Option<String>>(row, 8)?,
            get::<Option<Vec<String>>>(row, 9)?,
        ) {
            before.extend(type_statements(&ty, &labels));
        }
        let quoted = quote(&name);
        let collation = get::<Option<String>>(row, 7)?;
        let collation = collation.map_or_else(String::new, |collation| format!(" COLLATE {collation}"));
        let filled = match (identity.as_str(), generated.as_str(), &default) {
            ("", "", Some(default)) => format!(" DEFAULT {default}"),
            ("", "s", Some(expression)) => format!(" GENERATED ALWAYS AS ({expression}) STORED"),
            ("", "v", Some(expression)) => format!(" GENERATED ALWAYS AS ({expression}) VIRTUAL"),
            ("a", ..) => format!(" GENERATED ALWAYS AS IDENTITY ({options})"),
            ("d", ..) => format!(" GENERATED BY DEFAULT AS IDENTITY ({options})"),
            _ => String::new(),
        };
        let not_null = if is_required { " NOT NULL" } else { "" };
        lines.push(format!("{quoted} {declared}{collation}{filled}{not_null}"));
        let last: Option<i64> = get(row, 13)?;
        if let Some(sequence) = &sequence {
            let of_identity = format!(
                "pg_catalog.pg_get_serial_sequence({}, {})",
                literal(&shown),
                literal(&name)
            );
            let counter = match identity.is_empty() {
                false => of_identity,
                true => {
                    let ty = sequence_type.unwrap_or_else(|| "bigint".to_owned());
                    before.push(format!(
                        "CREATE SEQUENCE IF NOT EXISTS {sequence} AS {ty} {options}"
                    ));
                    counters.push(Step {
                        what: format!("the owner of the sequence {sequence}"),
                        name: None,
                        sql: format!("ALTER SEQUENCE {sequence} OWNED BY {shown}.{quoted}"),
                    });
                    format!("{}::pg_catalog.regclass", literal(sequence))
                }
            };
            counters.extend(last.map(|last| Step {
                what: format!("the counter of {name}"),
                name: None,
                sql: format!("SELECT pg_catalog.setval({counter}, {last})"),
            }));
        }
        if !generated.is_empty() {
            table.only_own.push(format!("how {name} is computed"));
        }
        let default = default.filter(|_| generated.is_empty() && sequence.is_none());
        table.columns.push(ColumnDefinition {
            ty: ColumnType::Any,
            nullable: !is_required,
            default: default.as_deref().and_then(DefaultValue::of_sql),
            numbered: sequence.map(|_| Counter { last }),
            generated: !generated.is_empty(),
            name,
        });
    }
    before.push(format!(
        "CREATE {kind} {shown} (\n    {}\n)",
        lines.join(",\n    ")
    ));
    table.own.create = before;
    table.own.after_rows = counters;
    Ok(())
}

/// Makes an enumeration where there is none of the name.
fn type_statements(ty: &str, labels: &[String]) -> Vec<String> {
    // The name is as the server writes it: `schema.name`, quoted where it must be.
    let schema = match ty.strip_prefix('"') {
        Some(rest) => rest.find("\".").map(|at| &ty[..at + 2]),
        None => ty.split_once('.').map(|(schema, _)| schema),
    };
    let schema = schema.filter(|schema| *schema != PUBLIC);
    let made = format!(
        "DO $tonnage$ BEGIN CREATE TYPE {ty} AS ENUM ({}); EXCEPTION WHEN duplicate_object THEN NULL; END $tonnage$",
        labels.join(", ")
    );
    let schema = schema.map(|schema| format!("CREATE SCHEMA IF NOT EXISTS {schema}"));
    schema.into_iter().chain([made]).collect()
}

fn literal(text: &str) -> String {
    let escaped = text.replace('\'', "''");
    match escaped.contains('\\') {
        true => format!("E'{}'", escaped.replace('\\', "\\\\")),
        false => format!("'{escaped}'"),
    }
}

fn add_constraints(table: &mut TableDefinition, rows: &[Row]) -> Result<()> {
    let shown = quote_table(&table.name);
    for row in rows {
        let (name, kind, definition): (String, String, String) = (get(row, 0)?, get(row, 1)?, get(row, 2)?);
        let columns: Vec<String> = get(row, 3)?;
        let step = Step {
            what: match kind.as_str() {
                "p" => "primary key".to_owned(),
                "u" => format!("unique key {name}"),
                "c" => format!("check {name}"),
                "f" => format!("foreign key {name}"),
                _ => format!("constraint {name}"),
            },
            name: Some(name.clone()),
            sql: format!("ALTER TABLE {shown} ADD CONSTRAINT {} {definition}", quote(&name)),
        };
        table.names.push(name.clone());
        match kind.as_str() {
            "f" => {
                let action = |index| get::<String>(row, index).map(|code| action(&code));
                table.foreign_keys.push(ForeignKeyDefinition {
                    name,
                    columns,
                    table: TableName {
                        schema: Some(get(row, 4)?),
                        name: get(row, 5)?,
                    },
                    key: get(row, 6)?,
                    on_delete: action(7)?,
                    on_update: action(8)?,
                });
                table.own.foreign_keys.push(step);
                continue;
            }
            "p" => table.primary_key = columns,
            "u" => table.indexes.push(SecondaryIndex {
                name,
                columns,
                unique: true,
            }),
            _ => table.only_own.push(format!("{} {definition}", step.what)),
        }
        table.own.after_rows.push(step);
    }
    Ok(())
}

/// Of a code of `pg_constraint`.
fn action(code: &str) -> Action {
    match code {
        "r" => Action::Restrict,
        "c" => Action::Cascade,
        "n" => Action::SetNull,
        "d" => Action::SetDefault,
        _ => Action::NoAction,
    }
}

const WORDS: DefaultWords = DefaultWords {
    quote: literal,
    now: "LOCALTIMESTAMP",
    now_tz: "CURRENT_TIMESTAMP",
    today: "CURRENT_DATE",
};

fn statements(table: &TableDefinition) -> Result<TableStatements> {
    let mut lost = Vec::new();
    let mut additions = Additions {
        columns: table.defaults(&WORDS, &mut lost),
        lines: Vec::new(),
    };
    let shown = quote_table(&table.name);
    let mut after_rows = Vec::new();
    if !table.primary_key.is_empty() {
        let name = format!("{}_pkey", table.name.name);
        after_rows.push(Step {
            what: "primary key".to_owned(),
            sql: format!(
                "ALTER TABLE {shown} ADD CONSTRAINT {} PRIMARY KEY ({})",
                quote(&name),
                quote_all(table.primary_key.iter().map(String::as_str))
            ),
            name: Some(name),
        });
    }
    for column in &table.columns {
        let Some(counter) = column.numbered else { continue };
        if !matches!(
            column.ty,
            ColumnType::Int16 | ColumnType::Int32 | ColumnType::Int64
        ) {
            lost.push(format!("numbers for {}, which is {}", column.name, column.ty));
            continue;
        }
        additions.columns.insert(
            column.name.clone(),
            " GENERATED BY DEFAULT AS IDENTITY".to_owned(),
        );
        let quoted = quote(&column.name);
        // Of no rows there is no largest number, and a counter cannot be set below 1.
        after_rows.push(Step {
            what: format!("the counter of {}", column.name),
            name: None,
            sql: format!(
                "SELECT pg_catalog.setval(pg_catalog.pg_get_serial_sequence({}, {}), last) \
                 FROM (SELECT greatest((SELECT max({quoted}) FROM {shown}), {}) AS last) AS counted WHERE last > 0",
                literal(&shown),
                literal(&column.name),
                counter.last.map_or_else(|| "NULL".to_owned(), |last| last.to_string()),
            ),
        });
    }
    for index in &table.indexes {
        let unique = if index.unique { "UNIQUE " } else { "" };
        after_rows.push(Step {
            what: format!("index {}", index.name),
            name: Some(index.name.clone()),
            sql: format!(
                "CREATE {unique}INDEX {} ON {shown} ({})",
                quote(&index.name),
                quote_all(index.columns.iter().map(String::as_str))
            ),
        });
    }
    let foreign_keys = table.foreign_keys.iter().map(|key| Step {
        what: format!("foreign key {}", key.name),
        name: Some(key.name.clone()),
        sql: format!(
            "ALTER TABLE {shown} ADD CONSTRAINT {} {}",
            quote(&key.name),
            key.sql(quote, quote_table)
        ),
    });
    Ok(TableStatements {
        create: vec![create_statement_with(&table.spec(&[]), &additions)?],
        after_rows,
        foreign_keys: foreign_keys.collect(),
        lost,
    })
}
