//! Which table a name means, for a database that has no object ids.
//!
//! A run must go on in the table it began with and in no other, so a table that was dropped and made again
//! has to look different. SQLite reuses both the rowid in `sqlite_schema` and the root page of a dropped
//! table, and nothing can be made to happen at DROP. What it does keep is an order: a new table's row in
//! `sqlite_schema` comes after all rows there are, and VACUUM, ALTER TABLE and a dump keep the order of
//! tables. So the ledger has a **fence**, an empty table that is made anew whenever a run starts and some
//! table comes after it, and `tonnage_tables` holds a **generation** a name. The rules:
//!
//! - A table before the fence was there when the fence was made: its generation is the one on record.
//! - A table behind the fence is newer: one more than on record, or 1 where there is no record.
//! - While the fence's rowid is what it was when it was made, no VACUUM has renumbered `sqlite_schema`; then
//!   a table whose rowid is not the one on record took the name by RENAME: one more than on record.
//!
//! The identity is `name#generation`. It costs rows nothing, leaves the user's tables alone, and needs no
//! identity of the file: ledger and rows are one file, so they are copied, restored and deleted together.
//!
//! Limits: a table that is renamed counts as another one (so does a table whose name is changed in case
//! only). Another table that takes the name by RENAME *and* a VACUUM, both between two attempts of one run,
//! would go unnoticed if it is older than the fence. A table that is emptied is still the same table.

use rusqlite::{Connection, OptionalExtension};

/// Always empty: its place in `sqlite_schema` is what counts. The rowid it had there when it was made stands
/// in [`TABLES`] under its own name.
const FENCE: &str = "tonnage_fence";

/// Name, generation and rowid in `sqlite_schema` of every table there was when the fence was last made.
const TABLES: &str = "tonnage_tables";

/// What is on record of a name.
struct Record {
    generation: i64,
    /// Null where the name meant no table when the fence was made.
    schema_rowid: Option<i64>,
}

/// The identity of the table named exactly `name`, which is at `schema_rowid`.
pub(super) fn object(connection: &Connection, name: &str, schema_rowid: i64) -> rusqlite::Result<String> {
    let generation = match fence(connection)? {
        None => 1,
        Some(fence) => generation(&fence, record(connection, name)?.as_ref(), schema_rowid),
    };
    Ok(format!("{name}#{generation}"))
}

/// The fence as it is now.
struct Fence {
    schema_rowid: i64,
    /// Whether `sqlite_schema` has the numbering that the records speak of.
    as_recorded: bool,
}

fn fence(connection: &Connection) -> rusqlite::Result<Option<Fence>> {
    let schema_rowid: Option<i64> = connection
        .query_row(
            "SELECT rowid FROM sqlite_schema WHERE type = 'table' AND name = ?1",
            [FENCE],
            |row| row.get(0),
        )
        .optional()?;
    let Some(schema_rowid) = schema_rowid else {
        return Ok(None);
    };
    let recorded = record(connection, FENCE)?.and_then(|record| record.schema_rowid);
    Ok(Some(Fence {
        schema_rowid,
        as_recorded: recorded == Some(schema_rowid),
    }))
}

fn record(connection: &Connection, name: &str) -> rusqlite::Result<Option<Record>> {
    connection
        .query_row(
            &format!("SELECT generation, schema_rowid FROM {TABLES} WHERE name = ?1"),
            [name],
            |row| {
                Ok(Record {
                    generation: row.get(0)?,
                    schema_rowid: row.get(1)?,
                })
            },
        )
        .optional()
}

fn generation(fence: &Fence, record: Option<&Record>, schema_rowid: i64) -> i64 {
    let Some(record) = record else {
        return 1;
    };
    let renamed_in = match record.schema_rowid {
        None => true,
        Some(recorded) => fence.as_recorded && recorded != schema_rowid,
    };
    if renamed_in || schema_rowid > fence.schema_rowid {
        record.generation + 1
    } else {
        record.generation
    }
}

/// Brings records and fence up to date in the open transaction, so that whatever is made from now on looks
/// new.
pub(super) fn renew_fence(connection: &Connection) -> rusqlite::Result<()> {
    connection.execute_batch(&format!(
        "CREATE TABLE IF NOT EXISTS {TABLES} (name TEXT NOT NULL PRIMARY KEY, generation INTEGER NOT NULL,
         schema_rowid INTEGER) WITHOUT ROWID"
    ))?;
    let fence = fence(connection)?;
    let mut tables = connection.prepare(
        "SELECT name, rowid FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\'
         AND name NOT LIKE 'tonnage\\_%' ESCAPE '\\' ORDER BY rowid",
    )?;
    let tables: Vec<(String, i64)> = tables
        .query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?
        .collect::<rusqlite::Result<_>>()?;
    let mut current = Vec::with_capacity(tables.len());
    let mut is_current = fence.as_ref().is_some_and(|fence| fence.as_recorded);
    for (name, schema_rowid) in tables {
        let record = record(connection, &name)?;
        let generation = match &fence {
            None => 1,
            Some(fence) => {
                is_current &= schema_rowid < fence.schema_rowid;
                generation(fence, record.as_ref(), schema_rowid)
            }
        };
        is_current &=
            record.is_some_and(|r| r.generation == generation && r.schema_rowid == Some(schema_rowid));
        current.push((name, generation, schema_rowid));
    }
    if is_current {
        return Ok(());
    }
    connection.execute_batch(&format!(
        "DROP TABLE IF EXISTS {FENCE}; CREATE TABLE {FENCE} (here); UPDATE {TABLES} SET schema_rowid = NULL"
    ))?;
    let fence: i64 = connection.query_row(
        "SELECT rowid FROM sqlite_schema WHERE type = 'table' AND name = ?1",
        [FENCE],
        |row| row.get(0),
    )?;
    current.push((FENCE.to_owned(), 0, fence));
    let mut write = connection.prepare(&format!(
        "INSERT INTO {TABLES} (name, generation, schema_rowid) VALUES (?1, ?2, ?3)
         ON CONFLICT (name) DO UPDATE SET generation = excluded.generation,
         schema_rowid = excluded.schema_rowid"
    ))?;
    for record in current {
        write.execute(record)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identity(connection: &Connection, name: &str) -> String {
        let rowid = connection
            .query_row("SELECT rowid FROM sqlite_schema WHERE name = ?1", [name], |row| {
                row.get(0)
            })
            .unwrap();
        object(connection, name, rowid).unwrap()
    }

    /// Runs `before`, starts a run, runs `between`, and says whether `t` is still the table it was.
    fn same(before: &str, between: &str) -> bool {
        let connection = Connection::open_in_memory().unwrap();
        connection.execute_batch(before).unwrap();
        let first = identity(&connection, "t");
        renew_fence(&connection).unwrap();
        assert_eq!(
            identity(&connection, "t"),
            first,
            "starting a run changes nothing"
        );
        renew_fence(&connection).unwrap();
        assert_eq!(identity(&connection, "t"), first, "nor does a second one");
        connection.execute_batch(between).unwrap();
        let second = identity(&connection, "t");
        renew_fence(&connection).unwrap();
        assert_eq!(identity(&connection, "t"), second);
        first == second
    }

    #[test]
    fn a_table_is_the_same_until_it_is_made_again() {
        let made = "CREATE TABLE a (x); CREATE TABLE t (a PRIMARY KEY); CREATE INDEX i ON t (a);
                    CREATE TABLE z (x);";
        for (between, wanted) in [
            ("", true),
            ("INSERT INTO t VALUES (1); DELETE FROM t", true),
            (
                "ALTER TABLE t ADD COLUMN b; ALTER TABLE t RENAME COLUMN a TO c",
                true,
            ),
            ("CREATE TABLE b (x); CREATE INDEX j ON t (a); DROP TABLE z", true),
            ("DROP TABLE a; VACUUM", true),
            ("VACUUM; CREATE TABLE b (x); DROP TABLE a; VACUUM", true),
            ("DROP TABLE t; CREATE TABLE t (a PRIMARY KEY)", false),
            (
                "DROP TABLE z; DROP TABLE t; CREATE TABLE t (a PRIMARY KEY)",
                false,
            ),
            ("DROP TABLE t; CREATE TABLE t (a PRIMARY KEY); VACUUM", false),
            ("VACUUM; DROP TABLE t; CREATE TABLE t (a PRIMARY KEY)", false),
            (
                "DROP TABLE t; VACUUM; CREATE TABLE t (a PRIMARY KEY); VACUUM",
                false,
            ),
            ("DROP TABLE t; ALTER TABLE a RENAME TO t", false),
            (
                "CREATE TABLE t2 (a PRIMARY KEY); DROP TABLE t; ALTER TABLE t2 RENAME TO t",
                false,
            ),
        ] {
            assert_eq!(same(made, between), wanted, "{between}");
        }
        assert!(!same("CREATE TABLE t (a)", "DROP TABLE t; CREATE TABLE t (a)"));
    }

    #[test]
    fn a_name_that_was_away_when_a_run_started_comes_back_as_another_table() {
        let connection = Connection::open_in_memory().unwrap();
        connection.execute_batch("CREATE TABLE t (a)").unwrap();
        let first = identity(&connection, "t");
        renew_fence(&connection).unwrap();
        connection
            .execute_batch("DROP TABLE t; CREATE TABLE u (a)")
            .unwrap();
        renew_fence(&connection).unwrap();
        connection.execute_batch("ALTER TABLE u RENAME TO t").unwrap();
        assert_ne!(identity(&connection, "t"), first);
        connection.execute_batch("VACUUM").unwrap();
        assert_ne!(identity(&connection, "t"), first);
    }

    #[test]
    fn the_second_table_of_a_file_with_a_ledger_is_told_from_its_successor() {
        let connection = Connection::open_in_memory().unwrap();
        renew_fence(&connection).unwrap();
        connection.execute_batch("CREATE TABLE t (a)").unwrap();
        let first = identity(&connection, "t");
        renew_fence(&connection).unwrap();
        assert_eq!(identity(&connection, "t"), first);
        connection
            .execute_batch("DROP TABLE t; CREATE TABLE t (a)")
            .unwrap();
        assert_ne!(identity(&connection, "t"), first);
    }
}
