//! Which rows an execution touches, as far as the text says it.
//!
//! Of a table that lies in several databases, a statement may run in the one that its rows belong to only if it touches
//! no others and looks at no others. That is decided by what the text plainly says; what it does not plainly say is a
//! reason to refuse.

use super::{Kind, Reader, Statement, Taker, Verb};
use crate::table::{Table, find_by_name};

/// What is known of the rows that an execution touches.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Reach {
    /// Why nothing is known.
    obstacle: Option<&'static str>,
    /// Columns that have a parameter's value in all of them.
    pinned: Vec<(Taker, usize)>,
    /// Columns that it changes in rows that are there.
    changed: Vec<String>,
}

impl Statement {
    /// The parameter whose value `column` of `table` has in every row that an execution touches. Else why it is not
    /// known which rows these are, as the end of a sentence.
    pub fn pinned(&self, column: &str, table: &Table) -> Result<usize, String> {
        if let Some(obstacle) = self.reach.obstacle {
            return Err(obstacle.to_owned());
        }
        let is =
            |name: &str| find_by_name(&table.columns, name, |c| &c.name).is_some_and(|c| c.name == column);
        if self.reach.changed.iter().any(|name| is(name)) {
            return Err(format!(
                "it changes '{column}', so that rows would belong elsewhere than they are"
            ));
        }
        let takes = |taker: &Taker| match taker {
            Taker::Named(name) => is(name),
            Taker::At(place) => table.columns.get(*place).is_some_and(|c| c.name == column),
        };
        let found = self.reach.pinned.iter().find(|(taker, _)| takes(taker));
        found
            .map(|(_, parameter)| *parameter)
            .ok_or_else(|| match self.verb {
                Verb::Insert => format!("no parameter is the value of '{column}'"),
                _ => {
                    format!("its WHERE does not say '{column} = :parameter', joined by nothing but AND")
                }
            })
    }
}

impl Reader<'_> {
    /// What the text says of the rows that an execution of a statement touches whose table ends before `after`.
    pub(super) fn reach(&self, verb: Verb, first: usize, after: usize) -> Reach {
        let refused = |obstacle| Reach {
            obstacle: Some(obstacle),
            ..Reach::default()
        };
        let rest = after..self.tokens.len();
        if verb == Verb::Merge {
            return refused("MERGE may touch rows of several databases");
        }
        let others = ["SELECT", "FROM", "USING", "JOIN", "TABLE"];
        if first > 0 || rest.clone().any(|at| others.iter().any(|word| self.is(at, word))) {
            return refused("it looks at other rows, of which one database has some only");
        }
        match verb {
            Verb::Insert => self
                .inserts(after)
                .unwrap_or_else(|| refused("it is no INSERT of one row of VALUES")),
            _ => Reach {
                obstacle: None,
                pinned: self.conjuncts(rest.clone()),
                changed: self.changed(rest.start, rest.end),
            },
        }
    }

    fn inserts(&self, after: usize) -> Option<Reach> {
        let (columns, at) = self.columns(after);
        if !self.is(at, "VALUES") || self.sign(at + 1) != Some(b'(') {
            return None;
        }
        // A list that could not be read says nothing of places.
        let has_list = (after..at).any(|at| self.sign(at) == Some(b'('));
        let end = self.close(at + 1)?;
        if end + 1 < self.tokens.len() && !self.is(end + 1, "ON") {
            return None;
        }
        let taker = |place: usize| match &columns {
            Some(columns) => columns.get(place).cloned().map(Taker::Named),
            None if has_list => None,
            None => Some(Taker::At(place)),
        };
        let items = self.items(at + 1, end).into_iter().enumerate();
        Some(Reach {
            obstacle: None,
            pinned: items
                .filter_map(|(place, item)| Some((taker(place)?, item?)))
                .collect(),
            changed: self.changed(end + 1, self.tokens.len()),
        })
    }

    /// `a = :a` and its like in `WHERE a = :a AND b = :b AND ..`; none where OR, or anything that could be it, is among
    /// them.
    fn conjuncts(&self, rest: std::ops::Range<usize>) -> Vec<(Taker, usize)> {
        let top = |at: &usize| self.tokens[*at].depth == 0;
        let Some(from) = rest.clone().filter(top).find(|at| self.is(*at, "WHERE")) else {
            return Vec::new();
        };
        let condition = from + 1..rest.end;
        let loosens = |at: usize| {
            ["OR", "XOR", "BETWEEN", "CASE", "WHERE"]
                .iter()
                .any(|word| self.is(at, word))
                || self.sign(at) == Some(b'|')
        };
        if condition.clone().filter(top).any(loosens) {
            return Vec::new();
        }
        let joins = |at: usize| self.is(at, "AND");
        let found = condition.clone().filter(top).filter_map(|at| {
            let begins = at == condition.start || joins(at - 1);
            let ends = at + 3 == condition.end || joins(at + 3);
            match self.tokens.get(at + 2)?.kind {
                Kind::Parameter(index) if begins && ends && self.sign(at + 1) == Some(b'=') => {
                    Some((Taker::Named(self.name(at)?), index))
                }
                _ => None,
            }
        });
        found.collect()
    }

    /// Names between SET, or ON .. UPDATE, and WHERE that may be those of columns which are assigned to.
    fn changed(&self, from: usize, to: usize) -> Vec<String> {
        let begins = |at: usize| self.is(at, "SET") || self.is(at, "UPDATE");
        let Some(set) = (from..to).find(|at| begins(*at)) else {
            return Vec::new();
        };
        let end = (set..to)
            .find(|at| self.is(*at, "WHERE") && self.tokens[*at].depth == 0)
            .unwrap_or(to);
        (set + 1..end)
            .filter(|at| matches!(self.sign(at + 1), Some(b'=' | b',' | b')')))
            .filter_map(|at| self.name(at))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        statement::Dialect,
        table::{Column, Equality, TableIdentity, TableName},
        types::ColumnType,
    };

    /// `||` is OR to some, and joins texts for others.
    const DIALECT: Dialect = Dialect {
        dollars: false,
        brackets: false,
        backticks: true,
        hashes: false,
        backslashes: false,
        slashes: false,
        keeps_case: false,
        own_parameters: &[],
    };

    fn table() -> Table {
        let column = |name: &str| Column {
            name: name.to_owned(),
            ty: Some(ColumnType::Int64),
            declared: "bigint".to_owned(),
            nullable: false,
            has_default: false,
            generated: false,
            numbered: None,
            equality: Equality::Provable,
        };
        Table {
            name: TableName::bare("t"),
            identity: TableIdentity {
                object: String::new(),
                shape: String::new(),
            },
            columns: ["id", "k", "v"].map(column).into(),
            keys: Vec::new(),
            transactional: true,
            less_durable: None,
            notes: Vec::new(),
        }
    }

    #[test]
    fn only_what_the_text_plainly_says_is_known() {
        // The parameter that the column k has; none where nothing says it.
        let cases: &[(&str, Option<&str>)] = &[
            ("insert into t values (:a, :b, :c)", Some("b")),
            ("insert into t (v, k) values (:a + 1, :b)", Some("b")),
            (
                "insert into t (k) values (:a) on conflict (k) do update set v = :b",
                Some("a"),
            ),
            (
                "insert into t (k) values (:a) on conflict (k) do update set k = :b",
                None,
            ),
            ("insert into t (v) values (:a)", None),
            ("insert into t (k) values (:a + 0)", None),
            ("insert into t (k) values (:a), (:b)", None),
            ("insert into t (k) select :a", None),
            ("insert into t (k, v) values (:a, (select max(v) from u))", None),
            ("update t set v = :a where k = :b", Some("b")),
            (
                "update t set v = :a where v > 3 and \"k\" = :b and id = :c",
                Some("b"),
            ),
            ("update t set v = :a where (v > 3 or v < 1) and k = :b", Some("b")),
            ("update t set v = :a where k = :b or id = :c", None),
            ("update t set v = :a where k = :b and id || v", None),
            ("update t set v = :a where not k = :b", None),
            ("update t set v = :a where k = :b + 1", None),
            ("update t set v = :a where (k = :b)", None),
            ("update t set v = :a where id between k and k = :b", None),
            ("update t set v = :a, k = v where k = :b", None),
            ("update t set (v, k) = (:a, 1) where k = :b", None),
            ("update t set v = :a from u where k = :b", None),
            ("update t set v = :a", None),
            ("delete from t where k = :b", Some("b")),
            ("delete from t where k = :b and id in (select id from u)", None),
            ("delete from t using u where k = :b", None),
            ("with w as (select 1) delete from t where k = :b", None),
        ];
        for (text, expected) in cases {
            let statement = Statement::parse(text, DIALECT).unwrap_or_else(|error| panic!("{text}: {error}"));
            let found = statement.pinned("k", &table());
            let found = found.map(|index| statement.parameters()[index].as_str());
            assert_eq!(found.as_ref().ok(), expected.as_ref(), "{text}: {found:?}");
        }
    }
}
