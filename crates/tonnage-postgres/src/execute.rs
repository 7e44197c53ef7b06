//! Statements of the user's own.
//!
//! The server says of which types the parameters are. Where a parameter goes into a column as it is, the column's
//! modifier is taken over, so that a value which the assignment would round or cut is refused here. Executions are
//! pipelined; only an INSERT whose rows provably do not meet takes many rows at once.

use tokio_postgres::{Client, error::ErrorPosition};
use tonnage_core::{
    error::{Error, ErrorKind, Result},
    operation::{Method, Support},
    statement::{Dialect, Statement, Taker},
    table::{Column, Equality, LessDurable, Table, TableName},
    target::WriteRequest,
};

use super::{
    carry::{Carried, Cast, carry},
    catalog::{self, Described, DescribedColumn, get},
    composition,
    encode::EncodedColumn,
    errors,
    types::{MONEY_SCALE, ServerType},
};

pub(super) const DIALECT: Dialect = Dialect {
    dollars: true,
    brackets: false,
    backticks: false,
    hashes: false,
    backslashes: false,
    slashes: false,
    keeps_case: false,
    own_parameters: &['$'],
};

/// Types by their object ids, in order; a domain is what it is based on. Then whether text that is equal has equal
/// bytes for every column of the database, and whether a constraint of it is checked at commit.
const TYPES: &str = "\
    SELECT pg_catalog.format_type(t.oid, -1), u.oid, \
           CASE u.oid WHEN 'pg_catalog.money'::pg_catalog.regtype THEN {MONEY_SCALE} ELSE u.modifier END, \
           pg_catalog.format_type(u.oid, -1), b.typtype::text, \
           NOT EXISTS (SELECT FROM pg_catalog.pg_attribute a \
                       JOIN pg_catalog.pg_collation l ON l.oid = a.attcollation WHERE NOT l.collisdeterministic), \
           EXISTS (SELECT FROM pg_catalog.pg_constraint WHERE condeferred) \
    FROM unnest($1::oid[]) WITH ORDINALITY AS given (oid, place) \
    JOIN pg_catalog.pg_type t ON t.oid = given.oid \
    CROSS JOIN LATERAL ( \
        WITH RECURSIVE chain (oid, kind, base, base_modifier, modifier) AS ( \
            SELECT t.oid, t.typtype, t.typbasetype, t.typtypmod, -1 \
            UNION ALL \
            SELECT n.oid, n.typtype, n.typbasetype, n.typtypmod, c.base_modifier \
            FROM chain c JOIN pg_catalog.pg_type n ON n.oid = c.base WHERE c.kind = 'd') \
        SELECT oid, modifier FROM chain WHERE kind <> 'd') u \
    JOIN pg_catalog.pg_type b ON b.oid = u.oid ORDER BY given.place";

/// Whether something at a table could tell rows inserted together from rows inserted one after another.
const OBSTACLES: &str = "\
    WITH tables AS (SELECT to_regclass($1)::oid AS of_table \
    UNION SELECT relid FROM pg_catalog.pg_partition_tree(to_regclass($1))) \
    SELECT CASE \
        WHEN to_regclass($1) IS NULL OR (SELECT relkind NOT IN ('r', 'p') FROM pg_catalog.pg_class \
                                         WHERE oid = to_regclass($1)) THEN 'it is no table' \
        WHEN EXISTS (SELECT FROM pg_catalog.pg_trigger JOIN tables ON tgrelid = of_table \
                     WHERE NOT tgisinternal AND tgenabled <> 'D') THEN 'its triggers would see many rows at once' \
        WHEN EXISTS (SELECT FROM pg_catalog.pg_rewrite JOIN tables ON ev_class = of_table \
                     WHERE ev_type <> '1' AND ev_enabled <> 'D') THEN 'its rules would see many rows at once' \
        WHEN EXISTS (SELECT FROM pg_catalog.pg_constraint JOIN tables ON confrelid = of_table \
                     WHERE contype = 'f' AND conrelid = confrelid) \
            THEN 'its rows refer to each other, and one could refer to a later one' \
        WHEN EXISTS (SELECT FROM tables WHERE pg_catalog.row_security_active(of_table)) \
            THEN 'its row security would see many rows at once' \
        WHEN EXISTS (SELECT FROM pg_catalog.pg_depend d \
                     LEFT JOIN pg_catalog.pg_attrdef a ON d.classid = 'pg_catalog.pg_attrdef'::pg_catalog.regclass \
                                                       AND a.oid = d.objid \
                     LEFT JOIN pg_catalog.pg_constraint c ON d.classid = 'pg_catalog.pg_constraint'::pg_catalog.regclass \
                                                          AND c.oid = d.objid \
                     JOIN tables t ON t.of_table = coalesce(a.adrelid, c.conrelid) \
                     WHERE d.refclassid = 'pg_catalog.pg_proc'::pg_catalog.regclass) \
            THEN 'functions in its defaults or checks could see many rows at once' \
    END";

fn placeholder(index: usize) -> String {
    format!("${}", index + 1)
}

/// Prepares the statement: a table whose columns are its parameters.
pub(super) async fn describe(client: &Client, statement: &Statement) -> Result<Described> {
    let prepared = client.prepare(&statement.render(placeholder)).await;
    let prepared = prepared.map_err(|error| refused(error, statement))?;
    let oids: Vec<u32> = prepared.params().iter().map(|ty| ty.oid()).collect();
    let types = TYPES.replace("{MONEY_SCALE}", MONEY_SCALE);
    let rows = client.query(&types, &[&oids]).await.map_err(errors::statement)?;
    if rows.len() != statement.parameters().len() {
        return Err(Error::bug(format!(
            "the server found {} parameters in a statement of {}",
            rows.len(),
            statement.parameters().len()
        )));
    }
    let taking = match statement.assigned().is_empty() {
        true => None,
        false => match catalog::describe(client, statement.table()).await {
            Ok(taking) => taking,
            // A view has columns too, but nothing that is to be known of them.
            Err(error) if error.kind() == ErrorKind::Schema => None,
            Err(error) => return Err(error),
        },
    };
    let mut others = Vec::new();
    for row in &rows {
        let server = server_type(row)?;
        if server.column_type().is_none() {
            others.push(server.oid);
        }
    }
    let types = composition::read(client, others).await?;
    let mut shape = Vec::with_capacity(rows.len());
    let (mut columns, mut details) = (Vec::with_capacity(rows.len()), Vec::with_capacity(rows.len()));
    let mut deferred = false;
    for (index, (row, name)) in rows.iter().zip(statement.parameters()).enumerate() {
        let (mut declared, mut server): (String, _) = (get(row, 0)?, server_type(row)?);
        if let Some(taken) = taking.as_ref().and_then(|table| taken(statement, index, table))
            && taken.0.oid == server.oid
            && server.modifier == -1
        {
            (server, declared) = taken;
        }
        let kind: String = get(row, 4)?;
        let (ty, cast) = match carry(server, &types) {
            Carried::Binary(ty) => (Some(ty), None),
            Carried::Text { ty, direct, spelling } => {
                let cast = Cast {
                    name: get(row, 3)?,
                    direct,
                    spelling,
                };
                (Some(ty), Some(cast))
            }
            Carried::Not(None) => (None, None),
            Carried::Not(Some(why)) => {
                declared = format!("{declared} ({why})");
                (None, None)
            }
        };
        shape.push(format!("{name} {declared}"));
        details.push(DescribedColumn {
            server,
            identity_always: false,
            collation: None,
            cast,
            equal: None,
        });
        columns.push(Column {
            name: name.clone(),
            ty,
            declared,
            nullable: true,
            has_default: false,
            generated: false,
            numbered: None,
            equality: match kind.as_str() {
                "e" => Equality::Provable,
                _ => server.equality(get(row, 5)?),
            },
        });
        deferred = get(row, 6)?;
    }
    let of_deferred = "deferred constraints are checked with every statement, not at commit";
    Ok(Described {
        oid: 0,
        kind: String::new(),
        table: Table {
            less_durable: less_durable(client, statement).await?,
            notes: deferred.then(|| of_deferred.to_owned()).into_iter().collect(),
            ..statement.parameter_table(columns, &shape)
        },
        columns: details,
        deferred,
        row_security: false,
        partitioned: false,
        triggered: 0,
        rules: Vec::new(),
        instead: None,
    })
}

/// The type of a parameter, a row of [`TYPES`].
fn server_type(row: &tokio_postgres::Row) -> Result<ServerType> {
    Ok(ServerType {
        oid: get(row, 1)?,
        modifier: get(row, 2)?,
    })
}

/// In what the table that the statement names, or the view with what is behind it, is less durable than the ledger.
async fn less_durable(client: &Client, statement: &Statement) -> Result<Option<LessDurable>> {
    let name = statement.table();
    let found = client
        .query_one("SELECT pg_catalog.to_regclass($1::text)::oid", &[&quoted(name)])
        .await
        .map_err(errors::statement)?;
    match get::<Option<u32>>(&found, 0)? {
        Some(oid) => {
            let less = catalog::less_durable(client, oid, name).await?;
            Ok(less.into_iter().next())
        }
        None => Ok(None),
    }
}

/// Type and declaration of the columns that take parameter `index` as it is, where they agree.
fn taken(statement: &Statement, index: usize, table: &Described) -> Option<(ServerType, String)> {
    let takers = statement
        .assigned()
        .iter()
        .filter(|(_, parameter)| *parameter == index);
    let place = |taker: &Taker| match taker {
        Taker::Named(name) => table.table.columns.iter().position(|c| c.name == *name),
        Taker::At(place) => Some(*place),
    };
    let mut found = None;
    for (taker, _) in takers {
        let at = place(taker)?;
        let server = table.columns.get(at)?.server;
        match found {
            None => found = Some((server, table.table.columns.get(at)?.declared.clone())),
            Some((known, _)) if known == server => {}
            Some(_) => return None,
        }
    }
    found
}

/// [`describe`] on another connection: its parameters must be what the plan was made for.
pub(super) async fn describe_again(
    client: &Client,
    statement: &Statement,
    plan: &WriteRequest,
) -> Result<Described> {
    let mut described = describe(client, statement).await?;
    if described.table.identity.shape != plan.table.identity.shape {
        return Err(Error::schema(
            "the statement's parameters have other types than when the run began",
        ));
    }
    described
        .table
        .identity
        .object
        .clone_from(&plan.table.identity.object);
    Ok(described)
}

/// The server's refusal to prepare, with the place in the user's text.
fn refused(error: tokio_postgres::Error, statement: &Statement) -> Error {
    let at = match error.as_db_error().and_then(|db| db.position()) {
        Some(ErrorPosition::Original(at)) => Some(*at as usize),
        _ => None,
    };
    let described = errors::statement(error);
    let described = match described.code_text() {
        Some("42P18") => described.hint("say what it is: CAST(:name AS type)"),
        _ => described,
    };
    if !matches!(described.kind(), ErrorKind::Schema | ErrorKind::Rejected) {
        return described;
    }
    let sent = statement.render(placeholder);
    // The server counts characters from 1.
    let byte = at.map(|at| {
        sent.char_indices()
            .nth(at.saturating_sub(1))
            .map_or(sent.len(), |(byte, _)| byte)
    });
    let place = match byte {
        Some(byte) => format!("the statement, {}", statement.place(byte, placeholder)),
        None => "the statement".to_owned(),
    };
    let mut message = described.to_string();
    for (index, name) in statement.parameters().iter().enumerate().rev() {
        message = message.replace(&placeholder(index), &format!(":{name}"));
    }
    let error = Error::schema(message).at(place);
    let error = match described.hint_text() {
        Some(hint) => error.hint(hint.to_owned()),
        None => error,
    };
    match described.code_text() {
        Some(code) => error.code(code.to_owned()),
        None => error,
    }
}

/// Why rows may not go together in one execution, if so.
pub(super) async fn obstacle(client: &Client, statement: &Statement) -> Result<Option<String>> {
    if statement.bare_insert().is_none() {
        return Ok(None);
    }
    let name = quoted(statement.table());
    let row = client
        .query_one(OBSTACLES, &[&name])
        .await
        .map_err(errors::statement)?;
    get(&row, 0)
}

fn quoted(name: &TableName) -> String {
    super::types::quote_table(name)
}

/// How a statement can go.
pub(super) fn support(statement: &Statement, method: Method, obstacle: Option<&str>) -> Support {
    let batch = "--method batch pipelines its executions".to_owned();
    match method {
        Method::Single | Method::Batch => Support::Yes,
        Method::Native => Support::No {
            why: "COPY knows no statements".to_owned(),
            instead: batch,
        },
        Method::Array => match (statement.bare_insert(), obstacle) {
            (Some(_), None) => Support::Yes,
            (Some(_), Some(why)) => Support::No {
                why: format!("{}: {why}", statement.table()),
                instead: batch,
            },
            (None, _) => Support::No {
                why: "only INSERT .. VALUES of nothing but parameters, with at most ON CONFLICT DO NOTHING, means the \
                      same for many rows at once"
                    .to_owned(),
                instead: batch,
            },
        },
    }
}

/// One execution a row.
pub(super) fn row(statement: &Statement, columns: &[EncodedColumn]) -> String {
    statement.render(|index| match columns.get(index) {
        Some(EncodedColumn {
            server,
            cast: Some(cast),
            ..
        }) => format!("(${}::{}::{})", index + 1, server.name(), cast.name),
        _ => placeholder(index),
    })
}

/// Many rows an execution, in their order: the first of equal keys is the one that is not a conflict.
pub(super) fn array(statement: &Statement, columns: &[EncodedColumn]) -> String {
    let Some((before, row, after)) = statement.bare_insert() else {
        return self::row(statement, columns);
    };
    let arrays: Vec<_> = columns
        .iter()
        .enumerate()
        .map(|(index, c)| format!("${}::{}[]", index + 1, c.server.name()))
        .collect();
    let names: Vec<_> = (1..=columns.len()).map(|index| format!("p{index}")).collect();
    let values: Vec<_> = row
        .iter()
        .map(|index| match columns.get(*index).and_then(|c| c.cast.as_ref()) {
            Some(cast) => format!("given.p{}::{}", index + 1, cast.name),
            None => format!("given.p{}", index + 1),
        })
        .collect();
    format!(
        "{before}SELECT {} FROM unnest({}) WITH ORDINALITY AS given ({}, place) ORDER BY given.place{after}",
        values.join(", "),
        arrays.join(", "),
        names.join(", ")
    )
}
