//! The plan: what will be done, decided once, printable. A pure function of what the database can do, the table, the
//! source and the options; nothing downstream reads an option.

use std::{fmt, path::PathBuf, sync::Arc};

use arrow::datatypes::{Field, Schema, SchemaRef};

use crate::{
    error::{Error, Result},
    operation::{Durability, Method, Operation, Support},
    source::SourceSchema,
    sources::csv::suspicious_delimiter,
    table::{Column, Equality, Table, TableName, columns_hint, find_by_name, nearest},
    target::Capabilities,
    types::ColumnType,
};

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
/// Attempts at one write before a transient error ends the run.
pub const ATTEMPTS_MAX: u32 = 8;

/// What a user asked for; everything `None` is decided by the plan.
#[derive(Debug, Clone)]
pub struct LoadOptions {
    /// The table.
    pub table: TableName,
    /// What happens to rows.
    pub mode: Mode,
    /// The columns that recognise a row; empty takes the primary key.
    pub key: Vec<String>,
    /// How rows travel.
    pub method: Option<Method>,
    /// The most rows of a write.
    pub batch_rows: Option<usize>,
    /// The most bytes of a write.
    pub batch_bytes: Option<usize>,
    /// Lanes.
    pub jobs: Option<usize>,
    /// What a commit promises.
    pub durability: Option<Durability>,
    /// The order of rows.
    pub sort: Option<Sort>,
    /// Whether to empty the table first.
    pub truncate: bool,
    /// Whether to create the table.
    pub create: Create,
    /// Types for columns of a created table.
    pub types: Vec<(String, ColumnType)>,
    /// Source column to table column.
    pub map: Vec<(String, String)>,
    /// The table columns to load; without a header the names of the source's fields.
    pub columns: Option<Vec<String>>,
    /// The most source rows to read.
    pub limit: Option<u64>,
    /// What a bad row does.
    pub on_error: OnError,
    /// Where rejects go; none takes a name of the run's own in the working directory.
    pub rejects: Option<PathBuf>,
    /// How many rejects stop the run.
    pub rejects_max: RejectsMax,
    /// New run, or an unfinished one.
    pub attempt: Attempt,
    /// Where positions are kept.
    pub ledger: LedgerPlace,
    /// Zone of times that carry none (IANA name).
    pub timezone: Option<String>,
}

impl LoadOptions {
    /// Insert into `table`, everything else decided by the plan.
    pub fn new(table: TableName) -> Self {
        Self {
            table,
            mode: Mode::Insert,
            key: Vec::new(),
            method: None,
            batch_rows: None,
            batch_bytes: None,
            jobs: None,
            durability: None,
            sort: None,
            truncate: false,
            create: Create::No,
            types: Vec::new(),
            map: Vec::new(),
            columns: None,
            limit: None,
            on_error: OnError::Stop,
            rejects: None,
            rejects_max: RejectsMax::Rows(REJECTS_MAX),
            attempt: Attempt::New,
            ledger: LedgerPlace::Target,
            timezone: None,
        }
    }
}

/// The operation by name; its key is resolved by the plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// See [`Operation::Insert`].
    Insert,
    /// See [`Operation::Upsert`].
    Upsert,
    /// See [`Operation::Ignore`].
    Ignore,
    /// See [`Operation::Update`].
    Update,
    /// See [`Operation::Delete`].
    Delete,
}

impl Mode {
    /// As the subject of a sentence.
    fn phrase(self) -> &'static str {
        match self {
            Self::Insert => "an insert",
            Self::Upsert => "an upsert",
            Self::Ignore => "--mode ignore",
            Self::Update => "an update",
            Self::Delete => "a delete",
        }
    }
}

/// The order of a slot's rows within a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sort {
    /// As in the source.
    None,
    /// By primary key: a tree index is filled page by page.
    Block,
    /// The whole source by primary key before the first row is written, on disk where memory does not do.
    Full,
}

impl Sort {
    /// Its name on the command line and in the ledger.
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Block => "block",
            Self::Full => "full",
        }
    }
}

/// Whether to create the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Create {
    /// It must be there.
    No,
    /// If it is missing.
    Missing,
    /// It must not be there.
    New,
}

/// What a bad row does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnError {
    /// Ends the run; the write it is in is undone.
    Stop,
    /// Goes to the rejects file; the run goes on.
    Reject,
}

/// How many rejects stop a run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum RejectsMax {
    /// This many are allowed.
    Rows(u64),
    /// This share of the rows read so far is allowed, in percent; counted from the 1,000th row on.
    Percent(f64),
}

impl RejectsMax {
    /// How many are allowed when `read` rows have been read.
    pub fn allowed(self, read: u64) -> u64 {
        match self {
            Self::Rows(rows) => rows,
            Self::Percent(percent) => (read.max(1_000) as f64 * percent / 100.0) as u64,
        }
    }
}

impl fmt::Display for RejectsMax {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rows(rows) => write!(f, "{rows}"),
            Self::Percent(percent) => write!(f, "{percent}%"),
        }
    }
}

/// New run, or an unfinished one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Attempt {
    /// A new run; refused while one of the same input is unfinished.
    New,
    /// Goes on where the unfinished run stopped; a new run where there is none.
    Resume,
    /// Forgets the unfinished run and starts a new one.
    Restart,
}

/// Where positions are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LedgerPlace {
    /// In the target, in the transactions of the rows.
    Target,
    /// Nowhere: not resumable, not exactly once.
    None,
}

/// How rows are dealt to slots.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SlotBy {
    /// A block's rows to slot `block % slots`: rows stand alone.
    Block,
    /// By the hash of the key: rows of one key keep their order.
    Key,
    /// All to one: keys whose equality only the server knows keep their order.
    One,
}

impl SlotBy {
    /// Its name in the plan and in the ledger.
    pub fn name(self) -> &'static str {
        match self {
            Self::Block => "block",
            Self::Key => "key",
            Self::One => "one",
        }
    }
}

/// A column the plan writes.
#[derive(Debug, Clone, PartialEq)]
pub struct PlanColumn {
    /// Index in the source.
    pub source: usize,
    /// Name in the source.
    pub source_name: String,
    /// Index in [`Table::columns`].
    pub target: usize,
    /// Name in the table.
    pub name: String,
    /// The type its values have when they reach the writer; never `Any`.
    pub ty: ColumnType,
}

/// The resolved decision.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The database and its version.
    pub product: String,
    /// The table.
    pub table: Arc<Table>,
    /// The columns written, in the order in which batches carry them.
    pub columns: Vec<PlanColumn>,
    /// What happens to a row.
    pub operation: Operation,
    /// How rows travel.
    pub method: Method,
    /// What a commit promises.
    pub durability: Durability,
    /// Lanes: connections that write at once.
    pub jobs: usize,
    /// The most rows of a write; a write is a commit.
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
    /// What a bad row does.
    pub on_error: OnError,
    /// How many rejects stop the run.
    pub rejects_max: RejectsMax,
    /// Attempts at one write before a transient error ends the run.
    pub attempts_max: u32,
    /// Where positions are kept.
    pub ledger: LedgerPlace,
    /// Whether the table is emptied first.
    pub truncate: bool,
    /// The statement that creates the table first.
    pub create: Option<String>,
    /// Arrow bytes held between reader and lanes at most.
    pub queue_bytes_max: usize,
    /// Session settings that differ from the server's, a line each.
    pub settings_changed: Vec<String>,
    /// What is given up, a sentence each.
    pub guarantees_lost: Vec<String>,
    /// What a user should know, a sentence each.
    pub notes: Vec<String>,
}

/// What [`decide`] decides from.
pub struct Premises<'a> {
    /// What the database can do.
    pub capabilities: &'a Capabilities,
    /// The table, there or about to be created.
    pub table: Arc<Table>,
    /// The statement that will create it.
    pub create: Option<String>,
    /// What the source holds.
    pub source: &'a SourceSchema,
    /// Whether the source can be read again.
    pub resumable: bool,
    /// What was asked for.
    pub options: &'a LoadOptions,
    /// Whether the target can do an operation by a method.
    pub support: &'a dyn Fn(&Operation, Method) -> Support,
    /// The settings a writer changes.
    pub settings: &'a dyn Fn(Durability) -> Vec<String>,
    /// Processors of this machine.
    pub processors: usize,
}

/// Decides. Everything that can be refused before the first row is refused here, except values themselves.
pub fn decide(premises: &Premises) -> Result<Plan> {
    let Premises {
        capabilities,
        table,
        options,
        ..
    } = premises;
    let columns = match_columns(table, premises.source, options)?;
    let operation = operation(table, premises.source, &columns, options)?;
    let columns = match &operation {
        Operation::Delete { key } => columns.into_iter().filter(|c| key.contains(&c.name)).collect(),
        _ => columns,
    };
    let method = method(capabilities, &operation, options, premises.support)?;
    let durability = durability(capabilities, options)?;
    let position = |name: &String| columns.iter().position(|c| c.name == *name);

    let provable = |name: &String| {
        table
            .column(name)
            .is_some_and(|c| c.equality == Equality::Provable)
    };
    let slot_by = match &operation {
        Operation::Insert => SlotBy::Block,
        keyed if !keyed.key().iter().all(provable) => SlotBy::One,
        // One writer keeps the order of keys by itself, and one slot keeps the order of a sort.
        _ if capabilities.writers_max == Some(1) => SlotBy::One,
        _ => SlotBy::Key,
    };
    let mut notes = table.notes.clone();
    if options.create != Create::No
        && let Some(delimiter) = suspicious_delimiter(premises.source)
    {
        notes.push(format!(
            "the header of {} is one field with '{1}' in it: --delimiter '{1}' would cut it",
            premises.source.shown,
            delimiter.escape_default()
        ));
    }
    let mut jobs_max = capabilities.writers_max.unwrap_or(usize::from(SLOTS));
    if slot_by == SlotBy::One && jobs_max > 1 {
        jobs_max = 1;
        notes.push(format!(
            "only the server can tell whether two values of ({}) are equal: one job keeps their order",
            operation.key().join(", ")
        ));
    }
    if let Some(jobs) = options.jobs.filter(|j| *j > jobs_max) {
        notes.push(format!("{jobs} jobs were asked for, {jobs_max} can be used"));
    }
    let jobs = options
        .jobs
        .unwrap_or(premises.processors.clamp(1, 4))
        .clamp(1, jobs_max);

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
    let batch_bytes = options.batch_bytes.unwrap_or(BATCH_BYTES).max(1);

    let sort_by: Vec<usize> = match table.primary_key() {
        Some(key) => key.columns.iter().map_while(position).collect(),
        None => Vec::new(),
    };
    let sort = match options.sort {
        Some(sort) => sort,
        None if sort_by.is_empty() => Sort::None,
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

    let mut guarantees_lost = Vec::new();
    if options.ledger == LedgerPlace::None {
        guarantees_lost
            .push("no ledger: an interrupted run cannot be resumed, and a connection lost during a commit leaves open whether its rows are there".to_owned());
    } else if !premises.resumable {
        guarantees_lost.push("the input is a pipe: an interrupted run cannot be resumed".to_owned());
    }
    if durability != Durability::Durable {
        guarantees_lost
            .push("durability relaxed: the last commits may be lost if the machine fails".to_owned());
    }
    if options.truncate {
        notes.push(format!(
            "{} is emptied when the run starts, in a transaction before its rows",
            table.name
        ));
    }
    Ok(Plan {
        product: capabilities.product.clone(),
        table: table.clone(),
        key_at: operation.key().iter().filter_map(position).collect(),
        deduplicate: slot_by == SlotBy::Key
            && !capabilities.repeats_keys
            && matches!(operation, Operation::Upsert { .. } | Operation::Update { .. }),
        columns,
        operation,
        method,
        durability,
        jobs,
        batch_rows,
        batch_bytes,
        block_rows: BLOCK_ROWS,
        block_bytes: BLOCK_BYTES,
        slots: SLOTS,
        slot_by,
        sort,
        sort_by: if sort != Sort::None { sort_by } else { Vec::new() },
        sort_bytes_max: SORT_BYTES,
        limit: options.limit,
        on_error: options.on_error,
        rejects_max: options.rejects_max,
        attempts_max: ATTEMPTS_MAX,
        ledger: options.ledger,
        truncate: options.truncate,
        create: premises.create.clone(),
        // A lane holds less than a write while it waits for more, so one further block always finds room.
        queue_bytes_max: jobs * batch_bytes + (jobs + 2) * BLOCK_BYTES,
        settings_changed: (premises.settings)(durability),
        guarantees_lost,
        notes,
    })
}

fn match_columns(table: &Table, source: &SourceSchema, options: &LoadOptions) -> Result<Vec<PlanColumn>> {
    for (from, to) in &options.map {
        if table.column(to).is_none() {
            return Err(missing(table, to).at(format!("--map {from}={to}")));
        }
        if find_by_name(&source.columns, from, |c| &c.name).is_none() {
            return Err(Error::config(format!(
                "--map {from}=..: {} has no column '{from}'",
                source.shown
            ))
            .hint(columns_hint(from, source.columns.iter().map(|c| c.name.as_str()))));
        }
    }
    let wanted = match &options.columns {
        Some(names) => Some(
            names
                .iter()
                .map(|name| {
                    table
                        .column(name)
                        .map(|c| c.name.clone())
                        .ok_or_else(|| missing(table, name))
                })
                .collect::<Result<Vec<_>>>()?,
        ),
        None => None,
    };
    let mut columns = Vec::new();
    if source.named || !options.map.is_empty() {
        for (index, column) in source.columns.iter().enumerate() {
            let mapped = options
                .map
                .iter()
                .find(|(from, _)| from.to_lowercase() == column.name.to_lowercase())
                .map_or(column.name.as_str(), |(_, to)| to.as_str());
            let found = table.columns.iter().position(|c| {
                find_by_name(&table.columns, mapped, |c| &c.name).is_some_and(|f| f.name == c.name)
            });
            match (found, &wanted) {
                (Some(at), Some(wanted)) if !wanted.contains(&table.columns[at].name) => {}
                (None, Some(_)) => {}
                (Some(at), _) => columns.push((index, at)),
                (None, None) => return Err(unknown_source_column(table, source, mapped)),
            }
        }
        for name in wanted.iter().flatten() {
            if !columns.iter().any(|(_, at)| table.columns[*at].name == *name) {
                return Err(Error::schema(format!(
                    "{} has no column '{name}', which --columns names",
                    source.shown
                ))
                .hint("--map fills it from a column of another name; without it in --columns it takes its default"));
            }
        }
    } else {
        let targets: Vec<usize> = match &wanted {
            Some(names) => names
                .iter()
                .filter_map(|n| table.columns.iter().position(|c| c.name == *n))
                .collect(),
            None => (0..table.columns.len())
                .filter(|at| !table.columns[*at].generated)
                .collect(),
        };
        if targets.len() != source.columns.len() {
            return Err(Error::schema(format!(
                "{} has {} fields a row, {} has {} columns to fill",
                source.shown,
                source.columns.len(),
                table.name,
                targets.len()
            ))
            .hint("name the table columns of the fields, in order: --columns a,b,c"));
        }
        columns.extend(targets.into_iter().enumerate());
    }
    let mut plan = Vec::with_capacity(columns.len());
    for (index, at) in columns {
        let (from, to) = (&source.columns[index], &table.columns[at]);
        if let Some(other) = plan.iter().find(|c: &&PlanColumn| c.target == at) {
            return Err(Error::config(format!(
                "columns '{}' and '{}' of {} both go to column '{}'",
                other.source_name, from.name, source.shown, to.name
            ))
            .hint("--map sends one of them to another column"));
        }
        plan.push(PlanColumn {
            source: index,
            source_name: from.name.clone(),
            target: at,
            name: to.name.clone(),
            ty: column_type(table, to, from.suggested, source.text)?,
        });
    }
    if plan.is_empty() {
        return Err(Error::schema(format!(
            "no column of {} goes to table {}",
            source.shown, table.name
        )));
    }
    for (name, ty) in &options.types {
        let column = table.column(name).ok_or_else(|| missing(table, name))?;
        if column.ty != Some(*ty) && column.ty != Some(ColumnType::Any) {
            return Err(Error::config(format!(
                "--type {name}={ty}: column '{}' of {} is there already, as {}",
                column.name, table.name, column.declared
            ))
            .hint("--type is for tables that --create makes; a column's own type decides how text is read"));
        }
    }
    Ok(plan)
}

fn column_type(
    table: &Table,
    column: &Column,
    suggested: Option<ColumnType>,
    text: bool,
) -> Result<ColumnType> {
    if column.generated {
        return Err(Error::schema(format!(
            "column '{}' of {} is computed by the database and takes no values",
            column.name, table.name
        ))
        .hint("leave it out: --columns names the columns to load"));
    }
    match column.ty {
        Some(ColumnType::Any) if text => Ok(ColumnType::TEXT),
        Some(ColumnType::Any) => suggested.ok_or_else(|| {
            Error::schema(format!(
                "column '{}': the source's type cannot be carried",
                column.name
            ))
        }),
        Some(ty) => Ok(ty),
        None => Err(Error::schema(format!(
            "column '{}' of {} has type {}, which this release cannot write exactly",
            column.name, table.name, column.declared
        ))
        .hint("leave it out: --columns names the columns to load")),
    }
}

fn missing(table: &Table, name: &str) -> Error {
    Error::schema(format!("table {} has no column '{name}'", table.name))
        .hint(columns_hint(name, table.columns.iter().map(|c| c.name.as_str())))
}

fn unknown_source_column(table: &Table, source: &SourceSchema, name: &str) -> Error {
    let error = Error::schema(format!(
        "{} has a column '{name}', which table {} lacks",
        source.shown, table.name
    ));
    if let Some(delimiter) = suspicious_delimiter(source) {
        let shown = delimiter.escape_default();
        return error.hint(format!(
            "the header is one field with '{shown}' in it: --delimiter '{shown}'"
        ));
    }
    let names = table.columns.iter().map(|c| c.name.as_str());
    match nearest(name, names.clone()).first() {
        Some(close) => error.hint(format!("--map {name}={close}, or --columns to leave it out")),
        None => error.hint(format!(
            "{}; --map names another, --columns leaves it out",
            columns_hint(name, names)
        )),
    }
}

fn operation(
    table: &Table,
    source: &SourceSchema,
    columns: &[PlanColumn],
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

fn durability(capabilities: &Capabilities, options: &LoadOptions) -> Result<Durability> {
    match options.durability {
        None => capabilities
            .durability
            .iter()
            .copied()
            .find(|d| *d == Durability::Durable)
            .or(capabilities.durability.last().copied())
            .ok_or_else(|| Error::bug("a target without durability levels")),
        Some(asked) if capabilities.durability.contains(&asked) => Ok(asked),
        Some(asked) => {
            let levels: Vec<_> = capabilities.durability.iter().map(ToString::to_string).collect();
            Err(Error::config(format!(
                "{} cannot keep durability '{asked}'",
                capabilities.product
            ))
            .hint(format!("it keeps {}", levels.join(", "))))
        }
    }
}

impl Plan {
    /// The schema of the batches that reach writers.
    pub fn schema(&self) -> SchemaRef {
        let field = |c: &PlanColumn| Field::new(&c.name, c.ty.arrow(), true);
        Arc::new(Schema::new(self.columns.iter().map(field).collect::<Vec<_>>()))
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut line = |name: &str, value: &dyn fmt::Display| writeln!(f, "{name:<12} {value}");
        line("database", &self.product)?;
        if let Some(create) = &self.create {
            line("create", &create.replace('\n', "\n             "))?;
        }
        line("table", &self.table.name)?;
        let key = self.operation.key();
        match key.is_empty() {
            true => line("operation", &self.operation.name())?,
            false => line(
                "operation",
                &format!("{} by ({})", self.operation.name(), key.join(", ")),
            )?,
        }
        line("method", &self.method)?;
        for (index, column) in self.columns.iter().enumerate() {
            let from = match column.source_name == column.name {
                true => String::new(),
                false => format!(" from {}", column.source_name),
            };
            let title = if index == 0 { "columns" } else { "" };
            line(title, &format!("{} {}{from}", column.name, column.ty))?;
        }
        line("jobs", &self.jobs)?;
        line(
            "write",
            &format!(
                "at most {} rows, {}; a commit each",
                self.batch_rows,
                Bytes(self.batch_bytes)
            ),
        )?;
        line(
            "block",
            &format!(
                "at most {} rows, about {}; {}",
                self.block_rows,
                Bytes(self.block_bytes),
                match self.slot_by {
                    SlotBy::One => "one slot".to_owned(),
                    by => format!("{} slots by {}", self.slots, by.name()),
                }
            ),
        )?;
        let names: Vec<_> = self
            .sort_by
            .iter()
            .map(|at| self.columns[*at].name.as_str())
            .collect();
        match self.sort {
            Sort::None => line("sort", &"none")?,
            Sort::Block => line("sort", &format!("within a block by ({})", names.join(", ")))?,
            Sort::Full => line(
                "sort",
                &format!(
                    "the whole source by ({}), in {} of memory, the rest in temporary files",
                    names.join(", "),
                    Bytes(self.sort_bytes_max)
                ),
            )?,
        }
        line("durability", &self.durability)?;
        let ledger = match self.ledger {
            LedgerPlace::Target => "in the target, in the transactions of the rows",
            LedgerPlace::None => "none",
        };
        line("ledger", &ledger)?;
        match self.on_error {
            OnError::Stop => line("bad rows", &"stop at the first")?,
            OnError::Reject => line(
                "bad rows",
                &format!("to the rejects file, at most {}", self.rejects_max),
            )?,
        }
        line("attempts", &format!("{} at a write", self.attempts_max))?;
        line("queue", &format!("at most {}", Bytes(self.queue_bytes_max)))?;
        if let Some(limit) = self.limit {
            line("limit", &format!("{limit} rows"))?;
        }
        for setting in &self.settings_changed {
            line("setting", setting)?;
        }
        for lost in &self.guarantees_lost {
            line("given up", lost)?;
        }
        for note in &self.notes {
            line("note", note)?;
        }
        Ok(())
    }
}

/// Bytes for people: `8.0 MiB`.
pub struct Bytes(pub usize);

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
        let mut value = self.0 as f64;
        let mut unit = 0;
        while value >= 1024.0 && unit + 1 < UNITS.len() {
            value /= 1024.0;
            unit += 1;
        }
        match unit {
            0 => write!(f, "{} B", self.0),
            _ => write!(f, "{value:.1} {}", UNITS[unit]),
        }
    }
}
