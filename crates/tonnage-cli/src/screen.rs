//! What `-h` shows: of each command the options that most people need. `--help` shows all.

use clap::Command;

/// The options of a command that `-h` shows, by their ids; all where a command is not here. A command of a group is written
/// after the group, as `job plan`.
const SHORT: &[(&str, &[&str])] = &[
    (
        "load",
        &[
            "table", "mode", "key", "create", "truncate", "map", "add", "rejects", "resume", "format",
            "jobs", "dry_run", "report",
        ],
    ),
    (
        "exec",
        &[
            "sql",
            "key",
            "map",
            "add",
            "rejects",
            "resume",
            "format",
            "jobs",
            "single_transaction",
            "dry_run",
            "report",
        ],
    ),
    (
        "unload",
        &[
            "table",
            "query",
            "output",
            "columns",
            "filter",
            "limit",
            "format",
            "compression",
            "jobs",
            "overwrite",
            "dry_run",
        ],
    ),
    (
        "get",
        &[
            "table", "key", "keys", "columns", "from", "to", "with", "missing", "output", "format",
        ],
    ),
    (
        "ingest",
        &[
            "table",
            "ack",
            "journal",
            "mode",
            "key",
            "rejects",
            "drain_age",
            "report",
        ],
    ),
    (
        "verify",
        &[
            "table",
            "key",
            "columns",
            "source_table",
            "format",
            "differences",
            "jobs",
            "json",
            "report",
        ],
    ),
    (
        "copy",
        &[
            "tables",
            "exclude",
            "resume",
            "replace",
            "types",
            "no_verify",
            "dry_run",
            "jobs",
            "json",
        ],
    ),
    (
        "explain",
        &[
            "table",
            "operation",
            "method",
            "columns",
            "with_triggers",
            "rows",
            "json",
            "report",
        ],
    ),
    ("generate", &["rows", "output", "format", "seed", "overwrite"]),
    ("bench", &["table", "rows_from", "method", "batch_rows", "rows"]),
    ("tune", &["table", "goal", "time", "save", "mode"]),
    (
        "job plan",
        &[
            "parts",
            "output",
            "connections_max",
            "table",
            "mode",
            "key",
            "create",
            "truncate",
            "map",
            "rejects",
            "format",
        ],
    ),
];

/// Leaves out of the short help of each command what is not in [`SHORT`].
pub fn with_short_help(command: Command) -> Command {
    SHORT.iter().fold(command, |command, (name, shown)| {
        let names: Vec<_> = name.split(' ').collect();
        shortened(command, &names, shown)
    })
}

/// Makes the short help of the subcommand that `names` lead to show the options `shown` only.
fn shortened(command: Command, names: &[&str], shown: &[&str]) -> Command {
    match names {
        [] => command.mut_args(|option| {
            let is_shown = option.is_positional() || shown.contains(&option.get_id().as_str());
            option.hide_short_help(!is_shown)
        }),
        [name, inner @ ..] => command.mut_subcommand(name, |subcommand| shortened(subcommand, inner, shown)),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn what_the_short_help_shows_is_there_and_fits_a_screen() {
        let mut command = with_short_help(crate::Cli::command());
        command.build();
        for (name, shown) in SHORT {
            let subcommand = name.split(' ').fold(&mut command, |command, name| {
                let found = command.find_subcommand_mut(name);
                found.unwrap_or_else(|| panic!("there is no command {name}"))
            });
            for id in *shown {
                let found = subcommand.get_arguments().any(|option| option.get_id() == id);
                assert!(found, "{name} has no option {id}");
            }
            let lines = subcommand.render_help().to_string().lines().count();
            assert!(lines <= 50, "{name} -h has {lines} lines");
        }
    }
}
