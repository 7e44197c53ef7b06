//! How many lanes write at once.

use tonnage_core::{
    error::{Error, Result},
    operation::{Method, Operation},
    router::Routing,
    table::Loss,
};

use super::{Create, PlanInputs, SLOTS, SlotBy, keys::RecognisedBy, shards, slots::Slots, statement};

/// The lanes of a plan.
pub(super) struct Lanes {
    pub jobs: usize,
    pub routing: Option<Routing>,
    pub notes: Vec<String>,
}

/// Decides how many lanes there are: as many as were asked for, the database can use, and the order of rows allows.
pub(super) fn decide(
    inputs: &PlanInputs,
    operation: &Operation,
    method: Method,
    slots: &Slots,
    recognised_by: RecognisedBy,
) -> Result<Lanes> {
    let routing = slots.routing.clone();
    let separate_databases = routing.as_ref().filter(|routing| routing.separate_databases());
    let databases = separate_databases.map_or(1, Routing::shards);
    let mut notes = Vec::new();
    let most = match inputs.options.single_transaction {
        true => {
            check_single_transaction(inputs, method, databases)?;
            1
        }
        false => inputs.capabilities.writers_max.unwrap_or(usize::from(SLOTS)),
    };
    let ordered = in_order(
        inputs,
        operation,
        slots.slot_by,
        recognised_by,
        databases,
        &mut notes,
    );
    if inputs.options.single_transaction {
        notes.push("all rows or none: one job writes them in one transaction".to_owned());
        if inputs.options.create != Create::No {
            notes.push(
                "a table that is missing is created before, and dropped again where the run fails".to_owned(),
            );
        }
    }
    let lanes = shards::lanes(
        inputs.options,
        &inputs.table.name,
        routing.as_ref(),
        most.min(ordered),
        inputs.processors,
    )?;
    notes.extend(lanes.notes);
    Ok(Lanes {
        jobs: lanes.lanes,
        routing: routing.map(|routing| Routing {
            writes_max: lanes.writes_max,
            ..routing
        }),
        notes,
    })
}

/// The most lanes that keep the order of rows that have one, and what there is to say of it.
fn in_order(
    inputs: &PlanInputs,
    operation: &Operation,
    slot_by: SlotBy,
    recognised_by: RecognisedBy,
    databases: usize,
    notes: &mut Vec<String>,
) -> usize {
    let most = inputs.capabilities.writers_max.unwrap_or(usize::from(SLOTS));
    let one_job = match databases > 1 {
        true => "one job a database",
        false => "one job",
    };
    if most > 1 {
        notes.extend(statement::order(operation, slot_by, one_job));
    }
    if slot_by != SlotBy::One || most <= databases {
        return most;
    }
    if !operation.key().is_empty() {
        notes.push(match recognised_by {
            RecognisedBy::AnyKey => {
                format!("rows of different keys may be one row by another key: {one_job} keeps their order")
            }
            RecognisedBy::TheKey => format!(
                "only the server can tell whether two values of ({}) are equal: {one_job} keeps their order",
                operation.key().join(", ")
            ),
        });
    }
    databases
}

/// Refuses what cannot be one transaction.
fn check_single_transaction(inputs: &PlanInputs, method: Method, databases: usize) -> Result<()> {
    let table = &inputs.table;
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
    Ok(())
}
