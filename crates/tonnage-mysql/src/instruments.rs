//! What measuring needs: tables of its own, and the server's counters of log and pages.
//!
//! Counters are the whole server's, and need no privilege. InnoDB's log tells no records apart, so what is counted is
//! how often pages were changed: of the table, of its indexes, and of the undo log.

use std::{collections::BTreeMap, net::SocketAddr, sync::Arc};

use async_trait::async_trait;
use mysql_async::prelude::Queryable;
use tonnage_core::{
    error::{Error, ErrorKind, Result},
    instruments::{
        Address, Cause, Copied, Disk, Instruments, Listening, LogMark, Making, Measured, Partitions, Records,
        ScratchPlace, Servers, Storage, TableForm, Triggers, Work, not_by_tcp,
    },
    operation::{Method, Mode},
    report::Counted,
    table::{Column, Table, TableName},
    target::Target,
    types::ColumnType,
};

use super::{
    MysqlTarget, catalog, errors,
    product::Product,
    settings::Endpoint,
    types::{self, quote, quote_table},
};

/// The point (0 0) as well-known binary.
const POINT: &str = "\\x010100000000000000000000000000000000000000";

/// Counters, by the names of MariaDB and MySQL.
const COUNTERS: &str = "SHOW GLOBAL STATUS WHERE Variable_name IN ('Innodb_lsn_current', 'Innodb_redo_log_current_lsn', \
                        'Innodb_os_log_written', 'Innodb_buffer_pool_write_requests')";

/// Flushes and bytes, and the processor time that MariaDB counts where `userstat` asks for it.
const WORK: &str = "SHOW GLOBAL STATUS WHERE Variable_name IN ('Innodb_os_log_fsyncs', 'Innodb_data_fsyncs', \
                    'Innodb_os_log_written', 'Innodb_data_written', 'Cpu_time')";

/// Triggers, and what fires them.
const TRIGGERS: &str = "SELECT concat('trigger ', trigger_name), event_manipulation FROM information_schema.triggers \
                        WHERE event_object_schema = ? AND event_object_table = ? \
                        ORDER BY action_timing, trigger_name";

/// What makes them, but for their names and the table's.
const TRIGGERS_MADE: &str = "SELECT action_timing, event_manipulation, action_statement \
                             FROM information_schema.triggers \
                             WHERE event_object_schema = ? AND event_object_table = ? \
                             ORDER BY action_timing, event_manipulation, action_order";

const FOREIGN_KEYS: &str = "SELECT concat('foreign key ', constraint_name) \
                            FROM information_schema.referential_constraints \
                            WHERE constraint_schema = ? AND table_name = ? ORDER BY constraint_name";

/// Foreign keys of others that lead to a table.
const CHILDREN: &str = "SELECT concat('foreign key ', constraint_name, ' of ', table_name) \
                        FROM information_schema.referential_constraints \
                        WHERE unique_constraint_schema = ? AND referenced_table_name = ? ORDER BY constraint_name";

const INDEXES: &str = "SELECT cast(count(DISTINCT index_name) AS char) FROM information_schema.statistics \
                       WHERE table_schema = ? AND table_name = ? AND index_name <> 'PRIMARY'";

/// Tables of the database.
const TABLES: &str = "SELECT table_name FROM information_schema.tables \
                      WHERE table_schema = database() AND table_type = 'BASE TABLE'";

/// How a table is kept.
const ROW_FORMAT: &str = "SELECT coalesce(row_format, '') FROM information_schema.tables \
                          WHERE table_schema = ? AND table_name = ?";

/// What compressed tables need: a file of their own, pages that are not too large, and that they are not only read.
const COMPRESSING: &str = "SHOW GLOBAL VARIABLES WHERE Variable_name IN \
                           ('innodb_file_per_table', 'innodb_page_size', 'innodb_read_only_compressed')";
/// The largest page of a server that has compressed tables.
const COMPRESSED_PAGE_BYTES_MAX: u64 = 16_384;

impl MysqlTarget {
    /// Why no table can be compressed; none where one can.
    async fn compresses_nothing(&self) -> Result<Option<String>> {
        let product = self.version.product;
        if !matches!(product, Product::MariaDb | Product::MySql) {
            return Ok(Some(format!("{} has no compressed row format", product.name())));
        }
        let mut session = self.session().await?;
        for mut row in catalog::rows(&mut session, COMPRESSING, &[]).await? {
            let (name, value): (String, String) = (catalog::get(&mut row, 0)?, catalog::get(&mut row, 1)?);
            let stands = match name.as_str() {
                "innodb_file_per_table" => value == "OFF",
                "innodb_read_only_compressed" => value == "ON",
                _ => value
                    .parse::<u64>()
                    .is_ok_and(|bytes| bytes > COMPRESSED_PAGE_BYTES_MAX),
            };
            if stands {
                return Ok(Some(format!(
                    "the server's {name} is {value}, with which no table is compressed"
                )));
            }
        }
        Ok(None)
    }

    /// The rows of a query about a table.
    async fn rows_about(&self, sql: &str, table: &TableName) -> Result<Vec<mysql_async::Row>> {
        let mut session = self.session().await?;
        let schema = table.schema.as_deref().unwrap_or(&self.settings.database);
        catalog::rows(&mut session, sql, &[schema, &table.name]).await
    }

    /// The first column of a query about a table.
    async fn about(&self, sql: &str, table: &TableName) -> Result<Vec<String>> {
        let mut rows = self.rows_about(sql, table).await?;
        rows.iter_mut().map(|row| catalog::get(row, 0)).collect()
    }

    /// The triggers that `operation` fires; all of them without one.
    async fn triggers(&self, table: &TableName, operation: Option<Mode>) -> Result<Vec<String>> {
        let fires = |event: &str| match operation {
            None => true,
            Some(Mode::Insert | Mode::Ignore) => event == "INSERT",
            Some(Mode::Upsert) => event != "DELETE",
            Some(Mode::Update) => event == "UPDATE",
            Some(Mode::Delete) => event == "DELETE",
        };
        let mut found = Vec::new();
        for row in &mut self.rows_about(TRIGGERS, table).await? {
            let (shown, event): (String, String) = (catalog::get(row, 0)?, catalog::get(row, 1)?);
            if fires(&event) {
                found.push(shown);
            }
        }
        Ok(found)
    }

    async fn run(&self, sql: String) -> Result<()> {
        let mut session = self.session().await?;
        session.query_drop(sql).await.map_err(errors::statement)
    }
}

/// What makes a table one of partitions, by a column that is a `timestamp` or else a `datetime`.
fn partitioned(partitions: &Partitions, zoned: bool) -> String {
    let column = quote(&partitions.column);
    // What a timestamp is as text depends on the session, so the server parts it by its number only.
    let (by, ends): (String, Vec<String>) = match zoned {
        true => (
            format!("RANGE (floor(unix_timestamp({column})))"),
            partitions.ends.iter().map(|end| format!("({end})")).collect(),
        ),
        false => (
            format!("RANGE COLUMNS ({column})"),
            partitions.shown().map(|end| format!("('{end}')")).collect(),
        ),
    };
    let last = if zoned { "MAXVALUE" } else { "(MAXVALUE)" };
    let ends = ends.iter().map(String::as_str).chain([last]).enumerate();
    let parts: Vec<String> = ends
        .map(|(index, end)| format!("PARTITION part_{} VALUES LESS THAN {end}", index + 1))
        .collect();
    format!(" PARTITION BY {by} ({})", parts.join(", "))
}

/// What the counters say, by their names in small letters.
fn work(counters: &BTreeMap<String, String>) -> Work {
    let count = |name: &str| counters.get(name)?.parse::<u64>().ok();
    let untold = || "the server does not count it".to_owned();
    // Which flushes were the log's is not counted everywhere; then all of them are.
    let flushes = count("innodb_os_log_fsyncs").or_else(|| count("innodb_data_fsyncs"));
    let written = count("innodb_os_log_written").zip(count("innodb_data_written"));
    let seconds = counters
        .get("cpu_time")
        .and_then(|value| value.parse::<f64>().ok());
    Work {
        log_flushes: flushes.ok_or_else(untold),
        written_bytes: written.map(|(log, data)| log + data).ok_or_else(untold),
        // It stays 0 unless it is asked for.
        processor_seconds: seconds.filter(|seconds| *seconds > 0.0),
        sessions: Vec::new(),
    }
}

#[async_trait]
impl Instruments for MysqlTarget {
    fn place(&self, prefix: &str) -> ScratchPlace {
        ScratchPlace::in_database(prefix)
    }

    async fn scratch(&self, _: &str, _: Option<u32>) -> Result<Option<Arc<dyn Target>>> {
        Ok(None)
    }

    async fn keep_log(&self) -> Result<Option<Box<dyn Send + Sync>>> {
        Ok(None)
    }

    fn address(&self) -> Result<Address> {
        match &self.settings.in_use().endpoint {
            Endpoint::Tcp { host, port } => Ok(Address {
                host: host.clone(),
                port: *port,
            }),
            socket => Err(not_by_tcp(&format!("{socket} is a socket of this machine"))
                .hint("name the host: mariadb://user@127.0.0.1/database")),
        }
    }

    async fn through_proxy(&self, local: SocketAddr) -> Result<Arc<dyn Target>> {
        self.address()?;
        let mut settings = self.settings.in_use();
        settings.way = Some(local);
        Ok(Arc::new(Self::connect(settings).await?))
    }

    async fn obstacle(&self, form: &TableForm) -> Result<Option<String>> {
        let product = self.version.product.name();
        if form.page_bytes.is_some() {
            return Ok(Some(format!(
                "the page size of a {product} server is chosen when its data directory is made"
            )));
        }
        match form.storage {
            Storage::Plain => Ok(None),
            Storage::Unlogged => Ok(Some(format!("{product} has no tables without a log"))),
            Storage::Compressed => self.compresses_nothing().await,
        }
    }

    async fn make(&self, making: &Making) -> Result<()> {
        let name = &making.spec.name;
        let mut created = self.create_statement(&making.spec)?;
        if making.storage == Storage::Compressed {
            created.push_str(" ROW_FORMAT=COMPRESSED");
        }
        if let Some(partitions) = &making.partitions {
            let column = making
                .spec
                .columns
                .iter()
                .find(|column| column.name == partitions.column);
            let zoned = column.is_some_and(|column| column.ty == ColumnType::TimestampTz);
            created.push_str(&partitioned(partitions, zoned));
        }
        let mut changes = Vec::new();
        let columns = making.spec.columns.iter();
        for column in columns.filter(|column| making.numbered.as_deref() == Some(&*column.name)) {
            let ty = match column.ty {
                ColumnType::Int32 => "int",
                _ => "bigint",
            };
            changes.push(format!(
                "MODIFY {} {ty} NOT NULL AUTO_INCREMENT",
                quote(&column.name)
            ));
        }
        let indexed = making.indexed.iter();
        changes.extend(indexed.map(|column| format!("ADD INDEX ({})", quote(column))));
        let mut statements = vec![created];
        if !changes.is_empty() {
            statements.push(format!(
                "ALTER TABLE {} {}",
                quote_table(name),
                changes.join(", ")
            ));
        }
        for statement in statements {
            let made = self.run(statement).await;
            made.map_err(|error| error.at(format!("cannot create {name}")))?;
        }
        // A server that is not strict makes another one, with a warning.
        if making.storage == Storage::Compressed {
            let format = self.about(ROW_FORMAT, name).await?;
            if !format
                .iter()
                .any(|format| format.eq_ignore_ascii_case("compressed"))
            {
                return Err(Error::new(
                    ErrorKind::Refused,
                    format!(
                        "the server made a table of row format {}, not a compressed one",
                        format.concat()
                    ),
                ));
            }
        }
        Ok(())
    }

    async fn servers(&self) -> Result<Measured<Servers>> {
        let listening = match &self.settings.in_use().endpoint {
            Endpoint::Socket(path) => Listening::Socket(path.clone()),
            Endpoint::Tcp { .. } => Listening::Tcp(self.address()?),
        };
        Ok(Ok(Servers {
            listening: vec![listening],
            programs: &["mariadbd", "mysqld"],
        }))
    }

    async fn work(&self, _: Option<&Work>) -> Result<Work> {
        let mut session = self.session().await?;
        let mut counters = BTreeMap::new();
        for mut row in catalog::rows(&mut session, WORK, &[]).await? {
            let (name, value): (String, String) = (catalog::get(&mut row, 0)?, catalog::get(&mut row, 1)?);
            counters.insert(name.to_ascii_lowercase(), value);
        }
        Ok(work(&counters))
    }

    async fn copy(&self, table: &Table, name: &str, triggers: Triggers) -> Result<Copied> {
        let mut lacking = match triggers {
            Triggers::Copied => Vec::new(),
            Triggers::LeftOut => self.triggers(&table.name, None).await?,
        };
        lacking.extend(self.about(FOREIGN_KEYS, &table.name).await?);
        let original = quote_table(&table.name);
        self.run(format!("CREATE TABLE {} LIKE {original}", quote(name)))
            .await?;
        if triggers == Triggers::Copied {
            let mut made = self.rows_about(TRIGGERS_MADE, &table.name).await?;
            for (index, row) in made.iter_mut().enumerate() {
                let (timing, event): (String, String) = (catalog::get(row, 0)?, catalog::get(row, 1)?);
                let body: String = catalog::get(row, 2)?;
                // They go with the table. Names of triggers are those of the whole database.
                self.run(format!(
                    "CREATE TRIGGER {} {timing} {event} ON {} FOR EACH ROW {body}",
                    quote(&format!("{name}_{index}")),
                    quote(name)
                ))
                .await?;
            }
        }
        Ok(Copied {
            target: None,
            table: TableName::bare(name),
            lacking,
        })
    }

    /// The first label of an enumeration, the set of none, an address; a geometry is a point.
    async fn samples(&self, table: &Table) -> Result<BTreeMap<String, String>> {
        let sample = |column: &Column| {
            let declared = column.declared.to_ascii_lowercase();
            if declared.starts_with("enum(") {
                return types::labels(&column.declared)?.into_iter().next();
            }
            match declared.as_str() {
                "inet4" => Some("192.0.2.1".to_owned()),
                "inet6" => Some("2001:db8::1".to_owned()),
                declared if declared.starts_with("set(") => Some(String::new()),
                "geometry" | "point" => Some(POINT.to_owned()),
                _ => None,
            }
        };
        let columns = table.columns.iter();
        Ok(columns
            .filter_map(|column| Some((column.name.clone(), sample(column)?)))
            .collect())
    }

    async fn discard(&self, name: &str) -> Result<()> {
        self.run(format!("DROP TABLE IF EXISTS {}", quote(name))).await
    }

    async fn left(&self, prefix: &str) -> Result<Vec<String>> {
        let mut session = self.session().await?;
        let mut names = Vec::new();
        for row in &mut catalog::rows(&mut session, TABLES, &[]).await? {
            let name: String = catalog::get(row, 0)?;
            if name.starts_with(prefix) {
                names.push(name);
            }
        }
        Ok(names)
    }

    async fn disk(&self, table: &TableName) -> Result<Option<Disk>> {
        if self.version.product == Product::TiDb {
            return Ok(None);
        }
        // Without it the sizes are those of some time ago.
        self.run(format!("ANALYZE NO_WRITE_TO_BINLOG TABLE {}", quote_table(table)))
            .await?;
        let mut session = self.session().await?;
        let schema = table.schema.as_deref().unwrap_or(&self.settings.database);
        let mut rows = catalog::rows(
            &mut session,
            "SELECT data_length, index_length, @@innodb_page_size FROM information_schema.tables \
             WHERE table_schema = ? AND table_name = ?",
            &[schema, &table.name],
        )
        .await?;
        let Some(row) = rows.first_mut() else {
            return Ok(None);
        };
        let rows_bytes: Option<u64> = catalog::get(row, 0)?;
        let index_bytes: Option<u64> = catalog::get(row, 1)?;
        let page_bytes: u64 = catalog::get(row, 2)?;
        Ok(rows_bytes.map(|bytes| Disk {
            rows_bytes,
            bytes: bytes + index_bytes.unwrap_or_default(),
            page_bytes,
        }))
    }

    async fn log(&self) -> Result<Option<LogMark>> {
        let mut session = self.session().await?;
        let mut bytes = None;
        let mut written = None;
        let mut changes = None;
        for mut row in catalog::rows(&mut session, COUNTERS, &[]).await? {
            let name: String = catalog::get(&mut row, 0)?;
            let value: String = catalog::get(&mut row, 1)?;
            let value = value.parse().ok();
            match name.to_ascii_lowercase().as_str() {
                "innodb_os_log_written" => written = value,
                "innodb_buffer_pool_write_requests" => changes = value,
                _ => bytes = value,
            }
        }
        // What was written is rounded up to blocks; where the log is tells more.
        Ok(bytes.or(written).map(|bytes| LogMark { bytes, changes }))
    }

    async fn records(&self, _: &Table, _: Mode, from: &LogMark, to: &LogMark) -> Result<Records> {
        Ok(match (from.changes, to.changes) {
            (Some(from), Some(to)) => Records::Counted {
                what: "page change",
                rows: to.saturating_sub(from),
                indexes: None,
                bytes: None,
                image_bytes: 0,
                shared: true,
            },
            _ => Records::Unknown {
                why: "the server does not count changes of pages".to_owned(),
            },
        })
    }

    async fn causes(
        &self,
        table: &Table,
        operation: Mode,
        method: Method,
        _: &[String],
    ) -> Result<Vec<Cause>> {
        let mut causes = vec![Cause::shown(match (operation, method) {
            (Mode::Insert, Method::Native) => {
                "LOAD DATA adds rows one by one, but into an empty table in a session without unique_checks and \
                 foreign_key_checks, which a load keeps on"
            }
            (Mode::Insert | Mode::Ignore, _) => {
                "INSERT adds rows one by one, however many a statement carries"
            }
            (Mode::Upsert, _) => "INSERT adds rows one by one, and replaces those that are there one by one",
            (Mode::Update, _) => {
                "UPDATE changes rows one by one, and keeps what each was before in the undo log"
            }
            (Mode::Delete, _) => {
                "DELETE marks rows one by one, and keeps them in the undo log until they are purged"
            }
        })];
        for what in self.triggers(&table.name, Some(operation)).await? {
            causes.push(Cause::shown(format!("{what} runs for every row")));
        }
        if operation != Mode::Delete {
            for what in self.about(FOREIGN_KEYS, &table.name).await? {
                causes.push(Cause::shown(format!(
                    "{what}: each row looks up the row that it names"
                )));
            }
        } else {
            for what in self.about(CHILDREN, &table.name).await? {
                causes.push(Cause::shown(format!(
                    "{what}: each row looks for those that name it"
                )));
            }
        }
        let indexes = self.about(INDEXES, &table.name).await?;
        let indexes: u64 = indexes
            .first()
            .and_then(|count| count.parse().ok())
            .unwrap_or_default();
        if indexes > 0 {
            causes.push(Cause::shown(format!(
                "{} beside the rows: more changes of pages a row, by whichever method",
                Counted(indexes, "tree")
            )));
        }
        Ok(causes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_counted_is_not_told() {
        let of = |counters: &[(&str, &str)]| {
            let counters = counters
                .iter()
                .map(|(name, value)| (name.to_string(), value.to_string()));
            work(&counters.collect())
        };
        let all = [
            ("innodb_os_log_fsyncs", "7"),
            ("innodb_data_fsyncs", "30"),
            ("innodb_os_log_written", "512"),
            ("innodb_data_written", "16384"),
            ("cpu_time", "1.25"),
        ];
        let found = of(&all);
        assert_eq!((found.log_flushes, found.written_bytes), (Ok(7), Ok(16_896)));
        assert_eq!(found.processor_seconds, Some(1.25));
        assert_eq!(of(&all[1..]).log_flushes, Ok(30));
        let found = of(&[("cpu_time", "0.000000"), ("innodb_os_log_written", "512")]);
        assert!(found.log_flushes.is_err() && found.written_bytes.is_err());
        assert_eq!(found.processor_seconds, None);
    }
}
