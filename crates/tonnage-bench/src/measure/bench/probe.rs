//! How the rows of each cell reach the pages and the log: by a small load into a separate table, apart from what is timed.

use std::collections::HashSet;

use tonnage_core::{
    error::{Error, ErrorKind, Result},
    instruments::TableForm,
    operation::{Method, Mode},
};
use tonnage_engine::plan::LedgerPlace;

use super::{Bench, Running, instruments, stopped, tables::Made};
use crate::measure::{
    figures::{Cell, WritePath},
    judge::judge,
    look::look,
    setting::{BenchMethod, RowKind, Setting},
    touch::Touch,
    verdict::Taken,
};

/// Rows of a look at most and at least, but for single ones: records are read from the log one by one.
const ROWS: std::ops::RangeInclusive<u64> = 1_000..=10_000;
/// The same by [`Method::Single`], of which each is a commit.
const SINGLE_ROWS: u64 = 200;

/// What decides on how rows are written, of all that settings differ in.
type What = (RowKind, TableForm, Mode, Touch, BenchMethod, usize);

fn what(setting: &Setting) -> What {
    (
        setting.workload,
        setting.table.alone(),
        setting.operation,
        setting.touch_written(),
        setting.method,
        setting.batch_rows,
    )
}

impl Bench {
    /// Looks at how rows are taken, small loads that follow once all is timed.
    pub fn looks(&self) -> usize {
        let loads = self
            .cells
            .run
            .iter()
            .filter(|setting| !setting.method.is_buffer());
        let ways: HashSet<What> = loads.map(what).collect();
        ways.len()
    }
}

impl Running<'_> {
    /// Looks once at each way of writing that any cell has, and tells all cells of it.
    pub(super) async fn write_paths(&mut self, cells: &mut [Cell]) -> Result<()> {
        let mut known: Vec<(What, WritePath)> = Vec::new();
        // What a drain writes is a load like any other.
        for cell in cells.iter_mut().filter(|cell| !cell.setting.method.is_buffer()) {
            let what = what(&cell.setting);
            let found = known.iter().find(|(of, _)| *of == what);
            let path = match found {
                Some((_, path)) => path.clone(),
                None => {
                    let path = self.write_path(&cell.setting, known.len()).await?;
                    known.push((what, path.clone()));
                    path
                }
            };
            cell.write_path = Some(path);
        }
        Ok(())
    }

    async fn write_path(&mut self, setting: &Setting, index: usize) -> Result<WritePath> {
        if self.stop.requested() {
            return Err(stopped());
        }
        let name = format!("{}_look_{}", self.bench.prefix, index + 1);
        let instruments = instruments(&*self.bench.target)?;
        let looked = self.look(setting, &name).await;
        let discarded = instruments.discard(&name).await;
        let path = match looked {
            Ok(path) => path,
            Err(_) if self.stop.requested() => return Err(stopped()),
            Err(error) if error.kind() == ErrorKind::Bug => return Err(error),
            Err(error) => WritePath {
                taken: Taken::Unknown,
                why: vec![error.to_string()],
                record: None,
                row_records: None,
                index_records: None,
                log_bytes: None,
            },
        };
        discarded.map_err(|e| e.at(format!("{name}, which was made to look at, cannot be removed")))?;
        Ok(path)
    }

    async fn look(&self, setting: &Setting, name: &str) -> Result<WritePath> {
        let Made {
            target, table: name, ..
        } = self
            .make(setting, name, 0..self.bench.options.budget.rows)
            .await?;
        let method = setting
            .method
            .of_load()
            .ok_or_else(|| Error::bug("a look at a buffer"))?;
        let rows = match method {
            Method::Single => SINGLE_ROWS,
            _ => (setting.batch_rows as u64).clamp(*ROWS.start(), *ROWS.end()),
        };
        let rows = rows.min(self.bench.options.budget.rows);
        let alone = Setting {
            jobs: 1,
            round_trip_micros: 0,
            table: setting.table.alone(),
            ..*setting
        };
        // Rows that only reads of a mix meet would be counted among those that are written.
        if setting.operation != Mode::Insert {
            self.fill(&alone, &target, &name, 0..rows).await?;
        }
        let prepared = self
            .prepared(&alone, &target, &name, 0..rows, LedgerPlace::None, None)
            .await?;
        let table = target.table(&name).await?;
        let table = table.ok_or_else(|| Error::bug(format!("{name} is not there once made")))?;
        let all = || table.columns.iter().map(|column| column.name.clone()).collect();
        let columns = self.columns(setting, setting.operation).unwrap_or_else(all);
        let instruments = instruments(&*target)?;
        let causes = instruments
            .causes(&table, setting.operation, method, &columns)
            .await?;
        let seen = look(instruments, &table, setting.operation, prepared, &self.stop).await?;
        Ok(judge(setting.operation, method, seen, &causes).into())
    }
}
