//! Options of other tools and what they are called here, and how a command is written.

use clap::error::{ContextKind, ContextValue, ErrorKind};

/// An option that is not there, and the one that means it.
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

/// A line that does, of each command that needs something.
const EXAMPLES: &[(&str, &str)] = &[
    ("load", "tonnage load orders.csv shop.db -t orders"),
    (
        "exec",
        "tonnage exec moves.csv shop.db --sql 'update stock set quantity = :quantity where id = :id'",
    ),
    (
        "unload",
        "tonnage unload shop.db -t orders -o orders.csv (-o - is standard output)",
    ),
    ("get", "tonnage get shop.db 17 42 -t orders"),
    ("verify", "tonnage verify orders.csv shop.db -t orders"),
    ("copy", "tonnage copy shop.db postgresql://app@db/shop"),
    ("ingest", "tonnage ingest shop.db -t orders < rows.jsonl"),
    ("runs", "tonnage runs shop.db"),
    ("generate", "tonnage generate sbtest --rows 10k -o rows.csv"),
    ("bench", "tonnage bench shop.db"),
    ("tune", "tonnage tune shop.db -t orders"),
    ("explain", "tonnage explain shop.db -t orders"),
    (
        "job plan",
        "tonnage job plan orders-*.csv shop.db -t orders --parts 10 -o job.json",
    ),
    ("job run", "tonnage job run job.json"),
    ("job status", "tonnage job status job.json"),
    ("job finish", "tonnage job finish job.json"),
];

/// What to write in the place of the arguments that an error is about, if that is known.
pub fn hint(error: &clap::Error) -> Option<String> {
    match error.kind() {
        ErrorKind::UnknownArgument => of(error),
        ErrorKind::MissingRequiredArgument => {
            let ContextValue::StyledStr(usage) = error.get(ContextKind::Usage)? else {
                return None;
            };
            let usage = usage.to_string();
            let words = usage
                .split_whitespace()
                .skip_while(|word| *word != "tonnage")
                .skip(1);
            let command: Vec<_> = words
                .take_while(|word| word.starts_with(char::is_alphabetic))
                .collect();
            let command = command.join(" ");
            let (_, example) = EXAMPLES.iter().find(|(name, _)| *name == command)?;
            Some(format!("for example {example}"))
        }
        _ => None,
    }
}

/// What is meant by the option that an error is about, if it is one of another tool.
pub fn of(error: &clap::Error) -> Option<String> {
    let ErrorKind::UnknownArgument = error.kind() else {
        return None;
    };
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
    fn examples_are_what_the_commands_take() {
        for (name, example) in EXAMPLES {
            let line = example.split(" (").next().unwrap_or(example);
            let line = line.split(" < ").next().unwrap_or(line);
            // What is quoted is a word.
            let parts = line.split('\'').enumerate();
            let words: Vec<&str> = parts
                .flat_map(|(at, part)| match at % 2 {
                    0 => part.split_whitespace().collect(),
                    _ => vec![part],
                })
                .collect();
            let parsed = crate::Cli::try_parse_from(&words);
            assert!(parsed.is_ok(), "{name}: {example}");
            assert!(example.starts_with(&format!("tonnage {name} ")), "{example}");
        }
    }
}
