//! The plan: what will be done, decided once, printable. A pure function of what the database can do, the table, the
//! source and the options; nothing downstream reads an option.

mod batches;
mod columns;
mod keys;
mod lanes;
mod ledger;
mod operation;
mod options;
mod shards;
mod show;
mod slots;
mod sort;
mod statement;

use std::{path::PathBuf, sync::Arc, time::Duration};

use arrow::datatypes::{Field, Schema, SchemaRef};
use tonnage_core::{
    error::Result,
    operation::{Durability, Method, Operation, Split, Support},
    preparation::{Preparation, PreparationEffects},
    retry::Attempts,
    router::Routing,
    source::SourceSchema,
    statement::Statement,
    table::{Equality, Table},
    target::{Capabilities, CommitTimes, OtherUniqueKeys, Routed, StatementMax, WriteColumn, WriteRequest},
};

use self::{
    batches::Batches, columns::WrittenColumns, keys::RecognisedBy, lanes::Lanes, ledger::Recorded,
    slots::Slots, sort::Sorted,
};
pub(crate) use self::{
    columns::{mapped, match_columns, replaces_header},
    shards::jobs_by_default,
};
pub use self::{
    options::{Attempt, Create, LedgerPlace, LoadOptions, OnError, Rate, RejectsMax, Tune},
    show::Bytes,
};
pub use tonnage_core::slot::{SlotBy, Sort};

/// Rows of a block at most. Blocks are the unit of reading and of the ledger's marks.
pub const BLOCK_ROWS: usize = 65_536;
/// Source bytes of a block: it ends with the row that reaches them.
pub const BLOCK_BYTES: usize = 8 << 20;
/// Slots of a run: more than lanes will ever be, few enough that their ledger rows cost nothing.
pub const SLOTS: u16 = 64;
/// Arrow bytes sorted in memory at a time by `--sort full`.
pub const SORT_BYTES: usize = 64 << 20;
/// Rejects after which a run stops unless asked for.
pub const REJECTS_MAX: u64 = 1_000;
/// Writes a second, at least, while a rate is kept.
const WRITES_A_SECOND: u64 = 5;
/// Attempts at one write before a transient error ends the run.
pub const ATTEMPTS_MAX: u32 = 8;
/// How long after the first attempt at a write another one may begin.
pub const ATTEMPTS_TIME_MAX: Duration = Duration::from_secs(300);

/// The resolved decision.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The database and its version.
    pub product: String,
    /// The table.
    pub table: Arc<Table>,
    /// The columns written, in the order in which batches carry them.
    pub columns: Vec<WriteColumn>,
    /// Whether dates may have a zero for their year, month or day; such a row is a bad one where they may not.
    pub partial_dates: bool,
    /// What happens to a row.
    pub operation: Operation,
    /// How rows travel.
    pub method: Method,
    /// What becomes of statements that the database would split.
    pub split: Split,
    /// The most that a statement of many rows carries, where the target cuts a write into several.
    pub statement_max: Option<StatementMax>,
    /// What a commit promises.
    pub durability: Durability,
    /// Lanes: connections that write at once.
    pub jobs: usize,
    /// What of a write's rows and of the number of lanes is found while rows go in, up to these.
    pub tune: Tuned,
    /// The most rows of a write; a write is a commit, but in a [single transaction](Plan::single_transaction).
    pub batch_rows: usize,
    /// The most Arrow bytes of a write, but at least one row.
    pub batch_bytes: usize,
    /// The most rows of a block.
    pub block_rows: usize,
    /// Source bytes of a block.
    pub block_bytes: usize,
    /// Slots of the run.
    pub slots: u16,
    /// How rows are dealt to them.
    pub slot_by: SlotBy,
    /// Where rows belong, of a table that is spread over several places.
    pub routing: Option<Routing>,
    /// The order of a slot's rows within a block.
    pub sort: Sort,
    /// Positions of [`Plan::columns`] that `sort` sorts by; empty for none.
    pub sort_by: Vec<usize>,
    /// Arrow bytes that [`Sort::Full`] sorts in memory at a time.
    pub sort_bytes_max: usize,
    /// Positions of [`Plan::columns`] that make up the operation's key.
    pub key_at: Vec<usize>,
    /// Whether the engine must keep repeated keys out of one write.
    pub deduplicate: bool,
    /// The most source rows to read.
    pub limit: Option<u64>,
    /// How fast rows may go.
    pub rate: Option<Rate>,
    /// What a bad row does.
    pub on_error: OnError,
    /// How many rejects stop the run.
    pub rejects_max: RejectsMax,
    /// Attempts at one write before a transient error ends the run.
    pub attempts_max: u32,
    /// How long after the first attempt at a write another one may begin.
    pub attempts_time_max: Duration,
    /// Where positions are kept.
    pub ledger: LedgerPlace,
    /// What is done to the table around its rows.
    pub preparation: Preparation,
    /// Whether the run is one transaction: all rows or none.
    pub single_transaction: bool,
    /// The statement that creates the table first.
    pub create: Option<String>,
    /// The columns of a table to be made whose types were inferred from the first rows.
    pub inferred: Vec<String>,
    /// Arrow bytes held between reader and lanes at most.
    pub queue_bytes_max: usize,
    /// Session settings that differ from the server's, a line each.
    pub settings_changed: Vec<String>,
    /// What is given up, a sentence each.
    pub guarantees_lost: Vec<String>,
    /// What a user should know, a sentence each.
    pub notes: Vec<String>,
}

impl Plan {
    /// Databases that rows go to: more than one where shards are [apart](tonnage_core::router::Router::separate_databases).
    pub fn databases(&self) -> usize {
        let separate_databases = self
            .routing
            .as_ref()
            .filter(|routing| routing.separate_databases());
        separate_databases.map_or(1, Routing::shards)
    }

    /// Lanes that write at a time.
    pub fn writes_max(&self) -> usize {
        let routed = self.routing.as_ref();
        routed.map_or(self.jobs, |routing| routing.writes_max.min(self.jobs))
    }

    /// What a writer has to know of the rows that it will be given.
    pub fn write_request(&self) -> WriteRequest {
        WriteRequest {
            table: self.table.clone(),
            columns: self.columns.clone(),
            operation: self.operation.clone(),
            method: self.method,
            split: self.split,
            durability: self.durability,
            routing: self.routing.clone(),
            preparation: self.preparation,
            single_transaction: self.single_transaction,
        }
    }

    /// The attempts at one write, or at one step of a run's ledger, of which none has been made yet.
    pub fn attempts(&self) -> Attempts {
        Attempts::of(self.attempts_max, self.attempts_time_max)
    }

    /// The schema of the batches that reach writers.
    pub fn schema(&self) -> SchemaRef {
        schema_of(&self.columns)
    }
}

/// The schema of batches of `columns`.
pub(crate) fn schema_of(columns: &[WriteColumn]) -> SchemaRef {
    let field = |c: &WriteColumn| Field::new(&c.name, c.ty.arrow(), true);
    Arc::new(Schema::new(columns.iter().map(field).collect::<Vec<_>>()))
}

/// What [`decide`] decides from.
pub struct PlanInputs<'a> {
    /// What the database can do.
    pub capabilities: &'a Capabilities,
    /// The table, there or about to be created; for a statement its parameters.
    pub table: Arc<Table>,
    /// The statement to be run for every row.
    pub statement: Option<Statement>,
    /// The statement that will create it.
    pub create: Option<String>,
    /// What the source holds.
    pub source: &'a SourceSchema,
    /// Why the source cannot be read again; none where it can.
    pub not_rereadable: Option<&'static str>,
    /// What was asked for.
    pub options: &'a LoadOptions,
    /// The unique keys besides a key by which a row is taken for one that is there:
    /// [`OtherUniqueKeys`].
    pub other_unique_keys: &'a dyn Fn(&[String]) -> OtherUniqueKeys,
    /// Whether the target can do an operation by a method.
    pub support: &'a dyn Fn(&Operation, Method) -> Support,
    /// What a statement carries of so many columns: [`StatementMax`].
    pub statement_max: &'a dyn Fn(usize, Method, Split) -> Result<Option<StatementMax>>,
    /// Where the table's rows belong.
    pub routed: Routed,
    /// What is to be done to the table around its rows.
    pub preparation: Preparation,
    /// What the target says that this will do.
    pub effects: PreparationEffects,
    /// The local file that holds the ledger; none where the ledger is in the database.
    pub ledger_file: Option<PathBuf>,
    /// The settings a writer changes.
    pub settings: &'a dyn Fn(Durability) -> Vec<String>,
    /// Processors of this machine.
    pub processors: usize,
}

/// Decides. Everything that can be refused before the first row is refused here, except values themselves.
///
/// Each pass decides one thing from what is known and returns it with its notes; no pass changes what another has decided.
pub fn decide(inputs: &PlanInputs) -> Result<Plan> {
    let PlanInputs {
        capabilities,
        table,
        options,
        ..
    } = inputs;
    let WrittenColumns {
        columns,
        operation,
        inferred,
        notes: column_notes,
    } = columns::decide(inputs)?;
    let by_any_key = keys::any(inputs, &operation)?;
    let recognised_by = match by_any_key {
        Some(_) => RecognisedBy::AnyKey,
        None => RecognisedBy::TheKey,
    };
    let method = operation::method(capabilities, &operation, options, inputs.support)?;
    let statement_max = (inputs.statement_max)(columns.len(), method, options.split)?;
    let durability = operation::durability(capabilities, table, options)?;
    let slots = slots::decide(inputs, &columns, &operation, recognised_by)?;
    let Lanes {
        jobs,
        routing,
        notes: lane_notes,
    } = lanes::decide(inputs, &operation, method, &slots, recognised_by)?;
    let Slots {
        slots,
        slot_by,
        ordered_by,
        notes: slot_notes,
        ..
    } = slots;
    let Batches {
        rows: batch_rows,
        bytes: batch_bytes,
        notes: batch_notes,
    } = batches::decide(capabilities, options, method, columns.len())?;
    let Sorted { sort, sort_by } = sort::decide(table, options, &columns, &operation, recognised_by)?;
    let Recorded {
        ledger,
        guarantees_lost,
        settings_changed,
        notes: ledger_notes,
    } = ledger::decide(inputs, durability, by_any_key)?;
    let notes = [
        options.notes.clone(),
        table.notes.clone(),
        slot_notes,
        column_notes,
        lane_notes,
        batch_notes,
        ledger_notes,
    ];
    Ok(Plan {
        product: capabilities.product.clone(),
        table: table.clone(),
        key_at: positions(&columns, &ordered_by),
        deduplicate: slot_by == SlotBy::Key
            && !capabilities.repeats_keys
            && matches!(operation, Operation::Upsert { .. } | Operation::Update { .. }),
        columns,
        partial_dates: capabilities.partial_dates,
        operation,
        method,
        split: options.split,
        statement_max,
        durability,
        jobs,
        tune: tuned(options, capabilities.commits),
        batch_rows,
        batch_bytes,
        block_rows: BLOCK_ROWS,
        block_bytes: BLOCK_BYTES,
        slots,
        slot_by,
        routing,
        sort,
        sort_by,
        sort_bytes_max: SORT_BYTES,
        limit: options.limit,
        rate: options.rate,
        on_error: options.on_error,
        rejects_max: options.rejects_max,
        attempts_max: ATTEMPTS_MAX,
        attempts_time_max: ATTEMPTS_TIME_MAX,
        ledger,
        preparation: inputs.preparation,
        single_transaction: options.single_transaction,
        create: inputs.create.clone(),
        inferred,
        // A lane holds less than a write while it waits for more, so one further block always finds room.
        queue_bytes_max: jobs * batch_bytes + (jobs + 2) * BLOCK_BYTES,
        settings_changed,
        guarantees_lost,
        notes: notes.concat(),
    })
}

/// What is found while rows go in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tuned {
    /// The rows of a write.
    pub rows: bool,
    /// How many lanes write at once.
    pub lanes: bool,
}

/// What is found while rows go in: nothing that was asked for, and nothing that commits say too little of.
fn tuned(options: &LoadOptions, commits: CommitTimes) -> Tuned {
    let is_asked_for = options.tune == Tune::Auto;
    Tuned {
        rows: is_asked_for
            && commits == CommitTimes::Comparable
            && options.batch_rows.is_none()
            && options.batch_bytes.is_none(),
        lanes: is_asked_for && options.jobs.is_none() && options.jobs_per_shard.is_none(),
    }
}

/// Where the columns of these names are among those written; names that are not written are left out.
fn positions(columns: &[WriteColumn], names: &[String]) -> Vec<usize> {
    let position = |name: &String| columns.iter().position(|column| column.name == *name);
    names.iter().filter_map(position).collect()
}

/// Whether the client can decide that values of the table's column `name` are equal.
fn is_provable(table: &Table, name: &str) -> bool {
    let column = table.column(name);
    column.is_some_and(|column| column.equality == Equality::Provable)
}
