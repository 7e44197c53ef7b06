//! What a table in several places adds to a plan: how rows are dealt to its shards, and how many lanes these have.

use std::sync::Arc;

use tonnage_core::{
    error::{Error, Result},
    operation::Operation,
    router::{Router, Routing},
    source::SourceSchema,
};

use super::{LoadOptions, WriteColumn};

/// How rows are dealt by shard. Where shards are databases of their own every row must be: `Config` or `Schema` where it
/// cannot be. Else inserts are, by whatever method, so that a run can go on by another, where they bring all that it takes.
pub(super) fn routing(
    router: &Arc<dyn Router>,
    source: &SourceSchema,
    columns: &[WriteColumn],
    operation: &Operation,
) -> Result<Option<Routing>> {
    let position = |name: &String| columns.iter().position(|c| c.name == *name);
    let routed = |at: Vec<usize>| {
        Ok(Some(Routing {
            router: router.clone(),
            at,
            writes_max: usize::MAX,
        }))
    };
    if !router.separate_databases() {
        let wanted = *operation == Operation::Insert;
        if !wanted || !router.brought().iter().all(|name| position(name).is_some()) {
            return Ok(None);
        }
        let at: Option<Vec<usize>> = router.columns().iter().map(position).collect();
        return at.map_or(Ok(None), routed);
    }
    if let Operation::Upsert { key }
    | Operation::Ignore { key }
    | Operation::Update { key }
    | Operation::Delete { key } = operation
        && let Some(column) = router.columns().iter().find(|column| !key.contains(column))
    {
        return Err(Error::config(format!(
            "{} by ({}): rows are sharded by '{column}', which is not in this key, so the row that is meant may be in \
             another database",
            operation.name(),
            key.join(", ")
        ))
        .hint(format!("--key names a unique key that has '{column}' in it")));
    }
    let mut at = Vec::new();
    for column in router.columns() {
        at.push(position(column).ok_or_else(|| {
            Error::schema(format!(
                "{} does not fill '{column}', by which rows are sharded",
                source.shown
            ))
            .hint("--map fills it from a column of another name")
        })?);
    }
    routed(at)
}

/// The lanes of a run.
pub(super) struct Lanes {
    /// How many there are; where shards are databases of their own as many for each.
    pub lanes: usize,
    /// How many write at a time.
    pub writes_max: usize,
    /// What a user should know.
    pub notes: Vec<String>,
}

/// Decides how many lanes there are, of at most `jobs_max`.
pub(super) fn lanes(
    options: &LoadOptions,
    table: &dyn std::fmt::Display,
    routing: Option<&Routing>,
    jobs_max: usize,
    processors: usize,
) -> Result<Lanes> {
    let per_shard = options.jobs_per_shard;
    if per_shard == Some(0) {
        return Err(Error::config("--jobs-per-shard must be at least 1"));
    }
    let Some(routing) = routing else {
        if per_shard.is_some() {
            return Err(Error::config(format!(
                "--jobs-per-shard: rows of {table} are written to one place"
            ))
            .hint("--jobs says how many connections write at once"));
        }
        return Ok(in_all(options.jobs, jobs_max, processors));
    };
    let shards = routing.shards();
    if !routing.separate_databases() {
        let Some(per_shard) = per_shard else {
            return Ok(in_all(options.jobs, jobs_max, processors));
        };
        let most = shards.saturating_mul(per_shard);
        let mut lanes = in_all(Some(options.jobs.unwrap_or(most).min(most)), jobs_max, processors);
        // With as many lanes for each shard none has more than it may.
        if lanes.lanes > shards {
            lanes.lanes -= lanes.lanes % shards;
            lanes.writes_max = lanes.lanes;
        }
        return Ok(lanes);
    }
    let most = (jobs_max / shards).max(1);
    let jobs = options.jobs.unwrap_or(jobs_by_default(processors));
    let wanted = per_shard.unwrap_or(jobs.div_ceil(shards));
    let lanes = wanted.clamp(1, most) * shards;
    let mut notes = Vec::new();
    if let Some(asked) = per_shard.filter(|asked| *asked > most) {
        notes.push(format!("{asked} jobs a shard were asked for, {most} can be used"));
    }
    let writes_max = options.jobs.unwrap_or(lanes).clamp(1, lanes);
    if let Some(asked) = options.jobs.filter(|asked| *asked > lanes) {
        notes.push(format!("{asked} jobs were asked for, {lanes} can be used"));
    }
    if writes_max < lanes {
        notes.push(format!(
            "each of the {shards} databases has a connection, and {writes_max} of them write at a time"
        ));
    }
    Ok(Lanes {
        lanes,
        writes_max,
        notes,
    })
}

/// Connections that write at once where nobody has said how many: one a processor, at most 4.
pub(crate) fn jobs_by_default(processors: usize) -> usize {
    processors.clamp(1, 4)
}

fn in_all(jobs: Option<usize>, jobs_max: usize, processors: usize) -> Lanes {
    let asked_for_more = jobs.filter(|jobs| *jobs > jobs_max);
    let lanes = jobs.unwrap_or(jobs_by_default(processors)).clamp(1, jobs_max);
    Lanes {
        lanes,
        writes_max: lanes,
        notes: asked_for_more
            .map(|asked| format!("{asked} jobs were asked for, {jobs_max} can be used"))
            .into_iter()
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::ArrayRef;

    use super::*;
    use tonnage_core::table::TableName;

    #[derive(Debug)]
    struct Places {
        names: Vec<String>,
        separate_databases: bool,
    }

    impl Router for Places {
        fn shards(&self) -> &[String] {
            &self.names
        }

        fn columns(&self) -> &[String] {
            &[]
        }

        fn brought(&self) -> &[String] {
            &[]
        }

        fn separate_databases(&self) -> bool {
            self.separate_databases
        }

        fn identity(&self) -> String {
            String::new()
        }

        fn route(&self, _: &[ArrayRef]) -> Result<Vec<u16>> {
            Ok(Vec::new())
        }
    }

    /// Shards, whether they are databases, `--jobs` and `--jobs-per-shard`; lanes and how many of them write at a time.
    type Case = (usize, bool, [Option<usize>; 2], (usize, usize));

    #[test]
    fn jobs_in_all_and_a_shard() {
        let cases: &[Case] = &[
            (4, true, [None, None], (4, 4)),
            (2, true, [None, None], (4, 4)),
            (3, true, [None, None], (6, 6)),
            (4, true, [Some(2), None], (4, 2)),
            (4, true, [Some(6), None], (8, 6)),
            (4, true, [None, Some(3)], (12, 12)),
            (4, true, [Some(5), Some(3)], (12, 5)),
            (4, true, [None, Some(100)], (64, 64)),
            (4, false, [None, None], (4, 4)),
            (4, false, [Some(3), None], (3, 3)),
            (4, false, [None, Some(1)], (4, 4)),
            (4, false, [None, Some(2)], (8, 8)),
            (4, false, [Some(7), Some(2)], (4, 4)),
            (4, false, [Some(3), Some(2)], (3, 3)),
        ];
        for (shards, separate_databases, [jobs, jobs_per_shard], expected) in cases.iter().cloned() {
            let routing = Routing {
                router: Arc::new(Places {
                    names: (0..shards).map(|at| at.to_string()).collect(),
                    separate_databases,
                }),
                at: Vec::new(),
                writes_max: usize::MAX,
            };
            let options = LoadOptions {
                jobs,
                jobs_per_shard,
                ..LoadOptions::new(TableName::bare("t"))
            };
            let lanes = lanes(&options, &"t", Some(&routing), 64, 4).expect("lanes");
            let found = (lanes.lanes, lanes.writes_max);
            assert_eq!(
                found, expected,
                "{shards} {separate_databases} {jobs:?} {jobs_per_shard:?}"
            );
        }
        let options = LoadOptions {
            jobs_per_shard: Some(1),
            ..LoadOptions::new(TableName::bare("t"))
        };
        assert!(lanes(&options, &"t", None, 64, 4).is_err());
    }
}
