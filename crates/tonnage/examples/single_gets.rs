//! The reference that `tonnage get` is measured against: rows looked up one by one, by the same drivers.
//!
//!     single_gets awaited|pipelined postgresql://.. TABLE KEYS
//!     single_gets awaited mariadb://.. TABLE KEYS
//!     single_gets prepared|transaction FILE.db TABLE KEYS
//!
//! `transaction` is `prepared` within one transaction, which locks the file once.
//! `KEYS` is a file of integers below a header. Every value of every row is taken from the driver; nothing is written. Prints
//! the seconds that the look-ups took, without connecting.

use std::{error::Error, fs, process::ExitCode, time::Instant};

use futures::{StreamExt, TryStreamExt, stream};
use mysql_async::{Conn, Opts, OptsBuilder, Value, prelude::Queryable};
use tokio_postgres::{Client, NoTls, Row, Statement};

/// Look-ups under way at once where they do not wait for each other.
const PIPELINED: usize = 256;

type Outcome<T> = Result<T, Box<dyn Error>>;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match run(&arguments) {
        Ok((seconds, rows)) => {
            eprintln!("{rows} rows");
            println!("{seconds:.3}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &[String]) -> Outcome<(f64, usize)> {
    let [how, place, table, keys] = arguments else {
        return Err("single_gets awaited|pipelined|prepared|transaction DATABASE TABLE KEYS".into());
    };
    let text = fs::read_to_string(keys)?;
    let keys: Vec<i32> = text.lines().skip(1).map(str::parse).collect::<Result<_, _>>()?;
    match how.as_str() {
        "prepared" => prepared(place, table, &keys, ""),
        "transaction" => prepared(place, table, &keys, "BEGIN"),
        "awaited" | "pipelined" => {
            let at_once = if how == "awaited" { 1 } else { PIPELINED };
            let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
            match place.strip_prefix("mariadb://") {
                Some(_) if how == "pipelined" => {
                    Err("MariaDB's driver sends one statement after the other".into())
                }
                Some(rest) => runtime.block_on(in_mariadb(rest, table, &keys)),
                None => runtime.block_on(by_messages(place, table, &keys, at_once)),
            }
        }
        other => Err(format!("'{other}' is no way to look rows up").into()),
    }
}

fn prepared(file: &str, table: &str, keys: &[i32], first: &str) -> Outcome<(f64, usize)> {
    let connection = rusqlite::Connection::open(file)?;
    connection.execute_batch(first)?;
    let mut statement = connection.prepare(&format!("SELECT * FROM \"{table}\" WHERE id = ?1"))?;
    let columns = statement.column_count();
    let started = Instant::now();
    let (mut found, mut bytes) = (0, 0);
    for key in keys {
        let mut rows = statement.query([key])?;
        while let Some(row) = rows.next()? {
            for at in 0..columns {
                bytes += match row.get_ref(at)? {
                    rusqlite::types::ValueRef::Text(text) => text.to_vec().len(),
                    _ => 8,
                };
            }
            found += 1;
        }
    }
    eprintln!("{bytes} bytes");
    Ok((started.elapsed().as_secs_f64(), found))
}

/// `place` is a URL without its scheme; options behind it are not looked at, so that there is no TLS.
async fn in_mariadb(place: &str, table: &str, keys: &[i32]) -> Outcome<(f64, usize)> {
    let address = place.split('?').next().unwrap_or_default();
    let options = OptsBuilder::from_opts(Opts::from_url(&format!("mysql://{address}"))?);
    let mut connection = Conn::new(options.prefer_socket(false)).await?;
    let statement = connection
        .prep(format!("SELECT * FROM `{table}` WHERE id = ?"))
        .await?;
    let started = Instant::now();
    let (mut found, mut bytes) = (0, 0);
    for key in keys {
        let rows: Vec<mysql_async::Row> = connection.exec(&statement, (key,)).await?;
        for row in rows {
            for value in row.unwrap() {
                bytes += match value {
                    Value::Bytes(text) => text.len(),
                    _ => 8,
                };
            }
            found += 1;
        }
    }
    let seconds = started.elapsed().as_secs_f64();
    eprintln!("{bytes} bytes");
    connection.disconnect().await?;
    Ok((seconds, found))
}

async fn by_messages(url: &str, table: &str, keys: &[i32], at_once: usize) -> Outcome<(f64, usize)> {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
    tokio::spawn(connection);
    let statement = client
        .prepare(&format!("SELECT * FROM \"{table}\" WHERE id = $1"))
        .await?;
    let started = Instant::now();
    let found = stream::iter(keys)
        .map(|key| look_up(&client, &statement, *key))
        .buffer_unordered(at_once)
        .try_fold(
            (0, 0),
            |sum, one| async move { Ok((sum.0 + one.0, sum.1 + one.1)) },
        )
        .await?;
    eprintln!("{} bytes", found.1);
    Ok((started.elapsed().as_secs_f64(), found.0))
}

async fn look_up(
    client: &Client,
    statement: &Statement,
    key: i32,
) -> Result<(usize, usize), tokio_postgres::Error> {
    let rows = client.query(statement, &[&key]).await?;
    let bytes = |row: &Row| -> Result<usize, tokio_postgres::Error> {
        let mut bytes = 0;
        for (at, column) in row.columns().iter().enumerate() {
            bytes += match *column.type_() {
                tokio_postgres::types::Type::INT4 => row.try_get::<_, i32>(at)? as usize,
                _ => row.try_get::<_, String>(at)?.len(),
            };
        }
        Ok(bytes)
    };
    let mut sum = (rows.len(), 0);
    for row in &rows {
        sum.1 += bytes(row)?;
    }
    Ok(sum)
}
