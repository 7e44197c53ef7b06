//! Poolers that give each transaction another session.
//!
//! Everything here rests on sessions: prepared statements, settings, temporary tables, exported snapshots, and a getter
//! that goes on over many questions. A pooler such as PgBouncer with `pool_mode = transaction` takes the session away
//! with the end of a transaction, so a statement would be unknown, or be another client's of the same name. So it is
//! found out, and refused:
//!
//! - The catalogue's session is there as long as its target: whoever connects meanwhile and has the same process has been
//!   given that very session.
//! - A session whose process is older than the attempt to connect comes from a pool: then sessions are compared at once.
//! - Every transaction that moves the ledger looks whether its process is the one that its statements were prepared in
//!   ([`super::ledger::opened`]).

use std::{
    sync::atomic::{AtomicI32, Ordering},
    time::{Duration, Instant},
};

use tokio_postgres::{Client, SimpleQueryMessage};
use tonnage_core::error::{Error, Result};

use super::{errors, settings::Endpoint};

/// How much older than the attempt to connect a process may seem.
const AGE_MARGIN: Duration = Duration::from_secs(1);

/// Comparisons of two sessions of a pool. A pool that nobody else uses gives the same session at once.
const COMPARISONS: usize = 4;

/// The server process of the session for catalogue and ledger; 0 where there is none.
#[derive(Debug, Default)]
pub(super) struct Control(AtomicI32);

/// The server process of a session, and for how long it has been there.
struct Backend {
    process: i32,
    age: Duration,
}

/// The first row of an answer, as numbers.
async fn numbers<const N: usize>(client: &Client, sql: &str) -> Result<[i64; N]> {
    let messages = client.simple_query(sql).await.map_err(errors::statement)?;
    let found = messages.iter().find_map(|message| match message {
        SimpleQueryMessage::Row(row) => Some(row),
        _ => None,
    });
    let mut numbers = [0; N];
    for (at, number) in numbers.iter_mut().enumerate() {
        let text = found.and_then(|row| row.try_get(at).ok().flatten());
        *number = text
            .and_then(|text| text.parse().ok())
            .ok_or_else(|| Error::bug("the server does not tell which process a session has"))?;
    }
    Ok(numbers)
}

async fn backend(client: &Client) -> Result<Backend> {
    let [process, age_millis] = numbers(
        client,
        "SELECT a.pid, coalesce((extract(epoch FROM pg_catalog.clock_timestamp() - a.backend_start) * 1000)::int8, 0) \
         FROM pg_catalog.pg_stat_get_activity(pg_catalog.pg_backend_pid()) a",
    )
    .await?;
    Ok(Backend {
        process: process as i32,
        age: Duration::from_millis(u64::try_from(age_millis).unwrap_or(0)),
    })
}

/// The server process of a session.
pub(super) async fn process(client: &Client) -> Result<i32> {
    let [process] = numbers(client, "SELECT pg_catalog.pg_backend_pid()").await?;
    Ok(process as i32)
}

/// What connects, for [`Control::take`].
pub(super) trait Connect {
    /// Another session at the same endpoint.
    async fn another(&self) -> Result<Client>;
}

impl Control {
    /// Looks at a new session, in addition to that for catalogue and ledger.
    pub async fn check(&self, client: &Client, endpoint: &Endpoint) -> Result<()> {
        let known = self.0.load(Ordering::Relaxed);
        match known != 0 && process(client).await? == known {
            true => Err(refusal(endpoint)),
            false => Ok(()),
        }
    }

    /// Takes a new session for that of catalogue and ledger. Connecting began at `begun`.
    pub async fn take(
        &self,
        client: &Client,
        endpoint: &Endpoint,
        begun: Instant,
        connect: impl Connect,
    ) -> Result<()> {
        let Backend { process: own, age } = backend(client).await?;
        if age > begun.elapsed() + AGE_MARGIN {
            for _ in 0..COMPARISONS {
                let other = connect.another().await?;
                let changes = process(client).await? != own
                    || process(&other).await? == own
                    || process(client).await? != own;
                if changes {
                    return Err(refusal(endpoint));
                }
            }
        }
        self.0.store(own, Ordering::Relaxed);
        Ok(())
    }
}

fn refusal(endpoint: &Endpoint) -> Error {
    Error::config(format!(
        "{endpoint} is a pooler that gives each transaction another session (as PgBouncer with pool_mode = transaction)"
    ))
    .hint("name the server itself, or a pool with pool_mode = session")
}
