//! Every command and its options, by group.

use clap::{Arg, ArgAction, Command, CommandFactory};

use super::{check, head, inline};
use crate::Cli;

/// What is written for an option: `-t`, `--table <TABLE>`.
fn spelling(argument: &Arg) -> String {
    let values: Vec<_> = argument
        .get_value_names()
        .unwrap_or_default()
        .iter()
        .map(|name| format!("<{name}>"))
        .collect();
    let values = match argument.get_action() {
        ArgAction::Set | ArgAction::Append => values.join(" "),
        _ => String::new(),
    };
    let Some(long) = argument.get_long() else {
        return match argument.get_short() {
            Some(short) => format!("`-{short} {values}`"),
            None => format!("`{values}`"),
        };
    };
    let optional = argument
        .get_num_args()
        .is_some_and(|number| number.min_values() == 0);
    let long = match (values.is_empty(), optional) {
        (true, _) => format!("--{long}"),
        (false, true) => format!("--{long}[={values}]"),
        (false, false) => format!("--{long} {values}"),
    };
    match argument.get_short() {
        Some(short) => format!("`-{short}`, `{long}`"),
        None => format!("`{long}`"),
    }
}

fn described(argument: &Arg) -> String {
    let help = argument.get_long_help().or_else(|| argument.get_help());
    let mut text = help.map(|help| inline(&help.to_string())).unwrap_or_default();
    let takes_value = matches!(argument.get_action(), ArgAction::Set | ArgAction::Append);
    let values = argument.get_possible_values();
    let values: Vec<_> = values.iter().filter(|value| !value.is_hide_set()).collect();
    if takes_value && !values.is_empty() {
        text.push_str("; one of ");
        let each = values.iter().map(|value| match value.get_help() {
            Some(help) => format!("`{}` ({})", value.get_name(), inline(&help.to_string())),
            None => format!("`{}`", value.get_name()),
        });
        text.push_str(&each.collect::<Vec<_>>().join(", "));
    }
    let defaults = argument.get_default_values();
    if takes_value && !defaults.is_empty() && !argument.is_hide_default_value_set() {
        let each = defaults
            .iter()
            .map(|value| format!("`{}`", value.to_string_lossy()));
        text.push_str(&format!("; default {}", each.collect::<Vec<_>>().join(", ")));
    }
    text
}

/// A command's section, and those of its own commands. Options that every command has are left out.
fn section((before, command): (&str, &Command), text: &mut String) {
    let name = format!("{before} {}", command.get_name());
    let about = command.get_long_about().or_else(|| command.get_about());
    let about = about.map(|about| inline(&about.to_string())).unwrap_or_default();
    text.push_str(&format!("\n## {name}\n\n{about}.\n"));
    let usage = command.clone().bin_name(&name).render_usage().to_string();
    let usage = usage.trim_start_matches("Usage: ");
    text.push_str(&format!("\n```text\n{usage}\n```\n"));
    let mut headings: Vec<String> = Vec::new();
    let shown: Vec<_> = command
        .get_arguments()
        .filter(|argument| !argument.is_hide_set() && !argument.is_global_set())
        .filter(|argument| !matches!(argument.get_id().as_str(), "help" | "version"))
        .map(|argument| {
            let heading = match (argument.get_help_heading(), argument.is_positional()) {
                (Some(heading), _) => heading,
                (None, true) => "Arguments",
                (None, false) => "Options",
            };
            (heading.to_owned(), argument)
        })
        .collect();
    for (heading, _) in &shown {
        if !headings.contains(heading) {
            headings.push(heading.clone());
        }
    }
    for heading in headings {
        text.push_str(&format!("\n**{heading}**\n\n"));
        for (_, argument) in shown.iter().filter(|(of, _)| *of == heading) {
            text.push_str(&format!("- {}: {}\n", spelling(argument), described(argument)));
        }
    }
    for command in shown_commands(command) {
        section((&name, command), text);
    }
}

fn shown_commands(command: &Command) -> impl Iterator<Item = &Command> {
    let shown = |command: &&Command| !command.is_hide_set() && command.get_name() != "help";
    command.get_subcommands().filter(shown)
}

#[test]
fn options() {
    let mut command = Cli::command();
    command.build();
    let mut page = head(
        "Commands and options",
        "What `--help` of each command says. `tonnage man` has the same as manual pages.",
    );
    page.push_str("\n## Of every command\n\n");
    for argument in command
        .get_arguments()
        .filter(|argument| argument.is_global_set() && !argument.is_hide_set())
    {
        page.push_str(&format!("- {}: {}\n", spelling(argument), described(argument)));
    }
    for command in shown_commands(&command) {
        section(("tonnage", command), &mut page);
    }
    check("options.md", &page);
}
