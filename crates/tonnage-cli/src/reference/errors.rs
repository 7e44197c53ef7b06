//! Exit codes, kinds of errors, codes of rejected rows, and options of other tools.

use tonnage::{ErrorKind, reject::sqlstate};

use super::{check, head, inline, meaning, variants};
use crate::{exit::Exit, synonyms::SYNONYMS};

const EXITS: [Exit; 8] = [
    Exit::Done,
    Exit::Failed,
    Exit::Usage,
    Exit::Rejects,
    Exit::Uncertain,
    Exit::Differs,
    Exit::Interrupted,
    Exit::Terminated,
];

const KINDS: [ErrorKind; 13] = [
    ErrorKind::Config,
    ErrorKind::Input,
    ErrorKind::Schema,
    ErrorKind::Refused,
    ErrorKind::Cancelled,
    ErrorKind::Bug,
    ErrorKind::Rejected,
    ErrorKind::Overloaded,
    ErrorKind::Unsent,
    ErrorKind::InDoubt,
    ErrorKind::Fenced,
    ErrorKind::Altered,
    ErrorKind::Uncertain,
];

#[test]
fn the_lists_are_complete() {
    assert_eq!(variants::<Exit>().len(), EXITS.len());
    assert_eq!(variants::<ErrorKind>().len(), KINDS.len());
}

#[test]
fn exit_codes() {
    let mut page = head("Exit codes", "What the process of every command ends with.");
    page.push_str("\n| Code | Meaning |\n|---|---|\n");
    for exit in EXITS {
        let meaning = inline(&meaning::<Exit>(&format!("{exit:?}")));
        page.push_str(&format!("| {} | {meaning} |\n", exit as u8));
    }
    check("exit-codes.md", &page);
}

#[test]
fn errors() {
    let mut page = head(
        "Errors",
        "An error is a line `error: ..` on standard error, with a line `hint: ..` where there is a next step.",
    );
    page.push_str(
        "\n## Kinds\n\nThe kind says what is done next, and is decided from the database's codes, never from its words. A command \
         retries by itself what can be retried, and puts bad rows aside; the exit code is that of an error which is left.\n\n\
         | Kind | Meaning | Exit code |\n|---|---|---|\n",
    );
    for kind in KINDS {
        let name = format!("{kind:?}");
        let meaning = inline(&meaning::<ErrorKind>(&name));
        let code = Exit::of(kind) as u8;
        page.push_str(&format!("| `{name}` | {meaning} | {code} |\n"));
    }
    page.push_str(
        "\n## Codes of rejected rows\n\nA record of `--rejects` has the code that the database gave. What is found before a row is \
         sent has the SQLSTATE of the same meaning:\n\n| Code | Meaning |\n|---|---|\n",
    );
    for (code, meaning) in sqlstate::ALL {
        page.push_str(&format!("| `{code}` | {} |\n", inline(meaning)));
    }
    page.push_str(
        "\n## Options of other tools\n\nThey are refused, with a hint that names what means the same here:\n\n\
         | Option | Hint |\n|---|---|\n",
    );
    for (option, meant) in SYNONYMS {
        page.push_str(&format!("| `{option}` | {} |\n", inline(meant)));
    }
    check("errors.md", &page);
}
