//! From what is asked for to a get that can begin.

use std::{sync::Arc, time::Instant};

use arrow::datatypes::SchemaRef;
use tokio::sync::mpsc;
use tonnage_core::{
    error::{Error, Result},
    getter::{EACH_ITS_OWN, Getter},
    parse::{ParseContext, timezone},
    reader::{ReadColumn, no_table, schema},
    source::Source,
    table::{ForeignKey, Table, TableName},
    target::Target,
};
use tonnage_formats::sources::empty;

use super::{
    Get,
    answer::Opener,
    keys::{Counted, KeyReader},
    lookup::{Lookup, Opened},
    nest::{self, Nested, Read, Shape},
    plan::{GetOptions, GetPlan, WAITING_BATCHES, decide},
    related::{self, Join, Related, With},
};

/// A get that has been decided and not begun.
pub struct Prepared {
    opener: Arc<Opener>,
    url: String,
    source: Box<dyn Source>,
    context: ParseContext,
    plan: Arc<GetPlan>,
    /// Of the table, and of each that comes with it.
    getters: Vec<Box<dyn Getter>>,
    /// The columns that each of them reads.
    columns: Vec<Vec<ReadColumn>>,
    /// What is handed out: rows with what is nested in them, and of each table what comes after them.
    schemas: Vec<SchemaRef>,
}

/// Decides a get and opens its first connections. Reads the catalogue and the schema of the keys. `url` is only shown,
/// so it must be redacted.
pub async fn prepare(
    target: Arc<dyn Target>,
    url: String,
    keys: Box<dyn Source>,
    options: &GetOptions,
) -> Result<Prepared> {
    let context = ParseContext {
        timezone: options.timezone.as_deref().map(timezone).transpose()?,
        bytes_as_written: true,
        ..ParseContext::default()
    };
    let Tables { tables, with, joins } = tables(&*target, options).await?;
    let needed = |table: usize| -> Vec<String> {
        let hanging = joins.iter().filter(|join| join.to == table);
        hanging.flat_map(|join| join.to_columns.clone()).collect()
    };
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let mut tables = tables.into_iter();
    let got = tables
        .next()
        .ok_or_else(|| Error::bug("there is no table to get from"))?;
    let key = match (options.key.is_empty(), got.keys.first()) {
        (true, Some(key)) => key.columns.clone(),
        _ => options.key.clone(),
    };
    let keys = empty::with_columns(keys, key);
    let mut plan = decide(got, keys.schema(), options, &needed(0), &context, processors)?;
    let moment = target.read_snapshot(plan.jobs * (1 + joins.len())).await?;
    plan.one_state = moment.is_some();
    if !plan.one_state {
        plan.notes.push(EACH_ITS_OWN.to_owned());
    }
    let opener = Arc::new(Opener { target, moment });
    let mut getters = vec![opener.open(&plan.request).await?];
    let names: Vec<TableName> = std::iter::once(plan.table.name.clone())
        .chain(tables.as_slice().iter().map(|table| table.name.clone()))
        .collect();
    for ((table, join), with) in tables.zip(joins.clone()).zip(with) {
        let near = getters[join.to].columns();
        let asked = related::decide(table, &join, near, &with, &needed(join.table), &plan)?;
        getters.push(opener.open(&asked.request).await?);
        for name in related::told_by_the_server(&asked).filter(|_| !plan.nested) {
            plan.notes.push(format!(
                "only the server knows which values of '{name}' of {} are equal: a row that several name may come as often",
                asked.table.name
            ));
        }
        plan.related.push(Related {
            plan: Arc::new(asked),
            on: join.on(&names),
            join,
        });
    }
    for getter in &getters {
        for setting in getter.settings_changed() {
            if !plan.settings_changed.contains(&setting) {
                plan.settings_changed.push(setting);
            }
        }
        plan.notes.extend(getter.notes());
    }
    let columns: Vec<_> = getters.iter().map(|getter| getter.columns().to_vec()).collect();
    let read = read(&plan, &columns);
    let schemas = match plan.nested {
        true => nest::schemas(&read, &plan.related)?.into_iter().take(1).collect(),
        false => read.iter().map(|read| schema(read.shown())).collect(),
    };
    Ok(Prepared {
        opener,
        url,
        source: keys,
        context,
        plan: Arc::new(plan),
        getters,
        columns,
        schemas,
    })
}

/// What is read of each table, and how much of it is handed out.
fn read<'a>(plan: &GetPlan, columns: &'a [Vec<ReadColumn>]) -> Vec<Read<'a>> {
    let hidden = std::iter::once(plan.hidden).chain(plan.related.iter().map(|related| related.plan.hidden));
    let read = columns.iter().zip(hidden);
    read.map(|(columns, hidden)| Read { columns, hidden }).collect()
}

/// The tables of a get, the one that is got first, each behind the one it hangs on; and how.
struct Tables {
    tables: Vec<Table>,
    /// What is wanted of each but the first.
    with: Vec<With>,
    /// How each but the first hangs on another.
    joins: Vec<Join>,
}

async fn tables(target: &dyn Target, options: &GetOptions) -> Result<Tables> {
    if options.with.is_empty() && (!options.on.is_empty() || options.nested) {
        return Err(
            Error::config("nothing is joined: no other table comes with the rows")
                .hint("--with TABLE names one"),
        );
    }
    let mut found: Vec<Table> = Vec::with_capacity(1 + options.with.len());
    for name in std::iter::once(&options.table).chain(options.with.iter().map(|with| &with.table)) {
        let Some(table) = target.table(name).await? else {
            return Err(no_table(name, &target.table_names().await?));
        };
        if found.iter().any(|known| known.name == table.name) {
            return Err(twice(target, &table.name).await?);
        }
        found.push(table);
    }
    let mut keys: Vec<Vec<ForeignKey>> = vec![Vec::new(); found.len()];
    // Where the database knows none, what is asked for says how tables are joined.
    if let Some(relations) = target.parts().relations.filter(|_| found.len() > 1) {
        for (keys, table) in keys.iter_mut().zip(&found) {
            *keys = relations.foreign_keys(&table.name).await?;
        }
    }
    let mut joins = related::join(&found, &keys, &options.on)?;
    // From the order in which they were named to that of the joins.
    let order: Vec<usize> = std::iter::once(0)
        .chain(joins.iter().map(|join| join.table))
        .collect();
    let place = |table: usize| order.iter().position(|at| *at == table).unwrap_or_default();
    for join in &mut joins {
        (join.table, join.to) = (place(join.table), place(join.to));
    }
    Ok(Tables {
        tables: order.iter().map(|at| found[*at].clone()).collect(),
        with: order[1..].iter().map(|at| options.with[at - 1].clone()).collect(),
        joins,
    })
}

/// The refusal of a table that is named twice, as one might who wants the rows above or below others of a tree.
async fn twice(target: &dyn Target, name: &TableName) -> Result<Error> {
    let keys = match target.parts().relations {
        Some(relations) => relations.foreign_keys(name).await?,
        None => Vec::new(),
    };
    let Some(own) = keys.iter().find(|key| key.table == *name) else {
        return Ok(Error::config(format!("{name} is to come twice"))
            .hint("each table comes once; rows of the same table are got by a get of their own"));
    };
    let error = Error::config(format!(
        "{name} is to come twice: its foreign key {name}({}) = {name}({}) leads to itself",
        own.columns.join(", "),
        own.key.join(", ")
    ));
    Ok(error.hint(format!(
        "each table comes once: get the rows that ({}) names by a get of their own, and those that name a row with \
         tonnage unload --where",
        own.columns.join(", ")
    )))
}

impl Prepared {
    /// The decision.
    pub fn plan(&self) -> &GetPlan {
        &self.plan
    }

    /// The schema of the rows, with all that is nested in them.
    pub fn schema(&self) -> SchemaRef {
        self.schemas[0].clone()
    }

    /// The schemas of the rows that come after them: of each table in [`GetPlan::related`]; empty where they are nested.
    pub fn related_schemas(&self) -> &[SchemaRef] {
        &self.schemas[1..]
    }

    /// The schema of the keys, and so of those that are missing.
    pub fn key_schema(&self) -> SchemaRef {
        self.plan.key_schema()
    }

    /// Begins to read keys and to ask for their rows. Needs a tokio runtime of more than one thread or blocking
    /// threads.
    pub fn start(self) -> Result<Get> {
        let started = Instant::now();
        let Self {
            opener,
            url,
            source,
            context,
            plan,
            getters,
            columns,
            ..
        } = self;
        let counted: Arc<Counted> = Arc::default();
        let keys = KeyReader::new(source, &plan, &context, counted.clone())?;
        let mut getters = getters.into_iter();
        let opened = |plan: &Arc<GetPlan>, first| Opened::new(opener.clone(), plan.clone(), first);
        let none = || Error::bug("there is no connection to begin with");
        let first = opened(&plan, getters.next().ok_or_else(none)?);
        let mut nested = Vec::new();
        let mut others = Vec::new();
        let mut shape = None;
        if plan.nested {
            let mut inner = Vec::new();
            for (related, getter) in plan.related.iter().zip(getters) {
                let counts: Arc<Nested> = Arc::default();
                nested.push(counts.clone());
                inner.push((opened(&related.plan, getter).getters, counts));
            }
            let made = Shape::new(&plan, &read(&plan, &columns), inner, &context)?;
            shape = Some(Arc::new(made));
        } else {
            for (related, getter) in plan.related.iter().zip(getters) {
                let (feed, rows) = mpsc::channel(WAITING_BATCHES);
                let counted: Arc<Counted> = Arc::default();
                let near = &columns[related.join.to];
                let keys = KeyReader::of_rows(rows, near, &related.plan, &context, counted.clone())?;
                let lookup = Lookup::start(opened(&related.plan, getter), keys, counted, None);
                others.push((lookup, feed));
            }
        }
        let got = Lookup::start(first, keys, counted, shape);
        Ok(Get::new(plan, url, started, got, others, nested))
    }
}
