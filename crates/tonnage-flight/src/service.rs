//! The requests of Flight SQL, one method each.

use std::sync::Arc;

use arrow::{
    array::RecordBatch,
    datatypes::{DataType, Field, Schema, SchemaRef},
    ipc::writer::IpcWriteOptions,
};
use arrow_flight::{
    Action, FlightDescriptor, FlightEndpoint, FlightInfo, IpcMessage, SchemaAsIpc, Ticket,
    flight_service_server::FlightService,
    sql::{
        ActionBeginSavepointRequest, ActionBeginSavepointResult, ActionBeginTransactionRequest,
        ActionBeginTransactionResult, ActionCancelQueryRequest, ActionCancelQueryResult,
        ActionClosePreparedStatementRequest, ActionCreatePreparedStatementRequest,
        ActionCreatePreparedStatementResult, ActionCreatePreparedSubstraitPlanRequest,
        ActionEndTransactionRequest, CommandGetCatalogs, CommandGetCrossReference, CommandGetDbSchemas,
        CommandGetExportedKeys, CommandGetImportedKeys, CommandGetPrimaryKeys, CommandGetSqlInfo,
        CommandGetTableTypes, CommandGetTables, CommandGetXdbcTypeInfo, CommandPreparedStatementQuery,
        CommandPreparedStatementUpdate, CommandStatementIngest, CommandStatementQuery,
        CommandStatementSubstraitPlan, CommandStatementUpdate, DoPutPreparedStatementResult, EndTransaction,
        ProstMessageExt, SqlInfo, TableDefinitionOptions, TableExistsOption, TableNotExistOption,
        TicketStatementQuery,
        metadata::{GetCatalogsBuilder, SqlInfoDataBuilder},
        server::{DoPutError, FlightSqlService, PeekableFlightDataStream},
    },
};
use prost::{Message, bytes::Bytes};
use tonic::{Request, Response, Status};
use tonnage_core::{statement::Statement, table::TableName, types::ColumnType};
use tonnage_engine::{plan::Create, unload::Batches};

use crate::{
    Access, Caller, Limits, Right,
    answer::{self, Answer, failed, not_offered},
    describe,
    held::Held,
    ingest::{Destination, Incoming, Kept},
    placeholders::{is_query, named},
};

/// Rows that a statement changed where nobody counts them.
const UNCOUNTED: i64 = -1;

/// A statement that was prepared, and the transaction that it was prepared in.
struct Prepared {
    transaction: Option<Bytes>,
    what: Statements,
}

/// What a prepared statement does.
enum Statements {
    /// It has rows to give.
    Query(String),
    /// It changes rows; with the parameters that were bound, where any were.
    Change {
        destination: Destination,
        bound: Option<Box<Kept>>,
    },
    /// It changes something, and has no parameters.
    Script(String),
}

/// What a transaction does when it ends.
enum Transaction {
    /// Nothing so far.
    Empty,
    /// It writes rows.
    Rows {
        destination: Destination,
        kept: Box<Kept>,
    },
    /// It runs a statement.
    Script(String),
    /// Something of it failed, or is under way.
    Broken,
}

/// See the crate.
pub(crate) struct Service {
    access: Arc<dyn Access>,
    limits: Limits,
    queries: Held<Batches>,
    prepared: Held<Prepared>,
    transactions: Held<Transaction>,
}

impl Service {
    pub(crate) fn new(access: Arc<dyn Access>, limits: Limits) -> Self {
        let Limits {
            held_max,
            transactions_max,
            idle_max,
            ..
        } = limits;
        Self {
            access,
            limits,
            queries: Held::new("query", held_max, idle_max),
            prepared: Held::new("prepared statement", held_max, idle_max),
            transactions: Held::new("transaction", transactions_max, idle_max),
        }
    }

    /// Who asks.
    fn caller<'s, T>(
        &'s self,
        request: &Request<T>,
    ) -> impl Future<Output = Result<Arc<dyn Caller>, Status>> + use<'s, T> {
        // What is waited for must not hold the request, whose stream is of one thread at a time.
        let (metadata, found) = (request.metadata().clone(), request.extensions().clone());
        async move { self.access.admit(&metadata, &found).await }
    }

    /// Begins a query; what its client fetches it by.
    async fn begin(
        &self,
        caller: &dyn Caller,
        query: &str,
    ) -> Result<(SchemaRef, TicketStatementQuery), Status> {
        let database = caller.database();
        let unload = match whole_table(query) {
            Some(table) if caller.may(Right::Read, Some(&table)).await => database.unload(table.quoted()),
            _ => {
                allow(caller, Right::Sql, None).await?;
                database.unload_query(query)
            }
        };
        let batches = unload.batches().await.map_err(failed)?;
        let schema = batches.schema().clone();
        let statement_handle = self.queries.put(caller.name(), batches)?.into();
        Ok((schema, TicketStatementQuery { statement_handle }))
    }

    /// Runs a statement without parameters, now or at the end of a transaction.
    async fn run(&self, caller: &dyn Caller, text: &str, transaction: Option<&Bytes>) -> Result<i64, Status> {
        allow(caller, Right::Sql, None).await?;
        match transaction.filter(|id| !id.is_empty()) {
            None => {
                let ran = caller.database().target().run_script(text).await;
                ran.map_err(failed).map(|()| UNCOUNTED)
            }
            Some(id) => self
                .transactions
                .with(caller.name(), id, |transaction| match transaction {
                    Transaction::Empty => {
                        *transaction = Transaction::Script(text.to_owned());
                        Ok(UNCOUNTED)
                    }
                    _ => Err(one_kind()),
                })?,
        }
    }

    /// Writes rows, now or at the end of a transaction.
    async fn write(
        &self,
        caller: &dyn Caller,
        destination: Destination,
        transaction: Option<&Bytes>,
        incoming: Incoming,
    ) -> Result<i64, Status> {
        let rows = match transaction.filter(|id| !id.is_empty()) {
            None => incoming.write(caller.database(), &destination).await?,
            Some(id) => {
                // What fails on the way leaves it broken, so that it cannot be committed in part.
                let broken = |transaction: &mut _| std::mem::replace(transaction, Transaction::Broken);
                let before = self.transactions.with(caller.name(), id, broken)?;
                let (destination, kept) = match before {
                    Transaction::Empty => (destination, Box::new(self.keep(incoming.schema())?)),
                    Transaction::Rows {
                        destination: of,
                        kept,
                    } if is_same(&of, &destination) => (of, kept),
                    other => {
                        self.transactions
                            .with(caller.name(), id, |transaction| *transaction = other)?;
                        return Err(one_kind());
                    }
                };
                let (kept, rows) = incoming.keep(*kept).await?;
                let kept = Box::new(kept);
                let written = Transaction::Rows { destination, kept };
                self.transactions
                    .with(caller.name(), id, |transaction| *transaction = written)?;
                rows
            }
        };
        Ok(i64::try_from(rows).unwrap_or(i64::MAX))
    }

    fn keep(&self, schema: &SchemaRef) -> Result<Kept, Status> {
        Kept::new(&self.limits.directory, schema, self.limits.transaction_bytes_max)
    }

    /// Runs a prepared statement that changes rows with the parameters that were bound before.
    async fn run_bound(&self, caller: &dyn Caller, handle: &[u8]) -> Result<(), Status> {
        let taken = self
            .prepared
            .with(caller.name(), handle, |prepared| match &mut prepared.what {
                Statements::Change { destination, bound } => {
                    let bound = bound.take().map(|bound| (destination.clone(), bound));
                    bound.map(|(destination, bound)| (destination, bound, prepared.transaction.clone()))
                }
                Statements::Query(_) | Statements::Script(_) => None,
            })?;
        let Some((destination, kept, transaction)) = taken else {
            return Err(Status::failed_precondition(
                "the statement's parameters have no values\nhint: bind them before it is executed",
            ));
        };
        match transaction.filter(|id| !id.is_empty()) {
            None => kept.write_to(caller.database(), &destination).await.map(|_| ()),
            Some(id) => self
                .transactions
                .with(caller.name(), &id, |transaction| match transaction {
                    Transaction::Empty => {
                        *transaction = Transaction::Rows { destination, kept };
                        Ok(())
                    }
                    _ => Err(one_kind()),
                })?,
        }
    }
}

/// Refuses what the caller may not do.
async fn allow(caller: &dyn Caller, right: Right, table: Option<&TableName>) -> Result<(), Status> {
    if caller.may(right, table).await {
        return Ok(());
    }
    let what = match right {
        Right::List => "to see what there is",
        Right::Read => "to read it",
        Right::Write => "to write into it",
        Right::Create => "to make tables",
        Right::Replace => "to replace tables",
        Right::Sql => "to run SQL of its own",
    };
    let of = table.map_or(String::new(), |table| format!("{table}: "));
    Err(Status::permission_denied(format!(
        "{of}the token has no right {what}"
    )))
}

/// Rows of one table, or executions of one statement.
fn is_same(one: &Destination, other: &Destination) -> bool {
    match (one, other) {
        (Destination::Table { name: one, .. }, Destination::Table { name: other, .. }) => one == other,
        _ => one == other,
    }
}

fn one_kind() -> Status {
    Status::failed_precondition(
        "a transaction takes the rows of one table, or one statement, and has another one already, or has failed\n\
         hint: commit or roll back before the next",
    )
}

/// The table of `SELECT * FROM table`, which needs no right to SQL.
fn whole_table(query: &str) -> Option<TableName> {
    let query = query.trim().trim_end_matches(';').trim_end();
    let mut words = query.split_ascii_whitespace();
    let is_plain = ["select", "*", "from"].iter().all(|expected| {
        words
            .next()
            .is_some_and(|word| word.eq_ignore_ascii_case(expected))
    });
    let name = words.next().filter(|_| is_plain)?;
    words.next().is_none().then(|| name.parse().ok())?
}

/// What is written, of a request to ingest.
fn destination(command: &CommandStatementIngest) -> Result<Destination, Status> {
    if command.temporary {
        return Err(not_offered(
            "temporary tables",
            "name a table that stays, and drop it when it is done",
        ));
    }
    if command
        .catalog
        .as_deref()
        .is_some_and(|catalog| !catalog.is_empty())
    {
        return Err(not_offered(
            "catalogs",
            "name the schema and the table; the server's configuration says the database",
        ));
    }
    let given = command
        .table_definition_options
        .unwrap_or(TableDefinitionOptions {
            if_not_exist: TableNotExistOption::Fail as i32,
            if_exists: TableExistsOption::Append as i32,
        });
    let create = match (given.if_not_exist(), given.if_exists()) {
        (TableNotExistOption::Create, TableExistsOption::Fail) => Create::New,
        (TableNotExistOption::Create, TableExistsOption::Append) => Create::Missing,
        (TableNotExistOption::Create, TableExistsOption::Replace) => Create::Replace,
        (TableNotExistOption::Fail, TableExistsOption::Append) => Create::No,
        _ => {
            return Err(not_offered(
                "these rules for a table that is there, or is not",
                "create, append, create_append and replace are",
            ));
        }
    };
    let name = TableName {
        schema: command.schema.clone().filter(|schema| !schema.is_empty()),
        name: command.table.clone(),
    };
    Ok(Destination::Table { name, create })
}

/// What answers a request for `command`'s rows.
fn info(
    request: Request<FlightDescriptor>,
    schema: &Schema,
    command: &impl ProstMessageExt,
) -> Result<Response<FlightInfo>, Status> {
    let ticket = Ticket::new(command.as_any().encode_to_vec());
    let info = FlightInfo::new()
        .try_with_schema(schema)
        .map_err(describe::unmade)?
        .with_endpoint(FlightEndpoint::new().with_ticket(ticket))
        .with_descriptor(request.into_inner());
    Ok(Response::new(info))
}

/// What answers a request for rows where there are none to give.
fn nothing(request: Request<FlightDescriptor>) -> Result<Response<FlightInfo>, Status> {
    let info = FlightInfo::new()
        .try_with_schema(&Schema::empty())
        .map_err(describe::unmade)?
        .with_total_records(0)
        .with_descriptor(request.into_inner());
    Ok(Response::new(info))
}

fn rows(batch: RecordBatch) -> Result<Response<Answer>, Status> {
    Ok(Response::new(answer::of_batch(batch)))
}

/// A schema as Flight SQL carries it in a message.
fn in_message(schema: &Schema) -> Result<Bytes, Status> {
    let options = IpcWriteOptions::default();
    let IpcMessage(bytes) = SchemaAsIpc::new(schema, &options)
        .try_into()
        .map_err(describe::unmade)?;
    Ok(bytes)
}

#[tonic::async_trait]
impl FlightSqlService for Service {
    type FlightService = Self;

    async fn get_flight_info_statement(
        &self,
        command: CommandStatementQuery,
        request: Request<FlightDescriptor>,
    ) -> Result<Response<FlightInfo>, Status> {
        let caller = self.caller(&request).await?;
        if !is_query(&command.query) {
            // Clients that do not know what a statement is run all of them as queries.
            self.run(&*caller, &command.query, command.transaction_id.as_ref())
                .await?;
            return nothing(request);
        }
        let (schema, ticket) = self.begin(&*caller, &command.query).await?;
        info(request, &schema, &ticket)
    }

    async fn do_get_statement(
        &self,
        ticket: TicketStatementQuery,
        request: Request<Ticket>,
    ) -> Result<Response<<Self as FlightService>::DoGetStream>, Status> {
        let caller = self.caller(&request).await?;
        let batches = self.queries.take(caller.name(), &ticket.statement_handle)?;
        Ok(Response::new(answer::of_batches(batches)))
    }

    async fn do_put_statement_update(
        &self,
        command: CommandStatementUpdate,
        request: Request<PeekableFlightDataStream>,
    ) -> Result<i64, Status> {
        let caller = self.caller(&request).await?;
        self.run(&*caller, &command.query, command.transaction_id.as_ref())
            .await
    }

    async fn do_put_statement_ingest(
        &self,
        command: CommandStatementIngest,
        request: Request<PeekableFlightDataStream>,
    ) -> Result<i64, Status> {
        let caller = self.caller(&request).await?;
        let destination = destination(&command)?;
        if let Destination::Table { name, create } = &destination {
            let needed = match create {
                Create::No => Right::Write,
                Create::Missing | Create::New => Right::Create,
                Create::Replace => Right::Replace,
            };
            allow(&*caller, needed, Some(name)).await?;
        }
        let incoming = Incoming::open(request.into_inner(), caller.clone()).await?;
        self.write(&*caller, destination, command.transaction_id.as_ref(), incoming)
            .await
    }

    async fn do_action_create_prepared_statement(
        &self,
        command: ActionCreatePreparedStatementRequest,
        request: Request<Action>,
    ) -> Result<ActionCreatePreparedStatementResult, Status> {
        let caller = self.caller(&request).await?;
        let mut parameters = Schema::empty();
        let prepared = if is_query(&command.query) {
            Statements::Query(command.query)
        } else {
            allow(&*caller, Right::Sql, None).await?;
            let target = caller.database().target();
            let text = named(&command.query);
            match target.dialect().map(|dialect| Statement::parse(&text, dialect)) {
                Some(Ok(statement)) => {
                    let table = target.describe(&statement).await.map_err(failed)?;
                    let field = |column: &tonnage_core::table::Column| match column.ty {
                        Some(ty) if ty != ColumnType::Any => ty.field(&column.name, true),
                        // The client's own type is taken.
                        _ => Field::new(&column.name, DataType::Null, true),
                    };
                    parameters = Schema::new(table.columns.iter().map(field).collect::<Vec<_>>());
                    let by_position = text != command.query;
                    Statements::Change {
                        destination: Destination::Statement { text, by_position },
                        bound: None,
                    }
                }
                Some(Err(error)) if text != command.query => return Err(failed(error)),
                // Nothing to give values to: a statement of any kind.
                _ => Statements::Script(command.query),
            }
        };
        Ok(ActionCreatePreparedStatementResult {
            prepared_statement_handle: self
                .prepared
                .put(
                    caller.name(),
                    Prepared {
                        transaction: command.transaction_id,
                        what: prepared,
                    },
                )?
                .into(),
            dataset_schema: Bytes::new(),
            parameter_schema: match parameters.fields().is_empty() {
                true => Bytes::new(),
                false => in_message(&parameters)?,
            },
        })
    }

    async fn do_action_close_prepared_statement(
        &self,
        command: ActionClosePreparedStatementRequest,
        request: Request<Action>,
    ) -> Result<(), Status> {
        let caller = self.caller(&request).await?;
        let closed = self
            .prepared
            .take(caller.name(), &command.prepared_statement_handle);
        closed.map(drop)
    }

    async fn get_flight_info_prepared_statement(
        &self,
        command: CommandPreparedStatementQuery,
        request: Request<FlightDescriptor>,
    ) -> Result<Response<FlightInfo>, Status> {
        let caller = self.caller(&request).await?;
        let handle = &command.prepared_statement_handle;
        let (text, transaction) = self.prepared.with(caller.name(), handle, |prepared| {
            let text = match &prepared.what {
                Statements::Query(query) => Ok(query.clone()),
                Statements::Script(text) => Err(Some(text.clone())),
                Statements::Change { .. } => Err(None),
            };
            (text, prepared.transaction.clone())
        })?;
        match text {
            Ok(query) => {
                let (schema, ticket) = self.begin(&*caller, &query).await?;
                return info(request, &schema, &ticket);
            }
            Err(Some(script)) => self
                .run(&*caller, &script, transaction.as_ref())
                .await
                .map(|_| ())?,
            Err(None) => self.run_bound(&*caller, handle).await?,
        }
        nothing(request)
    }

    async fn do_put_prepared_statement_query(
        &self,
        command: CommandPreparedStatementQuery,
        request: Request<PeekableFlightDataStream>,
    ) -> Result<DoPutPreparedStatementResult, Status> {
        let caller = self.caller(&request).await?;
        let handle = command.prepared_statement_handle;
        let is_change = |prepared: &mut Prepared| matches!(prepared.what, Statements::Change { .. });
        if !self.prepared.with(caller.name(), &handle, is_change)? {
            return Err(not_offered(
                "parameters of a query",
                "write the values into it, or look rows up by key: POST /v1/tables/TABLE/get",
            ));
        }
        let incoming = Incoming::open(request.into_inner(), caller.clone()).await?;
        let kept = self.keep(incoming.schema())?;
        let (kept, _) = incoming.keep(kept).await?;
        self.prepared.with(caller.name(), &handle, |prepared| {
            if let Statements::Change { bound, .. } = &mut prepared.what {
                *bound = Some(Box::new(kept));
            }
        })?;
        Ok(DoPutPreparedStatementResult {
            prepared_statement_handle: Some(handle),
        })
    }

    async fn do_put_prepared_statement_update(
        &self,
        command: CommandPreparedStatementUpdate,
        request: Request<PeekableFlightDataStream>,
    ) -> Result<i64, Status> {
        let caller = self.caller(&request).await?;
        let handle = &command.prepared_statement_handle;
        let (found, transaction) = self.prepared.with(caller.name(), handle, |prepared| {
            let found = match &prepared.what {
                Statements::Change { destination, .. } => Ok(destination.clone()),
                Statements::Script(text) | Statements::Query(text) => Err(text.clone()),
            };
            (found, prepared.transaction.clone())
        })?;
        match found {
            Ok(destination) => {
                let incoming = Incoming::open(request.into_inner(), caller.clone()).await?;
                self.write(&*caller, destination, transaction.as_ref(), incoming)
                    .await
            }
            Err(text) => self.run(&*caller, &text, transaction.as_ref()).await,
        }
    }

    async fn do_action_begin_transaction(
        &self,
        _: ActionBeginTransactionRequest,
        request: Request<Action>,
    ) -> Result<ActionBeginTransactionResult, Status> {
        let caller = self.caller(&request).await?;
        let transaction_id = self.transactions.put(caller.name(), Transaction::Empty)?.into();
        Ok(ActionBeginTransactionResult { transaction_id })
    }

    async fn do_action_end_transaction(
        &self,
        command: ActionEndTransactionRequest,
        request: Request<Action>,
    ) -> Result<(), Status> {
        let caller = self.caller(&request).await?;
        let end = command.action();
        let transaction = self.transactions.take(caller.name(), &command.transaction_id)?;
        match (end, transaction) {
            (EndTransaction::Rollback, _) | (EndTransaction::Commit, Transaction::Empty) => Ok(()),
            (EndTransaction::Commit, Transaction::Rows { destination, kept }) => {
                kept.write_to(caller.database(), &destination).await.map(|_| ())
            }
            (EndTransaction::Commit, Transaction::Script(text)) => {
                self.run(&*caller, &text, None).await.map(|_| ())
            }
            (EndTransaction::Commit, Transaction::Broken) => Err(Status::aborted(
                "something of this transaction failed, so nothing of it is done\nhint: roll back and begin again",
            )),
            (EndTransaction::Unspecified, _) => Err(Status::invalid_argument(
                "a transaction ends with a commit or a rollback; this one was rolled back",
            )),
        }
    }

    async fn get_flight_info_catalogs(
        &self,
        command: CommandGetCatalogs,
        request: Request<FlightDescriptor>,
    ) -> Result<Response<FlightInfo>, Status> {
        self.caller(&request).await?;
        info(request, &GetCatalogsBuilder::new().schema(), &command)
    }

    async fn do_get_catalogs(
        &self,
        command: CommandGetCatalogs,
        request: Request<Ticket>,
    ) -> Result<Response<<Self as FlightService>::DoGetStream>, Status> {
        self.caller(&request).await?;
        rows(describe::catalogs(command)?)
    }

    async fn get_flight_info_schemas(
        &self,
        command: CommandGetDbSchemas,
        request: Request<FlightDescriptor>,
    ) -> Result<Response<FlightInfo>, Status> {
        self.caller(&request).await?;
        let schema = command.clone().into_builder().schema();
        info(request, &schema, &command)
    }

    async fn do_get_schemas(
        &self,
        command: CommandGetDbSchemas,
        request: Request<Ticket>,
    ) -> Result<Response<<Self as FlightService>::DoGetStream>, Status> {
        let caller = self.caller(&request).await?;
        rows(describe::schemas(&*caller, command).await?)
    }

    async fn get_flight_info_tables(
        &self,
        command: CommandGetTables,
        request: Request<FlightDescriptor>,
    ) -> Result<Response<FlightInfo>, Status> {
        self.caller(&request).await?;
        let schema = command.clone().into_builder().schema();
        info(request, &schema, &command)
    }

    async fn do_get_tables(
        &self,
        command: CommandGetTables,
        request: Request<Ticket>,
    ) -> Result<Response<<Self as FlightService>::DoGetStream>, Status> {
        let caller = self.caller(&request).await?;
        rows(describe::tables(&*caller, command).await?)
    }

    async fn get_flight_info_table_types(
        &self,
        command: CommandGetTableTypes,
        request: Request<FlightDescriptor>,
    ) -> Result<Response<FlightInfo>, Status> {
        self.caller(&request).await?;
        info(request, &command.into_builder().schema(), &command)
    }

    async fn do_get_table_types(
        &self,
        _: CommandGetTableTypes,
        request: Request<Ticket>,
    ) -> Result<Response<<Self as FlightService>::DoGetStream>, Status> {
        self.caller(&request).await?;
        rows(describe::table_types()?)
    }

    async fn get_flight_info_sql_info(
        &self,
        command: CommandGetSqlInfo,
        request: Request<FlightDescriptor>,
    ) -> Result<Response<FlightInfo>, Status> {
        self.caller(&request).await?;
        info(request, SqlInfoDataBuilder::schema(), &command)
    }

    async fn do_get_sql_info(
        &self,
        command: CommandGetSqlInfo,
        request: Request<Ticket>,
    ) -> Result<Response<<Self as FlightService>::DoGetStream>, Status> {
        self.caller(&request).await?;
        let known = describe::SQL_INFO.as_ref().map_err(describe::unmade)?;
        rows(command.into_builder(known).build().map_err(describe::unmade)?)
    }

    async fn get_flight_info_primary_keys(
        &self,
        command: CommandGetPrimaryKeys,
        request: Request<FlightDescriptor>,
    ) -> Result<Response<FlightInfo>, Status> {
        self.caller(&request).await?;
        info(request, &describe::primary_key_schema(), &command)
    }

    async fn do_get_primary_keys(
        &self,
        command: CommandGetPrimaryKeys,
        request: Request<Ticket>,
    ) -> Result<Response<<Self as FlightService>::DoGetStream>, Status> {
        let caller = self.caller(&request).await?;
        rows(describe::primary_keys(&*caller, command).await?)
    }

    async fn get_flight_info_exported_keys(
        &self,
        _: CommandGetExportedKeys,
        _: Request<FlightDescriptor>,
    ) -> Result<Response<FlightInfo>, Status> {
        Err(not_offered("exported keys", "primary keys are"))
    }

    async fn get_flight_info_imported_keys(
        &self,
        _: CommandGetImportedKeys,
        _: Request<FlightDescriptor>,
    ) -> Result<Response<FlightInfo>, Status> {
        Err(not_offered("imported keys", "primary keys are"))
    }

    async fn get_flight_info_cross_reference(
        &self,
        _: CommandGetCrossReference,
        _: Request<FlightDescriptor>,
    ) -> Result<Response<FlightInfo>, Status> {
        Err(not_offered("cross references", "primary keys are"))
    }

    async fn get_flight_info_xdbc_type_info(
        &self,
        _: CommandGetXdbcTypeInfo,
        _: Request<FlightDescriptor>,
    ) -> Result<Response<FlightInfo>, Status> {
        Err(not_offered(
            "tables of types",
            "the columns of a table have their Arrow types",
        ))
    }

    async fn get_flight_info_substrait_plan(
        &self,
        _: CommandStatementSubstraitPlan,
        _: Request<FlightDescriptor>,
    ) -> Result<Response<FlightInfo>, Status> {
        Err(substrait())
    }

    async fn do_put_substrait_plan(
        &self,
        _: CommandStatementSubstraitPlan,
        _: Request<PeekableFlightDataStream>,
    ) -> Result<i64, Status> {
        Err(substrait())
    }

    async fn do_action_create_prepared_substrait_plan(
        &self,
        _: ActionCreatePreparedSubstraitPlanRequest,
        _: Request<Action>,
    ) -> Result<ActionCreatePreparedStatementResult, Status> {
        Err(substrait())
    }

    async fn do_action_begin_savepoint(
        &self,
        _: ActionBeginSavepointRequest,
        _: Request<Action>,
    ) -> Result<ActionBeginSavepointResult, Status> {
        Err(not_offered(
            "savepoints",
            "a transaction holds one piece of work, which is done or not",
        ))
    }

    async fn do_action_cancel_query(
        &self,
        _: ActionCancelQueryRequest,
        _: Request<Action>,
    ) -> Result<ActionCancelQueryResult, Status> {
        Err(not_offered(
            "requests to cancel",
            "a query ends when its stream is closed",
        ))
    }

    async fn do_put_error_callback(
        &self,
        _: Request<PeekableFlightDataStream>,
        error: DoPutError,
    ) -> Result<Response<<Self as FlightService>::DoPutStream>, Status> {
        Err(Status::invalid_argument(error.to_string()))
    }

    async fn register_sql_info(&self, _: i32, _: &SqlInfo) {}
}

fn substrait() -> Status {
    not_offered("Substrait plans", "send SQL")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_whole_table_is_told_from_a_query() {
        for (query, table) in [
            ("SELECT * FROM orders", Some("orders")),
            (" select  *\nfrom shop.orders ; ", Some("shop.orders")),
            ("SELECT * FROM \"Orders\"", Some("Orders")),
            ("SELECT * FROM orders WHERE 1 = 1", None),
            ("SELECT * FROM orders, payments", None),
            ("SELECT id FROM orders", None),
            ("SELECT * FROM a.b.c", None),
        ] {
            let found = whole_table(query).map(|table| table.to_string());
            assert_eq!(found.as_deref(), table, "{query}");
        }
    }

    #[test]
    fn tables_are_made_as_clients_ask() {
        let ask = |if_not_exist: TableNotExistOption, if_exists: TableExistsOption| {
            let command = CommandStatementIngest {
                table_definition_options: Some(TableDefinitionOptions {
                    if_not_exist: if_not_exist as i32,
                    if_exists: if_exists as i32,
                }),
                table: "t".to_owned(),
                ..CommandStatementIngest::default()
            };
            match destination(&command) {
                Ok(Destination::Table { create, .. }) => Some(create),
                Ok(Destination::Statement { .. }) | Err(_) => None,
            }
        };
        use {TableExistsOption as There, TableNotExistOption as Missing};
        assert_eq!(ask(Missing::Create, There::Fail), Some(Create::New));
        assert_eq!(ask(Missing::Create, There::Append), Some(Create::Missing));
        assert_eq!(ask(Missing::Create, There::Replace), Some(Create::Replace));
        assert_eq!(ask(Missing::Fail, There::Append), Some(Create::No));
        assert_eq!(ask(Missing::Fail, There::Fail), None);
        assert_eq!(ask(Missing::Unspecified, There::Append), None);
    }
}
