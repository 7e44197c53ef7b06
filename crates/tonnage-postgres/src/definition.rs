//! Whether a table is still what a writer was made for.
//!
//! Every transaction locks the table as its rows do (`ROW EXCLUSIVE`, which holds off whatever could change it or take
//! its name until the transaction ends), and compares what the catalogue says of the table that has the name then with
//! what it said when the writer was opened. Both statements are prepared, and travel with the claim of the ledger. A
//! role that may not lock the table, as one that has rights on some columns only, asks a second time when its rows are
//! there and have locked it.

use tokio_postgres::{Client, Statement, error::SqlState, types::ToSql};
use tonnage_core::{error::Result, table::TableName};

use super::{catalog::get, errors, types::quote_table};

/// What decides on what becomes of rows: which table the name leads to, its columns, what rewrites or refuses rows. For
/// a partition, or a table of which partitions are written by themselves (`$2`), also the defaults, the bound, and
/// the partitions: one that is detached, or attached again, has another row in `pg_inherits`.
const DEFINITION: &str = "\
    SELECT c.oid, pg_catalog.concat_ws('|', c.oid, c.relkind, c.relpersistence, c.relrowsecurity, c.relforcerowsecurity, \
        ARRAY(SELECT pg_catalog.concat_ws(',', a.attnum, pg_catalog.quote_ident(a.attname), a.atttypid, a.atttypmod, \
                     a.attnotnull, a.attidentity, a.attgenerated, a.attcollation, \
                     CASE WHEN $2 AND a.atthasdef THEN (SELECT d.oid FROM pg_catalog.pg_attrdef d \
                          WHERE d.adrelid = a.attrelid AND d.adnum = a.attnum) END) \
              FROM pg_catalog.pg_attribute a \
              WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum), \
        CASE WHEN c.relhasrules THEN \
            ARRAY(SELECT pg_catalog.concat_ws(',', r.oid, r.ev_enabled) FROM pg_catalog.pg_rewrite r \
                  WHERE r.ev_class = c.oid ORDER BY r.oid) ELSE '{}'::text[] END, \
        CASE WHEN c.relhastriggers THEN \
            ARRAY(SELECT pg_catalog.concat_ws(',', t.oid, t.tgtype, t.tgfoid, t.tgenabled) FROM pg_catalog.pg_trigger t \
                  WHERE t.tgrelid = c.oid AND NOT t.tgisinternal ORDER BY t.oid) ELSE '{}'::text[] END, \
        CASE WHEN $2 THEN pg_catalog.pg_get_expr(c.relpartbound, c.oid) END), \
        CASE WHEN $2 THEN \
            ARRAY(SELECT pg_catalog.concat_ws(',', i.inhrelid, i.xmin) FROM pg_catalog.pg_inherits i \
                  WHERE i.inhparent = c.oid ORDER BY i.inhrelid)::text END \
    FROM pg_catalog.pg_class c WHERE c.oid = pg_catalog.to_regclass($1)";

/// The partitions of a table, as [`DEFINITION`] has them.
pub(super) const TREE: &str = "\
    SELECT ARRAY(SELECT pg_catalog.concat_ws(',', i.inhrelid, i.xmin) FROM pg_catalog.pg_inherits i \
                 WHERE i.inhparent = $1 ORDER BY i.inhrelid)::text";

/// Whether the role may lock the table as its rows do, and whether it is partitioned.
const MAY_LOCK: &str = "\
    SELECT c.relkind IN ('r', 'p') \
           AND pg_catalog.has_table_privilege(c.oid, 'INSERT, UPDATE, DELETE, TRUNCATE'), \
           c.relkind = 'p' \
    FROM pg_catalog.pg_class c WHERE c.oid = pg_catalog.to_regclass($1)";

/// A table and all its partitions, at whatever depth.
const PARTITIONS: &str = "\
    WITH RECURSIVE tree(oid) AS ( \
        SELECT $1::oid \
        UNION ALL \
        SELECT i.inhrelid FROM pg_catalog.pg_inherits i JOIN tree ON i.inhparent = tree.oid) \
    SELECT pg_catalog.array_agg(oid) FROM tree";

/// What is asked of a table.
pub(super) struct DefinitionQuery<'a> {
    pub table: &'a TableName,
    /// Whether it is a partition that is written by itself, or a table of which such are.
    pub as_partition: bool,
    /// A table that is locked together with it.
    pub beside: Option<&'a TableName>,
}

/// A table's definition as it was.
pub(super) struct Definition {
    name: String,
    as_partition: bool,
    oid: u32,
    known: String,
    tree: Option<String>,
    /// The table and its partitions; none where it is not partitioned.
    partitions: Vec<u32>,
    ask: Statement,
    lock: Option<Statement>,
}

impl Definition {
    /// As it is now; none where the name leads to nothing.
    pub async fn read(client: &Client, watched: DefinitionQuery<'_>) -> Result<Option<Self>> {
        let name = quote_table(watched.table);
        let ask = client.prepare(DEFINITION).await.map_err(errors::statement)?;
        let may_lock = client.query_opt(MAY_LOCK, &[&name]).await;
        let Some(may_lock) = may_lock.map_err(errors::statement)? else {
            return Ok(None);
        };
        let lock = match get(&may_lock, 0)? {
            true => {
                let beside = watched
                    .beside
                    .map(|table| format!(", ONLY {}", quote_table(table)));
                let lock = format!(
                    "LOCK TABLE ONLY {name}{} IN ROW EXCLUSIVE MODE",
                    beside.unwrap_or_default()
                );
                Some(client.prepare(&lock).await.map_err(errors::statement)?)
            }
            false => None,
        };
        let now = client.query_opt(&ask, &[&name, &watched.as_partition]).await;
        let Some(row) = now.map_err(errors::statement)? else {
            return Ok(None);
        };
        let oid = get(&row, 0)?;
        Ok(Some(Self {
            oid,
            known: get(&row, 1)?,
            tree: get(&row, 2)?,
            partitions: match get(&may_lock, 1)? {
                true => partitions(client, oid).await?,
                false => Vec::new(),
            },
            as_partition: watched.as_partition,
            name,
            ask,
            lock,
        }))
    }

    /// The table that the name led to.
    pub fn oid(&self) -> u32 {
        self.oid
    }

    /// Whether its partitions are those that [`TREE`] returned.
    pub fn tree_is(&self, tree: &str) -> bool {
        self.tree.as_deref() == Some(tree)
    }

    /// Whether a partition is gone, so that the table takes rows no longer that it took. One that was added harms nobody.
    pub async fn has_lost_partition(&self, client: &Client) -> Result<bool> {
        if self.partitions.is_empty() {
            return Ok(false);
        }
        let now = partitions(client, self.oid).await?;
        Ok(self.partitions.iter().any(|known| !now.contains(known)))
    }

    /// Whether a transaction is sure of the table from its beginning on.
    pub fn locks(&self) -> bool {
        self.lock.is_some()
    }

    /// Locks the table and says whether it is what it was; in the open transaction.
    pub async fn holds(&self, client: &Client) -> Result<bool> {
        let lock = async {
            match &self.lock {
                Some(lock) => client.execute(lock, &[]).await.map(|_| ()),
                None => Ok(()),
            }
        };
        // One round trip: what the catalogue says is read behind the lock.
        let asked: [&(dyn ToSql + Sync); 2] = [&self.name, &self.as_partition];
        let (locked, now) = futures::join!(lock, client.query_opt(&self.ask, &asked));
        match locked.and(now) {
            Ok(Some(row)) => {
                Ok(get::<&str>(&row, 1)? == self.known
                    && get::<Option<&str>>(&row, 2)? == self.tree.as_deref())
            }
            Ok(None) => Ok(false),
            Err(error) if is_gone(&error) => Ok(false),
            Err(error) => Err(errors::statement(error)),
        }
    }
}

async fn partitions(client: &Client, oid: u32) -> Result<Vec<u32>> {
    let found = client.query_one(PARTITIONS, &[&oid]).await;
    get(&found.map_err(errors::statement)?, 0)
}

/// Whether the server has found no partition for a row. It shares its code with constraints, which have names.
pub(super) fn is_without_partition(error: &tokio_postgres::Error) -> bool {
    error
        .as_db_error()
        .is_some_and(|db| *db.code() == SqlState::CHECK_VIOLATION && db.constraint().is_none())
}

/// The name leads to nothing, or to what is no table.
fn is_gone(error: &tokio_postgres::Error) -> bool {
    const GONE: [&SqlState; 3] = [
        &SqlState::UNDEFINED_TABLE,
        &SqlState::INVALID_SCHEMA_NAME,
        &SqlState::WRONG_OBJECT_TYPE,
    ];
    error.code().is_some_and(|code| GONE.contains(&code))
}
