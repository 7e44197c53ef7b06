//! What measuring needs: tables of its own, and the server's counters of log and pages.
//!
//! Counters are the whole server's, and need no privilege. InnoDB's log tells no records apart, so what is counted is
//! how often pages were changed: of the table, of its indexes, and of the undo log.

use async_trait::async_trait;
use mysql_async::prelude::Queryable;

use super::{
    MysqlTarget, catalog, errors,
    product::Product,
    types::{quote, quote_table},
};
use crate::{
    error::Result,
    measure::gauge::{Cause, Copied, Disk, Gauge, LogMark, Records},
    operation::Method,
    report::Counted,
    table::{Table, TableName},
};

/// Counters, by the names of MariaDB and MySQL.
const COUNTERS: &str = "SHOW GLOBAL STATUS WHERE Variable_name IN ('Innodb_lsn_current', 'Innodb_redo_log_current_lsn', \
                        'Innodb_os_log_written', 'Innodb_buffer_pool_write_requests')";

const TRIGGERS: &str = "SELECT concat('trigger ', trigger_name) FROM information_schema.triggers \
                        WHERE event_object_schema = ? AND event_object_table = ? AND event_manipulation = 'INSERT' \
                        ORDER BY action_timing, trigger_name";

const FOREIGN_KEYS: &str = "SELECT concat('foreign key ', constraint_name) \
                            FROM information_schema.referential_constraints \
                            WHERE constraint_schema = ? AND table_name = ? ORDER BY constraint_name";

const INDEXES: &str = "SELECT cast(count(DISTINCT index_name) AS char) FROM information_schema.statistics \
                       WHERE table_schema = ? AND table_name = ? AND index_name <> 'PRIMARY'";

impl MysqlTarget {
    /// The first column of a query about a table.
    async fn about(&self, sql: &str, table: &TableName) -> Result<Vec<String>> {
        let mut session = self.session().await?;
        let schema = table.schema.as_deref().unwrap_or(&self.settings.database);
        let mut rows = catalog::rows(&mut session.0, sql, &[schema, &table.name]).await?;
        rows.iter_mut().map(|row| catalog::get(row, 0)).collect()
    }

    async fn run(&self, sql: String) -> Result<()> {
        let mut session = self.session().await?;
        session.0.query_drop(sql).await.map_err(errors::statement)
    }
}

#[async_trait]
impl Gauge for MysqlTarget {
    async fn copy(&self, table: &Table, name: &str) -> Result<Copied> {
        let mut lacking = self.about(TRIGGERS, &table.name).await?;
        lacking.extend(self.about(FOREIGN_KEYS, &table.name).await?);
        let original = quote_table(&table.name);
        self.run(format!("CREATE TABLE {} LIKE {original}", quote(name)))
            .await?;
        Ok(Copied {
            target: None,
            table: TableName::bare(name),
            lacking,
        })
    }

    async fn discard(&self, name: &str) -> Result<()> {
        self.run(format!("DROP TABLE IF EXISTS {}", quote(name))).await
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
            &mut session.0,
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
        for mut row in catalog::rows(&mut session.0, COUNTERS, &[]).await? {
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

    async fn records(&self, _: &Table, from: &LogMark, to: &LogMark) -> Result<Records> {
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

    async fn causes(&self, table: &Table, method: Method, _: &[String]) -> Result<Vec<Cause>> {
        let mut causes = vec![Cause::shown(match method {
            Method::Native => {
                "LOAD DATA adds rows one by one, but into an empty table in a session without unique_checks and \
                 foreign_key_checks, which a load keeps on"
            }
            _ => "INSERT adds rows one by one, however many a statement carries",
        })];
        for what in self.about(TRIGGERS, &table.name).await? {
            causes.push(Cause::shown(format!("{what} runs for every row")));
        }
        for what in self.about(FOREIGN_KEYS, &table.name).await? {
            causes.push(Cause::shown(format!(
                "{what}: each row looks up the row that it names"
            )));
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
