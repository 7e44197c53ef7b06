//! Many rows one by one at the server, for a write of which many are bad.
//!
//! The rows go by COPY into a table of the transaction. A block of PL/pgSQL takes them from there in their order, each
//! under a subtransaction of its own, and puts what the server refuses into a second table, from which it is read. So a
//! bad row costs no round trip. The block catches what counts as a row's fault ([`errors::ROW_CLASSES`] and
//! [`errors::ROW_CODES`]) and nothing else: any other error ends it, and the rows are sent as without it.

use tokio_postgres::Row;
use tonnage_core::{
    error::{Error, Result},
    reject::sqlstate,
    target::Refused,
};

use super::{
    catalog::get,
    encode::EncodedColumn,
    errors::{self, TextCodes},
    statements::Account,
    types::quote,
};

/// The row that the block is at.
pub(super) const GIVEN: &str = "tonnage_given";
/// Where the rows wait, and what was refused.
const WAITING: &str = "pg_temp.tonnage_waiting";
const REFUSED: &str = "pg_temp.tonnage_refused";

/// The statements.
#[derive(Debug)]
pub(super) struct Each {
    /// Makes the tables, which go with the transaction.
    pub create: String,
    /// COPY into the first, the number of each row behind its columns.
    pub copy: String,
    /// Takes the rows from there.
    pub run: String,
    /// What was refused, read by [`Found::of`].
    pub refused: String,
    /// Drops the tables.
    pub drop: String,
    /// Which codes count, in addition to those that always do.
    codes: TextCodes,
}

impl Each {
    /// Rows of `columns` by `change`, a statement of one row whose values are the columns of [`GIVEN`]; `ordinal` is no
    /// column's name. None where it does not tell what became of its row.
    pub fn of(
        columns: &[EncodedColumn],
        ordinal: &str,
        change: &str,
        account: Account,
        codes: TextCodes,
    ) -> Option<Self> {
        let account = match account {
            Account::All => "IF tonnage_touched <> 1 THEN RAISE 'left out'; END IF;",
            Account::Rest => {
                "IF tonnage_touched > 1 THEN RAISE 'left out'; END IF; \
                 tonnage_skipped := tonnage_skipped + 1 - tonnage_touched;"
            }
            Account::Unchecked => "",
            Account::Any | Account::FromServer => return None,
        };
        let names: Vec<String> = columns.iter().map(|column| quote(&column.name)).collect();
        let typed = columns.iter().zip(&names);
        let typed: Vec<String> = typed
            .map(|(column, name)| format!("NULL::{} AS {name}", column.server.name()))
            .collect();
        let (caught, told) = conditions(codes);
        let block = format!(
            "#variable_conflict use_column\n\
             DECLARE {GIVEN} record; tonnage_touched bigint; tonnage_skipped bigint := 0; tonnage_code text; \
             tonnage_message text; tonnage_detail text; tonnage_hint text; tonnage_named text; \
             BEGIN \
             FOR {GIVEN} IN SELECT * FROM {WAITING} ORDER BY {ordinal} LOOP \
             tonnage_touched := NULL; \
             BEGIN {change}; GET DIAGNOSTICS tonnage_touched = ROW_COUNT; {account} \
             EXCEPTION WHEN {caught} THEN \
             GET STACKED DIAGNOSTICS tonnage_code = RETURNED_SQLSTATE, tonnage_message = MESSAGE_TEXT, \
             tonnage_detail = PG_EXCEPTION_DETAIL, tonnage_hint = PG_EXCEPTION_HINT, tonnage_named = COLUMN_NAME; \
             IF NOT ({told}) THEN RAISE; END IF; \
             INSERT INTO {REFUSED} VALUES ({GIVEN}.{ordinal}, tonnage_touched, tonnage_code, tonnage_message, \
             tonnage_detail, tonnage_hint, tonnage_named); \
             END; END LOOP; \
             INSERT INTO {REFUSED} (touched) VALUES (tonnage_skipped); END"
        );
        let mut tag = "$tonnage$".to_owned();
        while block.contains(&tag) {
            tag.insert(1, 't');
        }
        Some(Self {
            create: format!(
                "CREATE TEMPORARY TABLE tonnage_waiting ON COMMIT DROP AS SELECT {}, 0::int4 AS {ordinal} WITH NO DATA; \
                 CREATE TEMPORARY TABLE tonnage_refused (place int4, touched int8, code text, message text, \
                 detail text, hint text, named text) ON COMMIT DROP",
                typed.join(", ")
            ),
            copy: format!(
                "COPY {WAITING} ({}, {ordinal}) FROM STDIN WITH (FORMAT binary)",
                names.join(", ")
            ),
            run: format!("DO {tag}{block}{tag}"),
            refused: format!(
                "SELECT place, touched, code, message, detail, hint, named FROM {REFUSED} ORDER BY place"
            ),
            drop: format!("DROP TABLE {WAITING}, {REFUSED}"),
            codes,
        })
    }
}

/// What is caught, where a class covers its codes and maybe others, and whether `tonnage_code` is one that counts.
fn conditions(codes: TextCodes) -> (String, String) {
    let exact: Vec<&str> = errors::ROW_CODES.iter().chain(codes.codes()).copied().collect();
    let classes = errors::ROW_CLASSES;
    let mut caught: Vec<String> = classes
        .iter()
        .map(|class| format!("SQLSTATE '{class}000'"))
        .collect();
    caught.extend(exact.iter().map(|code| format!("SQLSTATE '{code}'")));
    let listed = |codes: &[&str]| format!("'{}'", codes.join("', '"));
    let told = format!(
        "pg_catalog.substr(tonnage_code, 1, 2) IN ({}) OR tonnage_code IN ({})",
        listed(&classes),
        listed(&exact)
    );
    (caught.join(" OR "), told)
}

/// What the block has left to be read.
pub(super) enum Found {
    /// A row was refused.
    Refused(Refused),
    /// So many rows the operation has left out.
    Skipped(u64),
}

impl Found {
    /// A row of [`Each::refused`].
    pub fn of(row: &Row, each: &Each) -> Result<Self> {
        let place: Option<i32> = get(row, 0)?;
        let touched: Option<i64> = get(row, 1)?;
        let Some(place) = place.and_then(|place| usize::try_from(place).ok()) else {
            return Ok(Self::Skipped(touched.unwrap_or_default() as u64));
        };
        if let Some(touched) = touched {
            return Ok(Self::Refused(Refused {
                row: place,
                error: left_out(1, touched as u64),
                column: None,
            }));
        }
        let text = |at: usize| {
            let text: Option<String> = get(row, at)?;
            Ok::<_, Error>(text.filter(|text| !text.is_empty()))
        };
        let (code, message) = (text(2)?.unwrap_or_default(), text(3)?.unwrap_or_default());
        let error = errors::of_row(
            &code,
            &message,
            text(4)?.as_deref(),
            text(5)?.as_deref(),
            each.codes,
        )
        .ok_or_else(|| Error::bug(format!("a row was refused with {code}, which is no row's fault")))?;
        Ok(Self::Refused(Refused {
            row: place,
            error,
            column: text(6)?,
        }))
    }
}

/// The database kept fewer rows than the operation means, or more.
pub(super) fn left_out(expected: u64, touched: u64) -> Error {
    let message =
        format!("the database kept {touched} of {expected} rows: a trigger or rule left the others out");
    Error::new(tonnage_core::error::ErrorKind::Rejected, message).code(sqlstate::WOULD_CHANGE)
}
