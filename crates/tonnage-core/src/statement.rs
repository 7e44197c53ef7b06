//! A user's own statement with `:name` parameters, one execution a row.
//!
//! Only text outside strings, quoted identifiers and comments is looked at; `::` casts and the colons of array
//! slices are no parameters. A name that comes again is the same parameter. The text is never changed but for its
//! placeholders, which each database writes in its own way ([`Statement::render`]).

mod fragment;
mod lexer;
mod reach;

use std::ops::Range;

pub use self::fragment::{condition, query};
use self::{lexer::Lexer, reach::Reach};
use crate::{
    error::{Error, Result},
    table::{Column, Table, TableIdentity, TableName, find_by_name},
};

/// How a database's statements are written, as far as parameters are concerned. Decided by its target.
#[derive(Debug, Clone, Copy, Default)]
pub struct Dialect {
    /// `E'..'` has backslash escapes, `$tag$..$tag$` is a string, comments nest, `a[1:n]` is a slice.
    pub dollars: bool,
    /// `[name]` is an identifier.
    pub brackets: bool,
    /// `` `name` `` is an identifier.
    pub backticks: bool,
    /// `#` begins a comment; `--` does only before a blank, and `/*! */` holds what the server runs.
    pub hashes: bool,
    /// Every string has backslash escapes, and `".."` is one.
    pub backslashes: bool,
    /// `//` begins a comment, and `$$..$$` is a string.
    pub slashes: bool,
    /// Unquoted names are kept as they are written; else they are in lower case.
    pub keeps_case: bool,
    /// Characters that begin a parameter of the database's own kind, which nothing would give a value.
    pub own_parameters: &'static [char],
}

/// What a statement does, by its first word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verb {
    /// INSERT.
    Insert,
    /// UPDATE.
    Update,
    /// DELETE.
    Delete,
    /// MERGE.
    Merge,
}

/// A statement, taken apart. See the module.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Statement {
    text: String,
    normal: String,
    verb: Verb,
    table: TableName,
    parameters: Vec<String>,
    /// Where parameters are in the text, in order, and which they are.
    places: Vec<(Range<usize>, usize)>,
    assigned: Vec<(Taker, usize)>,
    compared: Vec<(String, usize)>,
    values: Option<Values>,
    may_conflict: bool,
    reach: Reach,
}

/// A column that takes a parameter as it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Taker {
    /// By name.
    Named(String),
    /// By its place in the table, from 0.
    At(usize),
}

/// The one row of a plain `INSERT .. VALUES (..)`.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Values {
    /// From the word VALUES to the closing parenthesis.
    range: Range<usize>,
    /// The parameters, where the row is made of nothing else.
    bare: Option<Vec<usize>>,
    /// ON CONFLICT follows.
    conflict: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Word,
    Quoted,
    Text,
    Number,
    Parameter(usize),
    Sign(u8),
}

#[derive(Debug, Clone)]
struct Token {
    kind: Kind,
    range: Range<usize>,
    /// Open parentheses and brackets around it.
    depth: usize,
}

impl Statement {
    /// Takes `text` apart. `Config` where it is not one INSERT, UPDATE, DELETE or MERGE with parameters.
    pub fn parse(text: &str, dialect: Dialect) -> Result<Self> {
        let text = text.trim();
        let mut lexer = Lexer::new(text, dialect);
        lexer
            .run()
            .map_err(|mistake| mistake.of("the statement cannot be run"))?;
        let Lexer {
            mut tokens,
            parameters,
            ..
        } = lexer;
        if let Some(end) = tokens.iter().position(|t| t.kind == Kind::Sign(b';')) {
            if tokens[end..].iter().any(|t| t.kind != Kind::Sign(b';')) {
                return Err(refused("the text holds several statements")
                    .hint("give one INSERT, UPDATE, DELETE or MERGE"));
            }
            tokens.truncate(end);
        }
        let read = Reader {
            text,
            tokens: &tokens,
            keeps_case: dialect.keeps_case,
        };
        let (verb, first) = read.verb()?;
        if let Some(at) = (0..tokens.len()).find(|at| tokens[*at].depth == 0 && read.is(*at, "RETURNING")) {
            return Err(refused(format!(
                "RETURNING at {}: the rows that it returns would go nowhere",
                place(text, tokens[at].range.start)
            ))
            .hint("leave RETURNING out"));
        }
        if parameters.is_empty() {
            return Err(refused("it has no :parameter, so every row would do the same")
                .hint("write :name where the value of column 'name' of the source belongs"));
        }
        let (table, after) = read.table(verb, first)?;
        let values = match verb {
            Verb::Insert if first == 0 => read.values(after),
            _ => None,
        };
        let assigned = match verb {
            Verb::Insert => read.inserted(after, values.as_ref()),
            Verb::Update => read.updated(after),
            Verb::Delete | Verb::Merge => Vec::new(),
        };
        let compared = match verb {
            Verb::Update | Verb::Delete if first == 0 => read.compared(after),
            _ => Vec::new(),
        };
        let may_conflict = verb == Verb::Insert
            && (first..tokens.len()).any(|at| {
                (read.is(at, "ON") && (read.is(at + 1, "CONFLICT") || read.is(at + 1, "DUPLICATE")))
                    || (read.is(at, "OR") && read.is(at + 1, "IGNORE"))
            });
        Ok(Self {
            normal: read.normal(),
            reach: read.reach(verb, first, after),
            verb,
            table,
            assigned,
            compared,
            values,
            may_conflict,
            places: tokens
                .iter()
                .filter_map(|t| match t.kind {
                    Kind::Parameter(index) => Some((t.range.clone(), index)),
                    _ => None,
                })
                .collect(),
            // Without the semicolon, so that the text can be embedded.
            text: match tokens.last() {
                Some(last) => text[..last.range.end].to_owned(),
                None => text.to_owned(),
            },
            parameters,
        })
    }

    /// The text as it was given, without a semicolon at its end.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Its tokens: the same for texts that differ in white space, comments, or the case of words that are not quoted.
    pub fn normal(&self) -> &str {
        &self.normal
    }

    /// What it does.
    pub fn verb(&self) -> Verb {
        self.verb
    }

    /// The table that it names; unquoted names as [`Dialect::keeps_case`] says.
    pub fn table(&self) -> &TableName {
        &self.table
    }

    /// What it takes, as the table that rows are written to: a column a parameter. `shape` has a line for whatever must not
    /// change between attempts.
    pub fn parameter_table(&self, columns: Vec<Column>, shape: &[String]) -> Table {
        Table {
            name: self.table.clone(),
            identity: TableIdentity {
                object: String::new(),
                shape: shape.join("\n"),
            },
            columns,
            keys: Vec::new(),
            transactional: true,
            less_durable: None,
            notes: Vec::new(),
        }
    }

    /// The names of its parameters, in the order in which they first come.
    pub fn parameters(&self) -> &[String] {
        &self.parameters
    }

    /// Columns of [`Statement::table`] that take a parameter as it is, and the parameter's index.
    pub fn assigned(&self) -> &[(Taker, usize)] {
        &self.assigned
    }

    /// Columns of [`Statement::table`] that are compared with a parameter as it is, and the parameter's index; none where
    /// other tables take part.
    pub fn compared(&self) -> &[(String, usize)] {
        &self.compared
    }

    /// The column of `table` that takes parameter `index` as it is, if all that do are declared alike.
    pub fn taken_by<'a>(&self, index: usize, table: &'a Table) -> Option<&'a Column> {
        let mut found: Option<&Column> = None;
        for (taker, _) in self.assigned.iter().filter(|(_, parameter)| *parameter == index) {
            let column = match taker {
                Taker::Named(name) => find_by_name(&table.columns, name, |c| &c.name),
                Taker::At(place) => table.columns.get(*place),
            }?;
            match found {
                None => found = Some(column),
                Some(known) if known.declared == column.declared => {}
                Some(_) => return None,
            }
        }
        found
    }

    /// The column of `table` that parameter `index` is compared with.
    pub fn compared_with<'a>(&self, index: usize, table: &'a Table) -> Option<&'a Column> {
        let (name, _) = self.compared.iter().find(|(_, parameter)| *parameter == index)?;
        find_by_name(&table.columns, name, |c| &c.name)
    }

    /// Indexes of parameters in the order in which the text names them, again where it names one again.
    pub fn places(&self) -> impl Iterator<Item = usize> {
        self.places.iter().map(|(_, index)| *index)
    }

    /// Whether every execution adds exactly one row and looks at no other: a plain `INSERT .. VALUES (..)`.
    pub fn stands_alone(&self) -> bool {
        self.values.as_ref().is_some_and(|values| !values.conflict)
    }

    /// Whether a row that has no effect is one whose key was there.
    pub fn may_conflict(&self) -> bool {
        self.may_conflict
    }

    /// The text with its parameters as `placeholder` writes them.
    pub fn render(&self, placeholder: impl Fn(usize) -> String) -> String {
        let mut out = String::with_capacity(self.text.len());
        let mut from = 0;
        for (range, index) in &self.places {
            out.push_str(&self.text[from..range.start]);
            out.push_str(&placeholder(*index));
            from = range.end;
        }
        out.push_str(&self.text[from..]);
        out
    }

    /// The text before and after the row of an `INSERT .. VALUES (:a, :b)` whose values are nothing but parameters,
    /// with at most ON CONFLICT .. DO NOTHING after it; and these parameters. Such a row means the same among others.
    pub fn bare_insert(&self) -> Option<(&str, &[usize], &str)> {
        let values = self.values.as_ref()?;
        let before = &self.text[..values.range.start];
        Some((before, values.bare.as_deref()?, &self.text[values.range.end..]))
    }

    /// Where byte `at` of what [`Statement::render`] made is in the text: `line 2, column 7`.
    pub fn place(&self, at: usize, placeholder: impl Fn(usize) -> String) -> String {
        let (mut sent, mut own) = (0, 0);
        for (range, index) in &self.places {
            let plain = range.start - own;
            if at < sent + plain {
                break;
            }
            (sent, own) = (sent + plain, range.start);
            let length = placeholder(*index).len();
            if at < sent + length {
                return place(&self.text, own);
            }
            (sent, own) = (sent + length, range.end);
        }
        place(&self.text, own + at.saturating_sub(sent))
    }
}

fn refused(why: impl std::fmt::Display) -> Error {
    Error::config(format!("the statement cannot be run: {why}"))
}

/// `column 7`, or `line 2, column 7` in a text of several lines; both from 1, in characters.
fn place(text: &str, at: usize) -> String {
    let mut at = at.min(text.len());
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    let before = &text[..at];
    let column = before.chars().rev().take_while(|c| *c != '\n').count() + 1;
    match text.contains('\n') {
        true => format!("line {}, column {column}", before.matches('\n').count() + 1),
        false => format!("column {column}"),
    }
}

/// Looks at tokens.
struct Reader<'a> {
    text: &'a str,
    tokens: &'a [Token],
    keeps_case: bool,
}

/// Words of statements that are no names, in databases in which a name's case counts.
const KEYWORDS: &[&str] = &[
    "all",
    "and",
    "as",
    "between",
    "by",
    "case",
    "cast",
    "coalesce",
    "conflict",
    "cross",
    "current_timestamp",
    "default",
    "delete",
    "distinct",
    "do",
    "duplicate",
    "else",
    "end",
    "exists",
    "false",
    "from",
    "group",
    "having",
    "if",
    "ignore",
    "in",
    "inner",
    "insert",
    "into",
    "is",
    "join",
    "key",
    "left",
    "like",
    "limit",
    "matched",
    "merge",
    "not",
    "nothing",
    "now",
    "null",
    "on",
    "or",
    "order",
    "outer",
    "over",
    "partition",
    "right",
    "row",
    "select",
    "set",
    "then",
    "true",
    "union",
    "update",
    "using",
    "values",
    "when",
    "where",
    "with",
];

const INSTEAD: &str = "give one INSERT, UPDATE, DELETE or MERGE";

impl Reader<'_> {
    fn word(&self, at: usize) -> Option<&str> {
        let token = self.tokens.get(at).filter(|t| t.kind == Kind::Word)?;
        Some(&self.text[token.range.clone()])
    }

    fn is(&self, at: usize, word: &str) -> bool {
        self.word(at).is_some_and(|w| w.eq_ignore_ascii_case(word))
    }

    /// See [`Statement::normal`]. Where unquoted names keep their case only keywords are folded.
    fn normal(&self) -> String {
        let mut text = String::with_capacity(self.text.len());
        for (at, token) in self.tokens.iter().enumerate() {
            if at > 0 {
                text.push(' ');
            }
            let own = &self.text[token.range.clone()];
            let folds = token.kind == Kind::Word
                && (!self.keeps_case || KEYWORDS.iter().any(|word| own.eq_ignore_ascii_case(word)));
            match folds {
                true => text.push_str(&own.to_ascii_lowercase()),
                false => text.push_str(own),
            }
        }
        text
    }

    fn sign(&self, at: usize) -> Option<u8> {
        match self.tokens.get(at)?.kind {
            Kind::Sign(sign) => Some(sign),
            _ => None,
        }
    }

    /// An identifier, as the database knows it.
    fn name(&self, at: usize) -> Option<String> {
        let token = self.tokens.get(at)?;
        let text = &self.text[token.range.clone()];
        match token.kind {
            Kind::Word if self.keeps_case => Some(text.to_owned()),
            Kind::Word => Some(text.to_ascii_lowercase()),
            Kind::Quoted => {
                let close = &text[text.len() - 1..];
                Some(text[1..text.len() - 1].replace(&close.repeat(2), close))
            }
            _ => None,
        }
    }

    /// The verb and where it is.
    fn verb(&self) -> Result<(Verb, usize)> {
        let mut at = 0;
        if self.is(0, "WITH") {
            // The names of its queries may be any words: they follow WITH and commas.
            at = 1 + usize::from(self.is(1, "RECURSIVE")) + 1;
            let main = |at: &usize| {
                self.tokens[*at].depth == 0
                    && self.sign(at.wrapping_sub(1)) != Some(b',')
                    && [
                        "INSERT", "UPDATE", "DELETE", "MERGE", "REPLACE", "SELECT", "VALUES",
                    ]
                    .iter()
                    .any(|verb| self.is(*at, verb))
            };
            at = (at..self.tokens.len()).find(main).unwrap_or(self.tokens.len());
        }
        let Some(word) = self.word(at).map(str::to_ascii_uppercase) else {
            return Err(match self.tokens.is_empty() {
                true => refused("it is empty"),
                false => refused("it does not begin with INSERT, UPDATE, DELETE or MERGE"),
            }
            .hint(INSTEAD));
        };
        let why = match word.as_str() {
            "INSERT" => return Ok((Verb::Insert, at)),
            "UPDATE" => return Ok((Verb::Update, at)),
            "DELETE" => return Ok((Verb::Delete, at)),
            "MERGE" => return Ok((Verb::Merge, at)),
            "SELECT" | "VALUES" | "TABLE" => "reads, and what it reads would go nowhere",
            "REPLACE" => "deletes what is in its way, whatever refers to it",
            "BEGIN" | "START" | "COMMIT" | "ROLLBACK" | "END" | "SAVEPOINT" | "RELEASE" | "ABORT" => {
                "is about transactions, which are tonnage's own"
            }
            "CREATE" | "ALTER" | "DROP" | "TRUNCATE" => "is no statement for every row",
            _ => "is neither INSERT, UPDATE, DELETE nor MERGE",
        };
        Err(refused(format!("{word} {why}")).hint(match word.as_str() {
            "REPLACE" => "write INSERT .. ON CONFLICT (key) DO UPDATE SET ..",
            _ => INSTEAD,
        }))
    }

    /// The table, and where the rest begins.
    fn table(&self, verb: Verb, verb_at: usize) -> Result<(TableName, usize)> {
        let mut at = verb_at + 1;
        // INSERT OR ABORT INTO, UPDATE OR FAIL, DELETE FROM ONLY.
        if self.is(at, "OR") {
            at += 2;
        }
        let before = match verb {
            Verb::Insert | Verb::Merge => "INTO",
            Verb::Delete => "FROM",
            Verb::Update => "ONLY",
        };
        for word in [before, "ONLY"] {
            at += usize::from(self.is(at, word));
        }
        let missing = || refused("it names no table where one belongs").hint(INSTEAD);
        let first = self.name(at).ok_or_else(missing)?;
        if self.sign(at + 1) == Some(b'.') {
            let name = self.name(at + 2).ok_or_else(missing)?;
            let schema = Some(first);
            return Ok((TableName { schema, name }, at + 3));
        }
        Ok((TableName::bare(first), at + 1))
    }

    /// The end of the parenthesis that opens at `at`.
    fn close(&self, at: usize) -> Option<usize> {
        let depth = self.tokens.get(at)?.depth;
        (at + 1..self.tokens.len())
            .find(|end| self.sign(*end) == Some(b')') && self.tokens[*end].depth == depth)
    }

    /// The names in the parenthesis that opens at `at`, if it holds nothing else.
    fn names(&self, at: usize, end: usize) -> Option<Vec<String>> {
        let mut names = Vec::new();
        for (offset, at) in (at + 1..end).enumerate() {
            match offset % 2 {
                0 => names.push(self.name(at)?),
                _ if self.sign(at) == Some(b',') => {}
                _ => return None,
            }
        }
        Some(names)
    }

    /// Where the column list and VALUES are, after the table's name.
    fn columns(&self, mut at: usize) -> (Option<Vec<String>>, usize) {
        if self.is(at, "AS") {
            at += 2;
        }
        let mut columns = None;
        if self.sign(at) == Some(b'(')
            && let Some(end) = self.close(at)
        {
            columns = self.names(at, end);
            at = end + 1;
        }
        if self.is(at, "OVERRIDING") {
            at += 3;
        }
        (columns, at)
    }

    /// The row of a plain INSERT; none where there are more, or anything else but ON CONFLICT behind it.
    fn values(&self, after: usize) -> Option<Values> {
        let (_, at) = self.columns(after);
        if !self.is(at, "VALUES") || self.sign(at + 1) != Some(b'(') {
            return None;
        }
        let end = self.close(at + 1)?;
        let conflict = end + 1 < self.tokens.len();
        if conflict && !(self.is(end + 1, "ON") && self.is(end + 2, "CONFLICT")) {
            return None;
        }
        // INSERT OR IGNORE, or a value that looks at other rows.
        if self.is(1, "OR") || (at..end).any(|at| self.is(at, "SELECT")) {
            return None;
        }
        let last = self.tokens.len() - 1;
        let only_ignores = !conflict || (self.is(last, "NOTHING") && self.is(last - 1, "DO"));
        let parameters = self.items(at + 1, end);
        let bare = parameters.into_iter().collect::<Option<Vec<usize>>>();
        Some(Values {
            range: self.tokens[at].range.start..self.tokens[end].range.end,
            bare: bare.filter(|_| only_ignores),
            conflict,
        })
    }

    /// The items between the parentheses at `at` and `end`: a parameter where an item is nothing else.
    fn items(&self, at: usize, end: usize) -> Vec<Option<usize>> {
        let depth = self.tokens[at].depth + 1;
        let mut items = Vec::new();
        let mut from = at + 1;
        for next in at + 1..=end {
            let ends = next == end || (self.sign(next) == Some(b',') && self.tokens[next].depth == depth);
            if ends {
                items.push(match self.tokens[from..next] {
                    [
                        Token {
                            kind: Kind::Parameter(index),
                            ..
                        },
                    ] => Some(index),
                    _ => None,
                });
                from = next + 1;
            }
        }
        items
    }

    fn inserted(&self, after: usize, values: Option<&Values>) -> Vec<(Taker, usize)> {
        let (columns, at) = self.columns(after);
        let is_values = self.is(at, "VALUES") && self.sign(at + 1) == Some(b'(');
        let Some(end) = self.close(at + 1).filter(|_| is_values) else {
            return Vec::new();
        };
        let target = |place: usize| match (&columns, values) {
            (Some(columns), _) => columns.get(place).cloned().map(Taker::Named),
            (None, Some(_)) => Some(Taker::At(place)),
            (None, None) => None,
        };
        let items = self.items(at + 1, end).into_iter().enumerate();
        let mut found: Vec<_> = items
            .filter_map(|(place, item)| Some((target(place)?, item?)))
            .collect();
        found.extend(self.set(end, self.tokens.len()));
        found
    }

    /// `WHERE a = :a AND b = :b` of a statement about one table.
    fn compared(&self, from: usize) -> Vec<(String, usize)> {
        let rest = from..self.tokens.len();
        let others = ["SELECT", "FROM", "USING", "JOIN"];
        if rest.clone().any(|at| others.iter().any(|word| self.is(at, word))) {
            return Vec::new();
        }
        let joins = |at: usize, words: &[&str]| words.iter().any(|word| self.is(at, word));
        let compared = rest.filter_map(|at| {
            let begins = joins(at, &["WHERE", "AND", "OR"]);
            let ends = at + 4 == self.tokens.len() || joins(at + 4, &["AND", "OR"]);
            match self.tokens.get(at + 3)?.kind {
                Kind::Parameter(index) if begins && ends && self.sign(at + 2) == Some(b'=') => {
                    Some((self.name(at + 1)?, index))
                }
                _ => None,
            }
        });
        compared.collect()
    }

    fn updated(&self, after: usize) -> Vec<(Taker, usize)> {
        self.set(after, self.tokens.len())
    }

    /// `SET a = :a, b = :b`, or ON DUPLICATE KEY UPDATE: what is between a comma or the beginning and a comma,
    /// WHERE, FROM or the end.
    fn set(&self, from: usize, to: usize) -> Vec<(Taker, usize)> {
        let mut found = Vec::new();
        let begins = |at: usize| {
            self.is(at, "SET") || (at >= 2 && self.is(at - 2, "DUPLICATE") && self.is(at, "UPDATE"))
        };
        let Some(set) = (from..to).find(|at| self.tokens[*at].depth == 0 && begins(*at)) else {
            return found;
        };
        for at in set..to {
            if self.tokens[at].depth != 0 {
                continue;
            }
            if self.is(at, "WHERE") || self.is(at, "FROM") {
                break;
            }
            let begins = at == set || self.sign(at) == Some(b',');
            let Some(Token {
                kind: Kind::Parameter(index),
                ..
            }) = self.tokens.get(at + 3)
            else {
                continue;
            };
            let ends = at + 4 == self.tokens.len()
                || self.sign(at + 4) == Some(b',')
                || self.is(at + 4, "WHERE")
                || self.is(at + 4, "FROM");
            if begins
                && ends
                && self.sign(at + 2) == Some(b'=')
                && let Some(name) = self.name(at + 1)
            {
                found.push((Taker::Named(name), *index));
            }
        }
        found
    }
}

#[cfg(test)]
mod tests;
