//! The claim that a transaction begins with, and whether the table is what it was.

use mysql_async::{Conn, Row, prelude::Queryable};
use tonnage_core::{
    error::{Error, ErrorKind, Result},
    operation::Operation,
    slot::{Advance, gather},
    table::altered,
    target::{Claim, WriteRequest},
};

use super::{BEGIN, MysqlWriter, PreparedStrategy};
use crate::{
    catalog::{self, Described},
    definition::GONE,
    errors, execute,
    product::Version,
};

/// The plan's table as it is now, or how it is not what the plan was made for.
pub(in super::super) async fn described(
    conn: &mut Conn,
    version: &Version,
    database: &str,
    plan: &WriteRequest,
) -> Result<std::result::Result<Described, String>> {
    if let Operation::Statement { statement, .. } = &plan.operation {
        return match execute::describe(conn, version, database, statement).await {
            Ok(now) if now.table.identity.shape == plan.table.identity.shape => Ok(Ok(now)),
            Ok(_) => Ok(Err(
                "was altered (parameters of the statement have other types)".to_owned()
            )),
            Err(error) if error.kind() == ErrorKind::Schema => Ok(Err(format!("was altered ({error})"))),
            Err(error) => Err(error),
        };
    }
    let now = match catalog::describe(conn, version, database, &plan.table.name).await {
        Err(error) if error.kind() == ErrorKind::Schema => None,
        now => now?,
    };
    Ok(match now {
        Some(now) if now.table.identity == plan.table.identity => Ok(now),
        now => {
            let what = altered(&plan.table, now.as_ref().map(|now| &now.table));
            Err(what.unwrap_or_else(|| "was altered".to_owned()))
        }
    })
}

/// What the statements after BEGIN have returned.
enum Begun {
    /// The claim has not moved as many slots as it should.
    Moved,
    /// What they say of the table.
    Answers(Vec<Vec<Row>>),
    /// The claim has moved them, and the table cannot be locked.
    Failed(mysql_async::Error),
}

impl MysqlWriter {
    /// Opens the transaction in one round trip. What fails undoes it.
    pub(super) async fn claim_and_verify(&mut self, advances: &[Advance]) -> Result<Claim> {
        let held = match self.begun(advances).await {
            Ok(Begun::Moved) => {
                self.link.give_up().await;
                return Ok(Claim::Moved);
            }
            Ok(Begun::Answers(answers)) => self.are_the_same(answers),
            Ok(Begun::Failed(failure)) => match errors::number(&failure) {
                Some(number) if GONE.contains(&number) => Ok(false),
                _ => Err(errors::statement(failure)),
            },
            Err(failure) => Err(errors::statement(failure)),
        };
        match held {
            Ok(true) => {
                if self.mover.is_some() {
                    gather(&mut self.claimed, advances);
                }
                Ok(Claim::Held)
            }
            Ok(false) => Err(self.altered().await),
            Err(error) => {
                self.link.give_up().await;
                Err(error)
            }
        }
    }

    async fn begun(&mut self, advances: &[Advance]) -> std::result::Result<Begun, mysql_async::Error> {
        let mut sql = BEGIN.to_owned();
        let mover = self.mover.as_ref().filter(|_| !advances.is_empty());
        let claim = mover.map(|mover| mover.claim(advances));
        let definition = self.definition.as_ref();
        let asked = definition.map_or(0, |definition| definition.statements().count());
        let asks = definition
            .into_iter()
            .flat_map(|definition| definition.statements());
        for statement in claim.as_deref().into_iter().chain(asks) {
            sql.push_str("; ");
            sql.push_str(statement);
        }
        let mut result = self.link.conn.query_iter(sql).await?;
        // The answer to a statement is read with the end of the one before, but an error in its place is told only
        // where its own rows are asked for.
        result.collect::<Row>().await?;
        if claim.is_some() {
            let moved = result.affected_rows();
            // A deadlock has moved nothing either, and is no claim of another process.
            result.collect::<Row>().await?;
            if moved != advances.len() as u64 {
                return match result.drop_result().await {
                    Err(failure) if errors::number(&failure).is_none() => Err(failure),
                    _ => Ok(Begun::Moved),
                };
            }
        }
        let mut answers = Vec::with_capacity(asked);
        for _ in 0..asked {
            match result.collect().await {
                Ok(rows) => answers.push(rows),
                Err(failure) => return Ok(Begun::Failed(failure)),
            }
        }
        result.drop_result().await?;
        Ok(Begun::Answers(answers))
    }

    fn are_the_same(&self, answers: Vec<Vec<Row>>) -> Result<bool> {
        match (&self.path, &self.definition) {
            (PreparedStrategy::Altered(_), _) => Ok(false),
            (_, Some(definition)) => definition.is(answers),
            (_, None) => Ok(true),
        }
    }

    /// That the table is what it was, in the open transaction.
    pub(super) async fn verify(&mut self) -> Result<()> {
        let statements: Vec<String> = match &self.definition {
            Some(definition) => definition.statements().map(str::to_owned).collect(),
            None => return Ok(()),
        };
        let mut answers: Vec<Vec<Row>> = Vec::with_capacity(statements.len());
        for statement in statements {
            match self.link.conn.query(statement).await {
                Ok(rows) => answers.push(rows),
                Err(failure) => match errors::number(&failure) {
                    Some(number) if GONE.contains(&number) => return Err(self.altered().await),
                    _ => return Err(errors::statement(failure)),
                },
            }
        }
        match self.are_the_same(answers)? {
            true => Ok(()),
            false => Err(self.altered().await),
        }
    }

    /// Ends the transaction of a table that is not what it was, and says what differs.
    async fn altered(&mut self) -> Error {
        self.link.give_up().await;
        let name = &self.subject.table.name;
        let what = match (&self.path, &self.subject.operation) {
            (PreparedStrategy::Altered(what), _) => Some(what.clone()),
            (_, Operation::Statement { .. }) => None,
            _ => {
                let schema = name.schema.clone().unwrap_or_default();
                match catalog::describe(&mut self.link.conn, &self.subject.version, &schema, name).await {
                    Ok(now) => altered(&self.subject.table, now.as_ref().map(|now| &now.table)),
                    // Why it cannot be read is not what matters.
                    Err(_) => None,
                }
            }
        };
        Error::altered(name, what.as_deref().unwrap_or("was altered"))
    }
}
