//! What every session is set to, whatever the role, the database, the server or the options of the URL say.
//!
//! A setting is fixed here if it decides on the value that a text means, on the text that a value is written as,
//! or on which rows a statement finds; [`SETTINGS`] puts it to the server's own default. All settings that a session may
//! have in PostgreSQL 12 to 18 were considered:
//!
//! | Setting | What it changes | Here |
//! |---|---|---|
//! | `datestyle` `intervalstyle` `extra_float_digits` `bytea_output` | text of values, and how such text is read | fixed |
//! | `xmloption` `xmlbinary` | which text is XML; bytes within XML | fixed |
//! | `array_nulls` | whether `{NULL}` holds a null or the text NULL | fixed |
//! | `transform_null_equals` | `x = NULL` in a condition finds rows | fixed |
//! | `standard_conforming_strings` | what a backslash in a literal is | fixed |
//! | `quote_all_identifiers` | the catalogue's text of expressions, which is read here | fixed |
//! | `gin_fuzzy_search_limit` | a condition that goes by a GIN index finds only some of its rows | fixed |
//! | `default_transaction_isolation` `default_transaction_deferrable` | what a transaction sees, and that it fails | fixed |
//! | `exit_on_error` | a refused row ends the session | fixed |
//! | `session_replication_role` | triggers, rules and foreign keys are passed over | `origin`, unless the URL's options name it |
//! | `client_encoding` | the bytes of text | fixed by the driver when it connects |
//! | `timezone` | text of instants within arrays, ranges and rows | UTC where rows are read; else left: defaults and triggers mean by it what they mean for other clients |
//! | `synchronize_seqscans` `idle_in_transaction_session_timeout` `jit` | order and patience of readers | fixed where rows are read |
//! | `synchronous_commit` | whether a commit survives | set with each transaction, as the durability asks |
//! | `search_path` `role` | which table a name means, and who asks | left: this is how a role names its tables |
//! | `row_security` | `off` fails where `on` would hide rows | left: it is a guard |
//! | `default_transaction_read_only` `statement_timeout` `lock_timeout` and the other timeouts, `temp_file_limit`, `restrict_nonsystem_relation_kind` | a statement fails, with its reason | left: they are guards |
//! | `lc_monetary` | what the number within a `money` counts | left: it is the database's currency, and how many digits it has is asked for |
//! | `lc_time` `lc_numeric` `default_text_search_config` `timezone_abbreviations`, settings of extensions | what an expression of the user's says | left: no value is read or written by them |
//! | `default_tablespace` `default_table_access_method` `default_toast_compression` | where a new table is stored | left: it is the owner's choice |
//! | `zero_damaged_pages` `ignore_checksum_failure` `ignore_system_indexes` | damaged pages are passed over | left: only a superuser sets them, to save what can be saved |
//! | `enable_*`, costs, parallel workers, memory, `constraint_exclusion`, `plan_cache_mode`, `geqo*` | the plan of a query, not its rows | left |
//! | `log_*`, `debug_*`, `track_*`, `client_min_messages`, `tcp_*`, `vacuum_*`, `wal_*`, `commit_*` | nothing that is read or written | left |

use tokio_postgres::Client;
use tonnage_core::error::{ErrorKind, Result};

use super::{errors, settings::Settings};

/// Each with the server's default.
const SETTINGS: &[(&str, &str)] = &[
    ("datestyle", "ISO, MDY"),
    ("intervalstyle", "postgres"),
    ("extra_float_digits", "1"),
    ("bytea_output", "hex"),
    ("xmloption", "content"),
    ("xmlbinary", "base64"),
    ("array_nulls", "on"),
    ("transform_null_equals", "off"),
    ("standard_conforming_strings", "on"),
    ("quote_all_identifiers", "off"),
    ("gin_fuzzy_search_limit", "0"),
    ("default_transaction_isolation", "read committed"),
    ("default_transaction_deferrable", "off"),
    ("exit_on_error", "off"),
];

/// Only a superuser may set it, so it is left alone where it is right.
const REPLICATION_ROLE: &str = "session_replication_role";

/// Sets a new session up, in one round trip.
pub(super) async fn set_up(client: &Client, settings: &Settings) -> Result<()> {
    let failed = |failure| errors::statement(failure).at("cannot set the session up");
    client.batch_execute(&statements(settings)).await.map_err(|failure| {
        let error = failed(failure);
        match error.kind() {
            ErrorKind::Refused => error.hint(format!(
                "take the setting {REPLICATION_ROLE} from the role, or ask for it: ?options=-c%20{REPLICATION_ROLE}=replica"
            )),
            _ => error,
        }
    })
}

fn statements(settings: &Settings) -> String {
    let mut sql: Vec<_> = SETTINGS
        .iter()
        .map(|(name, value)| format!("SET {name} = '{value}'"))
        .collect();
    let asked_for = settings
        .options
        .as_ref()
        .is_some_and(|options| options.to_ascii_lowercase().contains(REPLICATION_ROLE));
    if !asked_for {
        sql.push(format!(
            "SELECT pg_catalog.set_config('{REPLICATION_ROLE}', 'origin', false) \
             WHERE pg_catalog.current_setting('{REPLICATION_ROLE}') OPERATOR(pg_catalog.<>) 'origin'"
        ));
    }
    sql.join("; ")
}
