//! Files of the ledger, from any bytes: see `fuzz`.

use rusqlite::{Connection, OpenFlags};
use tonnage_core::ledger::{RunDetail, RunQuery, inputs::table_key};
use tonnage_sql::ledger;
use tonnage_testing::corpus::with_directory;

use super::{
    ledger::{InFile, ready},
    local::RowsIn,
};

/// A file that is to be a ledger, and the detail of a run, which is in one as text.
pub fn ledger(bytes: &[u8]) {
    if let Ok(detail) = serde_json::from_slice::<RunDetail>(bytes) {
        let text = serde_json::to_vec(&detail).expect("it is written as JSON");
        let again: RunDetail = serde_json::from_slice(&text).expect("what was written can be read");
        assert_eq!(again, detail);
    }
    with_directory(|directory| {
        let path = directory.join("ledger.db");
        std::fs::write(&path, bytes).expect("there is room");
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let Ok(mut connection) = Connection::open_with_flags(&path, flags) else {
            return;
        };
        let file = &mut InFile {
            connection: &mut connection,
            rows: &RowsIn::ThisFile,
        };
        let Ok(Some(tables)) = file.tables() else { return };
        if let Ok(runs) = ready(ledger::runs(file, &tables, &RunQuery::Newest(100))) {
            for run in runs {
                let _ = ready(ledger::slots(file, &tables, &run.run_id));
                let keys = [table_key(&run.detail.table)];
                let _ = ready(ledger::inputs(file, &tables, &keys));
            }
        }
    });
}

#[cfg(test)]
mod tests {
    use tonnage_testing::corpus::check;

    use super::*;

    #[test]
    fn corpora_and_what_is_near_them_are_read_without_a_panic() {
        check("ledger", ledger);
    }
}
