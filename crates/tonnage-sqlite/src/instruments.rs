//! What measuring needs: scratch files next to the database, and the frames of their write-ahead logs.
//!
//! - The database's own file is only read. Every table that is measured with has a file of its own, of the same page size
//!   and journal, which is removed with its logs.
//! - Nobody moves the log of such a file before it has [`LOG_BYTES`], so until then its length counts every frame.

use std::{collections::BTreeMap, ffi::OsStr, net::SocketAddr, path::Path, sync::Arc};

use async_trait::async_trait;
use rusqlite::Connection;
use tonnage_core::{
    error::{Error, ErrorKind, Result},
    instruments::{
        Address, Cause, Copied, Disk, Instruments, LogMark, Making, Measured, Records, ScratchPlace, Servers,
        Storage, TableForm, Triggers, Work, no_way_to, not_by_tcp,
    },
    operation::{Method, Mode},
    report::Counted,
    table::{Table, TableName},
    target::Target,
};

use super::{
    SqliteTarget,
    checkpoint::LOG_BYTES,
    connect::{FileFormat, Journal, Location},
    errors::{self, Doing},
    sql::{self, quote},
};

/// Bytes of a log before its first frame, and of a frame before its page (<https://sqlite.org/fileformat2.html#walformat>).
const LOG_HEADER: u64 = 32;
const FRAME_HEADER: u64 = 24;

/// Bytes of a page, a power of two (<https://sqlite.org/pragma.html#pragma_page_size>).
const PAGE_BYTES: std::ops::RangeInclusive<u32> = 512..=65_536;

fn failed(failure: rusqlite::Error) -> Error {
    errors::error(failure, Doing::Else)
}

fn beside(path: &Path, ending: &str) -> std::path::PathBuf {
    let mut path = path.as_os_str().to_owned();
    path.push(ending);
    path.into()
}

impl SqliteTarget {
    /// A new file of this one's form, but for the size of its pages where that is given.
    async fn scratch_file(&self, location: Location, page_bytes: Option<u32>) -> Result<Self> {
        let own = self
            .on_existing(FileFormat::NEW, |connection| {
                FileFormat::of(connection).map_err(failed)
            })
            .await?;
        let form = FileFormat {
            page_bytes: page_bytes.unwrap_or(own.page_bytes),
            ..own
        };
        let making = location.clone();
        self.ledger.0.run(move |_| making.make(form)).await?;
        Self::open(location).await
    }
}

/// Bytes that this process has had written to disks, also those that are still on their way.
fn written_bytes() -> Option<u64> {
    let io = std::fs::read_to_string("/proc/self/io").ok()?;
    let bytes = io.lines().find_map(|line| line.strip_prefix("write_bytes:"))?;
    bytes.trim().parse().ok()
}

/// What a table is made of, and what is about it that its copy will not have.
struct Definition {
    statements: Vec<String>,
    lacking: Vec<String>,
}

/// With its triggers where they are asked for, and then with the other tables, empty, that these may write.
fn definition(connection: &Connection, name: &str, triggers: Triggers) -> Result<Definition> {
    let texts = |sql: &str| -> Result<Vec<String>> {
        let mut statement = connection.prepare(sql).map_err(failed)?;
        let found = statement.query_map([name], |row| row.get(0)).map_err(failed)?;
        found.collect::<rusqlite::Result<_>>().map_err(failed)
    };
    let statements = texts(match triggers {
        Triggers::LeftOut => {
            "SELECT sql FROM sqlite_schema WHERE tbl_name = ?1 COLLATE NOCASE AND type IN ('table', 'index') \
             AND sql IS NOT NULL ORDER BY type = 'index', rowid"
        }
        Triggers::Copied => {
            "SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' \
             AND (type <> 'trigger' OR tbl_name = ?1 COLLATE NOCASE) \
             ORDER BY type = 'trigger', type = 'view', type = 'index', rowid"
        }
    })?;
    let mut lacking = match triggers {
        Triggers::Copied => Vec::new(),
        Triggers::LeftOut => texts(
            "SELECT 'trigger ' || name FROM sqlite_schema WHERE tbl_name = ?1 COLLATE NOCASE AND type = 'trigger' \
             ORDER BY name",
        )?,
    };
    if !texts("SELECT \"table\" FROM pragma_foreign_key_list(?1)")?.is_empty() {
        lacking.push("checks of its foreign keys".to_owned());
    }
    Ok(Definition { statements, lacking })
}

#[async_trait]
impl Instruments for SqliteTarget {
    async fn through_proxy(&self, _: SocketAddr) -> Result<Arc<dyn Target>> {
        Err(no_way_to(self.address()))
    }

    async fn keep_log(&self) -> Result<Option<Box<dyn Send + Sync>>> {
        Ok(None)
    }

    fn place(&self, prefix: &str) -> ScratchPlace {
        ScratchPlace {
            shown: format!("files {}.{prefix}_*", self.location.shown()),
            outside_database: true,
        }
    }

    async fn scratch(&self, name: &str, page_bytes: Option<u32>) -> Result<Option<Arc<dyn Target>>> {
        let location = self.location.scratch(name);
        Ok(Some(Arc::new(self.scratch_file(location, page_bytes).await?)))
    }

    async fn obstacle(&self, form: &TableForm) -> Result<Option<String>> {
        let why = match (form.storage, form.page_bytes) {
            _ if form.partitions > 0 => "SQLite has no partitions",
            (Storage::Unlogged, _) => "SQLite has one log, or journal, for all tables of a file",
            (Storage::Compressed, _) => "SQLite compresses no tables",
            (_, Some(bytes)) if !bytes.is_power_of_two() || !PAGE_BYTES.contains(&bytes) => {
                "SQLite has pages of 512, 1k, 2k, 4k, 8k, 16k, 32k or 64k"
            }
            _ => return Ok(None),
        };
        Ok(Some(why.to_owned()))
    }

    async fn make(&self, making: &Making) -> Result<()> {
        // A key of one integer column is the rowid, which SQLite numbers where it is left out.
        let mut statements = vec![sql::create_table(&making.spec)?];
        let table = &making.spec.name.name;
        for (at, column) in making.indexed.iter().enumerate() {
            let index = quote(&format!("{table}_index_{}", at + 1));
            statements.push(format!(
                "CREATE INDEX {index} ON {} ({})",
                quote(table),
                quote(column)
            ));
        }
        let name = making.spec.name.to_string();
        self.ledger
            .0
            .run(move |control| {
                let connection = control.created()?.connection;
                for statement in &statements {
                    let made = connection.execute_batch(statement);
                    made.map_err(|failure| failed(failure).at(format!("table {name} cannot be created")))?;
                }
                Ok(())
            })
            .await
    }

    fn address(&self) -> Result<Address> {
        Err(not_by_tcp("SQLite is a file of this machine"))
    }

    async fn servers(&self) -> Result<Measured<Servers>> {
        Ok(Err(
            "SQLite works within this process, so what it takes of the processor is the client's".to_owned(),
        ))
    }

    async fn work(&self, _: Option<&Work>) -> Result<Work> {
        Ok(Work {
            log_flushes: Err("SQLite does not count them".to_owned()),
            written_bytes: written_bytes()
                .ok_or_else(|| "the system does not tell what this process writes".to_owned()),
            processor_seconds: None,
            sessions: Vec::new(),
        })
    }

    async fn copy(&self, table: &Table, name: &str, triggers: Triggers) -> Result<Copied> {
        let of = table.name.name.clone();
        let Definition { statements, lacking } = self
            .on_required(move |connection| definition(connection, &of, triggers))
            .await?;
        let location = Location {
            // The tables that they lead to are not there.
            foreign_keys: false,
            ..self.location.scratch(name)
        };
        let target = self.scratch_file(location, None).await?;
        target
            .on_required(move |connection| {
                for statement in &statements {
                    connection.execute_batch(statement).map_err(failed)?;
                }
                Ok(())
            })
            .await?;
        Ok(Copied {
            target: Some(Arc::new(target)),
            table: table.name.clone(),
            lacking,
        })
    }

    async fn samples(&self, _: &Table) -> Result<BTreeMap<String, String>> {
        Ok(BTreeMap::new())
    }

    async fn discard(&self, name: &str) -> Result<()> {
        let Location { path, .. } = self.location.scratch(name);
        for ending in ["", "-wal", "-shm", "-journal"] {
            let path = beside(&path, ending);
            match std::fs::remove_file(&path) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                    return Err(Error::new(
                        ErrorKind::Refused,
                        format!("{}: {error}", path.display()),
                    ));
                }
                _ => {}
            }
        }
        Ok(())
    }

    async fn left(&self, prefix: &str) -> Result<Vec<String>> {
        // Files next to the database, each with the logs that it may have.
        let start = self.location.scratch(prefix).path;
        let (Some(directory), Some(start)) = (start.parent(), start.file_name().and_then(OsStr::to_str))
        else {
            return Ok(Vec::new());
        };
        let failed = |error| Error::new(ErrorKind::Refused, format!("{}: {error}", directory.display()));
        let mut names = Vec::new();
        for entry in std::fs::read_dir(directory).map_err(failed)? {
            let file = entry.map_err(failed)?.file_name();
            if let Some(rest) = file.to_str().and_then(|file| file.strip_prefix(start)) {
                let rest = rest.split('-').next().unwrap_or(rest);
                names.push(format!("{prefix}{rest}"));
            }
        }
        Ok(names)
    }

    async fn disk(&self, _: &TableName) -> Result<Option<Disk>> {
        // The file holds nothing else.
        self.on_existing(None, |connection| {
            let of = |pragma: &str| -> Result<u64> {
                let sql = format!("PRAGMA {pragma}");
                let found: i64 = connection.query_row(&sql, [], |row| row.get(0)).map_err(failed)?;
                Ok(u64::try_from(found).unwrap_or_default())
            };
            let page_bytes = of("page_size")?;
            Ok(Some(Disk {
                rows_bytes: None,
                bytes: of("page_count")? * page_bytes,
                page_bytes,
            }))
        })
        .await
    }

    async fn log(&self) -> Result<Option<LogMark>> {
        let log = beside(&self.location.path, "-wal");
        self.on_existing(None, move |connection| {
            let form = FileFormat::of(connection).map_err(failed)?;
            let bytes = std::fs::metadata(log).map_or(0, |file| file.len());
            // From here on it may have begun anew.
            if form.journal != Journal::Wal || bytes >= LOG_BYTES {
                return Ok(None);
            }
            let frame = FRAME_HEADER + u64::from(form.page_bytes);
            Ok(Some(LogMark {
                bytes,
                changes: Some(bytes.saturating_sub(LOG_HEADER) / frame),
            }))
        })
        .await
    }

    async fn records(&self, _: &Table, _: Mode, from: &LogMark, to: &LogMark) -> Result<Records> {
        let (from_bytes, to_bytes) = (from.bytes, to.bytes);
        Ok(match (from.changes, to.changes) {
            (Some(from), Some(to)) => Records::Counted {
                what: "WAL frame",
                rows: to.saturating_sub(from),
                indexes: None,
                bytes: Some(to_bytes.saturating_sub(from_bytes)),
                image_bytes: 0,
                shared: false,
            },
            _ => Records::Unknown {
                why: "the file keeps no write-ahead log whose frames could be counted".to_owned(),
            },
        })
    }

    async fn causes(&self, table: &Table, _: Mode, method: Method, _: &[String]) -> Result<Vec<Cause>> {
        let name = table.name.name.clone();
        let (form, indexes, definition) = self
            .on_required(move |connection| {
                let form = FileFormat::of(connection).map_err(failed)?;
                let indexes: i64 = connection
                    .query_row("SELECT count(*) FROM pragma_index_list(?1)", [&name], |row| {
                        row.get(0)
                    })
                    .map_err(failed)?;
                Ok((form, indexes, definition(connection, &name, Triggers::LeftOut)?))
            })
            .await?;
        let mut causes = vec![Cause::shown(match (method, form.journal) {
            (_, Journal::Rollback) => {
                "with a rollback journal each commit writes a page as it was and as it is".to_owned()
            }
            (Method::Single, Journal::Wal) => format!(
                "each row is a commit, and a commit logs every page that it changes whole, {} bytes",
                form.page_bytes
            ),
            (_, Journal::Wal) => {
                "a commit logs every page that it changes once, whole, however many of its rows are there"
                    .to_owned()
            }
        })];
        if indexes > 0 {
            causes.push(Cause::shown(format!(
                "{} beside the table: rows that do not come in their order change more pages",
                Counted(indexes.unsigned_abs(), "index tree")
            )));
        }
        for what in definition.lacking {
            causes.push(Cause::shown(format!(
                "{what}: work for every row, by whichever method"
            )));
        }
        Ok(causes)
    }
}
