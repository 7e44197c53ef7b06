//! What the cluster knows of keyspaces and tables.

use scylla::client::session::Session;
use tonnage_core::{
    error::{Error, Result},
    table::{Column, Equality, Key, LessDurable, Loss, Table, TableIdentity, TableName, find_by_name},
};

use super::{
    errors,
    types::{Kind, quote},
};

/// How far clocks may be apart before it is said.
const CLOCK_MILLIS_MAX: i64 = 200;

/// A table as this target needs it.
#[derive(Debug, Clone)]
pub(super) struct Described {
    pub table: Table,
    pub keyspace: String,
    /// How the values of each column are encoded; none where they cannot be.
    pub kinds: Vec<Option<Kind>>,
    /// Positions of the columns of the partition key, in its order.
    pub partition: Vec<usize>,
    /// Positions of the columns that order a partition's rows.
    pub clustering: Vec<usize>,
    /// Whether some columns belong to a partition rather than to its rows.
    pub has_static: bool,
}

impl Described {
    /// Its name in CQL.
    pub fn quoted(&self) -> String {
        format!("{}.{}", quote(&self.keyspace), quote(&self.table.name.name))
    }

    /// The columns of the partition key, in CQL.
    pub fn partition_quoted(&self) -> String {
        let names = self
            .partition
            .iter()
            .map(|at| quote(&self.table.columns[*at].name));
        names.collect::<Vec<_>>().join(", ")
    }

    /// Whether a column may be null in what is read. A partition that has values of static columns and no rows is read
    /// as a row without its clustering columns.
    pub fn may_lack(&self, name: &str) -> bool {
        self.position(name).is_none_or(|at| {
            !self.partition.contains(&at) && (self.has_static || !self.clustering.contains(&at))
        })
    }

    /// A column's place.
    pub fn position(&self, name: &str) -> Option<usize> {
        self.table.columns.iter().position(|column| column.name == name)
    }
}

/// Rows of text of a query on the system's tables.
async fn texts<R>(session: &Session, cql: &str, values: Vec<String>) -> Result<Vec<R>>
where
    R: for<'a> scylla::deserialize::row::DeserializeRow<'a, 'a>,
{
    let failed = |error| errors::execution(error, errors::Doing::Else);
    let unlike =
        |cause: &dyn std::fmt::Display| Error::bug(format!("the catalogue is not as expected: {cause}"));
    let found = session.query_unpaged(cql, values).await.map_err(failed)?;
    let found = found.into_rows_result().map_err(|cause| unlike(&cause))?;
    let rows = found.rows::<R>().map_err(|cause| unlike(&cause))?;
    rows.collect::<std::result::Result<_, _>>()
        .map_err(|cause| unlike(&cause))
}

/// The database and its version, and the name of its cluster.
pub(super) async fn product(session: &Session) -> Result<(String, String)> {
    let cql = "SELECT cluster_name, release_version, partitioner FROM system.local WHERE key = 'local'";
    let local: Vec<(String, String, String)> = texts(session, cql, Vec::new()).await?;
    let (cluster, release, partitioner) = local
        .into_iter()
        .next()
        .ok_or_else(|| Error::bug("a node that does not know itself"))?;
    check_partitioner(&partitioner)?;
    let cql = "SELECT version FROM system.versions WHERE key = 'local'";
    let scylla: Result<Vec<(String,)>> = texts(session, cql, Vec::new()).await;
    let product = match scylla.ok().and_then(|rows| rows.into_iter().next()) {
        Some((version,)) => format!("ScyllaDB {version}"),
        None => format!("Cassandra {release}"),
    };
    Ok((product, cluster))
}

/// Refuses a cluster whose tokens are other numbers: ranges of them would leave rows out.
fn check_partitioner(partitioner: &str) -> Result<()> {
    let name = partitioner.rsplit('.').next().unwrap_or_default();
    match name {
        "Murmur3Partitioner" => Ok(()),
        other => Err(Error::config(format!(
            "the cluster's partitioner is {other}, whose tokens are not known here"
        ))
        .hint("a cluster with the Murmur3Partitioner, the default since Cassandra 1.2, can be used")),
    }
}

/// What to say where this machine's clock, by which rows are stamped, is not that of a node.
pub(super) async fn clock(session: &Session) -> Result<Option<String>> {
    let cql = "SELECT toUnixTimestamp(now()) FROM system.local WHERE key = 'local'";
    let before = super::since_1970().as_millis();
    let rows: Vec<(i64,)> = texts(session, cql, Vec::new()).await?;
    let after = super::since_1970().as_millis();
    let Some((node,)) = rows.into_iter().next() else {
        return Ok(None);
    };
    let [before, after] = [before, after].map(|millis| i64::try_from(millis).unwrap_or(i64::MAX));
    Ok(off(before, node, after))
}

/// The same of milliseconds: those of a node are between two of this machine's, unless a clock is off.
fn off(before: i64, node: i64, after: i64) -> Option<String> {
    let seconds = |millis: i64| format!("{}.{} s", millis / 1_000, millis % 1_000 / 100);
    if node > after.saturating_add(CLOCK_MILLIS_MAX) {
        return Some(format!(
            "this machine's clock is {} behind a node's: what others have written in that time wins over rows of this \
             load",
            seconds(node - after)
        ));
    }
    (node < before.saturating_sub(CLOCK_MILLIS_MAX)).then(|| {
        format!(
            "this machine's clock is {} ahead of a node's: what others write in that time loses against rows of this \
             load",
            seconds(before - node)
        )
    })
}

/// The tables of a keyspace.
pub(super) async fn names(session: &Session, keyspace: &str) -> Result<Vec<String>> {
    let cql = "SELECT table_name FROM system_schema.tables WHERE keyspace_name = ?";
    let rows: Vec<(String,)> = texts(session, cql, vec![keyspace.to_owned()]).await?;
    Ok(rows.into_iter().map(|(name,)| name).collect())
}

/// The error of a keyspace that is missing; none where it is there.
pub(super) async fn check_keyspace(session: &Session, keyspace: &str) -> Result<()> {
    let cql = "SELECT keyspace_name FROM system_schema.keyspaces";
    let rows: Vec<(String,)> = texts(session, cql, Vec::new()).await?;
    let known: Vec<&str> = rows.iter().map(|(name,)| name.as_str()).collect();
    if known.contains(&keyspace) {
        return Ok(());
    }
    let error = Error::config(format!("there is no keyspace '{keyspace}'"));
    let own: Vec<_> = known
        .iter()
        .filter(|name| !name.starts_with("system"))
        .copied()
        .collect();
    Err(match own.as_slice() {
        [] => error.hint("make it with CREATE KEYSPACE: how often its rows are kept is for you to say"),
        own => error.hint(format!("there are {}", own.join(", "))),
    })
}

/// In what the tables of a keyspace are less durable than the ledger: with `durable_writes = false` they have no commit
/// log, so a node that is killed loses what it had not yet written to its tables' files.
async fn less_durable(session: &Session, keyspace: &str) -> Result<Option<LessDurable>> {
    let cql = "SELECT durable_writes FROM system_schema.keyspaces WHERE keyspace_name = ?";
    let rows: Vec<(Option<bool>,)> = texts(session, cql, vec![keyspace.to_owned()]).await?;
    let is_logged = rows.first().is_none_or(|(durable,)| durable.unwrap_or(true));
    Ok((!is_logged).then(|| LessDurable {
        why: format!("keyspace {keyspace} has no commit log (durable_writes = false)"),
        loss: Loss::Last,
        instead: format!(
            "ALTER KEYSPACE {keyspace} WITH durable_writes = true, or nodetool flush behind the load"
        ),
    }))
}

/// Reads a table: exact name, else a unique case-insensitive one.
pub(super) async fn describe(
    session: &Session,
    keyspace: &str,
    name: &TableName,
) -> Result<Option<Described>> {
    let keyspace = name.schema.as_deref().unwrap_or(keyspace);
    let names = names(session, keyspace).await?;
    let views = views(session, keyspace).await?;
    let Some(found) = find_by_name(&names, &name.name, |known| known) else {
        let Some((view, base)) = find_by_name(&views, &name.name, |(view, _)| view) else {
            return Ok(None);
        };
        return Err(Error::schema(format!(
            "{view} is a materialized view of {base}, and follows it by itself"
        ))
        .hint(format!(
            "name {base}; what the view shows is read by tonnage unload --query 'SELECT .. FROM {view}'"
        )));
    };
    let key = vec![keyspace.to_owned(), found.clone()];
    let cql = "SELECT id, default_time_to_live FROM system_schema.tables WHERE keyspace_name = ? AND table_name = ?";
    let tables: Vec<(uuid::Uuid, Option<i32>)> = texts(session, cql, key.clone()).await?;
    let Some((id, time_to_live)) = tables.into_iter().next() else {
        return Ok(None);
    };
    let cql = "SELECT column_name, kind, position, type FROM system_schema.columns WHERE keyspace_name = ? AND \
               table_name = ?";
    let mut rows: Vec<(String, String, i32, String)> = texts(session, cql, key).await?;
    let rank = |kind: &str| match kind {
        "partition_key" => 0,
        "clustering" => 1,
        "static" => 2,
        _ => 3,
    };
    rows.sort_by(|a, b| (rank(&a.1), a.2, &a.0).cmp(&(rank(&b.1), b.2, &b.0)));
    let kinds = kinds(session, keyspace, found, &rows).await?;
    let less_durable = less_durable(session, keyspace).await?;
    let placed = |wanted: &str| {
        let placed = rows.iter().enumerate().filter(|(_, row)| row.1 == wanted);
        placed.map(|(at, _)| at).collect::<Vec<_>>()
    };
    let own = views.iter().filter(|(_, base)| base == found);
    let views: Vec<&str> = own.map(|(view, _)| view.as_str()).collect();
    let (partition, clustering) = (placed("partition_key"), placed("clustering"));
    let columns = rows
        .iter()
        .zip(&kinds)
        .map(|((name, kind, _, declared), ty)| Column {
            name: name.clone(),
            ty: ty.as_ref().map(Kind::column_type),
            declared: declared.clone(),
            nullable: rank(kind) > 1,
            has_default: rank(kind) > 1,
            generated: false,
            numbered: None,
            equality: ty.as_ref().map_or(Equality::ServerOnly, Kind::equality),
        });
    let columns: Vec<Column> = columns.collect();
    let in_key = partition.iter().chain(&clustering);
    let shape: Vec<String> = rows
        .iter()
        .map(|(name, kind, position, declared)| format!("{name} {declared} {kind} {position}"))
        .collect();
    Ok(Some(Described {
        keyspace: keyspace.to_owned(),
        partition: partition.clone(),
        clustering: clustering.clone(),
        has_static: rows.iter().any(|row| row.1 == "static"),
        table: Table {
            name: TableName {
                schema: name.schema.as_ref().map(|_| keyspace.to_owned()),
                name: found.clone(),
            },
            identity: TableIdentity {
                object: id.simple().to_string(),
                shape: shape.join(", "),
            },
            keys: vec![Key {
                columns: in_key.map(|at| columns[*at].name.clone()).collect(),
                primary: true,
            }],
            columns,
            transactional: false,
            less_durable,
            notes: notes(&rows, &kinds, time_to_live, &views),
        },
        kinds,
    }))
}

/// The types of columns, with what a user-defined one is made of, as the server says them of a query.
async fn kinds(
    session: &Session,
    keyspace: &str,
    table: &str,
    rows: &[(String, String, i32, String)],
) -> Result<Vec<Option<Kind>>> {
    let names: Vec<_> = rows.iter().map(|row| quote(&row.0)).collect();
    let cql = format!(
        "SELECT {} FROM {}.{}",
        names.join(", "),
        quote(keyspace),
        quote(table)
    );
    let prepared = super::prepare(session, cql).await?;
    let specs = prepared.get_current_result_set_col_specs();
    let specs = specs.get();
    Ok(specs.iter().map(|spec| Kind::of(spec.typ())).collect())
}

/// The materialized views of a keyspace, each with its table.
async fn views(session: &Session, keyspace: &str) -> Result<Vec<(String, String)>> {
    let cql = "SELECT view_name, base_table_name FROM system_schema.views WHERE keyspace_name = ?";
    texts(session, cql, vec![keyspace.to_owned()]).await
}

fn notes(
    rows: &[(String, String, i32, String)],
    kinds: &[Option<Kind>],
    time_to_live: Option<i32>,
    views: &[&str],
) -> Vec<String> {
    let mut notes = vec![
        "Cassandra does not tell whether a key exists: an insert replaces the loaded columns of a row that has its \
         key, and a delete counts as written what was not there"
            .to_owned(),
        "an insert does not send nulls, so that what is there stays; an upsert does, and each is a tombstone".to_owned(),
        "rows carry the time at which the run began, by this machine's clock, plus a microsecond a row: sent again they \
         change nothing, later rows of a key win, and so does what others wrote or deleted under a later time"
            .to_owned(),
    ];
    if let Some(seconds) = time_to_live.filter(|seconds| *seconds > 0) {
        notes.push(format!(
            "rows expire {seconds} s after they are written, each time they are written"
        ));
    }
    if !views.is_empty() {
        notes.push(format!(
            "its materialized views ({}) follow in their own time: what acknowledges a row says nothing of them",
            views.join(", ")
        ));
    }
    let unfrozen = rows.iter().zip(kinds).filter(|(row, kind)| {
        matches!(kind, Some(Kind::List(_) | Kind::Set(_) | Kind::Map(..))) && !row.3.starts_with("frozen")
    });
    let unfrozen: Vec<_> = unfrozen.map(|(row, _)| row.0.as_str()).collect();
    if !unfrozen.is_empty() {
        notes.push(format!(
            "an empty collection that is not frozen is the same as none: {} reads back as null",
            unfrozen.join(", ")
        ));
    }
    notes
}

#[cfg(test)]
mod tests {
    use super::{check_partitioner, off};

    #[test]
    fn a_cluster_of_other_tokens_is_refused() {
        assert!(check_partitioner("org.apache.cassandra.dht.Murmur3Partitioner").is_ok());
        let refused = check_partitioner("org.apache.cassandra.dht.RandomPartitioner").unwrap_err();
        assert_eq!(
            refused.to_string(),
            "the cluster's partitioner is RandomPartitioner, whose tokens are not known here"
        );
    }

    #[test]
    fn a_clock_that_is_off_is_told() {
        assert_eq!(off(1_000, 1_005, 1_010), None);
        assert_eq!(off(1_000, 1_150, 1_010), None);
        assert!(off(1_000, 4_310, 1_010).is_some_and(|said| said.contains("3.3 s behind")));
        assert!(off(9_000, 4_310, 9_010).is_some_and(|said| said.contains("4.6 s ahead")));
        assert!(off(i64::MAX, 0, i64::MAX).is_some_and(|said| said.contains("ahead")));
    }
}
