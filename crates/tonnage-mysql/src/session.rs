//! What every session is set to, whatever the server, the account and its `init_connect` say.
//!
//! A variable is fixed here if it decides on which rows a statement finds, on the value that is written or read, or on
//! what a transaction is. Where the table says *default*, it is put to the documented default, or to the value that
//! limits nothing. All session variables of MariaDB 10.5 to 11.8 and of MySQL 8.0 to 9 were considered:
//!
//! | Variable | What it changes | Here |
//! |---|---|---|
//! | `sql_mode` | what is cut, zeroed or rounded without an error | strict; see [`REPORTED`] |
//! | `time_zone` | the value of a `timestamp` | UTC |
//! | `autocommit` `completion_type` | where a transaction begins and ends | 1, none |
//! | `foreign_key_checks` `unique_checks` `check_constraint_checks` | which rows are refused | on |
//! | `sql_notes` `max_error_count` | which warnings are counted and reported | on, default |
//! | `character_set_*` `collation_connection` | the bytes of text | `utf8mb4` |
//! | `transaction_isolation` | what a transaction sees | `READ COMMITTED`; readers `REPEATABLE READ` |
//! | `sql_select_limit` | a query ends after so many rows | unlimited |
//! | `sql_auto_is_null` | `id IS NULL` finds the row inserted last | off |
//! | `sql_safe_updates` `sql_big_selects` | a statement fails, or is cut by `sql_select_limit` | off, on |
//! | `max_sort_length` | rows that are equal so far come in any order | more than a key has |
//! | `group_concat_max_len` `max_recursive_iterations` | a query's values or rows are cut with a warning only | unlimited |
//! | `sql_quote_show_create` | the text of a table, which is read here | on |
//! | `system_versioning_asof` | a query reads rows of another time | default |
//! | `system_versioning_insert_history` | rows of another time are written | off |
//! | `old_mode` | casts of times and zero dates, notes of ignored rows | empty |
//! | `sql_if_exists` | a missing table is no error | off |
//! | `explicit_defaults_for_timestamp` | null into a `timestamp NOT NULL` becomes the time of day | on, where a session may |
//! | `net_write_timeout` `wait_timeout` `max_statement_time` | the patience of readers | set by readers |
//! | `default_storage_engine` `enforce_storage_engine` `default_tmp_storage_engine` | the engine of a new table | left: every CREATE TABLE names InnoDB, and another one in its place is an error |
//! | `auto_increment_increment` `auto_increment_offset` `insert_id` | the numbers that the server gives out | left: clusters rely on them, and any number is right |
//! | `character_set_collations` `collation_database` `collation_server` | the collation of a table that is made | left: it is the owner's choice |
//! | `timestamp` `rand_seed1` `rand_seed2` `last_insert_id` | what `now()` and the like say | left: none of them has a default to be set badly |
//! | `div_precision_increment` `default_week_format` `lc_time_names` `default_regex_flags` `block_encryption_mode` `alter_algorithm` `sql_buffer_result` | what an expression of the user's says, or how it is run | left: no value is read or written by them |
//! | `transaction_read_only` `max_statement_time` `max_execution_time` `max_join_size` `lock_wait_timeout` `innodb_lock_wait_timeout` and the other timeouts, `max_session_mem_used`, `sql_require_primary_key` | a statement fails, with its reason | left: they are guards |
//! | `wsrep_sync_wait` | what a node of a Galera cluster has not done yet is not seen | 1, see [`GALERA`] |
//! | `sql_log_bin` `binlog_*` `gtid_*` other `wsrep_*` `skip_replication` `pseudo_*` | what is replicated | left: replicas rely on them |
//! | `sql_generate_invisible_primary_key` | a table that is made gets one column more | left: it may not be changed by an ordinary account |
//! | `optimizer_*`, `join_*`, `*_buffer_size`, `tmp_*`, `query_cache_*`, `histogram_*`, costs | the plan of a query, not its rows | left |
//! | `log_*`, `profiling*`, `session_track_*`, `note_verbosity`, `progress_report_time` | nothing that is read or written | left |

use mysql_async::{Conn, prelude::Queryable};
use tonnage_core::error::{Error, ErrorKind, Result};

use super::{
    errors,
    product::{Product, Version},
    settings::Endpoint,
};

/// The settings that differ from the server's defaults, as name and value in SQL; a plan shows them.
///
/// Strict modes turn what would be cut or zeroed into an error, so a zero date is only stored where it is written as one
/// (NO_ZERO_DATE and NO_ZERO_IN_DATE would refuse what tables hold); a 0 for an auto-increment column stays a 0; a warning
/// is counted also where it is only a note (`sql_notes`); a commit ends the transaction and begins no other.
pub(super) const REPORTED: &[(&str, &str)] = &[
    (
        "sql_mode",
        "'STRICT_ALL_TABLES,ERROR_FOR_DIVISION_BY_ZERO,NO_ENGINE_SUBSTITUTION,NO_AUTO_VALUE_ON_ZERO'",
    ),
    ("time_zone", "'+00:00'"),
    ("autocommit", "1"),
    ("completion_type", "0"),
    ("foreign_key_checks", "1"),
    ("unique_checks", "1"),
    ("sql_notes", "1"),
];

/// The defaults of every server of the family, or what limits nothing.
const DEFAULTS: &[(&str, &str)] = &[
    // OceanBase takes no more.
    ("sql_select_limit", "9223372036854775807"),
    ("sql_auto_is_null", "0"),
    ("sql_safe_updates", "0"),
    ("sql_big_selects", "1"),
    ("max_error_count", "64"),
    // A key has 3,072 bytes, which a collation may make more of; a sort of longer texts needs the memory for so many.
    ("max_sort_length", "8192"),
    ("group_concat_max_len", "1073741824"),
    ("sql_quote_show_create", "1"),
];

/// Variables of MariaDB alone, from a version on.
const MARIADB: &[((u16, u16, u16), &str, &str)] = &[
    ((10, 5, 0), "check_constraint_checks", "1"),
    ((10, 5, 0), "max_recursive_iterations", "4294967295"),
    ((10, 5, 0), "system_versioning_asof", "DEFAULT"),
    ((10, 5, 0), "old_mode", "''"),
    ((10, 5, 2), "sql_if_exists", "0"),
    // Until then the server alone decides.
    ((10, 8, 4), "explicit_defaults_for_timestamp", "1"),
    ((10, 11, 0), "system_versioning_insert_history", "0"),
];

/// What sessions with a node of a Galera cluster are set to besides: a transaction begins, and a query is answered, once the
/// node has done all that the cluster has committed until then. Without it what was committed by way of another node,
/// which was lost, may not be seen yet.
pub(super) const GALERA: (&str, &str) = ("wsrep_sync_wait", "1");

/// Finds out what a server is among others.
async fn see_role(conn: &mut Conn, version: &mut Version) -> std::result::Result<(), mysql_async::Error> {
    let asked = "SHOW SESSION VARIABLES WHERE variable_name IN ('read_only', 'wsrep_on', 'wsrep_load_data_splitting')";
    let on: Vec<(String, String)> = conn.query(asked).await?;
    let is_on = |name: &str| {
        on.iter()
            .any(|(found, value)| found.eq_ignore_ascii_case(name) && value == "ON")
    };
    version.is_read_only = is_on("read_only");
    version.is_galera = is_on("wsrep_on");
    version.splits_load_data = version.is_galera && is_on("wsrep_load_data_splitting");
    Ok(())
}

/// Refuses a node that cannot know what its cluster has committed, such as one that has just come back. It says so of every
/// query, by the number of a lock that was waited for too long.
async fn in_step(conn: &mut Conn, endpoint: &Endpoint) -> Result<()> {
    match conn.query_drop("SELECT 1").await {
        Ok(()) => Ok(()),
        Err(failure) if errors::number(&failure).is_some() => {
            let message =
                format!("cannot connect to {endpoint}: it is not in step with its cluster: {failure}");
            Err(Error::new(ErrorKind::Unsent, message)
                .hint("it may be on its way; name other nodes in the URL too"))
        }
        Err(failure) => Err(errors::statement(failure)),
    }
}

/// Sets a new session up; says what server it is.
pub(super) async fn set_up(conn: &mut Conn, endpoint: &Endpoint) -> Result<Version> {
    let failed = |failure| errors::statement(failure).at("cannot set the session up");
    // First of all, as a limit would cut the answers to what is asked next.
    let common = assignments(REPORTED.iter().chain(DEFAULTS).copied());
    conn.query_drop(format!("SET NAMES utf8mb4, {common}"))
        .await
        .map_err(failed)?;
    let version: Option<String> = conn.query_first("SELECT version()").await.map_err(failed)?;
    let version = version.unwrap_or_default();
    let mut version = Version::parse(&version)
        .ok_or_else(|| Error::config(format!("{endpoint} is a server of an unknown kind: '{version}'")))?;
    if !version.is_supported() {
        return Err(Error::config(format!("{} is too old", version.shown))
            .hint("MariaDB 10.5 or later is needed, or MySQL 8"));
    }
    if version.product == Product::MariaDb {
        let there = MARIADB.iter().filter(|(since, ..)| version.number >= *since);
        let own = assignments(there.map(|(_, name, value)| (*name, *value)));
        conn.query_drop(format!("SET {own}")).await.map_err(failed)?;
    }
    if matches!(version.product, Product::MariaDb | Product::MySql) {
        see_role(conn, &mut version).await.map_err(failed)?;
    }
    if version.is_galera {
        let (name, value) = GALERA;
        conn.query_drop(format!("SET SESSION {name} = {value}"))
            .await
            .map_err(failed)?;
        in_step(conn, endpoint).await?;
    }
    conn.query_drop("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED")
        .await
        .map_err(failed)?;
    Ok(version)
}

fn assignments<'a>(pairs: impl Iterator<Item = (&'a str, &'a str)>) -> String {
    let each: Vec<_> = pairs
        .map(|(name, value)| format!("SESSION {name} = {value}"))
        .collect();
    each.join(", ")
}
