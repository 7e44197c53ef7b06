//! Arrow Flight SQL on the same port: who may do what of it.
//!
//! The database is that of the header `database`, as a client sends it (`adbc.flight.sql.rpc.call_header.database`); where
//! there is only one it needs no name. Making tables is for those who may write them, where the configuration allows it,
//! and replacing them for those who are admin besides, as it takes rows away; SQL of a client's own is a right of its
//! token, as it may do whatever the database's role may.

use std::sync::{Arc, atomic::Ordering};

use async_trait::async_trait;
use tonic::{Extensions, Status, metadata::MetadataMap};
use tonnage::{connected::Connected, table::TableName};
use tonnage_flight::{Limits, Right};

use crate::{
    App,
    access::{self, Caller},
    refusal::Refusal,
    tables::Database,
};

/// The routes of Flight SQL.
pub fn router(app: &Arc<App>) -> axum::Router {
    let limits = Limits {
        directory: app.tables.state().to_owned(),
        ..Limits::usual()
    };
    tonnage_flight::router(Arc::new(Access(app.clone())), limits)
}

struct Access(Arc<App>);

struct Asking {
    caller: Caller,
    name: String,
    database: Arc<Database>,
    connected: Connected,
}

#[async_trait]
impl tonnage_flight::Access for Access {
    async fn admit(
        &self,
        metadata: &MetadataMap,
        found: &Extensions,
    ) -> Result<Arc<dyn tonnage_flight::Caller>, Status> {
        if self.0.is_stopping.load(Ordering::Relaxed) {
            return Err(status(Refusal::stopping()));
        }
        // The guard of all routes has looked who it is.
        let caller = found.get::<Caller>().cloned();
        let caller = caller.ok_or_else(|| Status::unauthenticated("no token"))?;
        let wanted = metadata.get("database").map(|name| name.to_str());
        let wanted = wanted
            .transpose()
            .map_err(|_| Status::invalid_argument("the header database is no text"))?;
        let database = self.0.tables.database(wanted).map_err(status)?.clone();
        let connected = database.connected().await.map_err(|error| status(error.into()))?;
        Ok(Arc::new(Asking {
            name: format!("{}/{}", caller.name(), database.name),
            caller,
            database,
            connected,
        }))
    }
}

#[async_trait]
impl tonnage_flight::Caller for Asking {
    fn name(&self) -> &str {
        &self.name
    }

    fn database(&self) -> &Connected {
        &self.connected
    }

    async fn may(&self, right: Right, table: Option<&TableName>) -> bool {
        let has = async |right: access::Right| match table {
            None => self.caller.patterns(right).is_none(),
            // A table that is to be made has no name in the catalogue yet.
            Some(table) => self
                .database
                .may(&self.caller, right, table)
                .await
                .unwrap_or(false),
        };
        match right {
            Right::List => has(access::Right::Read).await || has(access::Right::Write).await,
            Right::Read => has(access::Right::Read).await,
            Right::Write => has(access::Right::Write).await,
            Right::Create => self.database.makes_tables() && has(access::Right::Write).await,
            Right::Replace => {
                self.database.makes_tables() && self.caller.is_admin() && has(access::Right::Write).await
            }
            Right::Sql => self.caller.may_run_sql(),
        }
    }

    fn may_send(&self) -> Result<(), Status> {
        self.caller.may_send().map_err(status)
    }

    fn has_sent(&self, rows: u64) {
        self.caller.has_sent(rows);
    }
}

/// A refusal as a status.
fn status(refusal: Refusal) -> Status {
    let code = match refusal.status.as_u16() {
        401 => tonic::Code::Unauthenticated,
        403 => tonic::Code::PermissionDenied,
        429 => tonic::Code::ResourceExhausted,
        503 => tonic::Code::Unavailable,
        500 => tonic::Code::Internal,
        _ => tonic::Code::InvalidArgument,
    };
    let hint = refusal
        .hint
        .map_or(String::new(), |hint| format!("\nhint: {hint}"));
    Status::new(code, format!("{}{hint}", refusal.message))
}

#[cfg(test)]
mod tests {
    use std::sync::{RwLock, atomic::AtomicBool};

    use tokio::sync::watch;
    use tonnage_flight::Access as _;

    use super::*;
    use crate::{config::Config, metrics::Counters, tables::Tables};

    #[tokio::test]
    async fn a_server_that_stops_admits_nobody() {
        let directory = tempfile::tempdir().expect("a directory");
        let file = directory.path().join("shop.db");
        std::fs::File::create(&file).expect("a file");
        let mut config = Config::of_database(&file.display().to_string());
        config.state = Some(directory.path().to_owned());
        let config = Arc::new(config);
        let app = Arc::new(App {
            tables: Tables::new(config.clone()).expect("a configuration"),
            config,
            access: RwLock::default(),
            metrics: Counters::default(),
            traces: None,
            is_stopping: AtomicBool::new(false),
            stop: watch::Sender::new(false),
        });
        let access = Access(app.clone());
        let mut found = Extensions::default();
        found.insert(Caller { token: None });
        let admit = async || access.admit(&MetadataMap::new(), &found).await.map(|_| ());
        admit().await.expect("it is admitted");
        app.is_stopping.store(true, Ordering::Relaxed);
        let refused = admit().await.expect_err("it is refused");
        assert_eq!(refused.code(), tonic::Code::Unavailable);
    }
}
