//! How rows are dealt to slots: what has to keep its order, and which shard it belongs to.

use tonnage_core::{
    error::Result,
    operation::Operation,
    router::Routing,
    target::{Routed, WriteColumn},
};

use super::{PlanInputs, SLOTS, SlotBy, is_provable, keys::RecognisedBy, shards};

/// How rows are dealt.
pub(super) struct Slots {
    pub slots: u16,
    pub slot_by: SlotBy,
    /// The columns whose equal values keep their order; empty where rows are independent.
    pub ordered_by: Vec<String>,
    pub routing: Option<Routing>,
    pub notes: Vec<String>,
}

/// Decides how rows are dealt.
pub(super) fn decide(
    inputs: &PlanInputs,
    columns: &[WriteColumn],
    operation: &Operation,
    recognised_by: RecognisedBy,
) -> Result<Slots> {
    let ordered_by = ordered_by(inputs, columns, operation);
    let mut notes = Vec::new();
    let routing = match &inputs.routed {
        Routed::No => None,
        Routed::Not(why) => {
            notes.push(why.clone());
            None
        }
        Routed::By(router) => shards::routing(router, inputs.source, columns, operation)?,
    };
    let slot_by = match (&routing, slot_by(inputs, operation, ordered_by, recognised_by)) {
        (Some(_), SlotBy::Block) => SlotBy::Shard,
        (_, by) => by,
    };
    // Each shard has as many slots as the others.
    let slots = match &routing {
        Some(routing) => (usize::from(SLOTS) / routing.shards()).max(1) * routing.shards(),
        None => usize::from(SLOTS),
    };
    Ok(Slots {
        slots: slots as u16,
        slot_by,
        ordered_by: ordered_by.to_vec(),
        routing,
        notes,
    })
}

/// What keeps its order: rows that the operation takes for one, or that an insert is to meet in their order.
fn ordered_by<'a>(
    inputs: &'a PlanInputs<'_>,
    columns: &[WriteColumn],
    operation: &'a Operation,
) -> &'a [String] {
    match (operation, inputs.table.primary_key()) {
        (Operation::Insert, Some(key)) if inputs.options.in_key_order => {
            let is_loaded = |name: &String| columns.iter().any(|column| column.name == *name);
            if key.columns.iter().all(is_loaded) {
                &key.columns
            } else {
                &[]
            }
        }
        _ => operation.key(),
    }
}

fn slot_by(
    inputs: &PlanInputs,
    operation: &Operation,
    ordered_by: &[String],
    recognised_by: RecognisedBy,
) -> SlotBy {
    match operation {
        Operation::Insert if ordered_by.is_empty() => SlotBy::Block,
        Operation::Statement { statement, key } if key.is_empty() => match statement.stands_alone() {
            true => SlotBy::Block,
            false => SlotBy::One,
        },
        // Rows of different keys may be one row by another of its keys.
        _ if recognised_by == RecognisedBy::AnyKey => SlotBy::One,
        _ if !ordered_by.iter().all(|name| is_provable(&inputs.table, name)) => SlotBy::One,
        // One writer keeps the order of keys by itself, and one slot keeps the order of a sort.
        _ if inputs.capabilities.writers_max == Some(1) => SlotBy::One,
        _ => SlotBy::Key,
    }
}
