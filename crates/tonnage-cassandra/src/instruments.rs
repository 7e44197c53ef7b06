//! What measuring needs: tables of its own. What a node writes to its log and to its disk it tells nobody by CQL.

use std::{collections::BTreeMap, net::SocketAddr, sync::Arc};

use async_trait::async_trait;
use tonnage_core::{
    error::{Error, Result},
    instruments::{
        Address, Cause, Copied, Disk, Instruments, Keys, Listening, LogMark, Making, Measured, Records,
        ScratchPlace, Servers, Storage, TableForm, Triggers, Work, no_way_to, not_by_tcp,
    },
    operation::{Method, Mode},
    table::{Table, TableName},
    target::Target,
};

use super::{CassandraTarget, catalog, errors, types::quote};

#[async_trait]
impl Instruments for CassandraTarget {
    async fn scratch(&self, _: &str, _: Option<u32>) -> Result<Option<Arc<dyn Target>>> {
        Ok(None)
    }

    async fn through_proxy(&self, _: SocketAddr) -> Result<Arc<dyn Target>> {
        Err(no_way_to(self.address()))
    }

    async fn keep_log(&self) -> Result<Option<Box<dyn Send + Sync>>> {
        Ok(None)
    }

    fn place(&self, prefix: &str) -> ScratchPlace {
        ScratchPlace {
            shown: format!("tables {prefix}_* in the keyspace {}", self.keyspace),
            outside_database: false,
        }
    }

    fn address(&self) -> Result<Address> {
        Err(not_by_tcp(
            "the driver asks a node for the addresses of the others, and goes past what lies between",
        ))
    }

    async fn obstacle(&self, form: &TableForm) -> Result<Option<String>> {
        let why = match form {
            TableForm {
                keys: Keys::Generated,
                ..
            } => "Cassandra numbers no rows",
            TableForm { keys: Keys::None, .. } => "Cassandra has no table without a primary key",
            TableForm {
                storage: Storage::Unlogged,
                ..
            } => "the commit log of Cassandra is the keyspace's, not a table's",
            TableForm {
                storage: Storage::Compressed,
                ..
            } => "Cassandra compresses all tables that are made here",
            TableForm {
                page_bytes: Some(_), ..
            } => "Cassandra has no pages",
            TableForm { partitions: 1.., .. } => {
                "the partitions of Cassandra are those of its keys, not of time"
            }
            TableForm { indexes: 1.., .. } => "secondary indexes of Cassandra cannot be measured yet",
            _ => return Ok(None),
        };
        Ok(Some(why.to_owned()))
    }

    async fn make(&self, making: &Making) -> Result<()> {
        self.create(&making.spec).await
    }

    async fn servers(&self) -> Result<Measured<Servers>> {
        let cluster = self.session.get_cluster_state();
        let listening = cluster.get_nodes_info().iter().map(|node| {
            Listening::Tcp(Address {
                host: node.address.ip().to_string(),
                port: node.address.port(),
            })
        });
        Ok(Ok(Servers {
            listening: listening.collect(),
            programs: &["java", "scylla"],
        }))
    }

    async fn work(&self, _: Option<&Work>) -> Result<Work> {
        Ok(Work::untold("a node tells nobody what it writes"))
    }

    async fn copy(&self, table: &Table, _: &str, _: Triggers) -> Result<Copied> {
        Err(Error::config(format!(
            "an empty copy of {} cannot be made in {} yet",
            table.name, self.capabilities.product
        ))
        .hint("tonnage bench measures rows of a file in tables of their own: --rows-from FILE --key COLUMNS"))
    }

    async fn samples(&self, _: &Table) -> Result<BTreeMap<String, String>> {
        Ok(BTreeMap::new())
    }

    async fn discard(&self, name: &str) -> Result<()> {
        let statement = format!("DROP TABLE IF EXISTS {}.{}", quote(&self.keyspace), quote(name));
        let mut statement = scylla::statement::Statement::new(statement);
        // A snapshot of what is dropped may be taken before.
        statement.set_request_timeout(Some(super::SCHEMA_TIMEOUT));
        let dropped = self.session.query_unpaged(statement, ()).await;
        dropped
            .map(|_| ())
            .map_err(|error| errors::execution(error, errors::Doing::Else))
    }

    async fn left(&self, prefix: &str) -> Result<Vec<String>> {
        let mut names = catalog::names(&self.session, &self.keyspace).await?;
        names.retain(|name| name.starts_with(prefix));
        Ok(names)
    }

    async fn disk(&self, _: &TableName) -> Result<Option<Disk>> {
        Ok(None)
    }

    async fn log(&self) -> Result<Option<LogMark>> {
        Ok(None)
    }

    async fn records(&self, _: &Table, _: Mode, _: &LogMark, _: &LogMark) -> Result<Records> {
        Ok(Records::Unknown {
            why: "a node tells nobody what it writes to its log".to_owned(),
        })
    }

    async fn causes(&self, _: &Table, _: Mode, _: Method, _: &[String]) -> Result<Vec<Cause>> {
        Ok(Vec::new())
    }
}
