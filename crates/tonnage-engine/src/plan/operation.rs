//! What happens to a row, how rows travel, and what a commit promises.

use tonnage_core::{
    error::{Error, Result},
    operation::{Durability, Method, Mode, Operation, Support},
    source::SourceSchema,
    table::{Key, Loss, Table},
    target::{Capabilities, WriteColumn},
};

use super::{Create, LoadOptions, columns::missing};

/// The operation, with its key as the table spells it.
pub(super) fn operation(
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
    let key = match options.key.is_empty() {
        true => primary_key(table, options)?,
        false => unique_key(table, options)?,
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

/// The key that rows are recognised by where none is named.
fn primary_key(table: &Table, options: &LoadOptions) -> Result<Vec<String>> {
    if let Some(primary) = table.primary_key() {
        return Ok(primary.columns.clone());
    }
    let hint = match unique_keys(table) {
        Some(keys) => format!("--key names a unique key: {keys}"),
        None if options.create != Create::No => {
            "--key names the columns of the primary key that --create makes".to_owned()
        }
        None => needs_key(options),
    };
    Err(Error::schema(format!(
        "table {} has no primary key to recognise rows by",
        table.name
    ))
    .hint(hint))
}

/// The unique key of the columns that `--key` names, in whatever order it names them.
fn unique_key(table: &Table, options: &LoadOptions) -> Result<Vec<String>> {
    let asked = options.key.iter().map(|name| match table.column(name) {
        Some(column) => Ok(&column.name),
        None => Err(missing(table, name)),
    });
    let asked = asked.collect::<Result<Vec<_>>>()?;
    let is_asked =
        |key: &&Key| key.columns.len() == asked.len() && key.columns.iter().all(|c| asked.contains(&c));
    if let Some(key) = table.keys.iter().find(is_asked) {
        return Ok(key.columns.clone());
    }
    let names: Vec<_> = asked.iter().map(|name| name.as_str()).collect();
    let hint = match unique_keys(table) {
        Some(keys) => format!("its unique keys are {keys}"),
        None => needs_key(options),
    };
    Err(Error::schema(format!(
        "table {} has no unique key on ({})",
        table.name,
        names.join(", ")
    ))
    .hint(hint))
}

fn needs_key(options: &LoadOptions) -> String {
    format!(
        "{} needs a primary key or a unique constraint: add one to the table",
        options.mode.phrase()
    )
}

fn unique_keys(table: &Table) -> Option<String> {
    let keys: Vec<_> = table
        .keys
        .iter()
        .map(|k| format!("({})", k.columns.join(", ")))
        .collect();
    (!keys.is_empty()).then(|| keys.join(", "))
}

/// The method that was asked for, or the fastest that the operation can go by.
pub(super) fn method(
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
pub(super) fn durability(
    capabilities: &Capabilities,
    table: &Table,
    options: &LoadOptions,
) -> Result<Durability> {
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
