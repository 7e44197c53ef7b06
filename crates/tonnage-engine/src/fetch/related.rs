//! How tables hang together: which columns of one name rows of the other.
//!
//! - Every table hangs on one other, and so by one way on the table that is got: they are a tree.
//! - A table hangs on the nearest: by a foreign key to or from a table that is joined already, level by level, so that
//!   the order in which tables are named means nothing. Two ways of one length are an error that names them.
//! - What `--on` says goes before foreign keys.

use std::{fmt, str::FromStr, sync::Arc};

use tonnage_core::{
    error::{Error, Result},
    getter::{GetKey, GetRequest},
    reader::ReadColumn,
    table::{Equality, ForeignKey, Table, TableName, columns_hint, find_by_name},
    types::ColumnType,
};

use super::plan::{GetPlan, KeyColumn, columns, with_hidden};

/// A table whose rows come with those of the keys.
#[derive(Debug, Clone, PartialEq)]
pub struct With {
    /// The table.
    pub table: TableName,
    /// The columns wanted, in order; none for all that the database does not compute itself.
    pub columns: Option<Vec<String>>,
    /// Columns that come as the database's own text.
    pub texts: Vec<String>,
}

impl With {
    /// All columns of `table`.
    pub fn new(table: TableName) -> Self {
        Self {
            table,
            columns: None,
            texts: Vec::new(),
        }
    }
}

/// Columns that two tables are joined by: `lines(order_id) = orders(id)`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct On {
    /// The table that hangs on the other one, and its columns. Where only the other can be reached otherwise it is the
    /// other way round.
    pub left: End,
    /// The other table, and as many columns.
    pub right: End,
}

/// One side of a join.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct End {
    /// The table.
    pub table: TableName,
    /// Its columns, in the order of the other side's; at least one.
    pub columns: Vec<String>,
}

impl fmt::Display for On {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} = {}", self.left, self.right)
    }
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}({})", self.table, self.columns.join(", "))
    }
}

impl FromStr for On {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let bad = |why: &str| {
            Error::config(format!("'{text}' joins no tables: {why}"))
                .hint("write it as 'lines(order_id) = orders(id)', with as many columns on both sides")
        };
        let sides = parts(text, '=').ok_or_else(|| bad("a quote is not closed"))?;
        let [left, right] = sides.as_slice() else {
            return Err(bad("it is not of the form TABLE(COLUMNS) = TABLE(COLUMNS)"));
        };
        let end = |side: &str| {
            let inner = side.trim().strip_suffix(')');
            let halves = inner.and_then(|inner| parts(inner, '('));
            let Some([table, columns]) = halves.as_deref() else {
                return Err(bad("a side is not of the form TABLE(COLUMNS)"));
            };
            let columns = parts(columns, ',').ok_or_else(|| bad("a quote is not closed"))?;
            let columns: Vec<String> = columns.iter().map(|column| unquoted(column)).collect();
            if columns.iter().any(String::is_empty) {
                return Err(bad("a column has no name"));
            }
            Ok(End {
                table: table.trim().parse()?,
                columns,
            })
        };
        let on = Self {
            left: end(left)?,
            right: end(right)?,
        };
        match on.left.columns.len() == on.right.columns.len() {
            true => Ok(on),
            false => Err(bad("the sides have different numbers of columns")),
        }
    }
}

/// The parts between separators outside quotes; none where a quote is not closed.
fn parts(text: &str, separator: char) -> Option<Vec<&str>> {
    let (mut found, mut start, mut quoted) = (Vec::new(), 0, false);
    for (at, character) in text.char_indices() {
        match character {
            '"' => quoted = !quoted,
            _ if character == separator && !quoted => {
                found.push(&text[start..at]);
                start = at + separator.len_utf8();
            }
            _ => {}
        }
    }
    found.push(&text[start..]);
    (!quoted).then_some(found)
}

fn unquoted(name: &str) -> String {
    let name = name.trim();
    let inner = name.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
    match inner {
        Some(inner) => inner.replace("\"\"", "\""),
        None => name.to_owned(),
    }
}

/// How a table hangs on another one. Tables are numbered: 0 is the one that is got.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Join {
    /// The table.
    pub table: usize,
    /// The one it hangs on.
    pub to: usize,
    /// Its columns.
    pub columns: Vec<String>,
    /// The columns of the other one.
    pub to_columns: Vec<String>,
    /// Whether a row of the other one has at most one row here: its parent.
    pub one: bool,
}

impl Join {
    /// As `--on` takes it.
    pub fn on(&self, tables: &[TableName]) -> On {
        let end = |table: usize, columns: &[String]| End {
            table: tables[table].clone(),
            columns: columns.to_vec(),
        };
        On {
            left: end(self.table, &self.columns),
            right: end(self.to, &self.to_columns),
        }
    }
}

/// A table whose rows come with those that are got.
#[derive(Debug, Clone)]
pub struct Related {
    /// What is asked of it. Its keys are columns of the rows that it hangs on.
    pub plan: Arc<GetPlan>,
    /// How it hangs on them.
    pub join: Join,
    /// The same as it is written.
    pub on: On,
}

/// What is asked of `table`, which is joined by `join` to rows that have the columns `near`. `needed` are its columns
/// that others hang on.
pub(super) fn decide(
    table: Table,
    join: &Join,
    near: &[ReadColumn],
    with: &With,
    needed: &[String],
    got: &GetPlan,
) -> Result<GetPlan> {
    let mut key = Vec::with_capacity(join.columns.len());
    for (name, near_name) in join.columns.iter().zip(&join.to_columns) {
        let nowhere = || Error::bug(format!("column '{name}' to join by is nowhere to be found"));
        let source = near
            .iter()
            .position(|column| column.name == *near_name)
            .ok_or_else(nowhere)?;
        let target = table
            .columns
            .iter()
            .position(|column| column.name == *name)
            .ok_or_else(nowhere)?;
        let column = &table.columns[target];
        let ty = match column.ty {
            Some(ColumnType::Any) => near[source].ty,
            Some(ty) => ty,
            None => {
                return Err(Error::schema(format!(
                    "column '{name}' of {} has type {}, which this release cannot write exactly, so rows cannot be \
                     looked up by it",
                    table.name, column.declared
                )));
            }
        };
        key.push(KeyColumn {
            source,
            target,
            name: name.clone(),
            ty,
        });
    }
    let (columns, hidden) = with_hidden(&table, columns(&table, with.columns.as_deref())?, needed);
    let keys = key.iter().map(|key| GetKey {
        name: key.name.clone(),
        ty: key.ty,
    });
    Ok(GetPlan {
        partial: !join.one,
        request: GetRequest {
            table: table.name.clone(),
            key: keys.collect(),
            range: None,
            columns,
            texts: with.texts.clone(),
            keyed: join.one,
            ..got.request.clone()
        },
        key,
        table: Arc::new(table),
        ordered: false,
        hidden,
        related: Vec::new(),
        settings_changed: Vec::new(),
        notes: Vec::new(),
        ..got.clone()
    })
}

/// The columns of its keys whose values the server may take for equal where they differ.
pub(super) fn told_by_the_server(plan: &GetPlan) -> impl Iterator<Item = &String> {
    let columns = &plan.table.columns;
    let keys = plan
        .key
        .iter()
        .filter(|key| columns[key.target].equality == Equality::ServerOnly);
    keys.map(|key| &key.name)
}

/// What `--on` says of two tables.
struct Given<'a> {
    on: &'a On,
    /// Table and columns of each side.
    sides: [(usize, Vec<String>); 2],
    used: bool,
}

/// Joins all of `tables` to the first; `keys` are the foreign keys of each. Joins come after those of the tables that
/// theirs hang on.
pub(super) fn join(tables: &[Table], keys: &[Vec<ForeignKey>], on: &[On]) -> Result<Vec<Join>> {
    let given = on.iter().map(|on| find(tables, on)).collect::<Result<_>>()?;
    let mut joining = Joining {
        tables,
        keys,
        given,
        joined: vec![0],
        joins: Vec::new(),
    };
    while joining.joined.len() < tables.len() {
        if !joining.by_what_is_given() && !joining.by_foreign_keys()? {
            return Err(joining.out_of_reach());
        }
    }
    match joining.given.iter().find(|given| !given.used) {
        Some(given) => Err(
            Error::config(format!("{} joins tables that are joined already", given.on))
                .hint("a table hangs on one other: leave one of the ways out of --on"),
        ),
        None => Ok(joining.joins),
    }
}

fn find<'a>(tables: &[Table], on: &'a On) -> Result<Given<'a>> {
    let side = |end: &End| {
        let at = tables.iter().position(|table| is_called(&table.name, &end.table));
        let at = at.ok_or_else(|| {
            let names: Vec<_> = tables.iter().map(|table| table.name.to_string()).collect();
            Error::config(format!(
                "--on {on}: {} is not one of the tables that come",
                end.table
            ))
            .hint(format!("they are {}; --with adds one", names.join(", ")))
        })?;
        let table = &tables[at];
        let columns = end.columns.iter().map(|name| {
            let column = find_by_name(&table.columns, name, |column| &column.name);
            column.map(|column| column.name.clone()).ok_or_else(|| {
                Error::schema(format!("--on {on}: {} has no column '{name}'", table.name))
                    .hint(columns_hint(name, table.columns.iter().map(|c| c.name.as_str())))
            })
        });
        Ok::<_, Error>((at, columns.collect::<Result<_>>()?))
    };
    let sides = [side(&on.left)?, side(&on.right)?];
    match sides[0].0 == sides[1].0 {
        true => Err(Error::config(format!("--on {on} joins a table to itself"))
            .hint("rows of the same table are got by a get of their own")),
        false => Ok(Given {
            on,
            sides,
            used: false,
        }),
    }
}

/// Whether what was written as `wanted` is the table `name`.
fn is_called(name: &TableName, wanted: &TableName) -> bool {
    let same = |a: &str, b: &str| a == b || a.to_lowercase() == b.to_lowercase();
    let schema = match (&wanted.schema, &name.schema) {
        (Some(wanted), Some(schema)) => same(wanted, schema),
        _ => true,
    };
    schema && same(&wanted.name, &name.name)
}

/// A foreign key by which a table can be joined, and why it cannot be followed as it is.
struct JoinPath<'a> {
    join: Join,
    unlike: Option<&'a str>,
    partial: Option<&'a str>,
}

struct Joining<'a> {
    tables: &'a [Table],
    keys: &'a [Vec<ForeignKey>],
    given: Vec<Given<'a>>,
    joined: Vec<usize>,
    joins: Vec<Join>,
}

impl Joining<'_> {
    fn is_joined(&self, table: usize) -> bool {
        self.joined.contains(&table)
    }

    fn add(&mut self, join: Join) {
        self.joined.push(join.table);
        self.joins.push(join);
    }

    /// Joins a table as `--on` says; false where it says nothing of the tables that are within reach.
    fn by_what_is_given(&mut self) -> bool {
        for at in 0..self.given.len() {
            let [left, right] = &self.given[at].sides;
            let (near, far) = match (self.is_joined(left.0), self.is_joined(right.0)) {
                (false, true) => (right, left),
                (true, false) => (left, right),
                _ => continue,
            };
            let holds =
                |key: &tonnage_core::table::Key| key.columns.iter().all(|column| far.1.contains(column));
            let join = Join {
                table: far.0,
                to: near.0,
                columns: far.1.clone(),
                to_columns: near.1.clone(),
                one: self.tables[far.0].keys.iter().any(holds),
            };
            self.given[at].used = true;
            self.add(join);
            return true;
        }
        false
    }

    /// Joins tables by foreign keys; false where none leads to one that is not joined.
    fn by_foreign_keys(&mut self) -> Result<bool> {
        let is_given = |table: usize, side: &[usize]| {
            let unused = self.given.iter().filter(|given| !given.used);
            unused
                .flat_map(|given| side.iter().map(|side| given.sides[*side].0))
                .any(|known| known == table)
        };
        let waiting = (0..self.tables.len()).filter(|at| !self.is_joined(*at));
        // Those of which --on says nothing, all at once; else one that others hang on.
        let (free, bound): (Vec<usize>, Vec<usize>) = waiting.partition(|at| !is_given(*at, &[0, 1]));
        let (rights, lefts): (Vec<usize>, Vec<usize>) = bound.into_iter().partition(|at| is_given(*at, &[1]));
        let mut found = Vec::new();
        for table in free {
            found.extend(self.nearest(table)?);
        }
        for table in rights.into_iter().chain(lefts) {
            if found.is_empty() {
                found.extend(self.nearest(table)?);
            }
        }
        let any = !found.is_empty();
        found.into_iter().for_each(|join| self.add(join));
        Ok(any)
    }

    /// All foreign keys between `table` and those that are joined.
    fn paths(&self, table: usize) -> Vec<JoinPath<'_>> {
        let mut paths: Vec<JoinPath<'_>> = Vec::new();
        for to in &self.joined {
            let children = self.keys[table]
                .iter()
                .filter(|key| key.table == self.tables[*to].name);
            let child = |key: &ForeignKey| Join {
                table,
                to: *to,
                columns: key.columns.clone(),
                to_columns: key.key.clone(),
                one: false,
            };
            let parents = self.keys[*to]
                .iter()
                .filter(|key| key.table == self.tables[table].name);
            let parent = |key: &ForeignKey| Join {
                table,
                to: *to,
                columns: key.key.clone(),
                to_columns: key.columns.clone(),
                one: true,
            };
            paths.extend(children.map(|key| JoinPath {
                join: child(key),
                unlike: key.unlike.as_deref(),
                partial: key.partial.as_deref(),
            }));
            paths.extend(parents.map(|key| JoinPath {
                join: parent(key),
                unlike: None,
                partial: key.partial.as_deref(),
            }));
        }
        paths.dedup_by(|a, b| a.join == b.join);
        paths
    }

    /// The one way from `table` to those that are joined; none where there is none.
    fn nearest(&self, table: usize) -> Result<Option<Join>> {
        let ways = self.paths(table);
        let names: Vec<TableName> = self.tables.iter().map(|table| table.name.clone()).collect();
        let name = &names[table];
        match ways.as_slice() {
            [] => Ok(None),
            [
                JoinPath {
                    join,
                    unlike: None,
                    partial: None,
                },
            ] => Ok(Some(join.clone())),
            [
                JoinPath {
                    join,
                    partial: Some(why),
                    ..
                },
            ] => Err(Error::schema(format!(
                "the foreign key {} cannot be followed: {why}",
                join.on(&names)
            ))
            .hint(format!(
                "--on '{}' takes all rows that have its values",
                join.on(&names)
            ))),
            [
                JoinPath {
                    join,
                    unlike: Some(why),
                    ..
                },
            ] => Err(Error::schema(format!(
                "the foreign key {} cannot be followed to its rows: {why}",
                join.on(&names)
            ))
            .hint(format!("--on '{}' compares as {name} does", join.on(&names)))),
            [first, ..] => {
                let shown: Vec<_> = ways.iter().map(|way| way.join.on(&names).to_string()).collect();
                Err(Error::config(format!(
                    "{name} can be joined in {} ways: {}",
                    ways.len(),
                    shown.join("; ")
                ))
                .hint(format!(
                    "--on names one of them: --on '{}'",
                    first.join.on(&names)
                )))
            }
        }
    }

    fn out_of_reach(&self) -> Error {
        let waiting = (0..self.tables.len()).find(|at| !self.is_joined(*at));
        let name = |at: usize| self.tables[at].name.to_string();
        let joined: Vec<_> = self.joined.iter().map(|at| name(*at)).collect();
        let lost = waiting.map(name).unwrap_or_default();
        Error::schema(format!("no foreign key joins {lost} to {}", joined.join(" or "))).hint(format!(
            "--on names the columns: --on '{lost}(..) = {}(..)'",
            joined[0]
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tonnage_core::table::{Column, Key, TableIdentity};

    /// A table `name` of these columns, whose first one is its key.
    fn table(name: &str, columns: &[&str]) -> Table {
        let column = |name: &&str| Column {
            name: (*name).to_owned(),
            ty: Some(ColumnType::Int64),
            declared: "int64".to_owned(),
            nullable: true,
            has_default: false,
            generated: false,
            numbered: None,
            equality: Equality::Provable,
        };
        Table {
            name: TableName::bare(name),
            identity: TableIdentity {
                object: name.to_owned(),
                shape: String::new(),
            },
            columns: columns.iter().map(column).collect(),
            keys: vec![Key {
                columns: vec![columns[0].to_owned()],
                primary: true,
            }],
            transactional: true,
            less_durable: None,
            notes: Vec::new(),
        }
    }

    fn key(column: &str, table: &str) -> ForeignKey {
        ForeignKey {
            columns: vec![column.to_owned()],
            table: TableName::bare(table),
            key: vec!["id".to_owned()],
            unlike: None,
            partial: None,
        }
    }

    /// A shop's tables and their foreign keys.
    fn known(name: &str) -> (Table, Vec<ForeignKey>) {
        match name {
            "orders" => (
                table(name, &["id", "customer", "payer"]),
                vec![key("customer", "customers")],
            ),
            "lines" => (
                table(name, &["id", "of", "article"]),
                vec![key("of", "orders"), key("article", "articles")],
            ),
            "parcels" => (
                table(name, &["id", "of", "line"]),
                vec![key("of", "orders"), key("line", "lines")],
            ),
            "letters" => (
                table(name, &["id", "sender", "receiver"]),
                vec![key("sender", "customers"), key("receiver", "customers")],
            ),
            _ => (table(name, &["id", "x"]), Vec::new()),
        }
    }

    /// What joins these tables to the first.
    fn joined(names: &[&str], on: &[&str]) -> Result<Vec<String>> {
        let (tables, keys): (Vec<_>, Vec<_>) = names.iter().map(|name| known(name)).unzip();
        let on: Vec<On> = on.iter().map(|on| on.parse().unwrap()).collect();
        let names: Vec<_> = tables.iter().map(|table| table.name.clone()).collect();
        let shown = |join: &Join| {
            let kind = if join.one { "parent" } else { "children" };
            format!("{} ({kind})", join.on(&names))
        };
        Ok(join(&tables, &keys, &on)?.iter().map(shown).collect())
    }

    #[test]
    fn each_table_hangs_on_the_nearest() {
        let cases: &[(&[&str], &[&str], &[&str])] = &[
            (&["orders"], &[], &[]),
            (&["orders", "lines"], &[], &["lines(of) = orders(id) (children)"]),
            (
                &["lines", "orders", "customers", "articles"],
                &[],
                &[
                    "orders(id) = lines(of) (parent)",
                    "articles(id) = lines(article) (parent)",
                    "customers(id) = orders(customer) (parent)",
                ],
            ),
            // The order in which they are named means nothing, and the shortest way is taken.
            (
                &["orders", "parcels", "lines"],
                &[],
                &[
                    "parcels(of) = orders(id) (children)",
                    "lines(of) = orders(id) (children)",
                ],
            ),
            (
                &["orders", "parcels", "lines"],
                &["parcels(line) = lines(id)"],
                &[
                    "lines(of) = orders(id) (children)",
                    "parcels(line) = lines(id) (children)",
                ],
            ),
            // Either way round, where only one can be meant.
            (
                &["orders", "customers"],
                &["orders(payer) = customers(id)"],
                &["customers(id) = orders(payer) (parent)"],
            ),
            (
                &["lines", "orders", "others"],
                &["orders(payer) = others(x)"],
                &[
                    "orders(id) = lines(of) (parent)",
                    "others(x) = orders(payer) (children)",
                ],
            ),
            (
                &["customers", "letters"],
                &["LETTERS(Sender)=customers(\"id\")"],
                &["letters(sender) = customers(id) (children)"],
            ),
        ];
        for (names, on, wanted) in cases {
            assert_eq!(joined(names, on).unwrap(), *wanted, "{names:?} {on:?}");
        }
    }

    #[test]
    fn what_cannot_be_joined_names_the_ways() {
        let cases: &[(&[&str], &[&str], &str, &str)] = &[
            (
                &["customers", "letters"],
                &[],
                "letters can be joined in 2 ways: letters(sender) = customers(id); letters(receiver) = customers(id)",
                "--on names one of them: --on 'letters(sender) = customers(id)'",
            ),
            (
                &["orders", "lines", "others"],
                &[],
                "no foreign key joins others to orders or lines",
                "--on names the columns: --on 'others(..) = orders(..)'",
            ),
            (
                &["orders", "lines"],
                &["parcels(of) = orders(id)"],
                "--on parcels(of) = orders(id): parcels is not one of the tables that come",
                "they are orders, lines; --with adds one",
            ),
            (
                &["orders", "lines"],
                &["lines(nothing) = orders(id)"],
                "--on lines(nothing) = orders(id): lines has no column 'nothing'",
                "its columns are id, of, article",
            ),
            (
                &["orders", "lines"],
                &["lines(of) = orders(id)", "lines(article) = orders(payer)"],
                "lines(article) = orders(payer) joins tables that are joined already",
                "a table hangs on one other: leave one of the ways out of --on",
            ),
            (
                &["orders", "lines"],
                &["lines(of) = lines(id)"],
                "--on lines(of) = lines(id) joins a table to itself",
                "rows of the same table are got by a get of their own",
            ),
        ];
        for (names, on, message, hint) in cases {
            let error = joined(names, on).unwrap_err();
            assert_eq!(error.to_string(), *message);
            assert_eq!(error.hint_text(), Some(*hint), "{message}");
        }
    }

    #[test]
    fn joins_are_written_as_they_are_read() {
        for (text, wanted) in [
            ("a(x)=b(y)", "a(x) = b(y)"),
            (
                " s.a ( x , y ) = \"b=(\" (\"x,\"\"\",z) ",
                "s.a(x, y) = b=((x,\", z)",
            ),
        ] {
            assert_eq!(text.parse::<On>().unwrap().to_string(), wanted);
        }
        for (text, why) in [
            ("a(x)", "it is not of the form TABLE(COLUMNS) = TABLE(COLUMNS)"),
            ("a = b", "a side is not of the form TABLE(COLUMNS)"),
            ("a(x,y) = b(z)", "the sides have different numbers of columns"),
            ("a() = b(z)", "a column has no name"),
            ("a(\"x) = b(z)", "a quote is not closed"),
        ] {
            let error = text.parse::<On>().unwrap_err();
            assert_eq!(error.to_string(), format!("'{text}' joins no tables: {why}"));
        }
    }
}
