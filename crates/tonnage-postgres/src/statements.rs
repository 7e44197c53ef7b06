//! The statements that carry rows. Identifiers are quoted, values are never part of the text.

use tokio_postgres::Client;
use tonnage_core::{
    error::{Error, Result},
    operation::{Durability, Method, Operation},
    table::{Equality, Table, TableName},
    target::{Rows, WriteColumn, WriteRequest},
    types::ColumnType,
};

use super::{
    carry::Cast,
    catalog::{self, Described},
    each::{self, Each},
    encode::{EncodedColumn, Numbering},
    errors::{self, TextCodes},
    types::{ServerType, oid, quote, quote_all, quote_table},
};

/// The statements of one plan.
#[derive(Debug)]
pub(super) struct Statements {
    /// Opens a transaction.
    pub begin: String,
    /// Carries rows.
    pub way: WriteStrategy,
    /// What the carrying statement tells of them.
    pub account: Account,
    /// Takes rows one by one at the server, where that means the same.
    pub each: Option<Each>,
}

/// How rows reach the table.
#[derive(Debug)]
pub(super) enum WriteStrategy {
    /// COPY into it.
    Copy(String),
    /// One array a column.
    Array(String),
    /// One row a statement.
    Row(String),
    /// COPY into a table of the session, and one statement from there.
    Stage(Stage),
}

/// See [`WriteStrategy::Stage`].
#[derive(Debug)]
pub(super) struct Stage {
    /// Makes the table, once a session.
    pub create: String,
    /// COPY into it.
    pub copy: String,
    /// From there into the table.
    pub merge: String,
    /// Empties it, for a further write of the same transaction.
    pub clear: String,
    /// Whether a column behind the others carries the row's number.
    pub ordinal: Numbering,
}

/// What became of the rows of a write, as its statement tells it.
///
/// An update by a key that only the server can compare may meet a key twice in one write. The last row wins, and every
/// row whose key is there counts as written, as if they had been applied one after another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Account {
    /// It reports every row that was sent.
    All,
    /// It reports the rows written; the others were left out by the operation.
    Rest,
    /// Nothing: rows of one upsert meet each other, and all count as written.
    Unchecked,
    /// It touches any number of rows; a row sent counts as written where it touches some.
    Any,
    /// A trigger may leave rows out, or rows of one update meet each other: it answers with the rows that it touched,
    /// those that it should have touched, and how many of the rows sent count as written.
    FromServer,
}

/// The table of the session that COPY goes through.
pub(super) const STAGE: &str = "pg_temp.tonnage_stage";

/// The plan's columns with their types on both sides.
pub(super) fn columns(plan: &WriteRequest, described: &Described) -> Result<Vec<EncodedColumn>> {
    let column = |column: &WriteColumn| encoded(described, &column.name, column.ty);
    plan.columns.iter().map(column).collect()
}

/// A column whose values come as `ty`.
pub(super) fn encoded(described: &Described, name: &str, ty: ColumnType) -> Result<EncodedColumn> {
    let at = described.table.columns.iter().position(|c| c.name == name);
    let found = at.and_then(|at| described.columns.get(at)).ok_or_else(|| {
        Error::schema(format!(
            "{} has no column '{name}' any more",
            described.table.name
        ))
        .hint("the table was altered meanwhile")
    })?;
    let server = match found.cast {
        None => found.server,
        Some(_) => ServerType {
            oid: oid::TEXT,
            modifier: -1,
        },
    };
    Ok(EncodedColumn {
        name: name.to_owned(),
        ty,
        server,
        cast: found.cast.clone(),
    })
}

/// Builds a plan's statements.
pub(super) fn statements(
    plan: &WriteRequest,
    described: &Described,
    columns: &[EncodedColumn],
    synchronous_commit: &str,
) -> Statements {
    let key = plan.operation.key();
    let repeats = plan.method != Method::Single
        && plan.method != Method::Batch
        && key.iter().any(|key| {
            let column = described.table.columns.iter().find(|c| c.name == *key);
            column.is_none_or(|c| c.equality == Equality::ServerOnly)
        });
    let merge = Merge {
        operation: &plan.operation,
        described,
        columns,
        // Rows of one key are applied in their order: the first of an ignore, the last of the others.
        ordinal: match (&plan.operation, plan.method) {
            (Operation::Insert | Operation::Delete { .. }, _) | (_, Method::Single | Method::Batch) => None,
            (Operation::Ignore { .. }, _) => Some(quote(&free_name("tonnage_row", columns))),
            _ => repeats.then(|| quote(&free_name("tonnage_row", columns))),
        },
        repeats,
    };
    let begin = begin(plan.durability, synchronous_commit, described.deferred);
    let way = match (plan.method, &plan.operation) {
        (Method::Array, Operation::Statement { statement, .. }) => {
            WriteStrategy::Array(super::execute::array(statement, columns))
        }
        (_, Operation::Statement { statement, .. }) => {
            WriteStrategy::Row(super::execute::row(statement, columns))
        }
        (Method::Native, Operation::Insert) if !merge.casts_in_stage() => {
            WriteStrategy::Copy(copy(&described.table.name, columns))
        }
        (Method::Native, _) => WriteStrategy::Stage(merge.stage()),
        (Method::Array, _) => WriteStrategy::Array(merge.statement(&merge.arrays())),
        (Method::Single | Method::Batch, _) => WriteStrategy::Row(merge.statement(&merge.row())),
    };
    let account = merge.account();
    // A partition's own defaults, and what a rule makes of an INSERT, are not those of a COPY.
    let same = plan.routing.is_none() && described.rules.is_empty();
    let each = match &plan.operation {
        Operation::Statement { .. } => None,
        _ => same.then(|| merge.each()).flatten(),
    };
    Statements {
        begin,
        way,
        account,
        each,
    }
}

/// The codes by which text is refused of which values are made.
pub(super) fn text_codes(columns: &[EncodedColumn]) -> TextCodes {
    let casts = || columns.iter().filter_map(|column| column.cast.as_ref());
    match casts().next() {
        None => TextCodes::None,
        Some(_) if casts().any(Cast::fails_internally) => TextCodes::Internal,
        Some(_) => TextCodes::Syntax,
    }
}

/// COPY into a table.
pub(super) fn copy(table: &TableName, columns: &[EncodedColumn]) -> String {
    let names = quote_all(columns.iter().map(|c| c.name.as_str()));
    format!(
        "COPY {} ({names}) FROM STDIN WITH (FORMAT binary)",
        quote_table(table)
    )
}

/// What a statement that carries rows is made of.
struct Merge<'a> {
    operation: &'a Operation,
    described: &'a Described,
    columns: &'a [EncodedColumn],
    /// The column of the rows' order, quoted, where it matters.
    ordinal: Option<String>,
    /// Whether one statement may meet a key twice, and only the server would know.
    repeats: bool,
}

/// Where a statement finds the rows.
struct Given {
    /// An item of FROM that is called `given`.
    from: String,
    /// The only row, as an INSERT wants it.
    values: Option<String>,
}

impl Merge<'_> {
    fn names(&self) -> String {
        quote_all(self.columns.iter().map(|c| c.name.as_str()))
    }

    /// The columns of the rows given, the ordinal among them.
    fn given_names(&self) -> String {
        match &self.ordinal {
            Some(ordinal) => format!("{}, {ordinal}", self.names()),
            None => self.names(),
        }
    }

    /// Whether a COPY carries text that has to become something else.
    fn casts_in_stage(&self) -> bool {
        self.columns
            .iter()
            .any(|c| c.cast.as_ref().is_some_and(|cast| !cast.direct))
    }

    /// The rows of `from` (called `raw`) with text made into values where `casts` says so.
    fn cast(&self, from: String, casts: impl Fn(&Cast) -> bool) -> String {
        let cast = |c: &EncodedColumn| match c.cast.as_ref().filter(|cast| casts(cast)) {
            Some(cast) => format!("{0}::{1} AS {0}", quote(&c.name), cast.name),
            None => quote(&c.name),
        };
        let mut names: Vec<_> = self.columns.iter().map(cast).collect();
        names.extend(self.ordinal.clone());
        format!("(SELECT {} FROM {from}) AS given", names.join(", "))
    }

    fn arrays(&self) -> Given {
        let parameter =
            |(index, c): (usize, &EncodedColumn)| format!("${}::{}[]", index + 1, c.server.name());
        let parameters: Vec<_> = self.columns.iter().enumerate().map(parameter).collect();
        let with_ordinality = if self.ordinal.is_some() {
            " WITH ORDINALITY"
        } else {
            ""
        };
        let from = |called: &str| {
            format!(
                "unnest({}){with_ordinality} AS {called} ({})",
                parameters.join(", "),
                self.given_names()
            )
        };
        Given {
            from: match self.columns.iter().any(|c| c.cast.is_some()) {
                true => self.cast(from("raw"), |_| true),
                false => from("given"),
            },
            values: None,
        }
    }

    fn row(&self) -> Given {
        let parameter = |(index, c): (usize, &EncodedColumn)| {
            let parameter = format!("${}::{}", index + 1, c.server.name());
            match &c.cast {
                Some(cast) => format!("{parameter}::{}", cast.name),
                None => parameter,
            }
        };
        let parameters: Vec<_> = self.columns.iter().enumerate().map(parameter).collect();
        let named: Vec<_> = self
            .columns
            .iter()
            .zip(&parameters)
            .map(|(c, parameter)| format!("{parameter} AS {}", quote(&c.name)))
            .collect();
        Given {
            from: format!("(SELECT {}) AS given", named.join(", ")),
            values: Some(format!("VALUES ({})", parameters.join(", "))),
        }
    }

    fn each(&self) -> Option<Each> {
        let value = |c: &EncodedColumn| {
            let value = format!("{}.{}", each::GIVEN, quote(&c.name));
            match &c.cast {
                Some(cast) => format!("{value}::{}", cast.name),
                None => value,
            }
        };
        let values: Vec<_> = self.columns.iter().map(value).collect();
        let named = self.columns.iter().zip(&values);
        let named: Vec<_> = named
            .map(|(c, value)| format!("{value} AS {}", quote(&c.name)))
            .collect();
        // A row alone meets no other.
        let alone = Merge {
            ordinal: None,
            repeats: false,
            ..*self
        };
        let change = alone.change(&Given {
            from: format!("(SELECT {}) AS given", named.join(", ")),
            values: Some(format!("VALUES ({})", values.join(", "))),
        });
        Each::of(
            self.columns,
            &quote(&free_name("tonnage_row", self.columns)),
            &change,
            alone.account(),
            text_codes(self.columns),
        )
    }

    fn stage(&self) -> Stage {
        let typed_ordinal = match &self.ordinal {
            Some(ordinal) => format!(", 0::int4 AS {ordinal}"),
            None => String::new(),
        };
        let staged = |c: &EncodedColumn| match &c.cast {
            Some(cast) if !cast.direct => format!("NULL::text AS {}", quote(&c.name)),
            _ => quote(&c.name),
        };
        let staged: Vec<_> = self.columns.iter().map(staged).collect();
        Stage {
            create: format!(
                "CREATE TEMPORARY TABLE tonnage_stage ON COMMIT DELETE ROWS AS SELECT {}{typed_ordinal} \
                 FROM {} WITH NO DATA",
                staged.join(", "),
                quote_table(&self.described.table.name)
            ),
            copy: format!(
                "COPY {STAGE} ({}) FROM STDIN WITH (FORMAT binary)",
                self.given_names()
            ),
            merge: self.statement(&Given {
                from: match self.casts_in_stage() {
                    true => self.cast(format!("{STAGE} AS raw"), |cast| !cast.direct),
                    false => format!("{STAGE} AS given"),
                },
                values: None,
            }),
            clear: format!("DELETE FROM {STAGE}"),
            ordinal: match &self.ordinal {
                Some(_) => Numbering::Last,
                None => Numbering::None,
            },
        }
    }

    fn account(&self) -> Account {
        match self.operation {
            Operation::Insert => Account::All,
            Operation::Upsert { key } if self.repeats || self.columns.len() == key.len() => {
                Account::Unchecked
            }
            Operation::Upsert { .. } => Account::All,
            Operation::Ignore { .. } if self.described.may_leave_out(self.operation) => Account::FromServer,
            Operation::Ignore { .. } => Account::Rest,
            Operation::Update { .. } if self.repeats || self.described.may_leave_out(self.operation) => {
                Account::FromServer
            }
            Operation::Update { .. } => Account::Rest,
            Operation::Delete { .. } if self.described.may_leave_out(self.operation) => Account::FromServer,
            Operation::Delete { .. } => Account::Rest,
            Operation::Statement { statement, .. } if statement.stands_alone() => Account::All,
            Operation::Statement { .. } => Account::Any,
        }
    }

    /// The statement that takes the rows of `given` into the table.
    fn statement(&self, given: &Given) -> String {
        if self.account() != Account::FromServer {
            return self.change(given);
        }
        let again = Given {
            from: "sent AS given".to_owned(),
            values: None,
        };
        format!(
            "WITH sent AS MATERIALIZED (SELECT {} FROM {}), applied AS ({} RETURNING 1) \
             SELECT (SELECT count(*) FROM applied), {}",
            self.given_names(),
            given.from,
            self.change(&again),
            self.told()
        )
    }

    fn change(&self, given: &Given) -> String {
        let table = quote_table(&self.described.table.name);
        match self.operation {
            Operation::Insert | Operation::Upsert { .. } | Operation::Ignore { .. } => format!(
                "INSERT INTO {table} ({}){} {}{}",
                self.names(),
                overriding(self.described, self.columns),
                given.values.clone().unwrap_or_else(|| self.selection(given)),
                conflict(self.operation, self.columns)
            ),
            Operation::Update { key } => {
                let others: Vec<_> = self
                    .columns
                    .iter()
                    .filter(|c| !key.contains(&c.name))
                    .map(|c| format!("{0} = given.{0}", quote(&c.name)))
                    .collect();
                let from = match self.repeats {
                    true => format!("({}) AS given", self.selection(given)),
                    false => given.from.clone(),
                };
                format!(
                    "UPDATE {} SET {} FROM {from} WHERE {}",
                    self.loaded(),
                    others.join(", "),
                    self.same_key()
                )
            }
            Operation::Statement { .. } => given.from.clone(),
            // A row that several of the rows sent name is removed, and counted, once.
            Operation::Delete { .. } => format!(
                "DELETE FROM {} USING {} WHERE {}",
                self.loaded(),
                given.from,
                self.same_key()
            ),
        }
    }

    /// The rows of `given`: in their order where the first of a key counts, the last of each key where only the server
    /// knows which keys are equal.
    fn selection(&self, given: &Given) -> String {
        let (names, from) = (self.names(), &given.from);
        match (&self.ordinal, self.operation) {
            (Some(ordinal), Operation::Ignore { .. }) => {
                format!("SELECT {names} FROM {from} ORDER BY {ordinal}")
            }
            (Some(ordinal), _) => {
                let key = key_expressions(self.operation.key(), self.described);
                format!("SELECT DISTINCT ON ({key}) {names} FROM {from} ORDER BY {key}, {ordinal} DESC")
            }
            (None, _) => format!("SELECT {names} FROM {from}"),
        }
    }

    /// The table, called `loaded`. A key holds in a table itself; tables that inherit from it have keys of their own.
    fn loaded(&self) -> String {
        let only = if self.described.partitioned { "" } else { "ONLY " };
        format!("{only}{} AS loaded", quote_table(&self.described.table.name))
    }

    /// A null equals nothing.
    fn same_key(&self) -> String {
        let same = |name: &String| {
            let at = self.described.table.columns.iter().position(|c| c.name == *name);
            let column = at.and_then(|at| self.described.columns.get(at));
            let equal = column.and_then(|c| c.equal.as_deref()).unwrap_or("=");
            format!("loaded.{0} {equal} given.{0}", quote(name))
        };
        let same: Vec<_> = self.operation.key().iter().map(same).collect();
        same.join(" AND ")
    }

    /// The second and third number of [`Account::FromServer`], from the state before the change.
    fn told(&self) -> String {
        let (loaded, same) = (self.loaded(), self.same_key());
        let there = format!("EXISTS (SELECT FROM {loaded} WHERE {same})");
        if let Operation::Ignore { key } = self.operation {
            let nulls: Vec<_> = key.iter().map(|k| format!("{} IS NULL", quote(k))).collect();
            let nulls = nulls.join(" OR ");
            let new = format!(
                "(SELECT count(DISTINCT ROW({})) FROM sent AS given WHERE NOT ({nulls}) AND NOT {there}) + \
                 (SELECT count(*) FROM sent AS given WHERE {nulls})",
                key_expressions(key, self.described)
            );
            return format!("{new}, {new}");
        }
        let touched =
            format!("(SELECT count(*) FROM {loaded} WHERE EXISTS (SELECT FROM sent AS given WHERE {same}))");
        match self.operation {
            Operation::Update { .. } => {
                format!("{touched}, (SELECT count(*) FROM sent AS given WHERE {there})")
            }
            _ => format!("{touched}, {touched}"),
        }
    }
}

fn begin(durability: Durability, synchronous_commit: &str, deferred: bool) -> String {
    // The compare-and-set of the ledger needs the committed state after a wait, whatever the role's default is.
    let mut begin = "BEGIN ISOLATION LEVEL READ COMMITTED".to_owned();
    if let Some(value) = super::types::commit_setting(synchronous_commit, durability) {
        begin.push_str("; SET LOCAL synchronous_commit = ");
        begin.push_str(value);
    }
    if deferred {
        begin.push_str("; SET CONSTRAINTS ALL IMMEDIATE");
    }
    begin
}

/// COPY always takes the values it is given for identity columns; INSERT needs OVERRIDING SYSTEM VALUE.
fn overriding(described: &Described, columns: &[EncodedColumn]) -> &'static str {
    let always = described
        .table
        .columns
        .iter()
        .zip(&described.columns)
        .any(|(column, detail)| detail.identity_always && columns.iter().any(|c| c.name == column.name));
    if always { " OVERRIDING SYSTEM VALUE" } else { "" }
}

fn conflict(operation: &Operation, columns: &[EncodedColumn]) -> String {
    let key = match operation {
        Operation::Upsert { key } | Operation::Ignore { key } => key,
        _ => return String::new(),
    };
    let target = quote_all(key.iter().map(String::as_str));
    let others: Vec<_> = columns
        .iter()
        .filter(|c| !key.contains(&c.name))
        .map(|c| format!("{0} = excluded.{0}", quote(&c.name)))
        .collect();
    if others.is_empty() || matches!(operation, Operation::Ignore { .. }) {
        return format!(" ON CONFLICT ({target}) DO NOTHING");
    }
    format!(" ON CONFLICT ({target}) DO UPDATE SET {}", others.join(", "))
}

/// The key as the table compares it: parameters carry no collation of their own.
fn key_expressions(key: &[String], described: &Described) -> String {
    let expressions: Vec<_> = key
        .iter()
        .map(|name| {
            let at = described.table.columns.iter().position(|c| c.name == *name);
            match at
                .and_then(|at| described.columns.get(at))
                .and_then(|c| c.collation.as_deref())
            {
                Some(collation) => format!("{} COLLATE {collation}", quote(name)),
                None => quote(name),
            }
        })
        .collect();
    expressions.join(", ")
}

/// `wanted`, or `wanted` with underscores behind it, so that no column has it.
fn free_name(wanted: &str, columns: &[EncodedColumn]) -> String {
    let mut name = wanted.to_owned();
    while columns.iter().any(|c| c.name == name) {
        name.push('_');
    }
    name
}

/// Empties a table.
pub(super) fn truncate(name: &TableName) -> String {
    format!("TRUNCATE TABLE {}", quote_table(name))
}

/// How long the lock of a table to be dropped is waited for.
const DROP_WAIT: &str = "30s";

/// Drops `table` if it is still there, under the lock that keeps it as it is found; see
/// [`Target::drop_table`](tonnage_core::target::Target::drop_table).
pub(super) async fn drop_table(client: &Client, table: &Table, rows: Rows) -> Result<bool> {
    let name = quote_table(&table.name);
    let failed = |failure| errors::statement(failure).at(format!("cannot drop {}", table.name));
    client
        .batch_execute(&format!(
            "BEGIN; SET LOCAL lock_timeout = '{DROP_WAIT}'; LOCK TABLE {name} IN ACCESS EXCLUSIVE MODE"
        ))
        .await
        .map_err(failed)?;
    let found = catalog::describe_readable(client, &table.name).await?;
    let is_it = found.is_some_and(|found| found.table.identity.object == table.identity.object);
    let keeps = match rows {
        Rows::Drop => false,
        Rows::Keep => {
            let one = client
                .query_opt(&format!("SELECT FROM {name} LIMIT 1"), &[])
                .await;
            one.map_err(failed)?.is_some()
        }
    };
    let dropped = is_it && !keeps;
    let end = match dropped {
        true => format!("DROP TABLE {name}; COMMIT"),
        false => "ROLLBACK".to_owned(),
    };
    client.batch_execute(&end).await.map_err(failed)?;
    Ok(dropped)
}
