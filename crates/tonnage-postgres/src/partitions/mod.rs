//! A partitioned table, written partition by partition.
//!
//! COPY into a partition skips the routing of each row on the server, and lets lanes write different partitions. It is
//! done only where it means the same as COPY into the table: no statement trigger that would run or would not, no row
//! security, the same defaults for what the rows do not bring, the right to insert. The server checks every row against
//! the partition's bounds, so a row that was routed wrongly is refused, never misplaced.

mod bounds;
mod hash;

use std::{cmp::Ordering, collections::HashMap};

use arrow::{
    array::{Array, ArrayRef},
    row::{OwnedRow, Row, RowConverter, SortField},
};
use tokio_postgres::GenericClient;
use tonnage_core::{
    error::{Result, arrow_bug},
    parse::{ParseContext, parse_column},
    reject::Problems,
    router::{Router, SHARDS_MAX},
    table::{Equality, TableName},
    types::ColumnType,
};
use xxhash_rust::xxh3::xxh3_64;

use self::bounds::{Bound, Value, remainders};
use super::{
    catalog::{self, get},
    definition::TREE,
    errors,
};

/// How the table is partitioned: strategy, columns (0 for an expression), whether all operator classes are the types'
/// own, collations of the columns.
const STRATEGY: &str = "\
    SELECT p.partstrat::text, p.partattrs::int2[], \
           (SELECT pg_catalog.bool_and(o.opcdefault) FROM pg_catalog.pg_opclass o WHERE o.oid = ANY (p.partclass::oid[])), \
           p.partcollation::oid[] \
    FROM pg_catalog.pg_partitioned_table p WHERE p.partrelid = $1";

/// The partitions: name, bound, why it cannot be written by itself, columns that it fills otherwise than its table.
const PARTITIONS: &str = "\
    SELECT n.nspname::text, c.relname::text, pg_catalog.pg_get_expr(c.relpartbound, c.oid), \
           CASE WHEN c.relkind = 'f' THEN 'it is a foreign table' \
                WHEN pg_catalog.row_security_active(c.oid) THEN 'it has row security' \
                WHEN NOT pg_catalog.has_table_privilege(c.oid, 'INSERT') THEN 'the role may not insert into it' \
                WHEN coalesce((pg_catalog.to_jsonb(i) ->> 'inhdetachpending')::bool, false) THEN 'it is being detached' \
                WHEN EXISTS (SELECT FROM pg_catalog.pg_trigger t WHERE t.tgrelid = c.oid AND t.tgenabled <> 'D' \
                             AND t.tgtype & 1 = 0 AND t.tgtype & 4 <> 0) THEN 'it has a statement trigger' END, \
           ARRAY(SELECT a.attname::text FROM pg_catalog.pg_attribute a \
                 JOIN pg_catalog.pg_attribute b ON b.attrelid = c.oid AND b.attname = a.attname \
                 LEFT JOIN pg_catalog.pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum \
                 LEFT JOIN pg_catalog.pg_attrdef e ON e.adrelid = b.attrelid AND e.adnum = b.attnum \
                 WHERE a.attrelid = $1 AND a.attnum > 0 AND NOT a.attisdropped \
                   AND (a.attidentity <> '' OR pg_catalog.pg_get_expr(d.adbin, d.adrelid) \
                        IS DISTINCT FROM pg_catalog.pg_get_expr(e.adbin, e.adrelid))), \
           c.oid \
    FROM pg_catalog.pg_inherits i JOIN pg_catalog.pg_class c ON c.oid = i.inhrelid \
    JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace \
    WHERE i.inhparent = $1 ORDER BY n.nspname, c.relname";

const STATEMENT_TRIGGERS: &str = "\
    SELECT tgname::text FROM pg_catalog.pg_trigger \
    WHERE tgrelid = $1 AND NOT tgisinternal AND tgenabled <> 'D' AND tgtype & 1 = 0 AND tgtype & 4 <> 0 ORDER BY 1";

/// Bounds are read as text, which depends on the zone.
const SPELLING: &str = "BEGIN READ ONLY; SET LOCAL timezone = 'UTC'";

/// Object ids of the collations `C` and `POSIX`, in which text has the order of its bytes.
const BYTE_ORDER: [u32; 2] = [950, 951];

/// Where the rows of a partitioned table belong.
#[derive(Debug)]
pub(super) struct Partitions {
    /// The partitions; behind them the table itself, where a row may belong to none.
    tables: Vec<TableName>,
    /// The object ids of the partitions.
    oids: Vec<u32>,
    /// What [`TREE`] returned before they were read.
    tree: String,
    shards: Vec<String>,
    columns: Vec<String>,
    types: Vec<ColumnType>,
    brought: Vec<String>,
    identity: String,
    strategy: Strategy,
    /// Where rows go that no other shard takes: the default partition, or the table, which refuses them.
    rest: u16,
}

#[derive(Debug)]
enum Strategy {
    /// The shard of each remainder.
    Hash(Vec<u16>),
    /// Shards by their lower bounds, in order.
    Range(Vec<Span>),
    /// Shards by value.
    List(HashMap<OwnedRow, u16>),
}

#[derive(Debug)]
struct Span {
    from: Vec<Edge>,
    to: Vec<Edge>,
    shard: u16,
}

#[derive(Debug)]
enum Edge {
    Below,
    Value(OwnedRow),
    Above,
}

/// A partition as the catalogue has it.
struct Partition {
    table: TableName,
    oid: u32,
    bound: Bound,
    filled: Vec<String>,
}

impl Partitions {
    /// The table of a shard.
    pub fn table(&self, shard: u16) -> Option<&TableName> {
        self.tables.get(usize::from(shard))
    }

    /// The object id of a shard's partition; none of the table that they are the partitions of.
    pub fn oid(&self, shard: u16) -> Option<u32> {
        self.oids.get(usize::from(shard)).copied()
    }

    /// The partition of all rows that no other one takes.
    pub fn default(&self) -> Option<&TableName> {
        self.oid(self.rest).and(self.table(self.rest))
    }

    /// What the catalogue said of them: see [`Definition`](super::definition::Definition).
    pub fn tree(&self) -> &str {
        &self.tree
    }
}

/// The partitions of a partitioned table, or why they cannot be written one by one; none of another table.
pub(super) async fn find(
    client: &impl GenericClient,
    described: &catalog::Described,
) -> Result<Option<std::result::Result<Partitions, String>>> {
    if !described.partitioned {
        return Ok(None);
    }
    client.batch_execute(SPELLING).await.map_err(errors::statement)?;
    let read = read(client, described).await;
    client
        .batch_execute("ROLLBACK")
        .await
        .map_err(errors::statement)?;
    read.map(Some)
}

/// The router, or why there is none.
async fn read(
    client: &impl GenericClient,
    described: &catalog::Described,
) -> Result<std::result::Result<Partitions, String>> {
    let table = &described.table;
    let triggers = client.query(STATEMENT_TRIGGERS, &[&described.oid]).await;
    if let Some(trigger) = triggers.map_err(errors::statement)?.first() {
        let name: String = get(trigger, 0)?;
        return Ok(Err(format!("its statement trigger {name} must run")));
    }
    if described.row_security {
        return Ok(Err("it has row security".to_owned()));
    }
    let (columns, types) = match key(client, described).await? {
        Ok(key) => key,
        Err(why) => return Ok(Err(why)),
    };
    // Partitions that come or go while they are read are found to have changed by who writes to them.
    let tree = client.query_one(TREE, &[&described.oid]).await;
    let tree = get(&tree.map_err(errors::statement)?, 0)?;
    let rows = client
        .query(PARTITIONS, &[&described.oid])
        .await
        .map_err(errors::statement)?;
    if rows.len() >= SHARDS_MAX {
        return Ok(Err(format!(
            "its {} partitions are too many for a COPY each",
            rows.len()
        )));
    }
    let mut partitions = Vec::new();
    for row in &rows {
        let name = TableName {
            schema: Some(get(row, 0)?),
            name: get(row, 1)?,
        };
        let bound: Option<String> = get(row, 2)?;
        if let Some(why) = get::<Option<String>>(row, 3)? {
            return Ok(Err(format!("of its partition {name}, {why}")));
        }
        let Some(bound) = bound.as_deref().and_then(bounds::read) else {
            return Ok(Err(format!(
                "the bound of its partition {name} is not understood"
            )));
        };
        partitions.push(Partition {
            table: name,
            bound,
            filled: get(row, 4)?,
            oid: get(row, 5)?,
        });
    }
    if partitions.is_empty() {
        return Ok(Err("it has no partitions".to_owned()));
    }
    build(table.name.clone(), tree, columns, types, partitions)
}

/// The columns that decide where a row belongs, and their types; or why the client cannot decide it.
async fn key(
    client: &impl GenericClient,
    described: &catalog::Described,
) -> Result<std::result::Result<(Vec<String>, Vec<ColumnType>), String>> {
    let table = &described.table;
    let strategy = client.query_one(STRATEGY, &[&described.oid]).await;
    let strategy = strategy.map_err(errors::statement)?;
    let (kind, numbers): (String, Vec<i16>) = (get(&strategy, 0)?, get(&strategy, 1)?);
    let (plain, collations): (Option<bool>, Vec<u32>) = (get(&strategy, 2)?, get(&strategy, 3)?);
    let names = "SELECT attname::text FROM pg_catalog.pg_attribute WHERE attrelid = $1 AND attnum = $2";
    let mut columns = Vec::new();
    for number in numbers {
        let found = client.query_opt(names, &[&described.oid, &number]).await;
        match found.map_err(errors::statement)? {
            Some(row) if number > 0 => columns.push(get::<String>(&row, 0)?),
            _ => return Ok(Err("it is partitioned by an expression".to_owned())),
        }
    }
    if plain != Some(true) {
        return Ok(Err("it is partitioned by an operator class of its own".to_owned()));
    }
    let mut types = Vec::new();
    for (name, collation) in columns.iter().zip(collations) {
        let at = table.columns.iter().position(|c| c.name == *name);
        let known = at.and_then(|at| Some((&table.columns[at], described.columns.get(at)?)));
        let text = |ty: &ColumnType| matches!(ty, ColumnType::Text { .. });
        let ty = known
            .filter(|(column, server)| column.equality == Equality::Provable && server.cast.is_none())
            .and_then(|(column, _)| column.ty)
            .filter(hash::hashes)
            .filter(|ty| kind != "r" || !text(ty) || BYTE_ORDER.contains(&collation));
        match ty {
            Some(ty) => types.push(ty),
            None => {
                return Ok(Err(format!(
                    "only the server knows where values of {name} belong"
                )));
            }
        }
    }
    Ok(Ok((columns, types)))
}

fn build(
    table: TableName,
    tree: String,
    columns: Vec<String>,
    types: Vec<ColumnType>,
    partitions: Vec<Partition>,
) -> Result<std::result::Result<Partitions, String>> {
    let default = partitions.iter().position(|p| p.bound == Bound::Default);
    let none = default.unwrap_or(partitions.len()) as u16;
    let bounds: Vec<_> = partitions.iter().map(|p| p.bound.clone()).collect();
    let first = bounds.iter().find(|bound| **bound != Bound::Default);
    let strategy = match first {
        Some(Bound::Hash { .. }) => Some(Strategy::Hash(remainders(&bounds, none)?)),
        Some(Bound::List(_)) => list(&types, &bounds)?.map(Strategy::List),
        Some(Bound::Range(..)) => spans(&types, &bounds)?.map(Strategy::Range),
        Some(Bound::Default) | None => Some(Strategy::List(HashMap::new())),
    };
    let Some(strategy) = strategy else {
        return Ok(Err(
            "a value in the bounds of its partitions is not understood".to_owned()
        ));
    };
    let everywhere = matches!(&strategy, Strategy::Hash(shards) if !shards.contains(&none));
    let mut identity = columns.join(",");
    let oids = partitions.iter().map(|partition| partition.oid).collect();
    let mut tables = Vec::new();
    let mut brought: Vec<String> = Vec::new();
    for partition in partitions {
        identity.push_str(&format!("\n{} {:?}", partition.table, partition.bound));
        tables.push(partition.table);
        brought.extend(partition.filled);
    }
    if default.is_none() && !everywhere {
        tables.push(table);
    }
    brought.sort_unstable();
    brought.dedup();
    Ok(Ok(Partitions {
        shards: tables.iter().map(ToString::to_string).collect(),
        tables,
        oids,
        tree,
        columns,
        types,
        brought,
        identity: format!("{:016x}", xxh3_64(identity.as_bytes())),
        strategy,
        rest: none,
    }))
}

fn list(types: &[ColumnType], bounds: &[Bound]) -> Result<Option<HashMap<OwnedRow, u16>>> {
    let [ty] = types else { return Ok(None) };
    let mut shards = HashMap::new();
    for (shard, bound) in bounds.iter().enumerate() {
        let Bound::List(values) = bound else { continue };
        for value in values {
            let Some(row) = value_row(ty, value)? else {
                return Ok(None);
            };
            shards.insert(row, shard as u16);
        }
    }
    Ok(Some(shards))
}

fn spans(types: &[ColumnType], bounds: &[Bound]) -> Result<Option<Vec<Span>>> {
    let edges = |values: &[Value]| -> Result<Option<Vec<Edge>>> {
        let mut edges = Vec::new();
        for (ty, value) in types.iter().zip(values) {
            edges.push(match value {
                Value::Min => Edge::Below,
                Value::Max => Edge::Above,
                value => match value_row(ty, value)? {
                    Some(row) => Edge::Value(row),
                    None => return Ok(None),
                },
            });
        }
        Ok(Some(edges))
    };
    let mut spans = Vec::new();
    for (shard, bound) in bounds.iter().enumerate() {
        let Bound::Range(from, to) = bound else { continue };
        let (Some(from), Some(to)) = (edges(from)?, edges(to)?) else {
            return Ok(None);
        };
        spans.push(Span {
            from,
            to,
            shard: shard as u16,
        });
    }
    // Partitions do not overlap, so an order of their lower bounds is one of themselves.
    spans.sort_by(|a, b| edge_order(&a.from, &b.from));
    Ok(Some(spans))
}

fn edge_order(a: &[Edge], b: &[Edge]) -> Ordering {
    for (a, b) in a.iter().zip(b) {
        let order = match (a, b) {
            (Edge::Below, Edge::Below) | (Edge::Above, Edge::Above) => return Ordering::Equal,
            (Edge::Below, _) | (_, Edge::Above) => return Ordering::Less,
            (Edge::Above, _) | (_, Edge::Below) => return Ordering::Greater,
            (Edge::Value(a), Edge::Value(b)) => a.cmp(b),
        };
        if order != Ordering::Equal {
            return order;
        }
    }
    Ordering::Equal
}

/// How a key compares with a bound.
fn key_order(key: &[Row<'_>], bound: &[Edge]) -> Ordering {
    for (key, edge) in key.iter().zip(bound) {
        let order = match edge {
            Edge::Below => return Ordering::Greater,
            Edge::Above => return Ordering::Less,
            Edge::Value(value) => key.cmp(&value.row()),
        };
        if order != Ordering::Equal {
            return order;
        }
    }
    Ordering::Equal
}

fn converter(ty: &ColumnType) -> Result<RowConverter> {
    RowConverter::new(vec![SortField::new(ty.arrow())]).map_err(arrow_bug)
}

/// A value of a bound in the form in which values of its column are compared; none where it is not understood.
fn value_row(ty: &ColumnType, value: &Value) -> Result<Option<OwnedRow>> {
    let text = match value {
        Value::Null => None,
        Value::Text(text) => Some(text.as_bytes()),
        Value::Min | Value::Max => return Ok(None),
    };
    let mut problems = Problems::default();
    let array = parse_column(
        ty,
        "",
        [text].into_iter(),
        &ParseContext::default(),
        &mut problems,
    );
    if !problems.is_empty() {
        return Ok(None);
    }
    let rows = converter(ty)?.convert_columns(&[array]).map_err(arrow_bug)?;
    Ok(Some(rows.row(0).owned()))
}

impl Router for Partitions {
    fn shards(&self) -> &[String] {
        &self.shards
    }

    fn columns(&self) -> &[String] {
        &self.columns
    }

    fn brought(&self) -> &[String] {
        &self.brought
    }

    fn identity(&self) -> String {
        self.identity.clone()
    }

    fn route(&self, columns: &[ArrayRef]) -> Result<Vec<u16>> {
        let rows = columns.first().map_or(0, |column| column.len());
        if let Strategy::Hash(shards) = &self.strategy {
            let mut hashes = vec![0; rows];
            for (ty, column) in self.types.iter().zip(columns) {
                hash::add(&mut hashes, ty, column);
            }
            let modulus = shards.len() as u64;
            return Ok(hashes
                .into_iter()
                .map(|hash| shards[(hash % modulus) as usize])
                .collect());
        }
        let mut keys = Vec::with_capacity(columns.len());
        for (ty, column) in self.types.iter().zip(columns) {
            let converted = converter(ty)?.convert_columns(std::slice::from_ref(column));
            keys.push(converted.map_err(arrow_bug)?);
        }
        let shard = |row: usize| match &self.strategy {
            Strategy::List(shards) => {
                let found = keys.first().and_then(|keys| shards.get(&keys.row(row).owned()));
                found.copied().unwrap_or(self.rest)
            }
            Strategy::Range(_) if columns.iter().any(|column| column.is_null(row)) => self.rest,
            Strategy::Range(spans) => {
                let key: Vec<_> = keys.iter().map(|keys| keys.row(row)).collect();
                let after = spans.partition_point(|span| key_order(&key, &span.from) != Ordering::Less);
                let span = after.checked_sub(1).and_then(|at| spans.get(at));
                span.filter(|span| key_order(&key, &span.to) == Ordering::Less)
                    .map_or(self.rest, |span| span.shard)
            }
            Strategy::Hash(_) => self.rest,
        };
        Ok((0..rows).map(shard).collect())
    }

    fn separate_databases(&self) -> bool {
        false
    }
}
