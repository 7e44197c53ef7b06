//! What measuring needs: tables of its own, and the records of the write-ahead log that are about one.
//!
//! Records are read with pg_walinspect, where this role may. A superuser who has not got it creates it in a transaction
//! that is rolled back, so that nothing of it stays. Without it only the length of the log is known.

use async_trait::async_trait;
use tokio_postgres::Client;

use super::{
    PostgresTarget,
    catalog::get,
    connect, errors,
    prepare::oid,
    types::{quote, quote_table},
};
use crate::{
    error::{Error, Result},
    measure::gauge::{Cause, Copied, Disk, Gauge, LogMark, Records},
    operation::Method,
    report::Counted,
    table::{Table, TableName},
};

/// What of a table LIKE does not copy and a load would meet.
const LACKING: &str = "\
    SELECT 'trigger ' || tgname FROM pg_catalog.pg_trigger WHERE tgrelid = $1 AND NOT tgisinternal \
    UNION ALL SELECT 'foreign key ' || conname FROM pg_catalog.pg_constraint WHERE conrelid = $1 AND contype = 'f' \
    UNION ALL SELECT 'rule ' || rulename FROM pg_catalog.pg_rewrite WHERE ev_class = $1 AND ev_type <> '1' \
    UNION ALL SELECT 'partitions' FROM pg_catalog.pg_class WHERE oid = $1 AND relkind = 'p' \
    UNION ALL SELECT 'row security' FROM pg_catalog.pg_class WHERE oid = $1 AND relrowsecurity \
    UNION ALL SELECT 'storage parameters' FROM pg_catalog.pg_class WHERE oid = $1 AND reloptions IS NOT NULL \
    ORDER BY 1";

/// Columns whose default takes numbers of a sequence; those of identity columns get sequences of their own by LIKE.
const NUMBERED: &str = "\
    SELECT a.attname::text FROM pg_catalog.pg_attrdef d \
    JOIN pg_catalog.pg_attribute a ON a.attrelid = d.adrelid AND a.attnum = d.adnum \
    WHERE d.adrelid = $1 AND a.attgenerated = '' AND pg_catalog.pg_get_expr(d.adbin, d.adrelid) LIKE '%nextval(%' \
    ORDER BY a.attnum";

/// Columns that are left to a default which calls a volatile function other than nextval.
const VOLATILE: &str = "\
    SELECT a.attname::text, pg_catalog.pg_get_expr(d.adbin, d.adrelid) FROM pg_catalog.pg_attrdef d \
    JOIN pg_catalog.pg_attribute a ON a.attrelid = d.adrelid AND a.attnum = d.adnum \
    WHERE d.adrelid = $1 AND a.attgenerated = '' AND a.attname::text <> ALL ($2) \
      AND EXISTS (SELECT FROM pg_catalog.pg_proc p WHERE p.provolatile = 'v' AND p.proname <> 'nextval' \
          AND pg_catalog.strpos(pg_catalog.pg_get_expr(d.adbin, d.adrelid), p.proname::text || '(') > 0) \
    ORDER BY a.attnum";

/// Row triggers that an INSERT fires, those before the row first.
const TRIGGERS: &str = "\
    SELECT tgname::text, tgtype & 2 <> 0 FROM pg_catalog.pg_trigger \
    WHERE tgrelid = $1 AND NOT tgisinternal AND tgenabled <> 'D' AND tgtype & 5 = 5 ORDER BY 2 DESC, 1";

/// Kind and persistence of a table, its indexes and foreign keys.
const SHAPE: &str = "\
    SELECT relkind::text, relpersistence::text, \
           (SELECT count(*) FROM pg_catalog.pg_index WHERE indrelid = $1), \
           (SELECT count(*) FROM pg_catalog.pg_constraint WHERE conrelid = $1 AND contype = 'f') \
    FROM pg_catalog.pg_class WHERE oid = $1";

/// Whether a table is logged.
const PERSISTENCE: &str = "SELECT relpersistence::text FROM pg_catalog.pg_class WHERE oid = $1";

/// The records of a part of the log that are about the table $1: of its rows, of its indexes, bytes of page images, and
/// bytes of all that was logged by the transactions that wrote them, their commits among it.
/// `{}` is the schema of pg_walinspect.
const RECORDS: &str = "\
    WITH file (pattern, is_index) AS ( \
        SELECT '%/' || (SELECT oid FROM pg_catalog.pg_database WHERE datname = pg_catalog.current_database()) || '/' \
               || pg_catalog.pg_relation_filenode(r.oid) || ' fork main %', r.oid <> $1 \
        FROM (SELECT $1::oid AS oid UNION ALL SELECT indexrelid FROM pg_catalog.pg_index WHERE indrelid = $1) r), \
    logged AS MATERIALIZED ( \
        SELECT * FROM {}.pg_get_wal_records_info($2::text::pg_lsn, $3::text::pg_lsn)), \
    record AS ( \
        SELECT w.resource_manager, w.record_type, w.fpi_length, w.xid, f.is_index \
        FROM logged w JOIN file f ON w.block_ref LIKE f.pattern) \
    SELECT count(*) FILTER (WHERE NOT is_index AND resource_manager IN ('Heap', 'Heap2') \
                            AND record_type ~ '^(MULTI_)?INSERT'), \
           count(*) FILTER (WHERE is_index AND resource_manager <> 'XLOG'), \
           coalesce(sum(fpi_length), 0)::int8, \
           (SELECT coalesce(sum(record_length - fpi_length), 0)::int8 FROM logged \
            WHERE xid::text <> '0' AND xid IN (SELECT xid FROM record)) \
    FROM record";

/// The schema of pg_walinspect's function, and whether this role may call it.
const INSPECTION: &str = "\
    SELECT n.nspname::text, pg_catalog.has_function_privilege(p.oid, 'EXECUTE') \
    FROM pg_catalog.pg_proc p JOIN pg_catalog.pg_namespace n ON n.oid = p.pronamespace \
    WHERE p.proname = 'pg_get_wal_records_info' ORDER BY 2 DESC LIMIT 1";

/// Whether this role could create pg_walinspect, and whether it is to be had.
const CREATABLE: &str = "\
    SELECT (SELECT rolsuper FROM pg_catalog.pg_roles WHERE rolname = current_user) \
       AND EXISTS (SELECT FROM pg_catalog.pg_available_extensions WHERE name = 'pg_walinspect')";

fn position(bytes: u64) -> String {
    format!("{:X}/{:X}", bytes >> 32, bytes & 0xffff_ffff)
}

impl PostgresTarget {
    async fn names(&self, sql: &str, table: &Table) -> Result<Vec<String>> {
        let session = self.session().await?;
        let rows = session
            .query(sql, &[&oid(table)?])
            .await
            .map_err(errors::statement)?;
        rows.iter().map(|row| get(row, 0)).collect()
    }
}

/// Reads the records by the function in `schema`.
async fn read(client: &Client, schema: &str, table: &Table, from: &LogMark, to: &LogMark) -> Result<Records> {
    let sql = RECORDS.replace("{}", &quote(schema));
    let row = client
        .query_one(&sql, &[&oid(table)?, &position(from.bytes), &position(to.bytes)])
        .await
        .map_err(errors::statement)?;
    let count = |index| -> Result<u64> {
        let count: i64 = get(&row, index)?;
        Ok(u64::try_from(count).unwrap_or_default())
    };
    Ok(Records::Counted {
        what: "WAL record",
        rows: count(0)?,
        indexes: Some(count(1)?),
        image_bytes: count(2)?,
        bytes: Some(count(3)?),
        shared: false,
    })
}

#[async_trait]
impl Gauge for PostgresTarget {
    async fn copy(&self, table: &Table, name: &str) -> Result<Copied> {
        let session = self.session().await?;
        let oid = oid(table)?;
        let shape = session
            .query_one(SHAPE, &[&oid])
            .await
            .map_err(errors::statement)?;
        let (kind, persistence): (String, String) = (get(&shape, 0)?, get(&shape, 1)?);
        if !matches!(kind.as_str(), "r" | "p") {
            return Err(Error::schema(format!("{} is no ordinary table", table.name)));
        }
        drop(session);
        let lacking = self.names(LACKING, table).await?;
        let numbered = self.names(NUMBERED, table).await?;
        let copy = quote(name);
        let unlogged = if persistence == "u" { "UNLOGGED " } else { "" };
        let original = quote_table(&table.name);
        let mut statements = format!("CREATE {unlogged}TABLE {copy} (LIKE {original} INCLUDING ALL);");
        for (index, column) in numbered.iter().enumerate() {
            // The table's own sequence must not be moved.
            let sequence = quote(&format!("{name}_{index}"));
            let column = quote(column);
            statements.push_str(&format!(
                "CREATE SEQUENCE {sequence} OWNED BY {copy}.{column}; \
                 ALTER TABLE {copy} ALTER COLUMN {column} SET DEFAULT nextval('{sequence}');"
            ));
        }
        self.session()
            .await?
            .batch_execute(&statements)
            .await
            .map_err(errors::statement)?;
        Ok(Copied {
            target: None,
            table: TableName::bare(name),
            lacking,
        })
    }

    async fn discard(&self, name: &str) -> Result<()> {
        let session = self.session().await?;
        session
            .batch_execute(&format!("DROP TABLE IF EXISTS {}", quote(name)))
            .await
            .map_err(errors::statement)
    }

    async fn disk(&self, table: &TableName) -> Result<Option<Disk>> {
        let session = self.session().await?;
        let row = session
            .query_one(
                "SELECT pg_catalog.pg_relation_size(c.oid), pg_catalog.pg_total_relation_size(c.oid), \
                 pg_catalog.current_setting('block_size')::int8 \
                 FROM (SELECT pg_catalog.to_regclass($1)::oid AS oid) c",
                &[&quote_table(table)],
            )
            .await
            .map_err(errors::statement)?;
        let bytes = |index| -> Result<Option<u64>> {
            let bytes: Option<i64> = get(&row, index)?;
            Ok(bytes.and_then(|bytes| u64::try_from(bytes).ok()))
        };
        let (rows_bytes, all, page) = (bytes(0)?, bytes(1)?, bytes(2)?);
        Ok(all.zip(page).map(|(bytes, page_bytes)| Disk {
            rows_bytes,
            bytes,
            page_bytes,
        }))
    }

    async fn log(&self) -> Result<Option<LogMark>> {
        let session = self.session().await?;
        let row = session
            .query_one(
                "SELECT (pg_catalog.pg_current_wal_insert_lsn() - '0/0'::pg_lsn)::int8",
                &[],
            )
            .await;
        // A standby has none of its own.
        let Ok(row) = row else { return Ok(None) };
        let bytes: i64 = get(&row, 0)?;
        Ok(u64::try_from(bytes)
            .ok()
            .map(|bytes| LogMark { bytes, changes: None }))
    }

    async fn records(&self, table: &Table, from: &LogMark, to: &LogMark) -> Result<Records> {
        let unknown = |why: &str| Ok(Records::Unknown { why: why.to_owned() });
        let persistence = self.names(PERSISTENCE, table).await?;
        if persistence.iter().any(|persistence| persistence == "u") {
            return unknown("the table is unlogged: its rows leave no records");
        }
        if from.bytes >= to.bytes {
            return Ok(Records::Counted {
                what: "WAL record",
                rows: 0,
                indexes: Some(0),
                bytes: Some(0),
                image_bytes: 0,
                shared: false,
            });
        }
        let client = connect::open(&self.settings).await?;
        // A commit of its own brings to disk what was logged before it. It must have logged something: the server
        // does not wait for the disk at the commit of a transaction that only has a number.
        client
            .batch_execute(
                "SET synchronous_commit = local; SELECT pg_catalog.pg_logical_emit_message(true, 'tonnage', '')",
            )
            .await
            .map_err(errors::statement)?;
        let found = client
            .query_opt(INSPECTION, &[])
            .await
            .map_err(errors::statement)?;
        if let Some(row) = found {
            let (schema, allowed): (String, bool) = (get(&row, 0)?, get(&row, 1)?);
            return match allowed {
                true => read(&client, &schema, table, from, to).await,
                false => unknown(
                    "records of the log cannot be read by this role: GRANT pg_read_server_files, or EXECUTE on the \
                     functions of pg_walinspect, would let it",
                ),
            };
        }
        let row = client
            .query_one(CREATABLE, &[])
            .await
            .map_err(errors::statement)?;
        if !get::<Option<bool>>(&row, 0)?.unwrap_or_default() {
            return unknown(
                "records of the log cannot be read: CREATE EXTENSION pg_walinspect, by a superuser of PostgreSQL 15 or \
                 later, and pg_read_server_files for this role would let it",
            );
        }
        client
            .batch_execute("BEGIN; CREATE EXTENSION pg_walinspect SCHEMA pg_catalog")
            .await
            .map_err(errors::statement)?;
        let records = read(&client, "pg_catalog", table, from, to).await;
        client
            .batch_execute("ROLLBACK")
            .await
            .map_err(errors::statement)?;
        records
    }

    async fn causes(&self, table: &Table, method: Method, columns: &[String]) -> Result<Vec<Cause>> {
        let oid = oid(table)?;
        let session = self.session().await?;
        let mut causes = Vec::new();
        let triggers = session
            .query(TRIGGERS, &[&oid])
            .await
            .map_err(errors::statement)?;
        for row in &triggers {
            let (name, before): (String, bool) = (get(row, 0)?, get(row, 1)?);
            causes.push(match (before, method) {
                (true, Method::Native) => Cause {
                    text: format!("BEFORE ROW trigger {name} must see each row before the next: COPY adds them one by one"),
                    decides: true,
                },
                (true, _) => Cause::shown(format!("BEFORE ROW trigger {name} runs for every row")),
                (false, _) => Cause::shown(format!("AFTER ROW trigger {name} runs for every row")),
            });
        }
        match method {
            Method::Native => {
                let columns: Vec<&str> = columns.iter().map(String::as_str).collect();
                let volatile = session
                    .query(VOLATILE, &[&oid, &columns])
                    .await
                    .map_err(errors::statement)?;
                for row in &volatile {
                    let (name, default): (String, String) = (get(row, 0)?, get(row, 1)?);
                    causes.push(Cause::shown(format!(
                        "column {name} is left to its default {default}, which is volatile: COPY adds rows one by one"
                    )));
                }
                if causes.is_empty() {
                    causes.push(Cause::shown("COPY adds rows a page at a time"));
                }
            }
            _ => causes.push(Cause::shown(
                "INSERT adds rows one by one, however many a statement carries, multi-row VALUES and arrays alike; \
                 only COPY adds them a page at a time",
            )),
        }
        let shape = session
            .query_one(SHAPE, &[&oid])
            .await
            .map_err(errors::statement)?;
        let (indexes, references): (i64, i64) = (get(&shape, 2)?, get(&shape, 3)?);
        if indexes > 0 {
            causes.push(Cause::shown(format!(
                "{}: a record a row in each, by whichever method",
                match indexes {
                    1 => "1 index".to_owned(),
                    many => format!("{many} indexes"),
                }
            )));
        }
        if references > 0 {
            causes.push(Cause::shown(format!(
                "{}: each row looks up and locks the row that it names, by whichever method",
                Counted(references as u64, "foreign key")
            )));
        }
        Ok(causes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_in_the_log_are_written_as_the_server_writes_them() {
        assert_eq!(position(0x1_6B37_4D48), "1/6B374D48");
        assert_eq!(position(0), "0/0");
    }
}
