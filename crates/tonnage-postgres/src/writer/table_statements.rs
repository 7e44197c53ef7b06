//! What carries a plan's rows, prepared on a writer's connection.

use std::{collections::HashMap, sync::Arc};

use tokio_postgres::{Client, Statement};
use tonnage_core::{
    error::{Error, ErrorKind, Result},
    operation::Operation,
    table::altered,
    target::WriteRequest,
};

use super::PreparedStrategy;
use crate::{
    catalog::{self, Described},
    definition::{Definition, DefinitionQuery},
    each::Each,
    encode::EncodedColumn,
    errors, execute,
    partitions::Partitions,
    statements::{self, Account, WriteStrategy},
};

/// See the module.
pub(super) struct TableStatements {
    pub columns: Vec<EncodedColumn>,
    /// Opens a transaction.
    pub begin: String,
    pub path: PreparedStrategy,
    pub account: Account,
    /// See [`PostgresWriter`](super::PostgresWriter).
    pub each: Option<Each>,
    /// What the table was before it was described here; none of a statement that names no table.
    pub definition: Option<Definition>,
}

/// Prepares everything that carries `plan`'s rows. A table that is not what the plan was made for is no error here, but
/// of the first transaction, which asks the ledger first.
pub(super) async fn prepare(
    client: &Client,
    plan: &WriteRequest,
    synchronous_commit: &str,
    partitions: Option<Arc<Partitions>>,
) -> Result<TableStatements> {
    let watched = DefinitionQuery {
        table: &plan.table.name,
        as_partition: partitions.is_some(),
        beside: partitions.as_ref().and_then(|partitions| partitions.default()),
    };
    // Whatever happens to the table from now on is found by the first transaction.
    let definition = Definition::read(client, watched).await?;
    let prepared = async {
        if let Some(what) = replaced(plan, definition.as_ref()) {
            return Ok(Err(what.to_owned()));
        }
        if let (Some(partitions), Some(definition)) = (&partitions, &definition)
            && !definition.tree_is(partitions.tree())
        {
            return Ok(Err("has other partitions".to_owned()));
        }
        match describe(client, plan).await? {
            Ok(described) => {
                let carried = carry(client, plan, &described, synchronous_commit, partitions).await;
                carried.map(Ok)
            }
            Err(what) => Ok(Err(what)),
        }
    };
    let what = match prepared.await {
        Ok(Ok(carried)) => {
            return Ok(TableStatements {
                definition,
                ..carried
            });
        }
        Ok(Err(what)) => what,
        // It may be that the server knows a column or the table no more.
        Err(error) if error.kind() == ErrorKind::Schema => match describe(client, plan).await? {
            Ok(_) => return Err(error),
            Err(what) => what,
        },
        Err(error) => return Err(error),
    };
    Ok(TableStatements {
        columns: Vec::new(),
        begin: "BEGIN ISOLATION LEVEL READ COMMITTED".to_owned(),
        path: PreparedStrategy::Altered(what),
        account: Account::All,
        each: None,
        definition: None,
    })
}

/// That the name leads to another table than the plan's, or to none.
fn replaced(plan: &WriteRequest, definition: Option<&Definition>) -> Option<&'static str> {
    let object = plan.table.identity.object.split(' ').next().unwrap_or_default();
    let oid = object.split_once('.').map(|(_, oid)| oid)?;
    match definition {
        None => Some("was dropped or renamed"),
        Some(now) if now.oid().to_string() != oid => Some("was replaced by another table of its name"),
        Some(_) => None,
    }
}

/// The table of the plan as it is now, or how it is not what it was.
async fn describe(client: &Client, plan: &WriteRequest) -> Result<std::result::Result<Described, String>> {
    let now = match &plan.operation {
        Operation::Statement { statement, .. } => {
            return match execute::describe_again(client, statement, plan).await {
                Err(error) if error.kind() == ErrorKind::Schema => Ok(Err(format!("was altered ({error})"))),
                described => described.map(Ok),
            };
        }
        _ => match catalog::describe(client, &plan.table.name).await {
            Err(error) if error.kind() == ErrorKind::Schema => None,
            now => now?,
        },
    };
    // Indexes and constraints may come and go: they refuse rows, and change the meaning of none.
    let same = |now: &Described| {
        now.table.identity.object == plan.table.identity.object && now.table.columns == plan.table.columns
    };
    match now {
        Some(now) if same(&now) => Ok(Ok(now)),
        now => {
            let what = altered(&plan.table, now.as_ref().map(|now| &now.table));
            Ok(Err(what.unwrap_or_else(|| "was altered".to_owned())))
        }
    }
}

async fn carry(
    client: &Client,
    plan: &WriteRequest,
    described: &Described,
    synchronous_commit: &str,
    partitions: Option<Arc<Partitions>>,
) -> Result<TableStatements> {
    let columns = statements::columns(plan, described)?;
    let texts = statements::statements(plan, described, &columns, synchronous_commit);
    let partitions = partitions.zip(plan.routing.clone());
    let path = match (texts.way, partitions) {
        (WriteStrategy::Copy(_), Some((partitions, routing))) => PreparedStrategy::Partitions {
            partitions,
            routing,
            copies: HashMap::new(),
        },
        (WriteStrategy::Copy(copy), None) => PreparedStrategy::Copy(statement(client, &copy).await?),
        (WriteStrategy::Array(array), _) => PreparedStrategy::Array(statement(client, &array).await?),
        (WriteStrategy::Row(row), _) => PreparedStrategy::Row(statement(client, &row).await?),
        (WriteStrategy::Stage(_), _)
            if plan.operation == Operation::Insert && described.instead.is_some() =>
        {
            let rule = described.instead.as_deref().unwrap_or_default();
            let table = &plan.table.name;
            return Err(Error::schema(format!(
                "the rule {rule} of {table} takes the place of the INSERT that its rows come by"
            ))
            .hint(format!(
                "ALTER TABLE {table} DISABLE RULE {rule}, for the time of the load"
            )));
        }
        (WriteStrategy::Stage(stage), _) => {
            client.batch_execute(&stage.create).await.map_err(|e| {
                let error = errors::statement(e).at("cannot make the temporary table that COPY goes through");
                match error.kind() {
                    ErrorKind::Refused => {
                        error.hint("grant TEMPORARY on the database, or use --method array")
                    }
                    _ => error,
                }
            })?;
            PreparedStrategy::Stage {
                copy: statement(client, &stage.copy).await?,
                merge: statement(client, &stage.merge).await?,
                clear: statement(client, &stage.clear).await?,
                ordinal: stage.ordinal,
            }
        }
    };
    Ok(TableStatements {
        columns,
        begin: texts.begin,
        path,
        account: texts.account,
        each: texts.each,
        definition: None,
    })
}

/// Prepares a statement.
pub(super) async fn statement(client: &Client, statement: &str) -> Result<Statement> {
    client.prepare(statement).await.map_err(errors::statement)
}
