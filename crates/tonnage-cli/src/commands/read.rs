//! How files are read, and which of their columns go where: what commands share that take rows from files or from another
//! database.

use std::path::Path;

use clap::{Args, ValueEnum};
use tonnage::{
    Error, Result,
    parse::{DateFormat, ValueFormats},
    plan::LoadOptions,
    reader::Relation,
    sources::{DifferingColumns, Format, TextOptions},
    table::TableName,
    targets,
};

use super::rows::{ColumnTypes, Usage};
use crate::{
    connection::ShardArgs,
    options::{Pairs, byte, count, pair, pairs},
};

/// Which column of a source goes to which of a table.
#[derive(Debug, Args)]
pub struct ColumnArgs {
    /// Fill table column, or parameter, DST from source column SRC
    #[arg(long, value_name = "SRC=DST,..", value_parser = pairs, help_heading = "What to do")]
    map: Vec<Pairs>,

    /// A column that the input does not have, or another value for one that it has: a text, or {column}, {file}, {row}
    ///
    /// May be given again. A text, in which {name} is a column of the input, and {file}, {row} (its number in the file),
    /// {run} and {now} are what is known of the row; {trim(name)} is what a function makes of it: cast(x, type),
    /// coalesce(x, y), concat(x, y), format(time, '%d.%m.%Y'), json(x, '$.a.b'), lower, nullif(x, 'text'),
    /// replace(x, 'what', 'by'), split(x, ' ', 1), substr(x, from, length), trim, upper
    #[arg(long, value_name = "NAME=TEXT", value_parser = pair, help_heading = "What to do")]
    add: Vec<(String, String)>,

    /// Make the names of the input plain: `First Name (mm)` is first_name_mm
    #[arg(long, help_heading = "What to do")]
    normalize_names: bool,

    /// The table columns to load; without a header, or in its place, the names of the fields; with types for a table that is
    /// made: id:int64,price:decimal(10,2)
    #[arg(long, value_name = "A,B", value_parser = columns, help_heading = "What to do")]
    columns: Option<Columns>,
}

/// Columns, some with a type.
#[derive(Debug, Clone, Default)]
pub struct Columns(Vec<(String, Option<String>)>);

/// `a,b` or `a:int64,b:decimal(10,2)`. A name may have a colon where no type is behind it.
fn columns(text: &str) -> Result<Columns, String> {
    let (mut columns, mut depth, mut start) = (Vec::new(), 0usize, 0);
    let ends = text.char_indices().filter_map(|(at, sign)| {
        match sign {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        (sign == ',' && depth == 0).then_some(at)
    });
    for end in ends.collect::<Vec<_>>().into_iter().chain([text.len()]) {
        let column = &text[start..end];
        start = end + 1;
        let typed = column.rsplit_once(':').filter(|(_, ty)| {
            let alone = [(String::new(), (*ty).to_owned())];
            ColumnTypes::parse(&alone).is_ok()
        });
        columns.push(match typed {
            Some((name, ty)) => (name.trim().to_owned(), Some(ty.to_owned())),
            None => (column.to_owned(), None),
        });
    }
    Ok(Columns(columns))
}

impl Columns {
    fn names(&self) -> Vec<String> {
        self.0.iter().map(|(name, _)| name.clone()).collect()
    }
}

impl ColumnArgs {
    /// The types that columns were named with.
    pub fn types(&self) -> Vec<(String, String)> {
        let columns = self.columns.iter().flat_map(|columns| &columns.0);
        columns
            .filter_map(|(name, ty)| Some((name.clone(), ty.clone()?)))
            .collect()
    }

    /// The options of a load into `table` as far as these arguments go.
    pub fn options(&self, table: TableName) -> LoadOptions {
        LoadOptions {
            map: self.map.iter().flat_map(|pairs| pairs.0.clone()).collect(),
            columns: self.columns.as_ref().map(Columns::names),
            add: self.add.clone(),
            normalize_names: self.normalize_names,
            ..LoadOptions::new(table)
        }
    }
}

/// How files are read, or what of a database.
#[derive(Debug, Args)]
pub struct ReadArgs {
    /// The table or view to read, where the source is a database: table, schema.table or "odd.name"
    #[arg(
        long,
        value_name = "TABLE",
        conflicts_with = "source_query",
        help_heading = "How to read"
    )]
    source_table: Option<String>,

    /// The query whose rows to read, where the source is a database
    #[arg(long, alias = "query", value_name = "SQL", help_heading = "How to read")]
    source_query: Option<String>,

    /// The format
    ///
    /// auto goes by the files' endings, or by what they begin with, and finds out how text is cut where the
    /// options do not say it; csv and tsv read it as the options say and not otherwise
    #[arg(long, value_enum, default_value_t = FormatName::Auto, hide_default_value = true, help_heading = "How to read")]
    format: FormatName,

    /// Between fields: one character, or \t [default: , for CSV, tab for TSV]
    #[arg(long, value_name = "C", value_parser = byte, help_heading = "How to read")]
    delimiter: Option<u8>,

    /// Around fields: one character, or none
    #[arg(long, value_name = "C", default_value = "\"", help_heading = "How to read")]
    quote: String,

    /// Before a quote inside a quoted field [default: the quote is doubled]
    #[arg(long, value_name = "C", value_parser = byte, help_heading = "How to read")]
    escape: Option<u8>,

    /// The first line is a row, not names
    #[arg(long, help_heading = "How to read")]
    no_header: bool,

    /// Unquoted text that means null, instead of the empty field; may be given again
    #[arg(long, value_name = "TEXT", help_heading = "How to read")]
    null: Vec<String>,

    /// Skip lines that begin with this character
    #[arg(long, value_name = "C", value_parser = byte, help_heading = "How to read")]
    comment: Option<u8>,

    /// Lines before the header, or the first row, that are not read [default: titles above a header are found]
    #[arg(long, value_name = "N", value_parser = count, help_heading = "How to read")]
    skip: Option<u64>,

    /// Lines at the end of each file that are not read, such as totals
    #[arg(long, value_name = "N", value_parser = count, default_value = "0", hide_default_value = true, help_heading = "How to read")]
    skip_footer: u64,

    /// Take spaces around unquoted fields for nothing
    #[arg(long, help_heading = "How to read")]
    trim: bool,

    /// How dates are written: dmy, mdy, ymd, or a pattern such as %d.%m.%y; may be given again. ISO dates are read as well
    #[arg(long, value_name = "FORMAT", value_parser = date_format, help_heading = "How to read")]
    date_format: Vec<DateFormat>,

    /// The decimal sign of numbers
    #[arg(long, value_name = "C", help_heading = "How to read")]
    decimal: Option<char>,

    /// The sign between groups of three digits
    #[arg(long, value_name = "C", help_heading = "How to read")]
    thousands: Option<char>,

    /// A word for true, besides true, t, yes, y, on and 1; may be given again
    #[arg(long = "true", value_name = "WORD", help_heading = "How to read")]
    truths: Vec<String>,

    /// A word for false, besides false, f, no, n, off and 0; may be given again
    #[arg(long = "false", value_name = "WORD", help_heading = "How to read")]
    falsehoods: Vec<String>,

    /// Make columns of the keys of objects within objects of JSON: address.city
    #[arg(long, help_heading = "How to read")]
    flatten: bool,

    /// Take the columns of all files, by name, where they differ; a file that lacks one has nulls for it
    #[arg(long, help_heading = "How to read")]
    union: bool,

    /// The sheet of an Excel file [default: the first]
    #[arg(long, value_name = "NAME", help_heading = "How to read")]
    sheet: Option<String>,

    /// The character set of text files; auto tells it by their bytes [default: utf-8, or another one where the bytes are
    /// clearly of that]
    #[arg(long, value_name = "NAME", help_heading = "How to read")]
    encoding: Option<String>,

    /// The zone of times that carry none, for columns with time zone: Europe/Berlin, UTC
    #[arg(long, value_name = "ZONE", help_heading = "How to read")]
    pub timezone: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum FormatName {
    Auto,
    Csv,
    Tsv,
    #[value(alias = "jsonl", alias = "ndjson")]
    Json,
    Parquet,
    #[value(alias = "ipc")]
    Arrow,
}

fn date_format(text: &str) -> Result<DateFormat, String> {
    text.parse().map_err(|error: Error| match error.hint_text() {
        Some(hint) => format!("{error}; {hint}"),
        None => error.to_string(),
    })
}

impl ReadArgs {
    /// Whether the first line is a row.
    pub fn headerless(&self) -> bool {
        self.no_header
    }

    /// The format that was asked for.
    pub fn format(&self) -> Option<Format> {
        match self.format {
            FormatName::Auto => None,
            FormatName::Csv => Some(Format::Csv),
            FormatName::Tsv => Some(Format::Tsv),
            FormatName::Json => Some(Format::Json),
            FormatName::Parquet => Some(Format::Parquet),
            FormatName::Arrow => Some(Format::Arrow),
        }
    }

    /// How text is read.
    pub fn text_options(&self) -> Result<TextOptions> {
        Ok(TextOptions {
            delimiter: self.delimiter,
            quote: match self.quote.as_str() {
                "none" | "" => None,
                quote => Some(byte(quote).map_err(|e| Error::config(format!("--quote '{quote}': {e}")))?),
            },
            escape: self.escape,
            header: !self.no_header,
            nulls: if self.null.is_empty() {
                vec![String::new()]
            } else {
                self.null.clone()
            },
            comment: self.comment,
            encoding: self.encoding.clone().unwrap_or_else(|| "utf-8".to_owned()),
            encoding_guessed: self.encoding.is_none(),
            detect: self.format == FormatName::Auto,
            skip: self.skip,
            skip_footer: self.skip_footer,
            trim: self.trim,
            formats: ValueFormats {
                dates: self.date_format.clone(),
                decimal: self.decimal,
                thousands: self.thousands,
                truths: self.truths.clone(),
                falsehoods: self.falsehoods.clone(),
                epochs: Vec::new(),
            },
            flatten: self.flatten,
            sheet: self.sheet.clone(),
            differing: match self.union {
                true => DifferingColumns::United,
                false => DifferingColumns::Refused,
            },
            ..TextOptions::default()
        })
    }

    /// What to read from a source that is a database; none where the sources are files.
    pub fn relation(&self, inputs: &[String]) -> Result<Option<Relation>> {
        let relation = match (&self.source_table, &self.source_query) {
            (Some(table), _) => Some(Relation::Table(table.parse()?)),
            (None, Some(query)) => Some(Relation::Query(query.clone())),
            (None, None) => None,
        };
        let database = inputs.iter().find(|input| targets::driver(input).is_ok());
        match (relation, database, inputs) {
            (None, None, _) => Ok(None),
            (None, Some(database), _) => Err(Error::config(format!(
                "the source '{}' is a database, and nothing says what to read",
                targets::redact(database)
            ))
            .hint("--source-table TABLE or --source-query SQL says it")),
            (Some(_), None, _) => Err(Error::config(format!(
                "--source-table and --source-query read a database, and '{}' is none",
                inputs.join(" ")
            ))
            .hint("leave them out to load files")),
            (Some(_), Some(_), [_, _, ..]) => {
                Err(Error::config("a database is a source by itself")
                    .hint("load files in a run of their own"))
            }
            (relation, Some(_), _) => Ok(relation),
        }
    }

    /// The sources, and the database that comes last; with --shard-by the databases that do.
    pub fn places<'a>(
        &self,
        places: &'a [String],
        shards: &ShardArgs,
        usage: Usage,
    ) -> Result<(&'a [String], &'a [String])> {
        let Some((target, before)) = places.split_last() else {
            return Err(Error::config("no source and no database"));
        };
        let is_database = |place: &&String| targets::driver(place).is_ok();
        if let Err(error) = targets::driver(target) {
            let (databases, files): (Vec<&String>, Vec<&String>) = places.iter().partition(is_database);
            let files: Vec<&str> = files.iter().map(|file| file.as_str()).collect();
            return Err(match Path::new(target).is_file() {
                true => Error::config(format!(
                    "the last argument, '{target}', is a file and not a database"
                ))
                .hint(format!(
                    "name the database last, as in cp: tonnage {} {} {} {}",
                    usage.command,
                    files.join(" "),
                    databases
                        .last()
                        .map_or_else(|| "shop.db".to_owned(), |database| targets::redact(database)),
                    usage.options
                )),
                false => error,
            });
        }
        let mut others = 0;
        if shards.are_given() {
            others = before.iter().rev().take_while(is_database).count();
            // A database that is read comes first.
            if others == before.len() && (self.source_table.is_some() || self.source_query.is_some()) {
                others = others.saturating_sub(1);
            }
        }
        let (inputs, databases) = places.split_at(before.len() - others);
        if inputs.is_empty() {
            return Err(
                Error::config(format!("no source: '{target}' is the database")).hint(format!(
                    "name the files first: tonnage {} FILE.. {target} {}; - is standard input",
                    usage.command, usage.options
                )),
            );
        }
        Ok((inputs, databases))
    }
}
