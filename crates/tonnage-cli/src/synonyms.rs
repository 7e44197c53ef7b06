//! Options of other tools and what they are called here, and how a command is written.

use clap::{
    CommandFactory,
    error::{ContextKind, ContextValue, ErrorKind},
};

use crate::Cli;

/// An option that is not there, and what to write in its place, which begins with `-` or `?`; else a sentence that says it.
pub const SYNONYMS: &[(&str, &str)] = &[
    ("--upsert", "--mode upsert"),
    ("--insert", "--mode insert"),
    ("--update", "--mode update"),
    ("--delete", "--mode delete"),
    ("--ignore", "--mode ignore"),
    ("--merge", "--mode upsert"),
    (
        "--replace",
        "--mode upsert, or --create=replace for a table made anew",
    ),
    ("--operation", "--mode"),
    ("--append", "--mode insert, which is the default"),
    (
        "--overwrite",
        "--truncate empties the table first, --recreate swaps a new one in at the end",
    ),
    ("--drop", "--create=replace"),
    (
        "--header",
        "a header is expected; --no-header says that there is none",
    ),
    (
        "--headers",
        "a header is expected; --no-header says that there is none",
    ),
    (
        "--has-header",
        "a header is expected; --no-header says that there is none",
    ),
    ("--noheader", "--no-header"),
    (
        "--skip-header",
        "the header is not a row; --skip N skips lines before it",
    ),
    ("--skip-rows", "--skip N"),
    ("--skiprows", "--skip N"),
    ("--skip-lines", "--skip N"),
    ("--batch-size", "--batch-rows N, or --batch-bytes SIZE"),
    ("--batch", "--batch-rows N"),
    ("--chunk-size", "--batch-rows N"),
    ("--chunksize", "--batch-rows N"),
    ("--commit-every", "--batch-rows N: a write is a commit"),
    ("--threads", "--jobs N"),
    ("--workers", "--jobs N"),
    ("--parallel", "--jobs N"),
    ("--concurrency", "--jobs N"),
    ("--connections", "--jobs N"),
    ("--sep", "--delimiter C"),
    ("--separator", "--delimiter C"),
    ("--field-separator", "--delimiter C"),
    ("--fields-terminated-by", "--delimiter C"),
    ("--na", "--null TEXT"),
    ("--nullstr", "--null TEXT"),
    ("--null-values", "--null TEXT"),
    ("--quotechar", "--quote C"),
    ("--charset", "--encoding NAME"),
    ("--if-not-exists", "--create"),
    ("--create-table", "--create"),
    (
        "--if-exists",
        "--create makes a table that is missing, --create=replace makes it anew",
    ),
    ("--schema", "name it with the table: -t schema.table"),
    ("--primary-key", "--key A,B"),
    ("--pk", "--key A,B"),
    (
        "--on-conflict",
        "--mode upsert replaces rows, --mode ignore leaves them",
    ),
    ("--errors", "--max-rejects N, with --rejects PATH"),
    ("--max-errors", "--max-rejects N, with --rejects PATH"),
    ("--bad", "--rejects PATH"),
    ("--badfile", "--rejects PATH"),
    ("--continue", "--resume"),
    (
        "--force",
        "--yes answers questions; --restart begins an unfinished run anew",
    ),
    ("--dryrun", "--dry-run"),
    ("--explain", "--dry-run prints the plan"),
    ("--columns-map", "--map SRC=DST"),
    ("--rename", "--map SRC=DST"),
    ("--tz", "--timezone ZONE"),
    ("--dateformat", "--date-format FORMAT"),
    ("--dates", "--date-format FORMAT"),
    ("--decimal-separator", "--decimal C"),
    ("--out", "-o PATH"),
    ("--filter", "--where SQL"),
    ("--sql", "--query SQL"),
    (
        "--password",
        "?password=.. in the URL, the database's own variable or file, or --ask-password",
    ),
    (
        "--host",
        "the database is a URL: postgresql://user@host:5432/name",
    ),
    (
        "--user",
        "the database is a URL: postgresql://user@host:5432/name",
    ),
    (
        "--port",
        "the database is a URL: postgresql://user@host:5432/name",
    ),
    (
        "--database",
        "the database is the last argument: a URL, a file, or @NAME of targets.toml",
    ),
    ("--table-name", "-t TABLE"),
];

/// What to write in the place of the arguments that an error is about, if that is known.
pub fn hint(error: &clap::Error) -> Option<String> {
    match error.kind() {
        ErrorKind::UnknownArgument => of(error),
        ErrorKind::MissingRequiredArgument => example(error),
        _ => None,
    }
}

/// The first example in the help of the command that lacks an argument, or in that of its group.
fn example(error: &clap::Error) -> Option<String> {
    let ContextValue::StyledStr(usage) = error.get(ContextKind::Usage)? else {
        return None;
    };
    let usage = usage.to_string();
    let words = usage.split_whitespace().skip_while(|word| *word != "tonnage");
    let names: Vec<_> = words
        .take_while(|word| word.starts_with(char::is_alphabetic))
        .collect();
    let begins = format!("{} ", names.join(" "));
    let mut command = &Cli::command();
    let mut found = None;
    for name in names.iter().skip(1) {
        command = command.find_subcommand(name)?;
        let help = command.get_after_help().map(ToString::to_string);
        let help = help.unwrap_or_default();
        let first = help.lines().find(|line| line.trim_start().starts_with(&begins));
        found = first.map(|line| line.trim().to_owned()).or(found);
    }
    found.map(|example| format!("for example {example}"))
}

/// What is meant by the option that an error is about, if it is one of another tool.
pub fn of(error: &clap::Error) -> Option<String> {
    let Some(ContextValue::String(option)) = error.get(ContextKind::InvalidArg) else {
        return None;
    };
    let name = option.split(['=', ' ']).next().unwrap_or(option);
    let (_, meant) = SYNONYMS.iter().find(|(synonym, _)| *synonym == name)?;
    Some(match meant.starts_with('-') || meant.starts_with('?') {
        true => format!("for {name} write {meant}"),
        false => (*meant).to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[test]
    fn a_command_without_its_arguments_is_shown_an_example() {
        for (command, expected) in [
            ("load", "tonnage load orders.csv shop.db -t orders"),
            ("unload", "tonnage unload shop.db -t orders -o orders.csv"),
            (
                "generate",
                "tonnage generate journal --rows 1M -o journal.parquet",
            ),
            (
                "job plan",
                "tonnage job plan 'orders/*.csv.gz' postgresql://app@db/shop -t orders -o job.json",
            ),
            ("job run", "tonnage job run job.json --part 17"),
        ] {
            let words = ["tonnage"].into_iter().chain(command.split(' '));
            let Err(error) = Cli::try_parse_from(words) else {
                panic!("{command} needs something");
            };
            assert_eq!(hint(&error), Some(format!("for example {expected}")), "{command}");
        }
    }
}
