//! What a get will do: a pure function of the table, the source of keys and the options.

use std::sync::Arc;

use arrow::datatypes::{Schema, SchemaRef};
use tonnage_core::{
    error::{Error, Result},
    getter::{GetKey, GetRequest, KeyRange, RangeEnd},
    parse::{ParseContext, parse_column},
    reader::BatchBounds,
    reject::Problems,
    report::Counted,
    source::SourceSchema,
    table::{Column, Equality, Key, Table, TableName, columns_hint, find_by_name},
    types::ColumnType,
};

use super::related::{On, Related, With};

/// Keys of a request. PostgreSQL and SQLite answer 4,000 keys at once as fast as 1,000 or 10,000.
pub const REQUEST_KEYS: usize = 4_096;
/// Rows of a batch at most.
pub const BATCH_ROWS: usize = 16_384;
/// Arrow bytes of a batch, about.
pub const BATCH_BYTES: usize = 2 << 20;
/// Arrow bytes of keys sorted in memory at a time.
pub const SORT_BYTES: usize = 32 << 20;
/// Arrow bytes of an answer that are held until it is whole, so that it can be asked for again.
pub const HELD_BYTES: usize = 8 << 20;
/// Batches of an answered request that wait for the requests before it.
pub const WAITING_BATCHES: usize = 4;
/// Arrow bytes of rows with all that is nested in them, unless a single row has more.
pub const NESTED_BYTES: usize = 4 << 20;
/// Arrow bytes of a single row with all that is nested in it.
pub const NESTED_ROW_BYTES: usize = 256 << 20;
/// Attempts at one request before a transient error ends the run.
pub const ATTEMPTS_MAX: u32 = 8;

/// What is asked for.
#[derive(Debug, Clone, PartialEq)]
pub struct GetOptions {
    /// The table.
    pub table: TableName,
    /// The columns that keys are of: a primary or unique key, or the first columns of one. Empty takes the primary
    /// key, or as many of its first columns as the source of keys has.
    pub key: Vec<String>,
    /// The columns wanted, in order; none for all that the database does not compute itself.
    pub columns: Option<Vec<String>>,
    /// Columns that come as the database's text, with any content.
    pub texts: Vec<String>,
    /// Where the range on the next key column begins.
    pub from: Option<RangeText>,
    /// Where it ends.
    pub to: Option<RangeText>,
    /// Tables whose rows come with those of the keys: children, parents, and theirs.
    pub with: Vec<With>,
    /// The columns that tables are joined by, where not by their only foreign key.
    pub on: Vec<On>,
    /// Rows of other tables come within those that they belong to: children as a list of structs under their table's
    /// name, a parent as a struct. Else they come after them, each once.
    pub nested: bool,
    /// Rows come as often and in the order in which their keys are asked.
    pub ordered: bool,
    /// Connections that ask at once.
    pub jobs: Option<usize>,
    /// The most keys of a request.
    pub request_keys: usize,
    /// Arrow bytes of keys sorted in memory at a time.
    pub sort_bytes_max: usize,
    /// Arrow bytes of an answer that are held.
    pub held_bytes_max: usize,
    /// Arrow bytes of rows with all that is nested in them, unless a single row has more.
    pub nested_bytes_max: usize,
    /// Arrow bytes of a single row with all that is nested in it.
    pub nested_row_bytes_max: usize,
    /// Zone of times that carry none (IANA name).
    pub timezone: Option<String>,
}

impl GetOptions {
    /// All rows of the keys asked, each once.
    pub fn new(table: TableName) -> Self {
        Self {
            table,
            key: Vec::new(),
            columns: None,
            texts: Vec::new(),
            from: None,
            to: None,
            with: Vec::new(),
            on: Vec::new(),
            nested: false,
            ordered: false,
            jobs: None,
            request_keys: REQUEST_KEYS,
            sort_bytes_max: SORT_BYTES,
            held_bytes_max: HELD_BYTES,
            nested_bytes_max: NESTED_BYTES,
            nested_row_bytes_max: NESTED_ROW_BYTES,
            timezone: None,
        }
    }
}

/// An end of a range, as text in the form that a CSV file would have it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RangeText {
    /// The value.
    pub value: String,
    /// Whether it is itself in the range.
    pub inclusive: bool,
}

/// A column that keys are of.
#[derive(Debug, Clone, PartialEq)]
pub struct KeyColumn {
    /// Its place in the source of keys.
    pub source: usize,
    /// Its place in [`Table::columns`].
    pub target: usize,
    /// Its name in the table.
    pub name: String,
    /// The type that keys are brought to; never `Any`.
    pub ty: ColumnType,
}

impl KeyColumn {
    fn wanted(&self) -> GetKey {
        GetKey {
            name: self.name.clone(),
            ty: self.ty,
        }
    }
}

/// The resolved decision.
#[derive(Debug, Clone)]
pub struct GetPlan {
    /// The table.
    pub table: Arc<Table>,
    /// The columns that keys are of.
    pub key: Vec<KeyColumn>,
    /// Whether a key may have more than one row: not all columns of a unique key are given.
    pub partial: bool,
    /// What getters are opened for.
    pub request: GetRequest,
    /// How many of the last columns are read for other tables' sake, and not handed out.
    pub hidden: usize,
    /// The tables whose rows come with these, each behind the one it hangs on.
    pub related: Vec<Related>,
    /// Whether their rows come within those that they belong to.
    pub nested: bool,
    /// Whether all rows are of the state of one moment.
    pub one_state: bool,
    /// Whether keys are answered as often and in the order in which they are asked.
    pub ordered: bool,
    /// Connections at most.
    pub jobs: usize,
    /// Keys of a request at most.
    pub request_keys: usize,
    /// Arrow bytes of keys sorted in memory at a time.
    pub sort_bytes_max: usize,
    /// Arrow bytes of an answer that are held until it is whole.
    pub held_bytes_max: usize,
    /// Arrow bytes of rows with all that is nested in them, unless a single row has more.
    pub nested_bytes_max: usize,
    /// Arrow bytes of a single row with all that is nested in it.
    pub nested_row_bytes_max: usize,
    /// Session settings that getters change, a line each.
    pub settings_changed: Vec<String>,
    /// What a user should know, a sentence each.
    pub notes: Vec<String>,
}

impl GetPlan {
    /// The schema of keys.
    pub fn key_schema(&self) -> SchemaRef {
        let field = |key: &KeyColumn| key.ty.field(&key.name, true);
        Arc::new(Schema::new(self.key.iter().map(field).collect::<Vec<_>>()))
    }
}

/// Decides. Everything that can be refused before the first key is refused here, but for what is asked of other tables:
/// `needed` are the columns that these hang on.
pub fn decide(
    table: Table,
    source: &SourceSchema,
    options: &GetOptions,
    needed: &[String],
    context: &ParseContext,
    processors: usize,
) -> Result<GetPlan> {
    if options.jobs == Some(0) {
        return Err(Error::config("--jobs must be at least 1"));
    }
    let wanted = wanted_key(&table, options)?;
    let mut notes = Vec::new();
    let sources = match source.named {
        true => by_name(&table, source, &wanted, options, &mut notes)?,
        false => by_position(&table, source, &wanted, options)?,
    };
    let asked: Vec<&String> = wanted.iter().take(sources.len()).collect();
    let of = table
        .keys
        .iter()
        .find(|key| starts_with(key, &asked))
        .ok_or_else(|| Error::bug("a key that the table does not have was settled on"))?;
    // In the order of the key, which is that of its index.
    let names = of.columns.iter().take(sources.len());
    let key = names.map(|name| {
        let at = wanted.iter().position(|w| w == name);
        let source_at = at.and_then(|at| sources.get(at));
        let target = table.columns.iter().position(|c| c.name == *name);
        let (Some(source_at), Some(target)) = (source_at, target) else {
            return Err(Error::bug(format!("key column '{name}' is nowhere to be found")));
        };
        Ok(KeyColumn {
            source: *source_at,
            target,
            name: name.clone(),
            ty: key_type(&table, &table.columns[target], source, *source_at)?,
        })
    });
    let key = key.collect::<Result<Vec<_>>>()?;
    let whole = |key: &Key| key.columns.len() == asked.len() && starts_with(key, &asked);
    let server_only = key
        .iter()
        .filter(|key| table.columns[key.target].equality == Equality::ServerOnly);
    for key in server_only {
        notes.push(format!(
            "only the server knows which values of '{}' are equal: keys that it takes for equal are each answered",
            key.name
        ));
    }
    let (columns, hidden) = with_hidden(&table, columns(&table, options.columns.as_deref())?, needed);
    Ok(GetPlan {
        partial: !table.keys.iter().any(whole),
        request: GetRequest {
            table: table.name.clone(),
            key: key.iter().map(KeyColumn::wanted).collect(),
            range: range(&table, of, key.len(), options, context)?,
            columns,
            texts: options.texts.clone(),
            batch: BatchBounds {
                rows_max: BATCH_ROWS,
                bytes_max: BATCH_BYTES,
            },
            keyed: true,
        },
        hidden,
        related: Vec::new(),
        nested: options.nested,
        one_state: false,
        key,
        table: Arc::new(table),
        ordered: options.ordered,
        jobs: options.jobs.unwrap_or(processors.clamp(1, 4)),
        request_keys: options.request_keys.max(1),
        sort_bytes_max: options.sort_bytes_max,
        held_bytes_max: options.held_bytes_max,
        nested_bytes_max: options.nested_bytes_max,
        nested_row_bytes_max: options.nested_row_bytes_max.max(options.nested_bytes_max),
        settings_changed: Vec::new(),
        notes,
    })
}

/// Whether `asked`, in any order, are the first columns of `key`.
fn starts_with(key: &Key, asked: &[&String]) -> bool {
    key.columns.len() >= asked.len() && key.columns[..asked.len()].iter().all(|c| asked.contains(&c))
}

/// The key columns that were asked for, by the table's names.
fn wanted_key(table: &Table, options: &GetOptions) -> Result<Vec<String>> {
    if table.keys.is_empty() {
        return Err(Error::schema(format!(
            "table {} has no primary or unique key to look rows up by",
            table.name
        ))
        .hint("add one to the table, or read it whole: tonnage unload --where"));
    }
    if options.key.is_empty() {
        return match table.primary_key() {
            Some(key) => Ok(key.columns.clone()),
            None => Err(Error::schema(format!("table {} has no primary key", table.name))
                .hint(format!("--key names a unique key: {}", shown_keys(table)))),
        };
    }
    let mut asked: Vec<String> = Vec::with_capacity(options.key.len());
    for name in &options.key {
        let column = table.column(name).ok_or_else(|| {
            Error::schema(format!("table {} has no column '{name}'", table.name))
                .hint(columns_hint(name, table.columns.iter().map(|c| c.name.as_str())))
        })?;
        if asked.contains(&column.name) {
            return Err(Error::config(format!(
                "--key names column '{}' twice",
                column.name
            )));
        }
        asked.push(column.name.clone());
    }
    let names: Vec<&String> = asked.iter().collect();
    if table.keys.iter().any(|key| starts_with(key, &names)) {
        return Ok(asked);
    }
    Err(Error::schema(format!(
        "no key of table {} begins with ({})",
        table.name,
        asked.join(", ")
    ))
    .hint(format!(
        "its keys are {}; rows by other columns: tonnage unload --where",
        shown_keys(table)
    )))
}

fn shown_keys(table: &Table) -> String {
    let keys: Vec<_> = table
        .keys
        .iter()
        .map(|key| format!("({})", key.columns.join(", ")))
        .collect();
    keys.join(" and ")
}

/// The source columns of the key, by name: all that were asked for, or else the first ones.
fn by_name(
    table: &Table,
    source: &SourceSchema,
    wanted: &[String],
    options: &GetOptions,
    notes: &mut Vec<String>,
) -> Result<Vec<usize>> {
    let at = |name: &String| {
        let found = find_by_name(&source.columns, name, |c| &c.name)?;
        source.columns.iter().position(|c| c.name == found.name)
    };
    let found: Vec<Option<usize>> = wanted.iter().map(at).collect();
    let given = found.iter().take_while(|at| at.is_some()).count();
    let lacks = |name: &String| {
        Error::schema(format!(
            "{} has no column '{name}' of the key ({}) of {}",
            source.shown,
            wanted.join(", "),
            table.name
        ))
        .hint(format!(
            "{}; where the first line is a key and not names, --keys-no-header",
            columns_hint(name, source.columns.iter().map(|c| c.name.as_str()))
        ))
    };
    let is_hole = |rest: &[Option<usize>]| rest.iter().any(Option::is_some);
    if given == 0 || (given < wanted.len() && (!options.key.is_empty() || is_hole(&found[given..]))) {
        return Err(lacks(&wanted[given]));
    }
    let used: Vec<usize> = found.into_iter().flatten().collect();
    let unused: Vec<&str> = (0..source.columns.len())
        .filter(|at| !used.contains(at))
        .map(|at| source.columns[at].name.as_str())
        .collect();
    if !unused.is_empty() {
        const SHOWN: usize = 8;
        let more = if unused.len() > SHOWN { " .." } else { "" };
        notes.push(format!(
            "columns of {} that are not of the key are not used: {}{more}",
            source.shown,
            unused[..unused.len().min(SHOWN)].join(", ")
        ));
    }
    Ok(used)
}

/// The source columns of the key, in order.
fn by_position(
    table: &Table,
    source: &SourceSchema,
    wanted: &[String],
    options: &GetOptions,
) -> Result<Vec<usize>> {
    let fields = source.columns.len();
    let enough = match options.key.is_empty() {
        true => fields <= wanted.len(),
        false => fields == wanted.len(),
    };
    if enough && fields > 0 {
        return Ok((0..fields).collect());
    }
    Err(Error::schema(format!(
        "{}: a key has {}, but the key ({}) of {} has {}",
        source.shown,
        Counted(fields as u64, "field"),
        wanted.join(", "),
        table.name,
        Counted(wanted.len() as u64, "column")
    ))
    .hint("a key is a CSV record: quote a field with a comma in it, as in '\"a,b\"'"))
}

fn key_type(table: &Table, column: &Column, source: &SourceSchema, at: usize) -> Result<ColumnType> {
    match column.ty {
        Some(ColumnType::Any) if source.text => Ok(ColumnType::TEXT),
        Some(ColumnType::Any) => source.columns[at].suggested.ok_or_else(|| {
            Error::schema(format!(
                "key column '{}': the type of {} cannot be carried",
                column.name, source.shown
            ))
        }),
        Some(ty) => Ok(ty),
        None => Err(unreadable(table, column)),
    }
}

fn unreadable(table: &Table, column: &Column) -> Error {
    Error::schema(format!(
        "key column '{}' of {} has type {}, which this release cannot write exactly",
        column.name, table.name, column.declared
    ))
    .hint("--key names another unique key")
}

/// The range on the column of `key` behind the `given` first ones.
fn range(
    table: &Table,
    key: &Key,
    given: usize,
    options: &GetOptions,
    context: &ParseContext,
) -> Result<Option<KeyRange>> {
    if options.from.is_none() && options.to.is_none() {
        return Ok(None);
    }
    let Some(name) = key.columns.get(given) else {
        return Err(Error::config(format!(
            "a range needs a key column that no key gives, and ({}) is all of the key of {}",
            key.columns.join(", "),
            table.name
        ))
        .hint("give the first columns of a longer key; the range is on the next one"));
    };
    let column = table
        .column(name)
        .ok_or_else(|| Error::bug(format!("table {} has no column '{name}'", table.name)))?;
    let ty = match column.ty {
        Some(ColumnType::Any) => ColumnType::TEXT,
        Some(ty) => ty,
        None => return Err(unreadable(table, column)),
    };
    let end = |option: &'static str, text: &Option<RangeText>| -> Result<Option<RangeEnd>> {
        let Some(RangeText { value, inclusive }) = text else {
            return Ok(None);
        };
        let mut problems = Problems::default();
        let values = [Some(value.as_bytes())];
        let parsed = parse_column(&ty, name, values.into_iter(), context, &mut problems);
        match problems.iter().next() {
            Some((_, problem)) => {
                let error = Error::config(&problem.message).at(format!("{option}, column '{name}'"));
                Err(error.hint(format!("the range is on '{name}', which is {}", column.declared)))
            }
            None => Ok(Some(RangeEnd {
                value: parsed,
                inclusive: *inclusive,
            })),
        }
    };
    Ok(Some(KeyRange {
        column: GetKey {
            name: name.clone(),
            ty,
        },
        from: end("where the range begins", &options.from)?,
        to: end("where the range ends", &options.to)?,
    }))
}

/// The columns wanted, by the table's names.
pub(super) fn columns(table: &Table, names: Option<&[String]>) -> Result<Option<Vec<String>>> {
    let Some(names) = names else {
        return Ok(None);
    };
    let mut columns: Vec<String> = Vec::with_capacity(names.len());
    for name in names {
        let column = table.column(name).ok_or_else(|| {
            Error::schema(format!("table {} has no column '{name}'", table.name))
                .hint(columns_hint(name, table.columns.iter().map(|c| c.name.as_str())))
        })?;
        if columns.contains(&column.name) {
            return Err(Error::config(format!("--columns names '{}' twice", column.name)));
        }
        columns.push(column.name.clone());
    }
    Ok(Some(columns))
}

/// The columns to be read: those that are `wanted`, and behind them those that are only `needed`; and how many these
/// are.
pub(super) fn with_hidden(
    table: &Table,
    wanted: Option<Vec<String>>,
    needed: &[String],
) -> (Option<Vec<String>>, usize) {
    let by_itself = |name: &&String| !table.columns.iter().any(|c| c.name == **name && !c.generated);
    let mut hidden: Vec<String> = match &wanted {
        Some(wanted) => needed
            .iter()
            .filter(|name| !wanted.contains(name))
            .cloned()
            .collect(),
        None => needed.iter().filter(by_itself).cloned().collect(),
    };
    hidden.sort_unstable();
    hidden.dedup();
    if hidden.is_empty() {
        return (wanted, 0);
    }
    let all = || {
        let stored = table.columns.iter().filter(|column| !column.generated);
        stored.map(|column| column.name.clone()).collect()
    };
    let count = hidden.len();
    let mut columns = wanted.unwrap_or_else(all);
    columns.extend(hidden);
    (Some(columns), count)
}
