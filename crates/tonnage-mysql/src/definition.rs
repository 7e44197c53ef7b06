//! Whether a table is still what a writer was made for.
//!
//! Every transaction reads the table as its rows do, which takes a metadata lock that holds off DDL until the
//! transaction ends, and compares its definition with what that was when the writer was opened. This travels with the
//! claim of the ledger, as statements of one packet. A role that may not read the table asks a second time when its rows
//! are there and have locked it.

use mysql_async::{Conn, Row, prelude::Queryable};
use tonnage_core::{error::Result, table::TableName};

use super::{
    catalog::get,
    errors,
    ledger::literal,
    product::{Product, Version},
    types::quote_table,
};

/// A table's definition as it was.
pub(super) struct Definition {
    /// Locks the table and changes nothing; none where the role may not.
    lock: Option<String>,
    /// One row each, of which the last column counts.
    asks: Vec<String>,
    known: Vec<Option<String>>,
}

impl Definition {
    /// As it is now; none where there is no such table.
    pub async fn read(conn: &mut Conn, version: &Version, table: &TableName) -> Result<Option<Self>> {
        let name = quote_table(table);
        // The lock of a write, where the role may take it: with that of a read, an ALTER that has begun to copy the
        // table would have to wait for the transaction, and the transaction for it.
        let locks = [
            format!("SELECT 1 FROM {name} LIMIT 0 FOR UPDATE"),
            format!("SELECT 1 FROM {name} LIMIT 0"),
        ];
        let mut lock = None;
        for statement in locks {
            match conn.query_drop(&statement).await {
                Ok(()) => {
                    lock = Some(statement);
                    break;
                }
                Err(failure) => match errors::number(&failure) {
                    Some(number) if NOT_ALLOWED.contains(&number) => {}
                    Some(number) if GONE.contains(&number) => return Ok(None),
                    // As a view that has no rows of its own.
                    Some(_) => break,
                    None => return Err(errors::statement(failure)),
                },
            }
        }
        let mut definition = Self {
            lock,
            asks: Vec::new(),
            known: Vec::new(),
        };
        let candidates = [
            Some(format!("SHOW CREATE TABLE {name}")),
            made(conn, version, table).await?,
        ];
        for ask in candidates.into_iter().flatten() {
            match conn.query_first::<Row, _>(&ask).await {
                Ok(row) => definition.known.push(told(row)?),
                Err(failure) => match errors::number(&failure) {
                    Some(number) if GONE.contains(&number) => return Ok(None),
                    // What the role may not see it cannot compare.
                    Some(_) => continue,
                    None => return Err(errors::statement(failure)),
                },
            }
            definition.asks.push(ask);
        }
        Ok(Some(definition))
    }

    /// Whether a transaction is sure of the table from its beginning on.
    pub fn locks(&self) -> bool {
        self.lock.is_some()
    }

    /// The statements that lock the table and ask what it is.
    pub fn statements(&self) -> impl Iterator<Item = &str> {
        self.lock.iter().chain(&self.asks).map(String::as_str)
    }

    /// Whether the table is what it was, from the answers to [`Definition::statements`].
    pub fn is(&self, answers: Vec<Vec<Row>>) -> Result<bool> {
        let answers = answers.into_iter().skip(usize::from(self.locks()));
        let mut now = Vec::with_capacity(self.known.len());
        for rows in answers {
            now.push(told(rows.into_iter().next())?);
        }
        Ok(now == self.known)
    }
}

/// No such table, or no such database.
pub(super) const GONE: [u16; 3] = [1146, 1049, 1051];

/// Which table it is in OceanBase, whose tables of tables are not everyone's to read.
pub(super) const OCEANBASE_ID: &str = "SELECT CAST(t.table_id AS CHAR) FROM oceanbase.__all_table AS t \
    JOIN oceanbase.__all_database AS d ON d.database_id = t.database_id";

/// The role may not do this to the table, or to a column of it.
const NOT_ALLOWED: [u16; 3] = [1142, 1143, 1044];

/// The statement that tells which table of this name it is: see `catalog`.
async fn made(conn: &mut Conn, version: &Version, table: &TableName) -> Result<Option<String>> {
    let Some(schema) = &table.schema else {
        return Ok(None);
    };
    // Each node has numbers and times of its own.
    if version.is_galera {
        return Ok(None);
    }
    let of_tables = |column: &str| {
        format!(
            "SELECT CAST({column} AS CHAR) FROM information_schema.tables WHERE table_schema = {} AND table_name = {}",
            quote_text(schema),
            quote_text(&table.name)
        )
    };
    let of_storage = |view: &str| {
        let name = quote_text(&format!("{schema}/{}", table.name));
        format!("SELECT CAST(table_id AS CHAR) FROM information_schema.{view} WHERE name = {name}")
    };
    let numbered = match version.product {
        Product::MariaDb => of_storage("innodb_sys_tables"),
        Product::MySql => of_storage("innodb_tables"),
        Product::TiDb => of_tables("tidb_table_id"),
        Product::OceanBase => format!(
            "{OCEANBASE_ID} WHERE d.database_name = {} AND t.table_name = {}",
            quote_text(schema),
            quote_text(&table.name)
        ),
        Product::PolarDbX => return Ok(Some(of_tables("create_time"))),
    };
    match conn.query_first::<Row, _>(&numbered).await {
        Ok(Some(_)) => Ok(Some(numbered)),
        Ok(None) => Ok(Some(of_tables("create_time"))),
        // The privilege PROCESS is not everyone's.
        Err(failure) if errors::number(&failure).is_some() => Ok(Some(of_tables("create_time"))),
        Err(failure) => Err(errors::statement(failure)),
    }
}

/// Text in SQL. Plain where it can be: the information schema finds a table by a constant of its own character set.
pub(super) fn quote_text(text: &str) -> String {
    match text.contains('\\') {
        true => literal(text),
        false => format!("'{}'", text.replace('\'', "''")),
    }
}

/// What a row says of the table.
fn told(row: Option<Row>) -> Result<Option<String>> {
    let Some(mut row) = row else { return Ok(None) };
    let at = usize::from(row.len() > 1);
    let text: Option<String> = get(&mut row, at)?;
    Ok(text.map(|text| relevant(&text)))
}

/// A definition without what the rows move, the counter, and without indexes that refuse no row.
fn relevant(definition: &str) -> String {
    const COUNTER: &str = " AUTO_INCREMENT=";
    const INDEXES: [&str; 3] = ["  KEY ", "  FULLTEXT KEY ", "  SPATIAL KEY "];
    let mut kept = String::with_capacity(definition.len());
    for line in definition.lines() {
        if INDEXES.iter().any(|index| line.starts_with(index)) {
            continue;
        }
        let line = line.strip_suffix(',').unwrap_or(line);
        let counter = line.starts_with(')').then(|| line.find(COUNTER)).flatten();
        match counter {
            Some(at) => {
                let number = &line[at + COUNTER.len()..];
                kept.push_str(&line[..at]);
                kept.push_str(number.trim_start_matches(|c: char| c.is_ascii_digit()));
            }
            None => kept.push_str(line),
        }
        kept.push('\n');
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::relevant;

    #[test]
    fn a_counter_and_an_index_are_no_change() {
        let before = "CREATE TABLE `t` (\n  `id` int(11) NOT NULL AUTO_INCREMENT,\n  PRIMARY KEY (`id`)\n) \
                      ENGINE=InnoDB AUTO_INCREMENT=7 DEFAULT CHARSET=utf8mb4";
        let after = "CREATE TABLE `t` (\n  `id` int(11) NOT NULL AUTO_INCREMENT,\n  PRIMARY KEY (`id`),\n  \
                     KEY `i` (`id`)\n) ENGINE=InnoDB AUTO_INCREMENT=99 DEFAULT CHARSET=utf8mb4";
        assert_eq!(relevant(before), relevant(after));
        let other = after.replace("InnoDB", "MyISAM");
        assert_ne!(relevant(before), relevant(&other));
    }
}
