//! Many rows one by one in a round trip.
//!
//! MariaDB runs a block of statements outside stored programs, prepared and with parameters like any statement. A block
//! here is the statement of one row, so many times, with a handler for what the database refuses: each row is a statement
//! of its own as if it were sent alone, and its values are parameters as ever.
//!
//! - The handler goes on only behind errors of rows, in a transaction that is still there, and only where the error is the
//!   one condition that the statement has raised, but for notes of where that was, so that there is no doubt which it is. Whatever else fails ends the block
//!   with that error.
//! - A block that did other than it should, or saw a warning, is undone, and the rows go by statements of their own, which
//!   say of each what it was.
//! - The block declares no variables around the statements: a name in them would mean the variable instead of a column.

use std::ops::Range;

use mysql_async::{Params, ServerError, Statement, Value, prelude::Queryable};
use tonnage_core::error::{Error, ErrorKind, Result};

use super::Link;
use crate::{encode::Encoded, errors, sizes::PARAMETERS_MAX, statements::Account};

/// Rows of a block, of those that come first. The server parses a block when it is prepared.
const ROWS: [usize; 2] = [128, 16];
/// What the text of a block takes at most.
const TEXT_BYTES_MAX: usize = 512 << 10;
/// What a parameter takes in a packet in addition to its value: its type, and whether it is null.
const PARAMETER_BYTES: usize = 3;

/// The note that says where in a trigger an error was raised.
const STACK_TRACE: u16 = 4094;

/// The most that a server sends of an error's message.
const MESSAGE_BYTES_MAX: usize = 511;

const HEAD: &str = "SET @tonnage_told = ''; ";
/// What follows the statement of a row. A SET of several variables would be a statement each, and only the first behind
/// another is told of its rows.
const TOLD: &str = "; SET @tonnage_told = CONCAT(@tonnage_told, ROW_COUNT(), ' ', @@warning_count, ';'); ";
const TAIL: &str = "SELECT @tonnage_told; END";

/// The blocks of one statement.
pub(super) struct Blocks {
    one: String,
    parameters: usize,
    account: Account,
    /// What the text has of no row, and what each row adds to it.
    text_bytes: (usize, usize),
    prepared: Vec<(usize, Statement)>,
}

/// What became of a block.
pub(super) enum Ran {
    /// The number of rows left out, and the refused ones, counted from its first.
    Done(u64, Vec<(usize, Error)>),
    /// Not as it should: it is to be undone.
    Unfit(String),
}

impl Blocks {
    /// Of a statement of one row with so many parameters.
    pub fn of(one: &str, parameters: usize, account: Account) -> Self {
        let mut blocks = Self {
            one: one.to_owned(),
            parameters,
            account,
            text_bytes: (0, one.len() + TOLD.len()),
            prepared: Vec::new(),
        };
        blocks.text_bytes.0 = blocks.text(0).len();
        blocks
    }

    /// How many of the rows of `range` a block takes, of so many bytes at most; none where they are too few for a block.
    pub fn cut(&self, encoded: &Encoded, range: Range<usize>, most: usize) -> Option<usize> {
        let mut bytes = 0;
        let fitting = encoded.sizes[range].iter().take_while(|size| {
            bytes += **size + self.parameters * PARAMETER_BYTES;
            bytes <= most
        });
        let fitting = fitting.take(ROWS[0]).count();
        ROWS.into_iter().find(|rows| {
            *rows <= fitting
                && rows * self.parameters <= PARAMETERS_MAX
                && self.text_bytes.0 + rows * self.text_bytes.1 <= most.min(TEXT_BYTES_MAX)
        })
    }

    fn text(&self, rows: usize) -> String {
        let numbers = errors::OF_ROWS.map(|number| number.to_string()).join(", ");
        let handler = format!(
            "DECLARE CONTINUE HANDLER FOR SQLEXCEPTION BEGIN \
             DECLARE conditions, number INT; DECLARE state CHAR(5); \
             DECLARE message TEXT CHARACTER SET utf8mb4; \
             GET DIAGNOSTICS conditions = NUMBER; \
             WHILE conditions > 1 DO \
             GET DIAGNOSTICS CONDITION conditions number = MYSQL_ERRNO; \
             IF number <> {STACK_TRACE} THEN RESIGNAL; END IF; \
             SET conditions = conditions - 1; \
             END WHILE; \
             GET DIAGNOSTICS CONDITION 1 number = MYSQL_ERRNO, state = RETURNED_SQLSTATE, message = MESSAGE_TEXT; \
             IF NOT @@in_transaction OR number NOT IN ({numbers}) AND state <> '45000' \
             THEN RESIGNAL; END IF; \
             SET @tonnage_told = CONCAT(@tonnage_told, number, ' ', state, ' ', HEX(message), ' '); END; "
        );
        let row = format!("{}{TOLD}", self.one);
        format!("BEGIN NOT ATOMIC {handler}{HEAD}{}{TAIL}", row.repeat(rows))
    }

    async fn prepared(
        &mut self,
        link: &mut Link,
        rows: usize,
    ) -> std::result::Result<Statement, mysql_async::Error> {
        if let Some((_, statement)) = self.prepared.iter().find(|(known, _)| *known == rows) {
            return Ok(statement.clone());
        }
        let statement = link.conn.prep(self.text(rows)).await?;
        self.prepared.push((rows, statement.clone()));
        Ok(statement)
    }

    /// Writes the rows of `range`, which [`Blocks::cut`] has cut. An error is one that ends the transaction.
    pub async fn run(&mut self, link: &mut Link, encoded: &Encoded, range: Range<usize>) -> Result<Ran> {
        let rows = range.len();
        let answer = match self.prepared(link, rows).await {
            Ok(statement) => answered(link, statement, encoded.parameters(range)).await,
            Err(failure) => Err(failure),
        };
        let told = match answer {
            Ok(told) => told,
            Err(failure) => {
                let number = errors::number(&failure);
                let error = errors::statement(failure);
                // What does not end the transaction is reported for the row that it is about.
                return match (error.kind(), number) {
                    (_, Some(errors::STATEMENT_TIME)) => Ok(Ran::Unfit(error.to_string())),
                    (ErrorKind::Overloaded | ErrorKind::Unsent, _) | (_, None) => Err(error),
                    _ => Ok(Ran::Unfit(error.to_string())),
                };
            }
        };
        link.still_open()?;
        let told = told.as_deref().and_then(account).unwrap_or_default();
        if told.len() != rows {
            return Ok(Ran::Unfit(format!(
                "{} rows of {rows} are accounted for",
                told.len()
            )));
        }
        let (mut skipped, mut refused) = (0, Vec::new());
        for (row, told) in told.into_iter().enumerate() {
            match (told, self.account) {
                (Told::Refused(error), _) if error.kind() == ErrorKind::Rejected => {
                    refused.push((row, error))
                }
                (Told::Refused(error), _) => return Ok(Ran::Unfit(error.to_string())),
                (Told::Affected(1), _) | (Told::Affected(2), Account::OnceOrTwice) => {}
                (Told::Affected(0), Account::Rest) => skipped += 1,
                (Told::Affected(affected), _) => {
                    return Ok(Ran::Unfit(format!("the database counts {affected} rows for one")));
                }
                (Told::Warned, _) => return Ok(Ran::Unfit("the database warns".to_owned())),
            }
        }
        Ok(Ran::Done(skipped, refused))
    }
}

/// The account of a block.
async fn answered(
    link: &mut Link,
    statement: Statement,
    parameters: Vec<Vec<Value>>,
) -> std::result::Result<Option<Vec<u8>>, mysql_async::Error> {
    let parameters: Vec<Value> = parameters.into_iter().flatten().collect();
    let mut result = link
        .conn
        .exec_iter(statement, Params::Positional(parameters))
        .await?;
    let told: Vec<Option<Vec<u8>>> = result.collect().await?;
    result.drop_result().await?;
    Ok(told.into_iter().next().flatten())
}

/// What is reported for a row.
enum Told {
    Affected(u64),
    Warned,
    Refused(Error),
}

/// The account of each row; none where it cannot be read.
fn account(told: &[u8]) -> Option<Vec<Told>> {
    let one = |told: &str| {
        let parts: Vec<_> = told.split(' ').collect();
        Some(match *parts {
            [affected, "0"] => Told::Affected(affected.parse().ok()?),
            [_, _] => Told::Warned,
            [number, state, message, _, _] => Told::Refused(errors::from_server(&ServerError {
                code: number.parse().ok()?,
                message: printable(&String::from_utf8_lossy(&bytes_of(message)?))?,
                state: state.to_owned(),
            })),
            _ => return None,
        })
    };
    std::str::from_utf8(told)
        .ok()?
        .split_terminator(';')
        .map(one)
        .collect()
}

/// A condition's message as the server sends it of an error: what is not printable is a backslash and four digits there.
/// None where it would be cut.
fn printable(message: &str) -> Option<String> {
    let mut shown = String::with_capacity(message.len());
    for letter in message.chars() {
        match letter {
            '\t' | '\n' | '\r' => shown.push(letter),
            '\0'..='\u{1f}' | '\u{7f}'..='\u{9f}' => shown.push_str(&format!("\\{:04X}", u32::from(letter))),
            _ => shown.push(letter),
        }
    }
    (shown.len() <= MESSAGE_BYTES_MAX).then_some(shown)
}

fn bytes_of(hexadecimal: &str) -> Option<Vec<u8>> {
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    let (pairs, rest) = hexadecimal.as_bytes().as_chunks::<2>();
    rest.is_empty()
        .then(|| pairs.iter().map(|pair| byte(pair)).collect())
        .flatten()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::{
        array::{ArrayRef, RecordBatch, StringArray},
        datatypes::{Field, Schema},
    };

    use super::*;
    use crate::{
        encode::{ColumnEncoder, encode},
        types::Kind,
    };
    use tonnage_core::types::ColumnType;

    fn encoded(bytes: &[usize]) -> Encoded {
        let ty = ColumnType::Json;
        let column = ColumnEncoder {
            name: "v".to_owned(),
            ty,
            kind: Kind::Text(u64::from(u32::MAX)),
            nullable: false,
        };
        let texts: ArrayRef = Arc::new(StringArray::from_iter_values(
            bytes.iter().map(|n| "1".repeat(*n)),
        ));
        let schema = Schema::new(vec![Field::new("v", ty.arrow(), false)]);
        let batch = RecordBatch::try_new(Arc::new(schema), vec![texts]).unwrap();
        encode(&[column], &batch).unwrap().unwrap()
    }

    #[test]
    fn a_block_is_what_a_packet_takes() {
        const KIB: usize = 1 << 10;
        let insert = "INSERT INTO `t` (`v`) VALUES (?)";
        let wide = format!("{insert} /* {} */", "-".repeat(8 * KIB));
        for (bytes, text, parameters, most, wanted) in [
            (vec![1; 300], insert, 1, 1_000 * KIB, Some(128)),
            (vec![1; 127], insert, 1, 1_000 * KIB, Some(16)),
            (vec![1; 15], insert, 1, 1_000 * KIB, None),
            // Rows of the packet, the first of which is what it takes.
            (vec![10 * KIB; 128], insert, 1, 1_300 * KIB, Some(128)),
            (vec![10 * KIB; 128], insert, 1, 1_280 * KIB, Some(16)),
            (vec![10 * KIB; 128], insert, 1, 160 * KIB, None),
            (vec![10 * KIB; 16], insert, 1, 161 * KIB, Some(16)),
            // The parameters, and the text that is prepared.
            (vec![1; 300], insert, 600, 1_000 * KIB, Some(16)),
            (vec![1; 300], insert, 5_000, 1_000 * KIB, None),
            (vec![1; 300], &wide, 1, 1_000 * KIB, Some(16)),
            (vec![1; 300], insert, 1, 4 * KIB, Some(16)),
            (vec![1; 300], insert, 1, KIB, None),
        ] {
            let (encoded, blocks) = (encoded(&bytes), Blocks::of(text, parameters, Account::All));
            let rows = blocks.cut(&encoded, 0..bytes.len(), most);
            let shown = format!(
                "{} rows of {} bytes, {parameters} parameters, {most}",
                bytes.len(),
                bytes[0]
            );
            assert_eq!(rows, wanted, "{shown}");
        }
    }

    #[test]
    fn an_account_is_read_whole_or_not_at_all() {
        let shown = |told: &str| {
            let told = account(told.as_bytes())?;
            let one = |told: &Told| match told {
                Told::Affected(rows) => format!("{rows}"),
                Told::Warned => "warned".to_owned(),
                Told::Refused(error) => format!("{} {error}", error.code_text().unwrap_or_default()),
            };
            Some(told.iter().map(one).collect::<Vec<_>>().join(", "))
        };
        let wanted = "1, 0, 2, warned, 1062 é; , warned, 1644 ";
        let told = "1 0;0 0;2 0;1 1;1062 23000 C3A93B20 -1 0;-1 3;1644 45000  -1 1;";
        assert_eq!(shown(told).as_deref(), Some(wanted));
        for odd in [
            "1",
            "1 0;1",
            "-1 0;",
            "1062 23000 C3A -1 0;",
            "x 45000 41 -1 0;",
            "1 0;;",
        ] {
            assert_eq!(shown(odd), None, "{odd}");
        }
        assert_eq!(shown("").as_deref(), Some(""));
    }
}
