//! Bulk in: a source's rows into a table, each once and accounted for.
//!
//! [`prepare`] looks at table and source and decides the [`Plan`]; nothing is written. [`Prepared::run`] does it.

pub mod builder;
mod create;
mod deal;
mod earlier;
mod fitted;
mod identity;
mod isolate;
mod jobs;
mod keys;
mod lane;
mod preview;
mod rate;
mod rejects;
mod run;
mod select;
mod shards;
mod sort;
mod stages;
#[cfg(test)]
mod tests;
mod throttle;
mod tune;
mod whole;
mod write;

use std::{
    sync::{Arc, atomic::Ordering},
    time::Instant,
};

use tonnage_core::{
    error::{Error, ErrorKind, Result},
    ledger::{InputIdentity, RUNS_KEPT, RUNS_PRUNED_MAX, RunHandle, RunQuery, RunRecord},
    parse::{ParseContext, timezone},
    preparation::{Preparation, PreparationEffects, shadow},
    reject::Reject,
    report::{Bytes, Report, Rows, RunState, Skipped, peak_memory_bytes, processor_seconds},
    slot::{BlockMark, Counts, Position, SlotState},
    source::{ReadRequest, Source, SourceSchema},
    statement::Statement,
    stop::Stop,
    sync::Lock,
    table::{ColumnSpec, Numbered, Table, TableName, TableSpec, nearest},
    target::{self, Routed, Target},
};
use tonnage_formats::sources::{added, damage::has_changed, empty};

pub use self::{
    create::spec as create_spec,
    deal::{Convert, Piece, Segment, reject},
    identity::{changed_file, check_owned},
    jobs::{NewJob, NewParts, PartOfJob, PlannedJob},
    lane::LaneTask,
    rejects::RejectsFile,
    run::{AfterCommit, RunContext},
};
use self::{
    create::{missing_columns, provisional, provisional_column},
    deal::Dealer,
    fitted::{find_fitted, fitting_spec},
    identity::{Ownership, Reading, own, own_part, rejects_file},
    run::{beside, run},
    select::Selection,
    shards::Shards,
    sort::Sorted,
    stages::Times,
};
pub(crate) use self::{
    deal::{Kept, pick},
    jobs::no_jobs,
    run::truncate,
};
pub use self::{preview::Preview, select::prepare_files};
use crate::plan::{Attempt, Create, LedgerPlace, LoadOptions, Plan, PlanInputs, Sort, decide};
pub use crate::progress::{Pace, Progress, WriteTimes};

/// A load that has been decided and not begun.
pub struct Prepared {
    target: Arc<dyn Target>,
    url: String,
    source: Box<dyn Source>,
    options: LoadOptions,
    context: ParseContext,
    create: Option<TableSpec>,
    /// What is dropped before it.
    replaces: Option<Table>,
    /// Columns that the table is given before the first row.
    added_columns: Vec<ColumnSpec>,
    plan: Plan,
    watch: Option<Watch>,
    between: Option<Arc<dyn AfterCommit>>,
    selection: Option<Selection>,
    /// What is said of names that the database does not take.
    named: Vec<String>,
    /// What `{run}` and `{now}` of an added column are.
    run_start: Arc<added::RunStart>,
    /// The part of a job that it is.
    part: Option<PartOfJob>,
}

/// Told of rows that were put aside, once the commit that skips them is known.
pub(crate) type OnRejected = Box<dyn Fn(&[Reject]) + Send + Sync>;

/// Who wants to know what becomes of single rows while a load goes on.
pub(crate) struct Watch {
    /// See [`OnRejected`].
    pub rejected: OnRejected,
    /// See [`run::OnRowsDone`].
    pub rows_done: run::OnRowsDone,
}

/// What a target says of a load beforehand.
#[derive(Default)]
struct TargetFindings {
    effects: PreparationEffects,
    routed: Routed,
}

/// What a run ended as: the account, and the error that stopped it, if one did.
#[derive(Debug)]
pub struct Ended {
    /// The account; it balances in either case.
    pub report: Report,
    /// Why the run stopped before its end.
    pub error: Option<Error>,
}

/// Decides a load. Reads the catalogue and the source's schema; writes nothing. `url` is only shown, so it must be
/// redacted.
pub async fn prepare(
    target: Arc<dyn Target>,
    url: String,
    source: Box<dyn Source>,
    options: LoadOptions,
) -> Result<Prepared> {
    if options.new_files {
        return Err(
            Error::config("--new-files chooses among files, and the source is none of its own")
                .hint("leave --new-files out, or name files"),
        );
    }
    prepare_source(target, url, source, options).await
}

/// [`prepare`] of a source whose files were chosen.
async fn prepare_source(
    target: Arc<dyn Target>,
    url: String,
    source: Box<dyn Source>,
    mut options: LoadOptions,
) -> Result<Prepared> {
    let run_start: Arc<added::RunStart> = Arc::default();
    let context = ParseContext {
        timezone: options.timezone.as_deref().map(timezone).transpose()?,
        bytes_as_written: false,
        ..ParseContext::default()
    };
    let source = added::with_columns(source, &options.add, &context, run_start.clone())?;
    let destination = match &options.statement {
        Some(text) => Destination::of_statement(&*target, text).await?,
        None => {
            check_replaced(&options)?;
            let found = target.table(&options.table).await?;
            if found.is_none() && options.create == Create::No {
                return Err(no_table(&*target, &options, source.schema()).await);
            }
            Destination::choose(found, &*target, &*source, &mut options)?
        }
    };
    let source = empty::with_columns(source, fillable(&destination.table));
    let findings = destination.findings(&*target, &options).await?;
    let notes = destination.notes(&options);
    let Destination {
        table,
        statement,
        create,
        replaces,
        added_columns,
        named,
    } = destination;
    let mut plan = decide_for(
        &*target,
        table,
        statement,
        create.as_ref(),
        &*source,
        &options,
        findings,
    )?;
    plan.notes.extend(notes);
    // Refuses now what cannot be carried exactly.
    Convert::new(&plan, source.schema(), &context)?;
    Ok(Prepared {
        target,
        url,
        source,
        options,
        context,
        create,
        replaces,
        added_columns,
        plan,
        watch: None,
        between: None,
        selection: None,
        named,
        run_start,
        part: None,
    })
}

/// Where the rows go, and what is done to the table before the first of them.
struct Destination {
    /// The table, as it will be then; of a statement the one that its parameters are the columns of.
    table: Table,
    statement: Option<Statement>,
    create: Option<TableSpec>,
    /// What is dropped before it.
    replaces: Option<Table>,
    /// Columns that the table is given.
    added_columns: Vec<ColumnSpec>,
    /// What is said of names that the database does not take.
    named: Vec<String>,
}

impl Destination {
    /// A table that is there.
    fn existing(table: Table) -> Self {
        Self {
            table,
            statement: None,
            create: None,
            replaces: None,
            added_columns: Vec::new(),
            named: Vec::new(),
        }
    }

    /// A table that is to be made.
    fn made(spec: TableSpec) -> Self {
        Self {
            create: Some(spec.clone()),
            ..Self::existing(provisional(&spec))
        }
    }

    async fn of_statement(target: &dyn Target, text: &str) -> Result<Self> {
        let (statement, table) = describe(target, text).await?;
        Ok(Self {
            statement: Some(statement),
            ..Self::existing(table)
        })
    }

    /// The table that was found, or the one that is made. What the options say of columns is fitted to it.
    fn choose(
        found: Option<Table>,
        target: &dyn Target,
        source: &dyn Source,
        options: &mut LoadOptions,
    ) -> Result<Self> {
        let mut named = Vec::new();
        let destination = match (found, options.create) {
            (Some(table), Create::Replace) => {
                // What earlier attempts have written goes with the table.
                options.attempt = Attempt::Restart;
                let spec = TableSpec {
                    name: table.name.clone(),
                    ..fitting_spec(source, options, target, &mut named)?
                };
                Self {
                    replaces: Some(table),
                    ..Self::made(spec)
                }
            }
            (Some(table), Create::New) => {
                return Err(Error::config(format!("table {} exists", table.name))
                    .hint("--create=missing loads into it, --truncate empties it first"));
            }
            (Some(mut table), _) => {
                find_fitted(source, &table, options, &mut named);
                let mut added_columns = Vec::new();
                if options.add_columns {
                    added_columns = missing_columns(source, options, target, &table)?;
                    table.columns.extend(added_columns.iter().map(provisional_column));
                }
                Self {
                    added_columns,
                    ..Self::existing(table)
                }
            }
            (None, _) => Self::made(fitting_spec(source, options, target, &mut named)?),
        };
        Ok(Self { named, ..destination })
    }

    /// What the target says of it. A table that is to be made will have what it is created with.
    async fn findings(&self, target: &dyn Target, options: &LoadOptions) -> Result<TargetFindings> {
        let effects = match (&self.statement, &self.create) {
            (None, None) => {
                target
                    .check_preparation(&self.table, options.preparation()?)
                    .await?
            }
            _ => PreparationEffects::default(),
        };
        let routed = match &self.statement {
            Some(statement) => target.statement_router(statement, &self.table).await?,
            None => target.router(&self.table).await?,
        };
        Ok(TargetFindings { effects, routed })
    }

    /// What is done to the table and around its rows, as lines of the plan.
    fn notes(&self, options: &LoadOptions) -> Vec<String> {
        let mut notes = self.named.clone();
        notes.extend(self.replaces.iter().map(|replaced| {
            format!(
                "{} is dropped with its rows, its indexes and all that belongs to it, and made anew",
                replaced.name
            )
        }));
        notes.extend(self.added_columns.iter().map(|column| {
            format!(
                "{} is given the column '{}', {}",
                self.table.name, column.name, column.ty
            )
        }));
        let before = options.before_sql.iter();
        notes.extend(before.map(|script| format!("before the first row: {script}")));
        let after = options.after_sql.iter();
        notes.extend(after.map(|script| format!("after the last row: {script}")));
        notes
    }
}

/// Runs the SQL of an option.
pub(crate) async fn run_scripts(target: &dyn Target, scripts: &[String], option: &str) -> Result<()> {
    for script in scripts {
        tracing::info!("{option}: {script}");
        let ran = target.run_script(script).await;
        ran.map_err(|error| error.at(option))?;
    }
    Ok(())
}

/// The columns that take what a file gives them.
pub(crate) fn fillable(table: &Table) -> Vec<String> {
    let columns = table.columns.iter();
    let fillable = columns.filter(|column| {
        column.ty.is_some() && !column.generated && column.numbered != Some(Numbered::Always)
    });
    fillable.map(|column| column.name.clone()).collect()
}

/// Refuses to drop what is to be gone on with.
fn check_replaced(options: &LoadOptions) -> Result<()> {
    if options.create == Create::Replace && options.attempt == Attempt::Resume {
        return Err(
            Error::config("--resume goes on with what is there, and --create=replace drops it")
                .hint("leave one of them out"),
        );
    }
    Ok(())
}

/// Forgets unfinished runs into the table of this exact name, which is to be dropped: there will be nothing that they could
/// go on with.
pub(crate) async fn forget_runs_into(target: &dyn Target, table: &TableName) -> Result<()> {
    let name = table.to_string();
    for run in target.ledger().runs(&RunQuery::Unfinished).await? {
        if run.finished.is_none() && run.detail.table == name {
            target.ledger().forget(&run.run_id).await?;
        }
    }
    Ok(())
}

/// Drops a table that this run has made and not written to, so that the same command finds all as it was.
async fn drop_made(target: &dyn Target, table: &Table) {
    match target.drop_table(table, target::Rows::Keep).await {
        Ok(true) => tracing::info!(
            "table {}, which was made for this run, is dropped again",
            table.name
        ),
        Ok(false) => {}
        Err(error) => tracing::warn!(
            "table {}, which was made for this run, stays: {error}",
            table.name
        ),
    }
}

/// A statement, and the table of its parameters. Which run it is depends on its text and on the table that it names.
async fn describe(target: &dyn Target, text: &str) -> Result<(Statement, Table)> {
    let Some(dialect) = target.dialect() else {
        let product = &target.capabilities().product;
        return Err(Error::config(format!("{product} runs no statements of your own"))
            .hint("`tonnage targets` lists what each database can do"));
    };
    let statement = Statement::parse(text, dialect)?;
    let mut table = target.describe(&statement).await?;
    let named = match target.table(statement.table()).await {
        Ok(named) => named,
        // A name that means no table, as that of a view, is identified by its text alone.
        Err(error) if matches!(error.kind(), ErrorKind::Schema | ErrorKind::Config) => None,
        // Whatever else it is: the next attempt would find the table, and take this run for another one.
        Err(error) => return Err(error),
    };
    table.name = named
        .as_ref()
        .map_or(statement.table(), |named| &named.name)
        .clone();
    let object = named.map(|named| named.identity.object).unwrap_or_default();
    table.identity.object = identity_of_statement(&object, statement.normal());
    Ok((statement, table))
}

/// The identity of a table of parameters: that of the table which the statement names, and what it does there.
fn identity_of_statement(object: &str, statement: &str) -> String {
    format!("{object} {statement}")
}

fn decide_for(
    target: &dyn Target,
    table: Table,
    statement: Option<Statement>,
    create: Option<&TableSpec>,
    source: &dyn Source,
    options: &LoadOptions,
    outlook: TargetFindings,
) -> Result<Plan> {
    let table = Arc::new(table);
    decide(&PlanInputs {
        capabilities: target.capabilities(),
        table: table.clone(),
        statement,
        create: create.map(|spec| target.create_statement(spec)).transpose()?,
        source: source.schema(),
        not_rereadable: source.identity().is_none().then(|| source.not_rereadable()),
        options,
        other_unique_keys: &|key| target.other_unique_keys(&table, key),
        support: &|operation, method| target.support(&table, operation, method),
        statement_max: &|columns, method, split| target.statement_max(&table, columns, method, split),
        preparation: options.preparation()?,
        effects: outlook.effects,
        routed: outlook.routed,
        ledger_file: target.ledger_file(),
        settings: &|durability| target.settings(durability),
        processors: std::thread::available_parallelism().map_or(1, usize::from),
    })
}

pub(crate) async fn no_table(target: &dyn Target, options: &LoadOptions, source: &SourceSchema) -> Error {
    let names = target.table_names().await;
    // A database without any table is most often not the one that was meant.
    let empty = match &names {
        Ok(names) if names.is_empty() => ", nor any other in this database",
        _ => "",
    };
    let error = Error::schema(format!("there is no table {}{empty}", options.table));
    let names = names.unwrap_or_default();
    let close = nearest(&options.table.name, names.iter().map(String::as_str));
    match close.is_empty() {
        false => error.hint(format!("did you mean {}?", close.join(" or "))),
        true => error.hint(format!(
            "--create makes it, with the {} columns of {}",
            source.columns.len(),
            source.shown
        )),
    }
}

impl Prepared {
    /// The decision.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Has `watch` called for single rows.
    pub(crate) fn watched(mut self, watch: Watch) -> Self {
        self.watch = Some(watch);
        self
    }

    /// Has lanes do this between their writes; not of a single transaction, which has none.
    pub fn with_between(mut self, between: Arc<dyn AfterCommit>) -> Self {
        self.between = Some(between);
        self
    }

    pub(crate) fn options(&self) -> &LoadOptions {
        &self.options
    }

    pub(crate) fn target(&self) -> &Arc<dyn Target> {
        &self.target
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    pub(crate) fn source_identity(&self) -> Option<Vec<InputIdentity>> {
        self.source.identity()
    }

    /// What `{run}` and `{now}` of its added columns are.
    pub(crate) fn run_start(&self) -> Arc<added::RunStart> {
        self.run_start.clone()
    }

    /// Whether the table is made for this load.
    pub(crate) fn makes_table(&self) -> bool {
        self.create.is_some()
    }

    /// Source bytes to be read, if known.
    pub fn bytes_total(&self) -> Option<u64> {
        self.source.bytes_total()
    }

    /// Whether an interrupted run can be gone on with: it has a ledger, and its input can be read again.
    pub fn resumable(&self) -> bool {
        self.plan.ledger != LedgerPlace::None && self.source.identity().is_some()
    }

    /// Moves the rows. Errors before the first row are returned as such; one that stops the run later comes with the
    /// account, and the run can then be resumed if its input can. A table that is made for the run is dropped again
    /// where nothing was committed.
    pub async fn run(self, progress: Arc<Progress>, stop: Stop) -> Result<Ended> {
        if self.selection.as_ref().is_some_and(|selection| selection.nothing) {
            return self.carry_out(progress, stop).await;
        }
        let target = self.target.clone();
        let (prepared, made) = self.with_table().await?;
        let ended = prepared.carry_out(progress.clone(), stop).await;
        let error = match &ended {
            Ok(ended) => ended.error.as_ref(),
            Err(error) => Some(error),
        };
        if let (Some(error), Some(made)) = (error, made)
            && !matches!(error.kind(), ErrorKind::Fenced | ErrorKind::InDoubt)
            && !progress.recorded.load(Ordering::Relaxed)
            && progress.commits.load(Ordering::Relaxed) == 0
        {
            drop_made(&*target, &made).await;
        }
        ended
    }

    /// The same load once its table is as the first row is to find it; and the table, where it was made just now and in
    /// place of none.
    async fn with_table(mut self) -> Result<(Self, Option<Table>)> {
        let target = self.target.clone();
        let added_columns = std::mem::take(&mut self.added_columns);
        if !added_columns.is_empty() {
            let name = self.plan.table.name.clone();
            let gone = || Error::schema(format!("table {name} is not there any more"));
            let table = target.table(&name).await?.ok_or_else(gone)?;
            target.add_columns(&table, &added_columns).await?;
            let table = target.table(&name).await?.ok_or_else(gone)?;
            return Ok((self.onto_made(table).await?, None));
        }
        let Some(spec) = self.create.take() else {
            return Ok((self, None));
        };
        if let Some(replaced) = self
            .replaces
            .as_ref()
            .filter(|_| self.plan.ledger != LedgerPlace::None)
        {
            forget_runs_into(&*target, &replaced.name).await?;
        }
        if let Some(replaced) = &self.replaces
            && !target.drop_table(replaced, target::Rows::Drop).await?
        {
            return Err(Error::schema(format!(
                "table {} is not the one any more that was to be replaced",
                replaced.name
            ))
            .hint("run the command again"));
        }
        target.create(&spec).await?;
        let table = target.table(&spec.name).await?;
        let table =
            table.ok_or_else(|| Error::bug(format!("table {} is not there once created", spec.name)))?;
        let is_new = self.replaces.is_none();
        match self.onto_made(table.clone()).await {
            Ok(prepared) => Ok((prepared, is_new.then_some(table))),
            Err(error) => {
                if is_new && !matches!(error.kind(), ErrorKind::Fenced | ErrorKind::InDoubt) {
                    drop_made(&*target, &table).await;
                }
                Err(error)
            }
        }
    }

    /// The same load into the table that was made for it.
    async fn onto_made(mut self, table: Table) -> Result<Self> {
        let outlook = TargetFindings {
            effects: self
                .target
                .check_preparation(&table, self.plan.preparation)
                .await?,
            routed: self.target.router(&table).await?,
        };
        // The table has the types that were asked for, which may read otherwise now: a varchar of SQLite is TEXT.
        let options = LoadOptions {
            types: Vec::new(),
            ..self.options.clone()
        };
        let mut decided = decide_for(&*self.target, table, None, None, &*self.source, &options, outlook)?;
        decided.notes.extend(self.named.iter().cloned());
        self.plan = Plan {
            create: self.plan.create,
            inferred: self.plan.inferred,
            ..decided
        };
        Ok(self)
    }

    async fn carry_out(self, progress: Arc<Progress>, stop: Stop) -> Result<Ended> {
        let started = Instant::now();
        let Self {
            target,
            url,
            mut source,
            options,
            context,
            plan,
            watch,
            between,
            selection,
            run_start,
            part,
            ..
        } = self;
        if let Some(selection) = selection.as_ref().filter(|selection| selection.nothing) {
            let ownership = Ownership {
                finished: true,
                notes: selection.notes.clone(),
                ..Ownership::unrecorded(&plan, &options)
            };
            return Ok(nothing_to_do(&plan, &ownership, &progress, url, started));
        }
        let plan = Arc::new(plan);
        let dealer = Dealer::new(plan.clone(), source.schema(), &context)?;
        source.request(&ReadRequest {
            columns: plan.columns.iter().map(|c| (c.source, c.ty)).collect(),
            block_rows: plan.block_rows,
            block_bytes: plan.block_bytes,
        })?;
        let reading = Reading {
            inputs: source.identity(),
            options: source.options(),
        };
        let mut ownership = match &part {
            Some(part) => own_part(target.ledger(), &plan, reading, (&options, part)).await?,
            None => own_run(&*target, &plan, reading, &options).await?,
        };
        let handle = ownership.handle.as_ref();
        let run_id = handle.map_or_else(identity::run_id, |handle| handle.run_id.clone());
        // Nobody else sets it.
        let _ = run_start.id.set(run_id);
        progress.recorded.store(handle.is_some(), Ordering::Relaxed);
        if let Some(selection) = &selection {
            selection.confirm(&*target, &plan, &ownership).await?;
            ownership.notes.extend(selection.notes.iter().cloned());
        }
        if ownership.finished {
            return Ok(nothing_to_do(&plan, &ownership, &progress, url, started));
        }
        // What a single transaction has committed must not be emptied by the attempt that only records its end.
        let plan = match plan.single_transaction && ownership.has_begun() {
            true => Arc::new(Plan {
                preparation: Preparation::Keep,
                ..(*plan).clone()
            }),
            false => plan,
        };
        let beginning = Beginning {
            target: &target,
            options: &options,
            context: &context,
            plan: &plan,
            ownership: &ownership,
            part: part.as_ref(),
            progress: &progress,
            stop: &stop,
        };
        let begun = match beginning.begin(source, dealer).await {
            Ok(begun) => begun,
            Err(error) => {
                forget_unbegun(&*target, &ownership, None, &error, &progress).await;
                return Err(error);
            }
        };
        let mut shared = begun.context;
        if let Some(Watch { rejected, rows_done }) = watch {
            shared.committed = Some(Box::new(move |_, rejects| rejected(rejects)));
            shared.rows_done = Some(rows_done);
        }
        shared.between = between;
        let shared = Arc::new(shared);
        let moved = run(shared.clone(), begun.source, begun.dealer).await;
        let ended = match moved {
            Ok(()) if stop.requested() => Err(Error::new(ErrorKind::Cancelled, "stopped on request")),
            Ok(()) => complete(&*target, &options, &plan, &ownership, &progress).await,
            Err(error) => Err(error),
        };
        let rejects = shared.rejects.as_deref();
        let error = ended
            .err()
            .map(|error| stopped(error, &plan, &mut ownership, rejects, &progress));
        if let Some(error) = &error {
            forget_unbegun(&*target, &ownership, rejects, error, &progress).await;
        }
        let places = (&shared.shards, &shared.times);
        let mut report = report(&plan, &ownership, &progress, places, url, started, error.as_ref());
        report.overload = shared.throttle.overload();
        report.tuned = shared.throttle.tuned();
        if !report.rows.balances() {
            return Err(Error::bug(format!(
                "the account does not balance: {}",
                report.rows
            )));
        }
        Ok(Ended { report, error })
    }
}

/// Takes the run that this is. One without a ledger is recorded nowhere, and empties the table by itself.
async fn own_run(
    target: &dyn Target,
    plan: &Plan,
    reading: Reading,
    options: &LoadOptions,
) -> Result<Ownership> {
    match plan.ledger {
        LedgerPlace::Target | LedgerPlace::Local => own(target.ledger(), plan, reading, options).await,
        LedgerPlace::None => {
            if plan.preparation.truncates() && !plan.single_transaction {
                target.truncate(&plan.table.name).await?;
            }
            Ok(Ownership::unrecorded(plan, options))
        }
    }
}

/// The account of a load that has nothing to do.
fn nothing_to_do(
    plan: &Plan,
    ownership: &Ownership,
    progress: &Progress,
    url: String,
    started: Instant,
) -> Ended {
    let idle = (&Shards::default(), &Times::default());
    Ended {
        report: report(plan, ownership, progress, idle, url, started, None),
        error: None,
    }
}

/// A run that is owned and of which no row has been read yet.
struct Beginning<'a> {
    target: &'a Arc<dyn Target>,
    options: &'a LoadOptions,
    context: &'a ParseContext,
    plan: &'a Arc<Plan>,
    ownership: &'a Ownership,
    part: Option<&'a PartOfJob>,
    progress: &'a Arc<Progress>,
    stop: &'a Stop,
}

/// What a run goes with, from its first row on.
struct Begun {
    source: Box<dyn Source>,
    dealer: Dealer,
    context: RunContext,
}

impl Beginning<'_> {
    /// The table that rows go into in place of the one that is named.
    fn shadow(&self) -> Option<TableName> {
        match (self.part, self.plan.preparation, &self.ownership.handle) {
            (Some(part), ..) => part.shadow.clone(),
            (None, Preparation::Recreate, Some(handle)) => {
                Some(shadow(&self.plan.table.name, &handle.run_id))
            }
            _ => None,
        }
    }

    /// Does what comes before the first row, and goes to where the run goes on.
    async fn begin(&self, mut source: Box<dyn Source>, mut dealer: Dealer) -> Result<Begun> {
        let Self {
            target,
            plan,
            ownership,
            ..
        } = *self;
        if !ownership.has_begun() {
            run_scripts(&**target, &self.options.before_sql, "--before-sql").await?;
        }
        let rejects = rejects_file(target.ledger(), ownership, plan).await?;
        if plan.sort == Sort::Full {
            let convert = Convert::new(plan, source.schema(), self.context)?;
            source = Box::new(Sorted::new(source, plan.clone(), convert, self.stop.clone())?);
            dealer = Dealer::new(plan.clone(), source.schema(), self.context)?;
        }
        let source = sought(source, ownership, plan, (self.progress, self.stop)).await?;
        dealer.resume(&ownership.slots);
        let context = RunContext::new(
            destination(&**target, plan, self.shadow()).await?,
            target.clone(),
            ownership.handle.clone(),
            rejects.map(Arc::new),
            self.progress.clone(),
            self.stop.clone(),
        );
        Ok(Begun {
            source,
            dealer,
            context,
        })
    }
}

/// Does what comes after the last row.
async fn complete(
    target: &dyn Target,
    options: &LoadOptions,
    plan: &Plan,
    ownership: &Ownership,
    progress: &Progress,
) -> Result<()> {
    run_scripts(target, &options.after_sql, "--after-sql").await?;
    match &ownership.handle {
        Some(handle) => finish(target, plan, handle, ownership, progress).await,
        None => Ok(()),
    }
}

/// The error that stopped a run, with what to do next; what the run leaves to be done is noted.
fn stopped(
    mut error: Error,
    plan: &Plan,
    ownership: &mut Ownership,
    rejects: Option<&RejectsFile>,
    progress: &Progress,
) -> Error {
    if plan.single_transaction {
        error = whole::undone(error, plan, ownership, rejects, progress);
    }
    ownership.notes.extend(owed(plan, ownership));
    match ownership.resumable && error.hint_text().is_none() {
        true => error.hint("go on with --resume"),
        false => error,
    }
}

/// The plan of the writers: into the shadow, where there is one.
async fn destination(target: &dyn Target, plan: &Arc<Plan>, shadow: Option<TableName>) -> Result<Arc<Plan>> {
    let Some(name) = shadow else {
        return Ok(plan.clone());
    };
    let mut attempts = plan.attempts();
    let found = loop {
        match target.table(&name).await {
            Ok(found) => break found,
            Err(error) => attempts.after(error).await?,
        }
    };
    let same = |table: &Table| {
        table
            .columns
            .iter()
            .map(|c| &c.name)
            .eq(plan.table.columns.iter().map(|c| &c.name))
    };
    match found.filter(same) {
        Some(table) => Ok(Arc::new(Plan {
            table: Arc::new(table),
            ..(**plan).clone()
        })),
        None => Err(Error::schema(format!(
            "table {name}, which was to take the place of {}, is gone",
            plan.table.name
        ))
        .hint("--restart makes it anew and loads from the beginning")),
    }
}

/// What a run that stopped leaves to be done.
fn owed(plan: &Plan, ownership: &Ownership) -> Option<String> {
    let run_id = &ownership.handle.as_ref()?.run_id;
    let table = &plan.table.name;
    match plan.preparation {
        Preparation::Keep | Preparation::Truncate => None,
        Preparation::Recreate => Some(format!(
            "{table} is as it was; rows written are in {}, until the run is finished or forgotten",
            shadow(table, run_id)
        )),
        Preparation::RebuildIndexes { .. } => Some(format!(
            "the indexes of {table} that were dropped are built when the run is finished or forgotten"
        )),
    }
}

/// Forgets a run that failed before its first commit. There is nothing to go on with, and the same command put right
/// (another --null, a rejects file of another name) would be refused for an unfinished run.
async fn forget_unbegun(
    target: &dyn Target,
    ownership: &Ownership,
    rejects: Option<&RejectsFile>,
    error: &Error,
    progress: &Progress,
) {
    let Some(handle) = &ownership.handle else { return };
    // A commit in doubt may still come about, and would be one that nobody has recorded.
    if ownership.resumed || matches!(error.kind(), ErrorKind::Fenced | ErrorKind::InDoubt) {
        return;
    }
    // Where the ledger cannot be asked the run stays in it, to be resumed or restarted.
    match target.ledger().forget_unbegun(handle).await {
        // Records of a write in doubt that did not come about are nobody's any more.
        Ok(true) => {
            progress.recorded.store(false, Ordering::Relaxed);
            if let Some(Err(failed)) = rejects.map(RejectsFile::clear) {
                tracing::warn!("{failed}");
            }
        }
        Ok(false) => {}
        Err(failed) => tracing::debug!("run {} stays in the ledger: {failed}", handle.run_id),
    }
}

/// The source where the run goes on, which may mean to read all that comes before.
async fn sought(
    mut source: Box<dyn Source>,
    ownership: &Ownership,
    plan: &Arc<Plan>,
    (progress, stop): (&Arc<Progress>, &Stop),
) -> Result<Box<dyn Source>> {
    if ownership
        .slots
        .iter()
        .all(|slot| slot.position == Position::default())
    {
        return Ok(source);
    }
    let (slots, plan, progress) = (ownership.slots.clone(), plan.clone(), progress.clone());
    let seeking = beside(move || go_on(&mut *source, &slots, &plan, &progress).map(|()| source))?;
    match stop.unless(seeking).await {
        Some(sought) => sought.unwrap_or_else(|_| Err(Error::bug("the source ended while it was searched"))),
        None => Err(Error::new(ErrorKind::Cancelled, "stopped on request")),
    }
}

/// Goes to the first block that any slot still needs, once it is known that all rows that were handled are still in the
/// input as they were.
fn go_on(source: &mut dyn Source, slots: &[SlotState], plan: &Plan, progress: &Progress) -> Result<()> {
    let used = match plan.slot_by {
        crate::plan::SlotBy::One => plan.databases(),
        _ => slots.len(),
    };
    let slots = || slots.iter().take(used);
    let (Some(first), Some(last)) = (
        slots().min_by_key(|s| s.position.block),
        slots().max_by_key(|s| s.position),
    ) else {
        return Ok(());
    };
    // All input before the most advanced slot is compared: rows of two versions of a file must not be mixed.
    let hashed = |hash: u64, mark: BlockMark| BlockMark { hash, ..mark };
    let (from, to) = (first.position.block, last.position.block);
    match (plan.sort, last.position.rows) {
        // Every mark has the hash of the whole input, and sorting it once is enough.
        (Sort::Full, _) => source.seek(from, &hashed(last.mark.hash, first.mark))?,
        (_, 0) => source.seek(to, &last.mark)?,
        _ => {
            source.seek(to, &hashed(0, last.mark))?;
            let end = source.next()?.map(|block| block.end.hash);
            if last.mark.hash != 0 && end != Some(last.mark.hash) {
                return Err(has_changed(&source.schema().shown));
            }
        }
    }
    if plan.sort != Sort::Full && (from, 0) != (to, last.position.rows) {
        source.seek(from, &hashed(0, first.mark))?;
    }
    progress.read.store(first.mark.rows, Ordering::Relaxed);
    progress.resumed.store(first.mark.rows, Ordering::Relaxed);
    Ok(())
}

/// Ends the run in the ledger, if its account there is the one that was kept here.
async fn finish(
    target: &dyn Target,
    plan: &Plan,
    handle: &RunHandle,
    ownership: &Ownership,
    progress: &Progress,
) -> Result<()> {
    let sum = |slots: &[SlotState]| {
        let mut sum = Counts::default();
        slots.iter().for_each(|s| sum.add(s.counts));
        sum
    };
    let mut attempts = plan.attempts();
    let slots = loop {
        match target.ledger().slots(&handle.run_id).await {
            Ok(slots) => break slots,
            Err(error) => attempts.after(error).await?,
        }
    };
    let counts = sum(&slots);
    let before = sum(&ownership.slots);
    let here = Counts {
        written: before.written + progress.written.load(Ordering::Relaxed),
        skipped: before.skipped
            + progress.superseded.load(Ordering::Relaxed)
            + progress.left_out.load(Ordering::Relaxed),
        rejected: before.rejected + progress.rejected.load(Ordering::Relaxed),
    };
    if counts != here || before.total() != progress.resumed.load(Ordering::Relaxed) {
        // Who has taken the run over may have finished it by now, and its slots are gone.
        let runs = target.ledger().runs(&RunQuery::Id(handle.run_id.clone())).await?;
        let is_ours = |run: &RunRecord| run.finished.is_none() && run.epoch <= handle.epoch;
        return Err(match runs.iter().any(is_ours) {
            true => Error::bug(format!("the ledger counts {counts:?}, this run {here:?}")),
            false => Error::fenced(),
        });
    }
    let mut attempts = plan.attempts();
    let owed = matches!(
        plan.preparation,
        Preparation::Recreate | Preparation::RebuildIndexes { .. }
    );
    progress.completing.store(owed, Ordering::Relaxed);
    loop {
        match target.ledger().finish(handle, counts).await {
            Ok(()) => break,
            Err(error) => attempts.after(error).await?,
        }
    }
    // The run is over; what stays for now is pruned by a later one.
    if let Err(error) = target.ledger().prune(RUNS_KEPT, RUNS_PRUNED_MAX).await {
        tracing::debug!("the ledger was not pruned: {error}");
    }
    Ok(())
}

fn report(
    plan: &Plan,
    ownership: &Ownership,
    progress: &Progress,
    (shards, times): (&Shards, &Times),
    url: String,
    started: Instant,
    error: Option<&Error>,
) -> Report {
    let get = |counter: &std::sync::atomic::AtomicU64| counter.load(Ordering::Relaxed);
    let left_out = get(&progress.left_out);
    let ignores = plan.operation.leaves_out_present();
    let mut rows = Rows {
        read: get(&progress.read),
        written: get(&progress.written),
        skipped: Skipped {
            conflict: if ignores { left_out } else { 0 },
            unmatched: if ignores { 0 } else { left_out },
            superseded: get(&progress.superseded),
            resumed: get(&progress.resumed),
        },
        rejected: get(&progress.rejected),
        unfinished: 0,
    };
    let handled = rows.written + left_out + rows.skipped.superseded + rows.skipped.resumed + rows.rejected;
    if error.is_some() {
        rows.unfinished = rows.read.saturating_sub(handled);
    }
    let has_rejects = rows.rejected + ownership.slots.iter().map(|s| s.counts.rejected).sum::<u64>() > 0;
    let seconds = started.elapsed().as_secs_f64();
    let stages = times.report(seconds, |lane| shards.name_of_lane(lane));
    let mut notes = plan.notes.clone();
    notes.extend(ownership.notes.iter().cloned());
    notes.extend(progress.remarks.locked().iter().cloned());
    Report {
        run_id: ownership.handle.as_ref().map(|h| h.run_id.clone()),
        state: match (error, ownership.finished) {
            (_, true) => RunState::NothingToDo,
            (Some(_), _) => RunState::Stopped,
            (None, _) => RunState::Finished,
        },
        target: url,
        table: plan.table.name.to_string(),
        operation: plan.operation.name(),
        method: plan.method,
        rows,
        bytes: Bytes {
            read: get(&progress.bytes_read),
            sent: get(&progress.bytes_sent),
        },
        seconds,
        rows_per_second: if seconds > 0.0 {
            rows.written as f64 / seconds
        } else {
            0.0
        },
        jobs: plan.writes_max(),
        shards: shards.report(),
        batch_rows: plan.batch_rows,
        batch_bytes: plan.batch_bytes,
        durability: plan.durability,
        statements: get(&progress.statements),
        commits: get(&progress.commits),
        retries: get(&progress.retries),
        overload: None,
        tuned: None,
        settings_changed: plan.settings_changed.clone(),
        guarantees_lost: plan.guarantees_lost.clone(),
        notes,
        rejects: has_rejects.then(|| ownership.rejects.display().to_string()),
        client_cpu_seconds: processor_seconds(),
        peak_memory_bytes: peak_memory_bytes(),
        bound_by: stages::bound_by(
            &stages,
            times.opening(),
            get(&progress.statements),
            get(&progress.commits),
        ),
        stages,
        error: error.map(ToString::to_string),
    }
}
