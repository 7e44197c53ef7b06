//! What fuzzing gives any bytes to: everything that reads what others may have written. Each function ends without a
//! panic, whatever the bytes, and checks what has to hold of what it read.
//!
//! `fuzz/` has a target for each; the tests of each crate give its own the bytes of `fuzz/corpus`, and broken forms of
//! them.

use tonnage_core::statement::{Dialect, Statement};
#[cfg(fuzzing)]
pub use tonnage_engine::buffer::fuzz::journal;
#[cfg(fuzzing)]
pub use tonnage_formats::fuzz::{arrow, csv, parquet, rejects};
#[cfg(fuzzing)]
pub use tonnage_mysql::fuzz::values as mysql_values;
#[cfg(fuzzing)]
pub use tonnage_postgres::fuzz::values as postgres_values;
#[cfg(fuzzing)]
pub use tonnage_sqlite::fuzz::ledger;

pub use crate::targets::fuzz::{names, urls};

/// Statements with parameters, as `exec` takes them; the first byte chooses the database's dialect.
pub fn statements(bytes: &[u8]) {
    let Some((choice, bytes)) = bytes.split_first() else {
        return;
    };
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    let is = |bit: u8| choice & (1 << bit) != 0;
    let dialect = Dialect {
        dollars: is(0),
        brackets: is(1),
        backticks: is(2),
        hashes: is(3),
        backslashes: is(4),
        slashes: is(7),
        keeps_case: is(5),
        own_parameters: if is(6) { &['?', '@'] } else { &['$'] },
    };
    let Ok(statement) = Statement::parse(text, dialect) else {
        return;
    };
    let named = |parameter: usize| format!(":{}", statement.parameters()[parameter]);
    let again = Statement::parse(&statement.render(named), dialect).expect("its own text is a statement");
    assert_eq!(again.parameters(), statement.parameters());
    assert_eq!(again.table(), statement.table());
}

#[cfg(test)]
mod tests {
    use tonnage_testing::corpus::check;

    use super::*;

    #[test]
    fn corpora_and_what_is_near_them_are_read_without_a_panic() {
        check("statements", statements);
        check("urls", urls);
        check("names", names);
    }
}
