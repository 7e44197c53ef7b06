//! Statements of the user's own.
//!
//! The server says nothing of the types of parameters. One that goes into a column as it is has the column's, so that
//! no value is rounded or cut; one that is compared with a column has its type too. Any other is of the source's type.
//! Exact decimals are cast in place: the server computes with text as with floating-point numbers. A statement
//! that ends with a warning is refused like one that fails.

use mysql_async::{Conn, prelude::Queryable};
use tonnage_core::{
    error::{Error, ErrorKind, Result},
    operation::{Method, Support},
    statement::{Dialect, Statement},
    table::{self, Column, Equality, Table, TableName},
    target::WriteRequest,
    types::ColumnType,
};

use super::{
    catalog::{self, Described, Transactions},
    encode::ColumnEncoder,
    errors,
    product::Version,
    statements::{Account, ManyRows, Statements, WriteStrategy},
    types::{Kind, PRECISION_MAX, SCALE_MAX},
};

pub(super) const DIALECT: Dialect = Dialect {
    dollars: false,
    brackets: false,
    backticks: true,
    hashes: true,
    backslashes: true,
    slashes: false,
    keeps_case: true,
    own_parameters: &['?', '@'],
};

fn placeholder(_: usize) -> String {
    "?".to_owned()
}

/// Prepares the statement: a table whose columns are its parameters.
pub(super) async fn describe(
    conn: &mut Conn,
    version: &Version,
    database: &str,
    statement: &Statement,
) -> Result<Described> {
    let ignores = |word: &str| word.eq_ignore_ascii_case("IGNORE");
    if statement.text().split_whitespace().skip(1).take(2).any(ignores) {
        return Err(Error::config(
            "the statement cannot be run: with IGNORE the database changes values that do not fit",
        )
        .hint("leave IGNORE out; ON DUPLICATE KEY UPDATE id = id leaves rows alone whose key is there"));
    }
    let prepared = conn.prep(statement.render(placeholder)).await.map_err(refused)?;
    let parameters = usize::from(prepared.num_params());
    conn.close(prepared).await.map_err(errors::statement)?;
    if parameters != statement.places().count() {
        return Err(Error::bug(format!(
            "the server found {parameters} parameters in a statement that names {}",
            statement.places().count()
        )));
    }
    // Where it is no table, or several, nothing is known of the columns.
    let taking = match catalog::describe(conn, version, database, statement.table()).await {
        Ok(taking) => taking,
        Err(error) if error.kind() == ErrorKind::Schema => None,
        Err(error) => return Err(error),
    };
    let behind = match &taking {
        Some(_) => None,
        // Of a view, what is behind it.
        None => behind_view(conn, database, statement.table()).await?,
    };
    let transactional = match &taking {
        Some(found) => found.table.transactional,
        None => behind.is_none(),
    };
    let less_durable = match &taking {
        Some(found) => found.table.less_durable.clone(),
        None => behind.and_then(|(table, engine)| catalog::less_durable(&table, &engine, Transactions::No)),
    };
    let (mut columns, mut kinds) = (Vec::new(), Vec::new());
    let mut shape = Vec::new();
    for (index, name) in statement.parameters().iter().enumerate() {
        let table = taking.as_ref().map(|found| &found.table);
        let assigned = table.and_then(|table| statement.taken_by(index, table));
        let known = assigned.or(table.and_then(|table| statement.compared_with(index, table)));
        let column = Column {
            name: name.clone(),
            ty: known.map_or(Some(ColumnType::Any), |column| column.ty),
            declared: known.map(|column| column.declared.clone()).unwrap_or_default(),
            // A null that is compared equals nothing; one that is written must not become a default.
            nullable: assigned.is_none_or(|column| column.nullable),
            has_default: false,
            generated: false,
            numbered: None,
            equality: known.map_or(Equality::ServerOnly, |column| column.equality),
        };
        kinds.push(known.and_then(|known| {
            let found = taking.as_ref()?;
            let at = found.table.columns.iter().position(|c| c.name == known.name)?;
            found.kinds.get(at)?.clone()
        }));
        shape.push(format!("{name} {}", column.declared));
        columns.push(column);
    }
    // A table that was made anew is another one, for a statement as for rows.
    if let Some(found) = &taking {
        let lines = found.table.identity.shape.lines();
        shape.extend(lines.filter(|line| table::is_making(line)).map(str::to_owned));
    }
    Ok(Described {
        table: Table {
            transactional,
            less_durable,
            ..statement.parameter_table(columns, &shape)
        },
        collations: vec![None; kinds.len()],
        kinds,
        unique: Vec::new(),
        is_view: false,
        shards: 1,
    })
}

/// A table without transactions that a view of this name has rows of, and its engine.
async fn behind_view(conn: &mut Conn, database: &str, name: &TableName) -> Result<Option<(String, String)>> {
    match catalog::view_text(conn, database, name).await? {
        Some(text) => {
            let schema = name.schema.as_deref().unwrap_or(database);
            catalog::plain_table_in(conn, schema, &text).await
        }
        None => Ok(None),
    }
}

/// The server's refusal to prepare.
fn refused(failure: mysql_async::Error) -> Error {
    let error = errors::statement(failure);
    match error.kind() {
        ErrorKind::Schema | ErrorKind::Rejected | ErrorKind::Bug if error.code_text().is_some() => {
            let told = Error::schema(error.to_string()).at("the statement");
            match error.code_text() {
                Some(code) => told.code(code.to_owned()),
                None => told,
            }
        }
        _ => error,
    }
}

/// How a statement can go.
pub(super) fn support(statement: &Statement, method: Method, table: &Table) -> Support {
    let batch = "--method batch executes it row by row".to_owned();
    let why = match method {
        Method::Single | Method::Batch => return Support::Yes,
        Method::Native => "LOAD DATA knows no statements".to_owned(),
        Method::Array if statement.bare_insert().is_none() => {
            "only INSERT .. VALUES of nothing but parameters means the same for many rows at once".to_owned()
        }
        Method::Array if !table.transactional => {
            format!(
                "{} has no transactions, so only rows that go one by one can be told",
                table.name
            )
        }
        Method::Array => return Support::Yes,
    };
    Support::No { why, instead: batch }
}

/// What a value of a type that the source has is for a server that expects none.
fn kind(ty: ColumnType, name: &str) -> Result<Kind> {
    let integer = |least: i128, most: i128| Kind::Integer {
        least,
        most,
        bits: false,
    };
    let decimal = |precision, scale| Kind::Decimal {
        precision,
        scale,
        unsigned: false,
    };
    Ok(match ty {
        ColumnType::Bool => integer(0, 1),
        ColumnType::Int16 => integer(i16::MIN.into(), i16::MAX.into()),
        ColumnType::Int32 => integer(i32::MIN.into(), i32::MAX.into()),
        ColumnType::Int64 => integer(i64::MIN.into(), i64::MAX.into()),
        ColumnType::Float32 => Kind::Single {
            unsigned: false,
            scale: None,
        },
        ColumnType::Float64 => Kind::Double {
            unsigned: false,
            scale: None,
        },
        ColumnType::Decimal { precision, scale } if scale <= SCALE_MAX => {
            decimal(precision.into(), scale.into())
        }
        ColumnType::Decimal { .. } => {
            return Err(Error::schema(format!(
                "parameter :{name} is {ty}, and this database reckons with at most {SCALE_MAX} digits after the point"
            ))
            .hint(format!("take fewer: --type '{name}=decimal(38,{SCALE_MAX})'")));
        }
        ColumnType::Numeric => decimal(PRECISION_MAX, SCALE_MAX.into()),
        ColumnType::Text { .. } | ColumnType::Char { .. } | ColumnType::Json => Kind::Text(u64::MAX),
        ColumnType::Bytes => Kind::Bytes(u64::MAX),
        ColumnType::Date => Kind::Date,
        ColumnType::Time | ColumnType::Timestamp | ColumnType::TimestampTz => Kind::Seconds(6),
        ColumnType::Uuid => Kind::Uuid,
        ColumnType::Any => {
            return Err(Error::bug(format!(
                "parameter :{name} reached the writer without a type"
            )));
        }
    })
}

/// Builds the statements of a plan whose operation is `statement`, described again on the writer's connection.
pub(super) fn statements(
    plan: &WriteRequest,
    statement: &Statement,
    described: &Described,
    version: &Version,
) -> Result<Statements> {
    let mut parameters = Vec::with_capacity(plan.columns.len());
    for (index, column) in plan.columns.iter().enumerate() {
        let known = described.kinds.get(index).cloned().flatten();
        parameters.push(ColumnEncoder {
            name: column.name.clone(),
            ty: column.ty,
            kind: match known {
                Some(known) => known,
                None => kind(column.ty, &column.name)?,
            },
            nullable: described.table.columns.get(index).is_none_or(|c| c.nullable),
        });
    }
    let placeholder = |index: usize| match parameters.get(index).map(|c| &c.kind) {
        Some(Kind::Decimal { precision, scale, .. }) => format!("CAST(? AS DECIMAL({precision},{scale}))"),
        _ => "?".to_owned(),
    };
    let one = statement.render(placeholder);
    let way = match (plan.method, statement.bare_insert()) {
        (Method::Array, Some(_)) if version.has_bulk() => WriteStrategy::Bulk(one),
        (Method::Array, Some((before, row, after))) => {
            let row: Vec<_> = row.iter().map(|index| placeholder(*index)).collect();
            WriteStrategy::Rows(ManyRows {
                head: format!("{before}VALUES "),
                row: format!("({})", row.join(", ")),
                tail: after.to_owned(),
            })
        }
        _ => WriteStrategy::Row(one),
    };
    let way = way.for_split(version, plan.split);
    let order: Vec<usize> = statement.places().collect();
    let columns = order.iter().filter_map(|index| parameters.get(*index).cloned());
    Ok(Statements {
        columns: columns.collect(),
        order,
        one: match &way {
            WriteStrategy::Row(one) => Some(one.clone()),
            _ => None,
        },
        way,
        account: match statement.stands_alone() {
            true => Account::All,
            false => Account::Any,
        },
        transactional: described.table.transactional,
    })
}
