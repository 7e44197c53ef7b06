//! The plan: what will be done, decided once, printable. A pure function of what the database can do, the table, the
//! source and the options; nothing downstream reads an option.

mod columns;
mod keys;
mod options;
mod shards;
mod show;
mod statement;

use std::{path::PathBuf, sync::Arc, time::Duration};

use arrow::datatypes::{Field, Schema, SchemaRef};

pub(crate) use self::columns::mapped;
pub(crate) use self::columns::replaces_header;
use self::columns::{check_numbered, match_columns, missing};
pub use self::{
    options::{Attempt, Create, LedgerPlace, LoadOptions, OnError, Rate, RejectsMax, Sort},
    show::Bytes,
};
use tonnage_core::{
    error::{Error, Result},
    operation::{Durability, Method, Mode, Operation, Split, Support},
    preparation::{Preparation, PreparationEffects},
    retry::Attempts,
    router::Routing,
    source::SourceSchema,
    statement::Statement,
    table::{Equality, LessDurable, Loss, Table},
    target::{Capabilities, OtherUniqueKeys, Routed, StatementMax, WriteColumn, WriteRequest},
};
use tonnage_formats::sources::{Scan, csv::suspicious_delimiter};

/// Rows of a block at most. Blocks are the unit of reading and of the ledger's marks.
pub const BLOCK_ROWS: usize = 65_536;
/// Source bytes of a block: it ends with the row that reaches them.
pub const BLOCK_BYTES: usize = 8 << 20;
/// Slots of a run: more than lanes will ever be, few enough that their ledger rows cost nothing.
pub const SLOTS: u16 = 64;
/// Arrow bytes of a write unless asked for.
pub const BATCH_BYTES: usize = 16 << 20;
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

/// How rows are dealt to slots.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SlotBy {
    /// A block's rows to slot `block % slots`: rows stand alone.
    Block,
    /// By the hash of the key: rows of one key keep their order.
    Key,
    /// By the shard that they belong to: see [`Plan::routing`].
    Shard,
    /// All to one: keys whose equality only the server knows keep their order.
    One,
}

impl SlotBy {
    /// Its name in the plan and in the ledger.
    pub fn name(self) -> &'static str {
        match self {
            Self::Block => "block",
            Self::Key => "key",
            Self::Shard => "shard",
            Self::One => "one",
        }
    }
}

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
    /// Where rows belong, of a table that lies in several places.
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
        let field = |c: &WriteColumn| Field::new(&c.name, c.ty.arrow(), true);
        Arc::new(Schema::new(self.columns.iter().map(field).collect::<Vec<_>>()))
    }
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
    /// [`Target::other_unique_keys`](tonnage_core::target::Target::other_unique_keys).
    pub other_unique_keys: &'a dyn Fn(&[String]) -> OtherUniqueKeys,
    /// Whether the target can do an operation by a method.
    pub support: &'a dyn Fn(&Operation, Method) -> Support,
    /// What a statement carries of so many columns: [`Target::statement_max`](tonnage_core::target::Target::statement_max).
    pub statement_max: &'a dyn Fn(usize, Method, Split) -> Result<Option<StatementMax>>,
    /// Where the table's rows belong.
    pub routed: Routed,
    /// What is to be done to the table around its rows.
    pub preparation: Preparation,
    /// What the target says that this will do.
    pub effects: PreparationEffects,
    /// The local file that holds the ledger; none where it is beside the rows.
    pub ledger_file: Option<PathBuf>,
    /// The settings a writer changes.
    pub settings: &'a dyn Fn(Durability) -> Vec<String>,
    /// Processors of this machine.
    pub processors: usize,
}

/// Decides. Everything that can be refused before the first row is refused here, except values themselves.
pub fn decide(inputs: &PlanInputs) -> Result<Plan> {
    let PlanInputs {
        capabilities,
        table,
        options,
        ..
    } = inputs;
    let (columns, operation) = match &inputs.statement {
        Some(statement) => (
            statement::match_parameters(table, inputs.source, options)?,
            statement::operation(statement, table, options)?,
        ),
        None => {
            let columns = match_columns(table, inputs.source, options)?;
            let operation = operation(table, inputs.source, &columns, options)?;
            (columns, operation)
        }
    };
    let columns = match &operation {
        Operation::Delete { key } => columns.into_iter().filter(|c| key.contains(&c.name)).collect(),
        _ => columns,
    };
    let by_any_key = keys::any(inputs, &operation)?;
    let method = method(capabilities, &operation, options, inputs.support)?;
    let statement_max = (inputs.statement_max)(columns.len(), method, options.split)?;
    let durability = durability(capabilities, table, options)?;
    let position = |name: &String| columns.iter().position(|c| c.name == *name);

    let provable = |name: &String| {
        table
            .column(name)
            .is_some_and(|c| c.equality == Equality::Provable)
    };
    // What keeps its order: rows that the operation takes for one, or that an insert is to meet in their order.
    let ordered_by: &[String] = match (&operation, table.primary_key()) {
        (Operation::Insert, Some(key)) if options.in_key_order => {
            let loaded = key.columns.iter().all(|name| position(name).is_some());
            if loaded { &key.columns } else { &[] }
        }
        _ => operation.key(),
    };
    let slot_by = match &operation {
        Operation::Insert if ordered_by.is_empty() => SlotBy::Block,
        Operation::Statement { statement, key } if key.is_empty() => match statement.stands_alone() {
            true => SlotBy::Block,
            false => SlotBy::One,
        },
        // Rows of different keys may be one row by another of its keys.
        _ if by_any_key.is_some() => SlotBy::One,
        _ if !ordered_by.iter().all(provable) => SlotBy::One,
        // One writer keeps the order of keys by itself, and one slot keeps the order of a sort.
        _ if capabilities.writers_max == Some(1) => SlotBy::One,
        _ => SlotBy::Key,
    };
    let mut notes = table.notes.clone();
    let routing = match &inputs.routed {
        Routed::No => None,
        Routed::Not(why) => {
            notes.push(why.clone());
            None
        }
        Routed::By(router) => shards::routing(router, inputs.source, &columns, &operation)?,
    };
    let slot_by = match (&routing, slot_by) {
        (Some(_), SlotBy::Block) => SlotBy::Shard,
        (_, by) => by,
    };
    let separate_databases = routing.as_ref().filter(|routing| routing.separate_databases());
    let databases = separate_databases.map_or(1, Routing::shards);
    let one_job = if databases > 1 {
        "one job a database"
    } else {
        "one job"
    };
    // Each shard has as many slots as the others.
    let slots = match &routing {
        Some(routing) => (usize::from(SLOTS) / routing.shards()).max(1) * routing.shards(),
        None => usize::from(SLOTS),
    } as u16;
    notes.extend(inputs.source.header.iter().flatten().cloned());
    if replaces_header(inputs.source, options) {
        notes.push(format!(
            "--columns takes the place of the names in the header of {}",
            inputs.source.shown
        ));
    }
    notes.extend(check_numbered(
        table,
        inputs.source,
        &columns,
        &operation,
        options,
    )?);
    if options.create != Create::No
        && let Some(delimiter) = suspicious_delimiter(inputs.source)
    {
        notes.push(format!(
            "the header of {} is one field with '{1}' in it: --delimiter '{1}' would cut it",
            inputs.source.shown,
            delimiter.escape_default()
        ));
    }
    let is_inferred = inputs.create.is_some() && inputs.source.text && options.scan == Scan::Sample;
    let asked = |name: &str| {
        options
            .types
            .iter()
            .any(|(asked, _)| asked.to_lowercase() == name.to_lowercase())
    };
    let inferred = columns
        .iter()
        .filter(|column| is_inferred && !asked(&column.name))
        .map(|column| column.name.clone())
        .collect();
    if inputs.create.is_some() {
        for column in &columns {
            let from = &inputs.source.columns[column.source];
            let asked = options.types.iter().any(|(name, _)| *name == column.name);
            if let Some((word, ty)) = &from.null_word
                && !asked
            {
                notes.push(format!(
                    "column '{}' is text because of '{word}', without which it would be {ty}: --null '{word}'",
                    column.name
                ));
            }
        }
    }
    let mut jobs_max = capabilities.writers_max.unwrap_or(usize::from(SLOTS));
    if jobs_max > 1 {
        notes.extend(statement::order(&operation, slot_by, one_job));
    }
    if slot_by == SlotBy::One && jobs_max > databases && operation.key().is_empty() {
        jobs_max = databases;
    }
    if slot_by == SlotBy::One && jobs_max > databases {
        jobs_max = databases;
        notes.push(match by_any_key {
            Some(_) => {
                format!("rows of different keys may be one row by another key: {one_job} keeps their order")
            }
            None => format!(
                "only the server can tell whether two values of ({}) are equal: {one_job} keeps their order",
                operation.key().join(", ")
            ),
        });
    }
    if options.single_transaction {
        if databases > 1 {
            return Err(Error::config(format!(
                "--single-transaction: no transaction spans the {databases} databases of a sharded target"
            ))
            .hint("leave it out, or load each database by itself"));
        }
        if method == Method::Single {
            return Err(Error::config(
                "--method single commits every row, --single-transaction all of them at once",
            )
            .hint("--method batch sends a row a statement and leaves the commit to the end"));
        }
        if !table.transactional {
            return Err(Error::schema(format!(
                "table {} takes no part in transactions: --single-transaction could not undo what it has written",
                table.name
            ))
            .hint("leave --single-transaction out"));
        }
        if let Some(less) = table
            .less_durable
            .as_ref()
            .filter(|less| less.loss == Loss::Apart)
        {
            return Err(Error::schema(format!(
                "{}: no transaction makes all rows there and here, or none",
                less.why
            ))
            .hint("leave --single-transaction out"));
        }
        jobs_max = 1;
        notes.push("all rows or none: one job writes them in one transaction".to_owned());
        if options.create != Create::No {
            notes.push(
                "a table that is missing is created before, and dropped again where the run fails".to_owned(),
            );
        }
    }
    let lanes = shards::lanes(
        options,
        &table.name,
        routing.as_ref(),
        jobs_max,
        inputs.processors,
    )?;
    notes.extend(lanes.notes);
    let jobs = lanes.lanes;
    let routing = routing.map(|routing| Routing {
        writes_max: lanes.writes_max,
        ..routing
    });

    let mut batch_rows = match method {
        Method::Single => 1,
        _ => options.batch_rows.unwrap_or(capabilities.batch_rows_default),
    };
    if batch_rows == 0 {
        return Err(Error::config("--batch-rows must be at least 1"));
    }
    if method == Method::Array {
        let most = (capabilities.array_rows_max)(columns.len()).max(1);
        if let Some(asked) = options.batch_rows.filter(|asked| *asked > most) {
            notes.push(format!(
                "{asked} rows a write were asked for, one statement takes {most}"
            ));
        }
        batch_rows = batch_rows.min(most);
    }
    let mut batch_bytes = options.batch_bytes.unwrap_or(BATCH_BYTES).max(1);
    // A rate is kept between writes, so writes are small enough to begin several times a second.
    match options.rate {
        Some(Rate::Rows(0) | Rate::Bytes(0) | Rate::Offered(0)) => {
            return Err(Error::config("--rate must be more than 0"));
        }
        Some(Rate::Rows(rate)) => batch_rows = batch_rows.min((rate / WRITES_A_SECOND).max(1) as usize),
        Some(Rate::Bytes(rate)) => batch_bytes = batch_bytes.min((rate / WRITES_A_SECOND).max(1) as usize),
        // Who measures asks for a size.
        Some(Rate::Offered(_)) | None => {}
    }

    let sort_by: Vec<usize> = match table.primary_key() {
        Some(key) => key.columns.iter().map_while(position).collect(),
        None => Vec::new(),
    };
    // Rows that are one to the database keep their order only where they are one to the sort as well.
    let keeps_order = match &operation {
        Operation::Insert | Operation::Delete { .. } | Operation::Statement { .. } => true,
        Operation::Upsert { key } | Operation::Ignore { key } | Operation::Update { key } => {
            let same = |at: &usize| key.contains(&columns[*at].name) && provable(&columns[*at].name);
            by_any_key.is_none() && sort_by.iter().all(same)
        }
    };
    let sort = match options.sort {
        Some(sort) => sort,
        None if sort_by.is_empty() || !keeps_order => Sort::None,
        None => Sort::Block,
    };
    if sort != Sort::None && sort_by.is_empty() {
        return Err(Error::config(format!(
            "--sort {} needs a primary key of {} among the loaded columns",
            sort.name(),
            table.name
        ))
        .hint("leave --sort out, or load the key's first column"));
    }
    if sort != Sort::None && !keeps_order {
        return Err(Error::config(format!(
            "--sort {} could change the order of rows of one key: {} goes by ({}), which the primary key does not order",
            sort.name(),
            operation.name(),
            operation.key().join(", ")
        ))
        .hint("leave --sort out"));
    }

    let mut guarantees_lost: Vec<String> = by_any_key.into_iter().collect();
    let ledger = match (options.ledger, &inputs.ledger_file) {
        (LedgerPlace::Target | LedgerPlace::Local, Some(file)) => {
            notes.push(format!(
                "the ledger is {}: on another machine, or without that file, nothing knows of the run",
                file.display()
            ));
            LedgerPlace::Local
        }
        (place, _) => place,
    };
    if !table.transactional {
        if ledger == LedgerPlace::Target {
            return Err(Error::schema(format!(
                "table {} takes no part in transactions: its rows and the ledger cannot move together",
                table.name
            ))
            .hint("--ledger none loads it without one: what an interrupted run has written then stays"));
        }
        guarantees_lost.push(format!(
            "{} takes no part in transactions: what a write that fails has written stays, and is written again when \
             it is tried again",
            table.name
        ));
    }
    if options.ledger == LedgerPlace::None {
        guarantees_lost
            .push("no ledger: an interrupted run cannot be resumed, and a connection lost during a commit leaves open whether its rows are there".to_owned());
    } else if let Some(why) = inputs.not_rereadable {
        guarantees_lost.push(format!("{why}: an interrupted run cannot be resumed"));
    }
    guarantees_lost.extend(durability.given_up().map(str::to_owned));
    guarantees_lost.extend(table.less_durable.as_ref().map(LessDurable::given_up));
    if inputs.preparation.truncates() {
        notes.push(match options.single_transaction {
            true => format!(
                "{} is emptied in the transaction of its rows, and may be locked until that ends",
                table.name
            ),
            false => format!(
                "{} is emptied when the run starts, in a transaction before its rows",
                table.name
            ),
        });
    }
    notes.extend(inputs.effects.notes.iter().cloned());
    let mut settings_changed = (inputs.settings)(durability);
    settings_changed.extend(inputs.effects.settings.iter().cloned());
    if inputs.preparation.option().is_some() && inputs.not_rereadable.is_some() {
        notes.push(
            "if the run is interrupted, `tonnage runs TARGET --forget RUN` puts the table right".to_owned(),
        );
    }
    Ok(Plan {
        product: capabilities.product.clone(),
        table: table.clone(),
        key_at: ordered_by.iter().filter_map(position).collect(),
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
        batch_rows,
        batch_bytes,
        block_rows: BLOCK_ROWS,
        block_bytes: BLOCK_BYTES,
        slots,
        slot_by,
        routing,
        sort,
        sort_by: if sort != Sort::None { sort_by } else { Vec::new() },
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
        notes,
    })
}

fn operation(
    table: &Table,
    source: &SourceSchema,
    columns: &[WriteColumn],
    options: &LoadOptions,
) -> Result<Operation> {
    if options.mode == Mode::Insert {
        if !options.key.is_empty() && options.create == Create::No {
            return Err(
                Error::config("--key is not used by --mode insert").hint("did you mean --mode upsert?")
            );
        }
        return Ok(Operation::Insert);
    }
    let key = if options.key.is_empty() {
        let Some(primary) = table.primary_key() else {
            let error = Error::schema(format!(
                "table {} has no primary key to recognise rows by",
                table.name
            ));
            return Err(match unique_keys(table) {
                Some(keys) => error.hint(format!("--key names a unique key: {keys}")),
                None if options.create != Create::No => {
                    error.hint("--key names the columns of the primary key that --create makes")
                }
                None => error.hint(format!(
                    "{} needs a primary key or a unique constraint: add one to the table",
                    options.mode.phrase()
                )),
            });
        };
        primary.columns.clone()
    } else {
        let asked = options
            .key
            .iter()
            .map(|name| {
                table
                    .column(name)
                    .map(|c| c.name.clone())
                    .ok_or_else(|| missing(table, name))
            })
            .collect::<Result<Vec<_>>>()?;
        let same = |key: &[String]| key.len() == asked.len() && key.iter().all(|c| asked.contains(c));
        match table.keys.iter().find(|k| same(&k.columns)) {
            Some(key) => key.columns.clone(),
            None => {
                let error = Error::schema(format!(
                    "table {} has no unique key on ({})",
                    table.name,
                    asked.join(", ")
                ));
                return Err(match unique_keys(table) {
                    Some(keys) => error.hint(format!("its unique keys are {keys}")),
                    None => error.hint(format!(
                        "{} needs a primary key or a unique constraint: add one to the table",
                        options.mode.phrase()
                    )),
                });
            }
        }
    };
    if let Some(absent) = key.iter().find(|k| !columns.iter().any(|c| c.name == **k)) {
        return Err(
            Error::schema(format!("{} does not fill key column '{absent}'", source.shown)).hint(format!(
                "{} needs every column of its key; --map names a column of another name",
                options.mode.phrase()
            )),
        );
    }
    match options.mode {
        Mode::Insert => Ok(Operation::Insert),
        Mode::Upsert => Ok(Operation::Upsert { key }),
        Mode::Ignore => Ok(Operation::Ignore { key }),
        Mode::Update if columns.iter().all(|c| key.contains(&c.name)) => Err(Error::schema(format!(
            "the source has nothing but the key ({}): there is nothing to update",
            key.join(", ")
        ))),
        Mode::Update => Ok(Operation::Update { key }),
        Mode::Delete => Ok(Operation::Delete { key }),
    }
}

fn unique_keys(table: &Table) -> Option<String> {
    let keys: Vec<_> = table
        .keys
        .iter()
        .map(|k| format!("({})", k.columns.join(", ")))
        .collect();
    (!keys.is_empty()).then(|| keys.join(", "))
}

fn method(
    capabilities: &Capabilities,
    operation: &Operation,
    options: &LoadOptions,
    support: &dyn Fn(&Operation, Method) -> Support,
) -> Result<Method> {
    let candidates: Vec<Method> = match options.method {
        Some(method) => vec![method],
        None => capabilities.methods.to_vec(),
    };
    let mut refusal = None;
    for method in candidates {
        if !capabilities.methods.contains(&method) {
            let methods: Vec<_> = capabilities.methods.iter().map(ToString::to_string).collect();
            return Err(
                Error::config(format!("{} has no method '{method}'", capabilities.product))
                    .hint(format!("it has {}", methods.join(", "))),
            );
        }
        match support(operation, method) {
            Support::Yes => return Ok(method),
            Support::No { why, instead } => {
                refusal.get_or_insert(
                    Error::config(format!("{} by method {method}: {why}", operation.name())).hint(instead),
                );
            }
        }
    }
    Err(refusal.unwrap_or_else(|| Error::bug("a target without methods")))
}

/// What a commit is to promise: the strongest that the table keeps, unless another is asked for. Where rows are committed
/// apart from the ledger, that is durable all the same.
fn durability(capabilities: &Capabilities, table: &Table, options: &LoadOptions) -> Result<Durability> {
    let less = table.less_durable.as_ref();
    // Where several nodes answer for a row, fewer answers would make it worse.
    let is_lowered = less.is_some_and(|less| less.loss != Loss::Apart)
        && [Durability::Relaxed, Durability::Durable]
            .iter()
            .all(|level| capabilities.durability.contains(level));
    let best = match is_lowered {
        true => Durability::Relaxed,
        false => Durability::Durable,
    };
    match (options.durability, less) {
        (None, _) => [best, Durability::Majority]
            .into_iter()
            .find(|level| capabilities.durability.contains(level))
            .or(capabilities.durability.last().copied())
            .ok_or_else(|| Error::bug("a target without durability levels")),
        (Some(Durability::Durable), Some(less)) => Err(Error::config(format!(
            "durability 'durable' cannot be kept: {}",
            less.why
        ))
        .hint(&less.instead)),
        (Some(asked), _) if capabilities.durability.contains(&asked) => Ok(asked),
        (Some(asked), _) => {
            let levels: Vec<_> = capabilities.durability.iter().map(ToString::to_string).collect();
            Err(Error::config(format!(
                "{} cannot keep durability '{asked}'",
                capabilities.product
            ))
            .hint(format!("it keeps {}", levels.join(", "))))
        }
    }
}
