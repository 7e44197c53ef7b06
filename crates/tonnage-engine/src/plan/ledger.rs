//! Where positions are kept, what is given up, and what is done to the table around its rows.

use tonnage_core::{
    error::{Error, Result},
    operation::Durability,
    table::LessDurable,
};

use super::{LedgerPlace, PlanInputs};

/// What is kept of a run, and what is not.
pub(super) struct Recorded {
    pub ledger: LedgerPlace,
    pub guarantees_lost: Vec<String>,
    pub settings_changed: Vec<String>,
    pub notes: Vec<String>,
}

/// Decides where positions are kept. What has been `given_up` by then comes first.
pub(super) fn decide(
    inputs: &PlanInputs,
    durability: Durability,
    given_up: Option<String>,
) -> Result<Recorded> {
    let (table, options) = (&inputs.table, inputs.options);
    let mut notes = Vec::new();
    let mut guarantees_lost: Vec<String> = given_up.into_iter().collect();
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
    Ok(Recorded {
        ledger,
        guarantees_lost,
        settings_changed,
        notes,
    })
}
