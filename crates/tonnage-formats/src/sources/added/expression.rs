//! The values of an added column as people write them: a text in which `{..}` is a column of the input, the file, the row,
//! or what a function makes of them.

use tonnage_core::{
    error::{Error, Result},
    types::ColumnType,
};

/// Functions within functions, at most.
const DEPTH_MAX: usize = 32;

/// What a text of `--add` means.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Expression {
    /// The same for all rows.
    Text(String),
    /// A column of the input, by the name that was written.
    Column(String),
    /// The file, as the user named it.
    File,
    /// The row of the file, from 1.
    Row,
    /// The id of the run.
    Run,
    /// When the load began.
    Now,
    /// What a function makes of values.
    Call(Function, Vec<Expression>),
}

/// What can be made of values. All take text; null stays null where nothing else is said.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Function {
    /// Without spaces at both ends.
    Trim,
    /// In small letters.
    Lower,
    /// In capital letters.
    Upper,
    /// One after the other; a null is no text.
    Concat,
    /// The first that is not null.
    Coalesce,
    /// Null where both are the same text.
    NullIf,
    /// With each second text replaced by the third.
    Replace,
    /// Characters from a place on, from 1: as many as are said, or all.
    Substr(usize, Option<usize>),
    /// The part of a number between separators: from 1, or from the end by -1; null where there is none.
    Split(i64),
    /// The value at a path of JSON: text without its quotes, others as they are written.
    Json(Vec<Step>),
    /// The same value as the type writes it. A value that is none of this type makes the row a reject.
    Cast(ColumnType),
    /// A date or timestamp by a pattern such as `%d.%m.%Y`.
    Format(String),
}

/// A step of a path into JSON.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Step {
    Key(String),
    Index(usize),
}

const FUNCTIONS: [&str; 12] = [
    "cast", "coalesce", "concat", "format", "json", "lower", "nullif", "replace", "split", "substr", "trim",
    "upper",
];

impl Expression {
    /// What `text` means. `Config` where braces hold no expression.
    pub fn parse(text: &str) -> Result<Self> {
        // A constant of JSON.
        if text.starts_with('{') && serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok() {
            return Ok(Self::Text(text.to_owned()));
        }
        if let Some(call) = whole_call(text) {
            return call;
        }
        let mut parts = Vec::new();
        let mut constant = String::new();
        let mut rest = text;
        while let Some(at) = rest.find(['{', '}']) {
            constant.push_str(&rest[..at]);
            let (brace, behind) = rest[at..].split_at(1);
            if behind.starts_with(brace) {
                constant.push_str(brace);
                rest = &behind[1..];
                continue;
            }
            if brace == "}" {
                return Err(Error::config("a } without its {").hint("}} is a brace as such"));
            }
            if !constant.is_empty() {
                parts.push(Self::Text(std::mem::take(&mut constant)));
            }
            let mut parser = Parser {
                rest: behind,
                depth: 0,
            };
            parts.push(parser.expression()?);
            parser.expect('}')?;
            rest = parser.rest;
        }
        constant.push_str(rest);
        if !constant.is_empty() || parts.is_empty() {
            parts.push(Self::Text(constant));
        }
        Ok(match parts.len() {
            1 => parts.remove(0),
            _ => Self::Call(Function::Concat, parts),
        })
    }

    /// Whether it is another value in another run of the same input.
    pub fn changes(&self) -> bool {
        match self {
            Self::Run | Self::Now => true,
            Self::Call(_, values) => values.iter().any(Self::changes),
            Self::Text(_) | Self::Column(_) | Self::File | Self::Row => false,
        }
    }

    /// The names of columns that it is made of.
    pub fn columns(&self, found: &mut Vec<String>) {
        match self {
            Self::Column(name) if !found.contains(name) => found.push(name.clone()),
            Self::Call(_, values) => values.iter().for_each(|value| value.columns(found)),
            _ => {}
        }
    }
}

/// A text that is one call of a function and nothing else, which needs no braces; also one whose call has no end, which
/// nobody means as it is.
fn whole_call(text: &str) -> Option<Result<Expression>> {
    let open = text.find('(')?;
    let name = text[..open].trim();
    let may_be_one = text.trim_end().ends_with(')') || !text.contains(')');
    if !FUNCTIONS.contains(&name.to_lowercase().as_str()) || !may_be_one {
        return None;
    }
    let mut parser = Parser { rest: text, depth: 0 };
    let call = parser.expression();
    match (call, parser.rest.trim().is_empty()) {
        (Ok(_), false) => None,
        (call, _) => Some(call),
    }
}

struct Parser<'a> {
    rest: &'a str,
    depth: usize,
}

impl Parser<'_> {
    fn skip_spaces(&mut self) {
        self.rest = self.rest.trim_start();
    }

    fn expect(&mut self, sign: char) -> Result<()> {
        self.skip_spaces();
        match self.rest.strip_prefix(sign) {
            Some(rest) => {
                self.rest = rest;
                Ok(())
            }
            None => Err(self.unexpected(&format!("'{sign}'"))),
        }
    }

    fn unexpected(&self, wanted: &str) -> Error {
        let found = match self.rest.chars().next() {
            Some(sign) => format!("'{sign}'"),
            None => "the end".to_owned(),
        };
        Error::config(format!("{found} where {wanted} was expected")).hint(
            "{name} is a column, {trim(name)} what a function makes of it, 'text' a text; \
             {{ and }} are braces as such",
        )
    }

    fn expression(&mut self) -> Result<Expression> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(Error::config(format!(
                "more than {DEPTH_MAX} functions within each other"
            )));
        }
        self.skip_spaces();
        let first = self.rest.chars().next();
        let expression = match first {
            Some(quote @ '\'') => Expression::Text(self.quoted(quote)?),
            Some(quote @ '"') => Expression::Column(self.quoted(quote)?),
            Some(sign) if sign.is_ascii_digit() || sign == '-' => Expression::Text(self.number()),
            Some(sign) if sign.is_alphanumeric() || sign == '_' => self.named()?,
            _ => return Err(self.unexpected("a column, a function or a 'text'")),
        };
        self.depth -= 1;
        Ok(expression)
    }

    /// What is between quotes, of which two within are one.
    fn quoted(&mut self, quote: char) -> Result<String> {
        let mut text = String::new();
        let mut signs = self.rest[1..].char_indices().peekable();
        while let Some((at, sign)) = signs.next() {
            if sign != quote {
                text.push(sign);
            } else if signs.next_if(|(_, next)| *next == quote).is_some() {
                text.push(quote);
            } else {
                self.rest = &self.rest[1 + at + 1..];
                return Ok(text);
            }
        }
        Err(
            Error::config(format!("a text that begins with {quote} does not end"))
                .hint("two quotes within it are one"),
        )
    }

    fn number(&mut self) -> String {
        let is_part =
            |(at, sign): (usize, char)| !(sign.is_ascii_digit() || sign == '.' || (at == 0 && sign == '-'));
        let end = self.rest.char_indices().find(|found| is_part(*found));
        let (number, rest) = self.rest.split_at(end.map_or(self.rest.len(), |(at, _)| at));
        self.rest = rest;
        number.to_owned()
    }

    /// A column or what is known of each row, or a call. Names go on with spaces between words.
    fn named(&mut self) -> Result<Expression> {
        let is_part = |sign: char| !matches!(sign, '(' | ')' | ',' | '{' | '}' | '\'' | '"');
        let end = self.rest.find(|sign| !is_part(sign)).unwrap_or(self.rest.len());
        let (name, rest) = self.rest.split_at(end);
        let name = name.trim_end();
        self.rest = rest;
        if rest.starts_with('(') {
            return self.call(name);
        }
        Ok(match name {
            "file" => Expression::File,
            "row" => Expression::Row,
            "run" => Expression::Run,
            "now" => Expression::Now,
            name => Expression::Column(name.to_owned()),
        })
    }

    fn call(&mut self, name: &str) -> Result<Expression> {
        self.expect('(')?;
        if name.eq_ignore_ascii_case("cast") {
            return self.cast();
        }
        let mut values = Vec::new();
        self.skip_spaces();
        while !self.rest.starts_with(')') {
            values.push(self.expression()?);
            self.skip_spaces();
            if !self.rest.starts_with(')') {
                self.expect(',')?;
            }
        }
        self.expect(')')?;
        function(name, values)
    }

    /// `cast(value, type)`, or with `as` in the place of the comma.
    fn cast(&mut self) -> Result<Expression> {
        let value = match as_word(self.rest) {
            Some(at) => {
                let mut inner = Parser {
                    rest: &self.rest[..at],
                    depth: self.depth,
                };
                let value = inner.expression()?;
                if !inner.rest.trim().is_empty() {
                    return Err(inner.unexpected("as"));
                }
                self.rest = &self.rest[at + AS.len()..];
                value
            }
            None => {
                let value = self.expression()?;
                self.expect(',')?;
                value
            }
        };
        let mut open = 0usize;
        let end = self.rest.char_indices().find(|(_, sign)| match sign {
            '(' => {
                open += 1;
                false
            }
            ')' if open == 0 => true,
            ')' => {
                open -= 1;
                false
            }
            _ => false,
        });
        let Some((end, _)) = end else {
            return Err(Error::config("cast has no ) at its end").hint("cast(price, decimal(10,2))"));
        };
        let ty: ColumnType = self.rest[..end].trim().parse()?;
        self.rest = &self.rest[end + 1..];
        if ty == ColumnType::Any {
            return Err(Error::config("cast needs a type of its own").hint("cast(price, decimal(10,2))"));
        }
        Ok(Expression::Call(Function::Cast(ty), vec![value]))
    }
}

/// Between a value and its type.
const AS: &str = " as ";

/// Where the word is that ends the value of a cast: names have spaces within, so it is looked for outside of quotes and of
/// functions. None where a comma comes first.
fn as_word(text: &str) -> Option<usize> {
    let (mut quote, mut open) = (None, 0usize);
    for (at, sign) in text.char_indices() {
        match (quote, sign) {
            (Some(inside), sign) if sign == inside => quote = None,
            (Some(_), _) => {}
            (None, '\'' | '"') => quote = Some(sign),
            (None, '(') => open += 1,
            (None, ')') => open = open.checked_sub(1)?,
            (None, ',') if open == 0 => return None,
            (None, ' ') if open == 0 => {
                let word = text.get(at..at + AS.len());
                if word.is_some_and(|word| word.eq_ignore_ascii_case(AS)) {
                    return Some(at);
                }
            }
            (None, _) => {}
        }
    }
    None
}

/// The call of a function by its name.
fn function(name: &str, mut values: Vec<Expression>) -> Result<Expression> {
    let lower = name.to_lowercase();
    // How many values it takes, and how many of them may come from the row; those behind are the same for all rows.
    let (usage, least, most, of_row) = match lower.as_str() {
        "trim" | "lower" | "upper" => ("trim(x)", 1, 1, 1),
        "concat" => ("concat(x, y, ..)", 1, usize::MAX, usize::MAX),
        "coalesce" => ("coalesce(x, y, ..)", 1, usize::MAX, usize::MAX),
        "nullif" => ("nullif(x, 'text')", 2, 2, 2),
        "replace" => ("replace(x, 'what', 'by what')", 3, 3, 3),
        "substr" => ("substr(x, from, characters)", 2, 3, 1),
        "split" => ("split(x, 'separator', number)", 3, 3, 2),
        "json" => ("json(x, '$.address.city')", 2, 2, 1),
        "format" => ("format(x, '%d.%m.%Y')", 2, 2, 1),
        _ => {
            return Err(Error::config(format!("there is no function {name}"))
                .hint(format!("there are {}", FUNCTIONS.join(", "))));
        }
    };
    if values.len() < least || values.len() > most {
        return Err(
            Error::config(format!("{lower} does not take {} values", values.len())).hint(usage.replacen(
                "trim",
                &lower,
                usize::from(most == 1),
            )),
        );
    }
    let wrong = |what: &str| Error::config(format!("{lower}: {what}")).hint(usage);
    let mut literals = Vec::new();
    for value in values.split_off(of_row.min(values.len())) {
        match value {
            Expression::Text(text) => literals.push(text),
            _ => return Err(wrong("its last values are the same for all rows, not columns")),
        }
    }
    let literal = |at: usize| literals.get(at).map_or("", String::as_str);
    let function = match lower.as_str() {
        "trim" => Function::Trim,
        "lower" => Function::Lower,
        "upper" => Function::Upper,
        "concat" => Function::Concat,
        "coalesce" => Function::Coalesce,
        "nullif" => Function::NullIf,
        "replace" => Function::Replace,
        "substr" => {
            let number = |at: usize| {
                let number = literal(at).parse::<usize>();
                number.map_err(|_| wrong("a number of characters is a whole number"))
            };
            let characters = (literals.len() > 1).then(|| number(1)).transpose()?;
            Function::Substr(number(0)?.max(1), characters)
        }
        "split" => match literal(0).parse() {
            Ok(0) | Err(_) => return Err(wrong("parts are numbered from 1, or from the end by -1")),
            Ok(number) => Function::Split(number),
        },
        "json" => Function::Json(path(literal(0))?),
        _ => {
            let pattern = literal(0).to_owned();
            let sample = jiff::civil::datetime(2000, 1, 1, 0, 0, 0, 0);
            jiff::fmt::strtime::format(&pattern, sample)
                .map_err(|cause| wrong(&format!("the pattern '{pattern}' cannot be used: {cause}")))?;
            Function::Format(pattern)
        }
    };
    Ok(Expression::Call(function, values))
}

/// `$.address.city[0]`, or without `$.`; a key in brackets and quotes may have any signs.
fn path(text: &str) -> Result<Vec<Step>> {
    let wrong = || {
        Error::config(format!("'{text}' is no path into JSON"))
            .hint("$.address.city, $.items[0].name, $['odd key']")
    };
    let mut rest = text.strip_prefix('$').unwrap_or(text);
    let mut steps = Vec::new();
    while !rest.is_empty() {
        if let Some(bracket) = rest.strip_prefix('[') {
            let (within, behind) = bracket.split_once(']').ok_or_else(wrong)?;
            let quoted = ['\'', '"']
                .iter()
                .find_map(|quote| within.strip_prefix(*quote)?.strip_suffix(*quote));
            steps.push(match quoted {
                Some(key) => Step::Key(key.to_owned()),
                None => Step::Index(within.trim().parse().map_err(|_| wrong())?),
            });
            rest = behind;
        } else {
            let name = rest.strip_prefix('.').unwrap_or(rest);
            let end = name.find(['.', '[']).unwrap_or(name.len());
            if end == 0 {
                return Err(wrong());
            }
            steps.push(Step::Key(name[..end].to_owned()));
            rest = &name[end..];
        }
    }
    Ok(steps)
}
