//! Statements with parameters that are run once.
//!
//! The driver prepares a text that is executed, and frees it only if it keeps a cache of statements. Sessions here have
//! none, since a cache also frees what a writer holds; so what is run once is freed by hand. Without that a session that
//! lives long comes to the server's bound (`max_prepared_stmt_count`, 16,382 of all sessions), and nobody can prepare
//! anything more.

use mysql_async::{
    Conn, Params,
    prelude::{FromRow, Queryable},
};

type Ran<T> = Result<T, mysql_async::Error>;

/// The rows of a statement.
pub(crate) async fn rows<T: FromRow + Send + 'static>(
    conn: &mut Conn,
    sql: &str,
    parameters: impl Into<Params> + Send,
) -> Ran<Vec<T>> {
    let statement = conn.prep(sql).await?;
    let rows = conn.exec(&statement, parameters).await;
    // Its own error matters more than that it could not be freed, which only a lost connection says.
    let freed = conn.close(statement).await;
    let rows = rows?;
    freed.map(|()| rows)
}

/// The first row of a statement.
pub(crate) async fn first<T: FromRow + Send + 'static>(
    conn: &mut Conn,
    sql: &str,
    parameters: impl Into<Params> + Send,
) -> Ran<Option<T>> {
    Ok(rows(conn, sql, parameters).await?.into_iter().next())
}

/// Runs a statement without rows; how many it touched.
pub(crate) async fn execute(conn: &mut Conn, sql: &str, parameters: impl Into<Params> + Send) -> Ran<u64> {
    let statement = conn.prep(sql).await?;
    let ran = conn.exec_drop(&statement, parameters).await;
    let touched = conn.affected_rows();
    let freed = conn.close(statement).await;
    ran?;
    freed.map(|()| touched)
}
