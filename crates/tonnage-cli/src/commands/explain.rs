//! `tonnage explain`: how rows of a table reach its pages and the log.

use std::cell::OnceCell;

use clap::Args;
use tonnage::{
    Error, ErrorKind, Result,
    measure::{Explain, ExplainOptions, Explained, answer::Short, explain::ByMethod, verdict::Taken},
    operation::{Durability, Method, Mode},
    report::Grouped,
    stop::Stop,
    targets::redact,
};

use super::bench::{durability, method, mode};
use crate::{
    Ending,
    confirm::{self, Consent},
    connection::ConnectionArgs,
    interrupt::{Interrupt, requested, unless_interrupted},
    options::count,
    output::out,
    paths::Paths,
    report::{ReportArgs, write_report},
};

/// Tell whether a database takes rows of a table many at a time or one by one, by each method, and why
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  tonnage explain shop.db -t orders
  tonnage explain postgresql://app@db/shop -t orders orders.csv --method array,native
  tonnage explain mariadb://app@db/shop -t orders --mode update --with-triggers

An empty copy of the table is loaded and removed; the table itself is only read. Its triggers are not copied unless
--with-triggers asks for it: what they change is known from the catalogue. Columns with a default are left to it, as a
program that inserts leaves them; --columns names others. What is updated or deleted is put into the copy before; an
update changes all columns but the primary key and those of other unique keys.")]
pub struct ExplainArgs {
    /// The database: a URL, a file, or @NAME of targets.toml
    #[arg(value_name = "TARGET")]
    target: String,

    /// The table: table, schema.table or "odd.name"
    #[arg(short, long, value_name = "TABLE")]
    table: Option<String>,

    /// Files whose rows to take [default: the table's own rows, or made-up ones where it has too few]
    #[arg(value_name = "SOURCE")]
    sources: Vec<String>,

    /// insert, update, delete [default: insert, and the others where the table has a primary key]
    #[arg(long = "mode", alias = "operation", value_name = "O,..", value_delimiter = ',', value_parser = operation)]
    operation: Vec<Mode>,

    /// The methods to look at [default: all that the database has]
    #[arg(long, value_name = "M,..", value_delimiter = ',', value_parser = method)]
    method: Vec<Method>,

    /// The columns to give [default: those without a default]
    #[arg(long, value_name = "A,B", value_delimiter = ',')]
    columns: Vec<String>,

    /// Give the copy the table's triggers. They do their work for rows that are none: what they write into other tables
    /// stays there
    #[arg(long)]
    with_triggers: bool,

    /// Rows to take
    #[arg(long, alias = "limit", value_name = "N", value_parser = count, default_value = "5k")]
    rows: u64,

    /// Rows of a write
    #[arg(long, value_name = "N", value_parser = count, default_value = "1k")]
    batch_rows: u64,

    /// What a commit promises [default: the strongest that the database keeps]
    #[arg(long, value_name = "D", value_parser = durability)]
    durability: Option<Durability>,

    #[command(flatten)]
    account: ReportArgs,

    /// Do not ask before the copy is made
    #[arg(long)]
    yes: bool,

    #[command(flatten)]
    connection: ConnectionArgs,
}

impl ExplainArgs {
    /// The table, and the files: without -t the table is the first argument behind the database, as it was before there
    /// was -t.
    fn table_and_sources(&self) -> Result<(&str, &[String])> {
        match (&self.table, self.sources.split_first()) {
            (Some(table), _) => Ok((table, &self.sources)),
            (None, Some((table, sources))) => Ok((table, sources)),
            (None, None) => Err(Error::config("no table was named").hint(format!(
                "-t TABLE names it: tonnage explain {} -t TABLE",
                redact(&self.target)
            ))),
        }
    }
}

/// Looks. What was found goes to standard output, all else to standard error.
pub async fn run(args: &ExplainArgs) -> Result<Ending> {
    let (table, sources) = args.table_and_sources()?;
    let mut paths = Paths::default();
    paths.sources(sources, None);
    paths.databases(std::slice::from_ref(&args.target));
    paths.report(args.account.path());
    paths.check()?;
    let options = ExplainOptions {
        table: table.parse()?,
        files: sources.to_vec(),
        columns: Some(args.columns.clone()).filter(|columns| !columns.is_empty()),
        operations: Some(args.operation.clone()).filter(|operations| !operations.is_empty()),
        methods: Some(args.method.clone()).filter(|methods| !methods.is_empty()),
        triggers: args.with_triggers,
        rows: args.rows,
        batch_rows: usize::try_from(args.batch_rows).unwrap_or(usize::MAX),
        durability: args.durability,
    };
    let prepared = unless_interrupted(async {
        let target = args.connection.connect(&args.target).await?;
        Explain::prepare(target, redact(&args.target), options).await
    });
    let explain = match prepared.await {
        Ok(explain) => explain,
        Err(interrupted) => return interrupted.ending(),
    };
    let consent = match args.yes {
        true => Consent::Given,
        false => Consent::Asked,
    };
    if let Err(interrupted) = confirm::allowed("tonnage explain", &explain.place()?, consent).await {
        return interrupted.ending();
    }
    let stop = Stop::default();
    let first = OnceCell::new();
    let ran = tokio::select! {
        ran = explain.run(stop.clone()) => ran,
        interrupt = interrupted(stop, &first) => {
            let error = Error::new(ErrorKind::Cancelled, "interrupted; tables tonnage_bench_* may be left");
            return Ok(Ending::Interrupted(interrupt, error));
        }
    };
    let explained = match (ran, first.get()) {
        (Err(error), Some(interrupt)) if error.kind() == ErrorKind::Cancelled => {
            return Ok(Ending::Interrupted(*interrupt, error));
        }
        (ran, _) => ran?,
    };
    match args.account.path() {
        Some(path) => {
            write_report(path, &explained)?;
            if path.as_os_str() != "-" {
                out!("{}", text(&explained))?;
            }
        }
        None => out!("{}", text(&explained))?,
    }
    Ok(Ending::Done)
}

/// The first interrupt ends what is at hand and removes the copy; the second leaves at once.
async fn interrupted(stop: Stop, first: &OnceCell<Interrupt>) -> Interrupt {
    let interrupt = requested().await;
    let _ = first.set(interrupt);
    eprintln!("stopping: what was made is removed; interrupt again to leave at once");
    stop.request();
    requested().await
}

fn operation(text: &str) -> Result<Mode, String> {
    let looked_at = [Mode::Insert, Mode::Update, Mode::Delete];
    mode(
        "operations that can be looked at are insert, update and delete",
        &looked_at,
        text,
    )
}

fn text(explained: &Explained) -> String {
    let mut text = String::new();
    let mut operation = None;
    for one in &explained.methods {
        if operation != Some(one.operation) {
            operation = Some(one.operation);
            let (table, product) = (&explained.table, &explained.product);
            text.push_str(&match one.operation {
                Mode::Update => format!("UPDATE of {table} of {product}\n"),
                Mode::Delete => format!("DELETE from {table} of {product}\n"),
                _ => format!("INSERT into {table} of {product}\n"),
            });
        }
        by_method(&mut text, one);
    }
    text.push_str(&format!("rows     {}\n", explained.rows_from));
    text.push_str(&format!("columns  {}", explained.columns.join(", ")));
    match explained.left_out.is_empty() {
        true => text.push('\n'),
        false => text.push_str(&format!(
            "; left to the database: {}\n",
            explained.left_out.join(", ")
        )),
    }
    if !explained.lacking.is_empty() {
        text.push_str(&format!(
            "the copy was without {}\n",
            explained.lacking.join(", ")
        ));
    }
    text
}

fn by_method(text: &mut String, one: &ByMethod) {
    if let Some(refused) = &one.refused {
        text.push_str(&format!("{:<8} not tried: {refused}\n", one.method.to_string()));
        return;
    }
    text.push_str(&format!("{:<8} {}", one.method.to_string(), one.taken));
    let mut figures = Vec::new();
    if let (Some(record), Some(records)) = (one.record, one.row_records) {
        figures.push(format!("{} {record}s a row", ratio(records)));
    }
    if let Some(records) = one.index_records {
        figures.push(format!("{} of indexes", ratio(records)));
    }
    if let Some(bytes) = one.log_bytes {
        figures.push(format!("{} bytes of log a row", Short(bytes.round())));
    }
    if let Some(rows) = one.rows_a_page.filter(|_| one.taken != Taken::Unknown) {
        figures.push(format!("{} rows a page", Short((rows * 10.0).round() / 10.0)));
    }
    if !figures.is_empty() {
        text.push_str(&format!(": {}", figures.join(", ")));
    }
    text.push_str(&format!(
        " ({} rows, {} a write)\n",
        Grouped(one.rows),
        Grouped(one.batch_rows as u64)
    ));
    for why in &one.why {
        text.push_str(&format!("         {why}\n"));
    }
}

/// Records a row: two digits where they are few.
fn ratio(value: f64) -> String {
    match value {
        0.0 => "0".to_owned(),
        v if v < 0.1 => format!("{v:.3}"),
        v => format!("{v:.2}"),
    }
}
