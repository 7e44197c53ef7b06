//! Settings that `tonnage tune --save` has kept, for the loads that they were found for.

use tonnage::{
    Result,
    plan::{LoadOptions, Tune},
    report::Counted,
    targets::tuned::tuned,
};

/// Takes the settings that were kept for the table of a named target, where nothing else is asked for.
pub fn take(place: &str, options: &mut LoadOptions) -> Result<()> {
    let is_of_table = options.statement.is_none() && !options.single_transaction;
    if options.tune == Tune::Off || !is_of_table {
        return Ok(());
    }
    let Some((kept, from)) = tuned(place, &options.table, options.mode)? else {
        return Ok(());
    };
    // What was found for one method says nothing of another.
    if options.method.is_some_and(|method| method != kept.method) {
        return Ok(());
    }
    let mut taken = Vec::new();
    if options.method.is_none() {
        options.method = Some(kept.method);
        taken.push(kept.method.to_string());
    }
    if let Some(rows) = kept
        .batch_rows
        .filter(|_| options.batch_rows.is_none() && options.batch_bytes.is_none())
    {
        options.batch_rows = Some(rows);
        taken.push(format!("{} a write", Counted(rows as u64, "row")));
    }
    if options.jobs.is_none() && options.jobs_per_shard.is_none() {
        options.jobs = Some(kept.jobs);
        taken.push(Counted(kept.jobs as u64, "job").to_string());
    }
    if !taken.is_empty() {
        options.notes.push(format!(
            "{} of {from}, which `tonnage tune` has found",
            taken.join(", ")
        ));
    }
    Ok(())
}
