//! What measuring needs: tables of its own, and the records of the write-ahead log that are about one.
//!
//! Records are read with pg_walinspect, where this role may. A superuser who has not got it creates it in a transaction
//! that is rolled back, so that nothing of it stays. Without it only the length of the log is known.

use std::{
    collections::BTreeMap,
    net::SocketAddr,
    sync::Arc,
    time::{Duration, Instant},
};

use async_trait::async_trait;
use tokio_postgres::{Client, error::SqlState};
use tonnage_core::{
    error::{Error, Result},
    instruments::{
        Address, Cause, Copied, Disk, Instruments, Listening, LogMark, Making, Measured, Records,
        ScratchPlace, Servers, Storage, TableForm, Triggers, Work, not_by_tcp,
    },
    operation::{Method, Mode},
    report::Counted,
    table::{Table, TableName},
    target::Target,
};

use super::{
    PostgresTarget,
    catalog::{self, DescribedColumn, get, trigger},
    connect, errors, making,
    prepare::oid,
    types::{quote, quote_table},
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

/// Row triggers that an operation fires, whose bits of the type of a trigger are $2, those before the row first.
const TRIGGERS: &str = "\
    SELECT tgname::text, tgtype & 2 <> 0 FROM pg_catalog.pg_trigger \
    WHERE tgrelid = $1 AND NOT tgisinternal AND tgenabled <> 'D' AND tgtype & 1 <> 0 AND tgtype & $2 <> 0 \
    ORDER BY 2 DESC, 1";

/// What makes the triggers of a table, but for the table's name, which comes as the last column.
const TRIGGERS_MADE: &str = "\
    SELECT pg_catalog.pg_get_triggerdef(t.oid), pg_catalog.format('%I.%I', n.nspname, c.relname) \
    FROM pg_catalog.pg_trigger t JOIN pg_catalog.pg_class c ON c.oid = t.tgrelid \
    JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace \
    WHERE t.tgrelid = $1 AND NOT t.tgisinternal AND t.tgenabled IN ('O', 'A') ORDER BY t.tgname";

/// Kind and persistence of a table, its indexes, its foreign keys, and those of others that lead to it.
const SHAPE: &str = "\
    SELECT relkind::text, relpersistence::text, \
           (SELECT count(*) FROM pg_catalog.pg_index WHERE indrelid = $1), \
           (SELECT count(*) FROM pg_catalog.pg_constraint WHERE conrelid = $1 AND contype = 'f'), \
           (SELECT count(*) FROM pg_catalog.pg_constraint WHERE confrelid = $1 AND contype = 'f') \
    FROM pg_catalog.pg_class WHERE oid = $1";

/// Tables of the schema that new ones are made in whose names begin with $1.
const LEFT: &str = "\
    SELECT relname::text FROM pg_catalog.pg_class \
    WHERE relnamespace = (SELECT oid FROM pg_catalog.pg_namespace WHERE nspname = pg_catalog.current_schema()) \
      AND relkind IN ('r', 'p') AND NOT relispartition AND pg_catalog.starts_with(relname::text, $1)";

/// Whether values of columns can be compressed with lz4: the server is of 14 or later, and was built with it.
const HAS_LZ4: &str = "\
    SELECT EXISTS (SELECT FROM pg_catalog.pg_settings \
                   WHERE name = 'default_toast_compression' AND 'lz4' = ANY (enumvals))";

/// Whether a table is logged, and its partitions.
const PERSISTENCE: &str = "\
    SELECT relpersistence::text FROM pg_catalog.pg_class \
    WHERE oid = $1 OR oid IN (SELECT inhrelid FROM pg_catalog.pg_inherits WHERE inhparent = $1)";

/// Bytes of a table's rows, of these with its indexes, and of a page; those of its partitions are among them.
const SIZES: &str = "\
    SELECT sum(pg_catalog.pg_relation_size(r.oid))::int8, sum(pg_catalog.pg_total_relation_size(r.oid))::int8, \
           pg_catalog.current_setting('block_size')::int8 \
    FROM (SELECT pg_catalog.to_regclass($1)::oid AS oid UNION ALL \
          SELECT inhrelid FROM pg_catalog.pg_inherits WHERE inhparent = pg_catalog.to_regclass($1)::oid) r";

/// The records of a part of the log that are about the table $1 and its partitions: of its rows, of its indexes, bytes
/// of page images, and bytes of all that was logged by the transactions that wrote them, their commits among it.
/// `{}` is the schema of pg_walinspect.
const RECORDS: &str = "\
    WITH part (oid) AS ( \
        SELECT $1::oid UNION ALL SELECT inhrelid FROM pg_catalog.pg_inherits WHERE inhparent = $1), \
    file (pattern, is_index) AS ( \
        SELECT '%/' || (SELECT oid FROM pg_catalog.pg_database WHERE datname = pg_catalog.current_database()) || '/' \
               || pg_catalog.pg_relation_filenode(r.oid) || ' fork main %', r.is_index \
        FROM (SELECT oid, false AS is_index FROM part UNION ALL \
              SELECT indexrelid, true FROM pg_catalog.pg_index JOIN part ON part.oid = indrelid) r), \
    logged AS MATERIALIZED ( \
        SELECT * FROM {}.pg_get_wal_records_info($2::text::pg_lsn, $3::text::pg_lsn)), \
    record AS ( \
        SELECT w.resource_manager, w.record_type, w.fpi_length, w.xid, f.is_index \
        FROM logged w JOIN file f ON w.block_ref LIKE f.pattern) \
    SELECT count(*) FILTER (WHERE NOT is_index AND resource_manager IN ('Heap', 'Heap2') AND record_type ~ $4), \
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

/// Holds the log from now on until the session ends.
const KEEP: &str = "\
    SELECT pg_catalog.pg_create_physical_replication_slot( \
        'tonnage_' || pg_catalog.pg_backend_pid(), immediately_reserve => true, temporary => true)";

/// Whether this role could create pg_walinspect, and whether it is to be had.
const CREATABLE: &str = "\
    SELECT (SELECT rolsuper FROM pg_catalog.pg_roles WHERE rolname = current_user) \
       AND EXISTS (SELECT FROM pg_catalog.pg_available_extensions WHERE name = 'pg_walinspect')";

/// The version, and the sessions that the settings of this one could have opened, but for itself.
const SESSIONS: &str = "\
    SELECT pg_catalog.current_setting('server_version_num')::int4, \
           ARRAY(SELECT pid::int8 FROM pg_catalog.pg_stat_activity \
                 WHERE usename = current_user AND datname = pg_catalog.current_database() \
                   AND application_name = pg_catalog.current_setting('application_name') \
                   AND pid <> pg_catalog.pg_backend_pid())";

/// Flushes of the log, and bytes of log and pages that were written, by the first version that counts them so.
const WORK: [(i32, &str); 3] = [
    (
        180_000,
        "SELECT (SELECT sum(fsyncs) FROM pg_catalog.pg_stat_io WHERE object = 'wal')::int8, \
                (SELECT sum(coalesce(write_bytes, 0) + coalesce(extend_bytes, 0)) FROM pg_catalog.pg_stat_io)::int8",
    ),
    (
        160_000,
        "SELECT wal_sync, (wal_bytes + (SELECT sum((coalesce(writes, 0) + coalesce(extends, 0)) * op_bytes) \
                                        FROM pg_catalog.pg_stat_io))::int8 \
         FROM pg_catalog.pg_stat_wal",
    ),
    (
        140_000,
        "SELECT wal_sync, (wal_bytes + (SELECT (buffers_checkpoint + buffers_clean + buffers_backend) \
                                               * pg_catalog.current_setting('block_size')::int8 \
                                        FROM pg_catalog.pg_stat_bgwriter))::int8 \
         FROM pg_catalog.pg_stat_wal",
    ),
];

/// How long sessions that were closed are waited for, and how often they are asked for.
const CLOSING: Duration = Duration::from_secs(3);
const CLOSING_LOOK: Duration = Duration::from_millis(2);

/// The records of a table's rows that an operation leaves, as a regular expression.
fn record_types(operation: Mode) -> &'static str {
    match operation {
        Mode::Insert | Mode::Ignore => "^(MULTI_)?INSERT",
        Mode::Upsert => "^((MULTI_)?INSERT|(HOT_)?UPDATE)",
        Mode::Update => "^(HOT_)?UPDATE",
        Mode::Delete => "^DELETE",
    }
}

/// The bits that the types of triggers have which an operation fires.
fn trigger_bits(operation: Mode) -> i16 {
    match operation {
        Mode::Insert | Mode::Ignore => trigger::INSERT,
        Mode::Upsert => trigger::INSERT | trigger::UPDATE,
        Mode::Update => trigger::UPDATE,
        Mode::Delete => trigger::DELETE,
    }
}

/// The statement that makes a trigger, for a copy of the table; none where the table's name is not where it should be.
fn retold(trigger: &str, table: &str, copy: &str) -> Option<String> {
    let on = format!(" ON {table} ");
    trigger
        .contains(&on)
        .then(|| trigger.replacen(&on, &format!(" ON {copy} "), 1))
}

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
async fn read(
    client: &Client,
    schema: &str,
    table: &Table,
    operation: Mode,
    from: &LogMark,
    to: &LogMark,
) -> Result<Records> {
    let sql = RECORDS.replace("{}", &quote(schema));
    let (from, to) = (position(from.bytes), position(to.bytes));
    let read = client
        .query_one(&sql, &[&oid(table)?, &from, &to, &record_types(operation)])
        .await;
    let row = match read {
        Err(error) if error.code() == Some(&SqlState::UNDEFINED_FILE) => {
            return Ok(Records::Unknown {
                why: "a checkpoint has removed that part of the log: the right of REPLICATION with a free replication \
                      slot, or a larger wal_keep_size, would keep it"
                    .to_owned(),
            });
        }
        read => read.map_err(errors::statement)?,
    };
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

/// A value of each of some types that travel as text, and whether it is the digit of a string of bits.
const SAMPLES: &str = "\
    SELECT t.oid, CASE \
               WHEN t.typcategory = 'A' THEN '{}' \
               WHEN t.typtype = 'e' THEN (SELECT e.enumlabel::text FROM pg_catalog.pg_enum e \
                                          WHERE e.enumtypid = t.oid ORDER BY e.enumsortorder LIMIT 1) \
               WHEN t.typtype = 'r' THEN 'empty' \
               WHEN t.typtype IN ('c', 'm') THEN '{}' \
               ELSE CASE t.typname::text \
                   WHEN 'bit' THEN '0' WHEN 'varbit' THEN '0' WHEN 'inet' THEN '192.0.2.1' \
                   WHEN 'cidr' THEN '192.0.2.0/24' WHEN 'macaddr' THEN '02:00:00:00:00:01' \
                   WHEN 'macaddr8' THEN '02:00:00:00:00:00:00:01' WHEN 'point' THEN '(0,0)' \
                   WHEN 'lseg' THEN '[(0,0),(1,1)]' WHEN 'path' THEN '((0,0),(1,1))' WHEN 'box' THEN '(1,1),(0,0)' \
                   WHEN 'polygon' THEN '((0,0),(1,1),(1,0))' WHEN 'line' THEN '{1,1,0}' WHEN 'circle' THEN '<(0,0),1>' \
                   WHEN 'oid' THEN '1' WHEN 'pg_lsn' THEN '0/0' WHEN 'jsonpath' THEN '$' WHEN 'xml' THEN '<row/>' \
                   WHEN 'hstore' THEN '' WHEN 'ltree' THEN 'row' WHEN 'interval' THEN '1 day' WHEN 'money' THEN '1' \
                   WHEN 'tsvector' THEN '' WHEN 'timetz' THEN '12:00:00+00' WHEN 'char' THEN 'x' WHEN 'xid' THEN '1' \
               END END, \
           t.typname::text IN ('bit', 'varbit') \
    FROM pg_catalog.pg_type t WHERE t.oid = ANY ($1)";

#[async_trait]
impl Instruments for PostgresTarget {
    fn place(&self, prefix: &str) -> ScratchPlace {
        ScratchPlace::in_database(prefix)
    }

    async fn scratch(&self, _: &str, _: Option<u32>) -> Result<Option<Arc<dyn Target>>> {
        Ok(None)
    }

    fn address(&self) -> Result<Address> {
        match self.settings.endpoints.as_slice() {
            [only] if only.is_socket() => Err(not_by_tcp(&format!("{only} is a socket of this machine"))
                .hint("name the host: postgresql://user@127.0.0.1/database")),
            [only] => Ok(Address {
                host: only
                    .address
                    .map_or_else(|| only.host.clone(), |address| address.to_string()),
                port: only.port,
            }),
            _ => Err(not_by_tcp("several hosts are named").hint("name one of them")),
        }
    }

    async fn through_proxy(&self, local: SocketAddr) -> Result<Arc<dyn Target>> {
        self.address()?;
        let mut settings = self.settings.clone();
        for endpoint in &mut settings.endpoints {
            // The host stays, for the name in the server's certificate.
            endpoint.address = Some(local.ip());
            endpoint.port = local.port();
        }
        Ok(Arc::new(Self::connect(settings).await?))
    }

    async fn obstacle(&self, form: &TableForm) -> Result<Option<String>> {
        if form.page_bytes.is_some() {
            return Ok(Some(
                "the page size of a PostgreSQL server is chosen when it is built".to_owned(),
            ));
        }
        if form.storage != Storage::Compressed {
            return Ok(None);
        }
        let session = self.session().await?;
        let row = session.query_one(HAS_LZ4, &[]).await.map_err(errors::statement)?;
        Ok(match get(&row, 0)? {
            true => None,
            false => Some("this PostgreSQL server was built without lz4, or is older than 14".to_owned()),
        })
    }

    async fn make(&self, making: &Making) -> Result<()> {
        let statements = making::statements(making)?;
        let session = self.session().await?;
        // Sent at once they are one transaction.
        let made = session.batch_execute(&statements.join(";\n")).await;
        made.map_err(|e| errors::statement(e).at(format!("cannot create {}", making.spec.name)))
    }

    async fn servers(&self) -> Result<Measured<Servers>> {
        let [only] = self.settings.endpoints.as_slice() else {
            return Ok(Err("several hosts are named".to_owned()));
        };
        Ok(Ok(Servers {
            listening: vec![match only.is_socket() {
                true => Listening::Socket(only.to_string().into()),
                false => Listening::Tcp(self.address()?),
            }],
            programs: &["postgres", "postmaster", "edb-postgres"],
        }))
    }

    async fn work(&self, since: Option<&Work>) -> Result<Work> {
        let session = self.session().await?;
        let began = Instant::now();
        let (version, sessions) = loop {
            let row = session.query_one(SESSIONS, &[]).await;
            let row = row.map_err(errors::statement)?;
            let (version, sessions): (i32, Vec<i64>) = (get(&row, 0)?, get(&row, 1)?);
            // A session tells what it did at most once a second, and as it ends.
            let is_new = |known: &Work| sessions.iter().any(|one| !known.sessions.contains(one));
            if !since.is_some_and(is_new) || began.elapsed() > CLOSING {
                break (version, sessions);
            }
            tokio::time::sleep(CLOSING_LOOK).await;
        };
        let Some((_, sql)) = WORK.iter().find(|(from, _)| version >= *from) else {
            return Ok(Work::untold("PostgreSQL counts it from version 14 on"));
        };
        let row = match session.query_one(*sql, &[]).await {
            Ok(row) => row,
            // What only speaks the protocol has no such views.
            Err(error) if error.as_db_error().is_some() => {
                return Ok(Work::untold("the server has no statistics of it"));
            }
            Err(error) => return Err(errors::statement(error)),
        };
        let told = |index| -> Result<Measured<u64>> {
            let count: Option<i64> = get(&row, index)?;
            let count = count.and_then(|count| u64::try_from(count).ok());
            Ok(count.ok_or_else(|| "the server has no statistics of it".to_owned()))
        };
        Ok(Work {
            log_flushes: told(0)?,
            written_bytes: told(1)?,
            processor_seconds: None,
            sessions,
        })
    }

    async fn copy(&self, table: &Table, name: &str, triggers: Triggers) -> Result<Copied> {
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
        let mut lacking = self.names(LACKING, table).await?;
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
        if triggers == Triggers::Copied {
            let session = self.session().await?;
            let made = session.query(TRIGGERS_MADE, &[&oid]).await;
            for row in &made.map_err(errors::statement)? {
                let (made, of): (String, String) = (get(row, 0)?, get(row, 1)?);
                let made = retold(&made, &of, &copy)
                    .ok_or_else(|| Error::bug(format!("a trigger of {of} is on another table: {made}")))?;
                statements.push_str(&made);
                statements.push(';');
            }
            lacking.retain(|what| !what.starts_with("trigger "));
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

    async fn samples(&self, table: &Table) -> Result<BTreeMap<String, String>> {
        let session = self.session().await?;
        let described = catalog::describe(&*session, &table.name).await?;
        let Some(described) = described else {
            return Ok(BTreeMap::new());
        };
        let columns = described.table.columns.iter().zip(&described.columns);
        let texts: Vec<_> = columns.filter(|(_, own)| own.cast.is_some()).collect();
        let types: Vec<u32> = texts.iter().map(|(_, own)| own.server.oid).collect();
        let rows = session
            .query(SAMPLES, &[&types])
            .await
            .map_err(errors::statement)?;
        let mut of_types = BTreeMap::new();
        for row in &rows {
            let (ty, sample, by_digit): (u32, Option<String>, bool) =
                (get(row, 0)?, get(row, 1)?, get(row, 2)?);
            of_types.insert(ty, (sample, by_digit));
        }
        let sample = |own: &DescribedColumn| match of_types.get(&own.server.oid)? {
            // As many digits as the type says.
            (Some(digit), true) => {
                Some(digit.repeat(usize::try_from(own.server.modifier).unwrap_or(1).max(1)))
            }
            (sample, _) => sample.clone(),
        };
        Ok(texts
            .into_iter()
            .filter_map(|(column, own)| Some((column.name.clone(), sample(own)?)))
            .collect())
    }

    async fn discard(&self, name: &str) -> Result<()> {
        let session = self.session().await?;
        session
            .batch_execute(&format!("DROP TABLE IF EXISTS {}", quote(name)))
            .await
            .map_err(errors::statement)
    }

    async fn left(&self, prefix: &str) -> Result<Vec<String>> {
        let session = self.session().await?;
        let rows = session.query(LEFT, &[&prefix]).await.map_err(errors::statement)?;
        rows.iter().map(|row| get(row, 0)).collect()
    }

    async fn disk(&self, table: &TableName) -> Result<Option<Disk>> {
        let session = self.session().await?;
        let row = session
            .query_one(SIZES, &[&quote_table(table)])
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

    /// A checkpoint removes what is older than it, and whoever creates or drops a database begins one: a replication slot
    /// holds the log, a temporary one as long as its session is there.
    async fn keep_log(&self) -> Result<Option<Box<dyn Send + Sync>>> {
        let client = connect::open(&self.settings).await?;
        let slot = client.batch_execute(KEEP).await;
        match slot {
            Ok(()) => Ok(Some(Box::new(client))),
            // Without the right, without a free slot, on a standby: it will mostly be there all the same.
            Err(error) if error.as_db_error().is_some() => Ok(None),
            Err(error) => Err(errors::statement(error)),
        }
    }

    async fn records(&self, table: &Table, operation: Mode, from: &LogMark, to: &LogMark) -> Result<Records> {
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
                true => read(&client, &schema, table, operation, from, to).await,
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
        let records = read(&client, "pg_catalog", table, operation, from, to).await;
        client
            .batch_execute("ROLLBACK")
            .await
            .map_err(errors::statement)?;
        records
    }

    async fn causes(
        &self,
        table: &Table,
        operation: Mode,
        method: Method,
        columns: &[String],
    ) -> Result<Vec<Cause>> {
        let oid = oid(table)?;
        let session = self.session().await?;
        let mut causes = Vec::new();
        // Only a COPY straight into the table adds many rows at once: other operations go through a table of their own.
        let copies = method == Method::Native && operation == Mode::Insert;
        let triggers = session
            .query(TRIGGERS, &[&oid, &trigger_bits(operation)])
            .await
            .map_err(errors::statement)?;
        for row in &triggers {
            let (name, before): (String, bool) = (get(row, 0)?, get(row, 1)?);
            causes.push(match (before, copies) {
                (true, true) => Cause {
                    text: format!("BEFORE ROW trigger {name} must see each row before the next: COPY adds them one by one"),
                    decides: true,
                },
                (true, false) => Cause::shown(format!("BEFORE ROW trigger {name} runs for every row")),
                (false, _) => Cause::shown(format!("AFTER ROW trigger {name} runs for every row")),
            });
        }
        if copies {
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
        } else {
            causes.push(Cause::shown(match operation {
                Mode::Insert | Mode::Ignore => {
                    "INSERT adds rows one by one, however many a statement carries, multi-row VALUES and arrays alike; \
                     only COPY adds them a page at a time"
                }
                Mode::Upsert => "INSERT adds rows one by one, and replaces those that are there one by one",
                Mode::Update => "UPDATE adds a new version of each row, with a record of its own, by whichever method",
                Mode::Delete => {
                    "DELETE marks each row, with a record of its own, by whichever method; VACUUM takes it away"
                }
            }));
        }
        let shape = session
            .query_one(SHAPE, &[&oid])
            .await
            .map_err(errors::statement)?;
        let (indexes, references, children): (i64, i64, i64) =
            (get(&shape, 2)?, get(&shape, 3)?, get(&shape, 4)?);
        if indexes > 0 {
            let indexes = match indexes {
                1 => "1 index".to_owned(),
                many => format!("{many} indexes"),
            };
            causes.push(Cause::shown(match operation {
                Mode::Delete => format!("{indexes}: DELETE leaves them to VACUUM, by whichever method"),
                Mode::Update => format!(
                    "{indexes}: a record a row in each, unless no indexed column changes and the page has room for the \
                     new version (HOT)"
                ),
                _ => format!("{indexes}: a record a row in each, by whichever method"),
            }));
        }
        if references > 0 && operation != Mode::Delete {
            causes.push(Cause::shown(format!(
                "{}: each row looks up and locks the row that it names, by whichever method",
                Counted(references as u64, "foreign key")
            )));
        }
        if children > 0 && operation == Mode::Delete {
            causes.push(Cause::shown(format!(
                "{} of other tables: each row looks for those that name it, by whichever method",
                Counted(children as u64, "foreign key")
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

    #[test]
    fn a_trigger_is_told_again_for_another_table() {
        let made = "CREATE TRIGGER t BEFORE UPDATE OF a ON public.orders FOR EACH ROW EXECUTE FUNCTION f()";
        assert_eq!(
            retold(made, "public.orders", "\"copy\"").as_deref(),
            Some("CREATE TRIGGER t BEFORE UPDATE OF a ON \"copy\" FOR EACH ROW EXECUTE FUNCTION f()")
        );
        assert_eq!(retold(made, "public.order", "copy"), None);
    }
}
