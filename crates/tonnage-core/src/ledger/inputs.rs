//! What a run is found again by, in addition to its id and identity: its table, and each of its inputs by path and content.
//!
//! One row a run and key, in a separate table with an index on the key. The row has all that is needed to decide whether a
//! file was loaded, so it remains when the run itself is pruned. Forgetting a run removes its rows. Pruning removes the row
//! of the run's table. So a run that was deleted by hand, whose rows still include it, differs from a pruned one; its rows
//! are ignored.

use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_128;

use super::{InputIdentity, RunDetail, RunStatus};
use crate::{error::Result, operation::OperationKind};

/// A row of the ledger by which a run is found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InputRow {
    /// 0 for the table, from 1 on for inputs.
    pub number: u32,
    /// The key.
    pub found_by: String,
    /// [`InputDetail`] as JSON; empty for the table.
    pub detail: String,
}

/// What is on record of an input.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InputDetail {
    /// The table it went into, by name.
    pub table: String,
    /// Hash of that table's object id, and of the statement, where one was run.
    pub object: String,
    /// What was done with its rows.
    pub operation: OperationKind,
    /// The input.
    pub input: InputIdentity,
    /// How rows were routed, where several databases hold the table together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub routing: Option<String>,
    /// The member's own table, where several databases hold the table together. None in records of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub member_table: Option<String>,
    /// See [`RunDetail::emptied_by_crash`].
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub emptied_by_crash: bool,
}

impl InputDetail {
    /// The table in the database that holds this record, as [`RunDetail::own_table`]; in records of earlier versions the
    /// one that several databases hold together.
    pub fn own_table(&self) -> &str {
        self.member_table.as_deref().unwrap_or(&self.table)
    }
}

/// An input that a run has taken up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InputRecord {
    /// The run. It may have been pruned.
    pub run_id: String,
    /// Whether the run has finished.
    pub finished: bool,
    /// The rest.
    pub detail: InputDetail,
}

impl InputRecord {
    /// Reads a row; none, with a warning, where its detail cannot be read.
    pub fn read(run_id: String, status: RunStatus, detail: &str) -> Option<Self> {
        match serde_json::from_str(detail) {
            Ok(detail) => Some(Self {
                run_id,
                finished: status == RunStatus::Finished,
                detail,
            }),
            Err(error) => {
                tracing::warn!("the ledger's record of an input of run {run_id} cannot be read: {error}");
                None
            }
        }
    }
}

/// Hash of texts, each with a mark of its end.
pub fn hash<'a>(parts: impl IntoIterator<Item = &'a str>) -> String {
    let mut text = String::new();
    for part in parts {
        text.push_str(part);
        text.push('\0');
    }
    format!("{:032x}", xxh3_128(text.as_bytes()))
}

/// The key of a table's runs.
pub fn table_key(table: &str) -> String {
    hash(["table", table])
}

/// The hash by which [`InputDetail::object`] names a table.
pub fn object_key(object: &str) -> String {
    hash(["object", object])
}

impl InputIdentity {
    /// Name without directories.
    pub fn file_name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or(&self.path)
    }

    fn path_keys(&self) -> Vec<String> {
        let paths = std::iter::once(self.path.as_str()).chain(self.named.as_deref());
        paths.map(|path| hash(["path", path])).collect()
    }

    fn name_key(&self) -> String {
        hash(["name", self.file_name(), &self.bytes.to_string()])
    }

    fn sample_key(&self) -> Option<String> {
        let sample = self.sample.as_deref().filter(|_| self.bytes > 0)?;
        Some(hash(["content", sample, &self.bytes.to_string()]))
    }

    /// All keys under which the same file, or one of the same content, may be on record.
    pub fn keys(&self) -> Vec<String> {
        let mut keys = self.path_keys();
        keys.extend(self.sample_key());
        keys.push(self.name_key());
        keys
    }

    /// The keys under which it is put on record: its paths and its content; name and size where the content is not known.
    fn own_keys(&self) -> Vec<String> {
        let mut keys = self.path_keys();
        match &self.sample {
            Some(_) => keys.extend(self.sample_key()),
            None => keys.push(self.name_key()),
        }
        keys
    }
}

impl RunDetail {
    /// The rows by which the run is found.
    pub fn rows(&self) -> Result<Vec<InputRow>> {
        let mut rows = vec![InputRow {
            number: 0,
            found_by: table_key(&self.own_table()),
            detail: String::new(),
        }];
        if self.part.as_ref().is_some_and(|part| !part.is_whole()) {
            // The job has them on record.
            return Ok(rows);
        }
        let object = object_key(&self.table_identity.object);
        // What is no file, as a buffer, has neither size nor time.
        let is_file = |input: &&InputIdentity| input.bytes > 0 || input.modified_nanos != 0;
        for input in self.inputs.iter().filter(is_file) {
            let detail = InputDetail {
                table: self.table.clone(),
                object: object.clone(),
                operation: self.operation,
                input: input.clone(),
                routing: self.member.as_ref().map(|member| member.routing.clone()),
                member_table: self.member.as_ref().map(|member| member.table.to_string()),
                emptied_by_crash: self.emptied_by_crash,
            };
            let detail = serde_json::to_string(&detail).map_err(|cause| {
                crate::error::Error::bug("an input cannot be written as JSON").caused_by(cause)
            })?;
            for found_by in input.own_keys() {
                rows.push(InputRow {
                    number: rows.len() as u32,
                    found_by,
                    detail: detail.clone(),
                });
            }
        }
        Ok(rows)
    }
}

/// What is on record of a run's inputs under any of `keys`, by its own record: for a ledger that has no rows to find them
/// by.
pub fn of_detail(
    run_id: &str,
    detail: &RunDetail,
    status: RunStatus,
    keys: &[String],
) -> Result<Vec<InputRecord>> {
    let rows = detail.rows()?;
    let found = rows
        .iter()
        .filter(|row| row.number > 0 && keys.contains(&row.found_by));
    let read = |row: &InputRow| InputRecord::read(run_id.to_owned(), status, &row.detail);
    Ok(found.filter_map(read).collect())
}
