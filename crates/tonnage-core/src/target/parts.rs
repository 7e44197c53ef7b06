//! What only some databases have. A target says with [`Target::parts`] which of it there is.
//!
//! Whoever needs a part asks the target for what it does (`target.scan(..)`): where the part is missing, the answer is an
//! error that says so, or what follows from its absence.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use async_trait::async_trait;

use super::{Target, WriteRequest, Writer};
use crate::{
    error::{Error, Result},
    getter::{GetRequest, Getter, ReadSnapshot},
    instruments::Instruments,
    ledger::RunHandle,
    operation::{Method, Split},
    preparation::{Preparation, PreparationEffects},
    reader::{self, CutScan, CutStates, ScanPart, ScanRequest, Snapshot},
    router::Router,
    schema::{DatabaseDefinition, TableDefinition, TableStatements},
    statement::{Dialect, Statement},
    table::{ColumnSpec, ForeignKey, Table, TableName},
};

/// The parts of a target. No `Default`: a new part makes every target decide.
pub struct Parts<'a> {
    /// Statements of the user's own.
    pub statements: Option<&'a dyn Statements>,
    /// Tables and queries read as a whole.
    pub scan: Option<&'a dyn Scan>,
    /// The same in parts that other processes read.
    pub scan_apart: Option<&'a dyn ScanApart>,
    /// Rows by key.
    pub lookup: Option<&'a dyn Lookup>,
    /// Foreign keys.
    pub relations: Option<&'a dyn Relations>,
    /// Tables that lie in several places.
    pub routes: Option<&'a dyn Routes>,
    /// Several databases that hold tables together.
    pub separate_databases: Option<&'a dyn SeparateDatabases>,
    /// What is done to a table around its rows.
    pub prepare: Option<&'a dyn Prepare>,
    /// Upserts that go by any unique key.
    pub unique_keys: Option<&'a dyn UniqueKeys>,
    /// Writes that are cut into statements.
    pub statement_splitting: Option<&'a dyn StatementSplitting>,
    /// A ledger in a local file.
    pub local_ledger: Option<&'a dyn LocalLedger>,
    /// Definitions of tables, to be made elsewhere.
    pub schemas: Option<&'a dyn Schemas>,
    /// What measuring needs.
    pub instruments: Option<&'a dyn Instruments>,
}

impl Parts<'_> {
    /// Of a target that has nothing but what every one has.
    pub const NONE: Self = Self {
        statements: None,
        scan: None,
        scan_apart: None,
        lookup: None,
        relations: None,
        routes: None,
        separate_databases: None,
        prepare: None,
        unique_keys: None,
        statement_splitting: None,
        local_ledger: None,
        schemas: None,
        instruments: None,
    };
}

/// Runs statements of the user's own.
#[async_trait]
pub trait Statements: Send + Sync {
    /// How they are written.
    fn dialect(&self) -> Dialect;

    /// Prepares a statement, runs nothing, and answers a table whose columns are its parameters in order, each of the
    /// type that the database found for it ([`ColumnType::Any`](crate::ColumnType::Any) where it has none). Its
    /// identity's shape changes with these types; its object is given by the engine.
    async fn describe(&self, statement: &Statement) -> Result<Table>;

    /// Runs `script`, one statement or several, outside of any run. What it commits stays.
    async fn run_script(&self, script: &str) -> Result<()>;
}

/// Reads tables and the results of queries as a whole.
#[async_trait]
pub trait Scan: Send + Sync {
    /// Opens connections that see one state of what `request` asks for. `Schema` where there is no such table or
    /// column, `Config` where it cannot be read in the way that was asked for.
    async fn scan(&self, request: &ScanRequest) -> Result<Snapshot>;
}

/// Cuts tables and the results of queries into parts that other processes read.
#[async_trait]
pub trait ScanApart: Send + Sync {
    /// Cuts what `request` asks for into at most `parts_max` parts. Its number of readers has no effect. Errors are those of
    /// [`Scan::scan`].
    async fn cut_scan(&self, request: &ScanRequest, states: CutStates, parts_max: usize) -> Result<CutScan>;

    /// Opens one connection that reads a part, of the same request. `Refused` where its state is no longer held.
    async fn scan_part(&self, request: &ScanRequest, part: &ScanPart) -> Result<Snapshot>;
}

/// Looks rows up by key.
#[async_trait]
pub trait Lookup: Send + Sync {
    /// Opens a connection that looks rows up by key. `Schema` where there is no such table or column, or one whose
    /// type cannot be carried exactly.
    async fn getter(&self, request: &GetRequest) -> Result<Box<dyn Getter>>;

    /// Keeps the state of this moment for at most so many `getters`; none where it cannot be kept without holding up
    /// writers, or would be lost with a connection. Then every question to a [`Lookup::getter`] sees its own state.
    async fn read_snapshot(&self, getters: usize) -> Result<Option<Box<dyn ReadSnapshot>>>;
}

/// Knows foreign keys.
#[async_trait]
pub trait Relations: Send + Sync {
    /// The foreign keys of the table of this exact name; those that lead to it are its children's.
    async fn foreign_keys(&self, table: &TableName) -> Result<Vec<ForeignKey>>;
}

/// Knows where the rows of a table belong that is spread over several places.
#[async_trait]
pub trait Routes: Send + Sync {
    /// Where the rows of a table belong that is spread over several places; none where the table takes them as one. What
    /// prevents routing is a sentence for the plan.
    async fn router(&self, table: &Table) -> Result<Routed>;
}

/// Is several databases, each of which has a part of every table: its [`Routes`] say which.
#[async_trait]
pub trait SeparateDatabases: Send + Sync {
    /// Where the rows of a statement belong, whose `parameters` were described, of a table that lies in several
    /// databases. `Config` where the statement does not say it.
    async fn statement_router(&self, statement: &Statement, parameters: &Table) -> Result<Routed>;

    /// A connection to the database that shard `shard` is. See [`Target::writer`].
    async fn shard_writer(
        &self,
        request: &WriteRequest,
        run: Option<&RunHandle>,
        shard: usize,
    ) -> Result<Box<dyn Writer>>;
}

/// Does something to a table around its rows.
#[async_trait]
pub trait Prepare: Send + Sync {
    /// What `preparation` will do to `table`, or why it cannot be done. Writes nothing.
    async fn check_preparation(&self, table: &Table, preparation: Preparation) -> Result<PreparationEffects>;

    /// Empties a table outside any run (`--ledger none`).
    async fn truncate(&self, name: &TableName) -> Result<()>;

    /// Adds columns, all of which may be null, behind those that `table` has. Where it fails some may have been added.
    async fn add_columns(&self, table: &Table, columns: &[ColumnSpec]) -> Result<()>;
}

/// Upserts and ignores by any unique key that finds a row, where no single one can be named.
pub trait UniqueKeys: Send + Sync {
    /// The unique keys of `table` besides `key` by which an upsert or an ignore would take a row that is there for the one
    /// that is meant.
    fn other_unique_keys(&self, table: &Table, key: &[String]) -> Vec<Vec<String>>;
}

/// Cuts a write into statements of many rows.
pub trait StatementSplitting: Send + Sync {
    /// What a statement carries of a write of so many `columns` to `table`, where a write may be several statements of
    /// many rows. `Config` where `split` asks for what the database has not.
    fn statement_max(
        &self,
        table: &Table,
        columns: usize,
        method: Method,
        split: Split,
    ) -> Result<Option<StatementMax>>;
}

/// Keeps the ledger in a local file, since the database has nothing that could move it together with rows.
pub trait LocalLedger: Send + Sync {
    /// The file.
    fn ledger_file(&self) -> PathBuf;

    /// Keeps it in the file at `path`; before it is first used.
    fn keep_ledger(&self, path: &Path) -> Result<()>;
}

/// Says how its tables are defined, and makes tables of such definitions: for copies of whole databases.
#[async_trait]
pub trait Schemas: Send + Sync {
    /// What kind of database it is: one of the same kind runs [`TableDefinition::own`] as it is.
    fn kind(&self) -> &str;

    /// All tables that the user can see and that are nobody's own (neither the server's nor the ledger's), and what else
    /// there is.
    async fn definitions(&self) -> Result<DatabaseDefinition>;

    /// The statements that make a table of a definition that another kind of database gave, whose names and types are those
    /// that it is to have. `Schema` where it cannot have such a table.
    fn statements(&self, table: &TableDefinition) -> Result<TableStatements>;

    /// This database for the rows of tables whose foreign keys are made with the table, and whose parents may come later:
    /// it does not check them. None where foreign keys are made behind the rows.
    async fn unchecked(&self) -> Result<Option<Arc<dyn Target>>>;

    /// Rows of `table` whose foreign keys name no other, in a sentence, after [`Schemas::unchecked`] has taken them; none
    /// where there are no such rows.
    async fn broken_foreign_keys(&self, table: &TableName) -> Result<Option<String>>;
}

/// Unique keys by their columns; none where the database uses only the key that a statement names, whatever others exist.
pub type OtherUniqueKeys = Option<Vec<Vec<String>>>;

/// The most that one statement of many rows carries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StatementMax {
    /// Rows; `usize::MAX` where nothing limits them.
    pub rows: usize,
    /// Bytes, about; at least one row goes.
    pub bytes: usize,
    /// What sets the limits, for people.
    pub why: String,
}

/// Whether the rows of a table are dealt by shard.
#[derive(Debug, Clone, Default)]
pub enum Routed {
    /// The table takes them as one.
    #[default]
    No,
    /// It lies in several places, and takes them as one, because of this.
    Not(String),
    /// They are.
    By(Arc<dyn Router>),
}

/// The refusal of [`Split::None`] by a database that runs every statement as it is.
pub fn splits_nothing() -> Error {
    Error::config("the database splits no statements, so --split none would have no effect")
        .hint("leave it out")
}

/// What is asked of a target, whether it has the part that knows it or not.
impl dyn Target + '_ {
    fn lacks(&self, what: &str) -> Error {
        Error::config(format!("{} {what}", self.capabilities().product))
    }

    /// See [`Statements::dialect`]; none where it runs no statement of the user's own.
    pub fn dialect(&self) -> Option<Dialect> {
        self.parts().statements.map(Statements::dialect)
    }

    /// See [`Statements::describe`].
    pub async fn describe(&self, statement: &Statement) -> Result<Table> {
        match self.parts().statements {
            Some(part) => part.describe(statement).await,
            None => Err(self.lacks("runs no statement of your own")),
        }
    }

    /// See [`Statements::run_script`].
    pub async fn run_script(&self, script: &str) -> Result<()> {
        match self.parts().statements {
            Some(part) => part.run_script(script).await,
            None => Err(self.lacks("runs no statement of your own")),
        }
    }

    /// See [`Prepare::add_columns`].
    pub async fn add_columns(&self, table: &Table, columns: &[ColumnSpec]) -> Result<()> {
        match self.parts().prepare {
            Some(part) => part.add_columns(table, columns).await,
            None => Err(self.lacks("does not add columns to a table")),
        }
    }

    /// See [`Scan::scan`].
    pub async fn scan(&self, request: &ScanRequest) -> Result<Snapshot> {
        match self.parts().scan {
            Some(part) => part.scan(request).await,
            None => Err(self.lacks("cannot be read from")),
        }
    }

    /// See [`ScanApart::cut_scan`]. A target without it has one part, which is everything.
    pub async fn cut_scan(
        &self,
        request: &ScanRequest,
        states: CutStates,
        parts_max: usize,
    ) -> Result<CutScan> {
        if let Some(part) = self.parts().scan_apart {
            return part.cut_scan(request, states, parts_max).await;
        }
        let mut whole = request.clone();
        whole.readers = 1;
        let Snapshot {
            columns, mut notes, ..
        } = self.scan(&whole).await?;
        if parts_max > 1 {
            notes.push("one part: this database is not read in parts by several processes".to_owned());
        }
        Ok(CutScan {
            columns,
            parts: reader::parts_of(Vec::new(), None, 1),
            holder: None,
            notes,
        })
    }

    /// See [`ScanApart::scan_part`].
    pub async fn scan_part(&self, request: &ScanRequest, part: &ScanPart) -> Result<Snapshot> {
        if let Some(target) = self.parts().scan_apart {
            return target.scan_part(request, part).await;
        }
        if part.state.is_some() || !part.queries.is_empty() {
            return Err(Error::config("this part is of another database"));
        }
        let mut whole = request.clone();
        whole.readers = 1;
        self.scan(&whole).await
    }

    /// See [`Lookup::getter`].
    pub async fn getter(&self, request: &GetRequest) -> Result<Box<dyn Getter>> {
        match self.parts().lookup {
            Some(part) => part.getter(request).await,
            None => Err(self.lacks("does not look rows up by key")),
        }
    }

    /// See [`Lookup::read_snapshot`].
    pub async fn read_snapshot(&self, getters: usize) -> Result<Option<Box<dyn ReadSnapshot>>> {
        match self.parts().lookup {
            Some(part) => part.read_snapshot(getters).await,
            None => Err(self.lacks("does not look rows up by key")),
        }
    }

    /// See [`Relations::foreign_keys`]. `Config` where it knows none, which is another thing than a table without any.
    pub async fn foreign_keys(&self, table: &TableName) -> Result<Vec<ForeignKey>> {
        match self.parts().relations {
            Some(part) => part.foreign_keys(table).await,
            None => Err(self.lacks("has no foreign keys")),
        }
    }

    /// See [`Routes::router`].
    pub async fn router(&self, table: &Table) -> Result<Routed> {
        match self.parts().routes {
            Some(part) => part.router(table).await,
            None => Ok(Routed::No),
        }
    }

    /// See [`SeparateDatabases::statement_router`].
    pub async fn statement_router(&self, statement: &Statement, parameters: &Table) -> Result<Routed> {
        match self.parts().separate_databases {
            Some(part) => part.statement_router(statement, parameters).await,
            None => Ok(Routed::No),
        }
    }

    /// See [`SeparateDatabases::shard_writer`].
    pub async fn shard_writer(
        &self,
        request: &WriteRequest,
        run: Option<&RunHandle>,
        shard: usize,
    ) -> Result<Box<dyn Writer>> {
        match self.parts().separate_databases {
            Some(part) => part.shard_writer(request, run, shard).await,
            None => Err(Error::bug(
                "a writer into one of several databases, where there is one",
            )),
        }
    }

    /// See [`Prepare::check_preparation`].
    pub async fn check_preparation(
        &self,
        table: &Table,
        preparation: Preparation,
    ) -> Result<PreparationEffects> {
        match (self.parts().prepare, preparation) {
            (Some(part), _) => part.check_preparation(table, preparation).await,
            (None, Preparation::Keep) => Ok(PreparationEffects::default()),
            (None, _) => Err(self.lacks("changes nothing about a table but its rows")),
        }
    }

    /// See [`Prepare::truncate`].
    pub async fn truncate(&self, name: &TableName) -> Result<()> {
        match self.parts().prepare {
            Some(part) => part.truncate(name).await,
            None => Err(self.lacks("changes nothing about a table but its rows")),
        }
    }

    /// See [`UniqueKeys::other_unique_keys`].
    pub fn other_unique_keys(&self, table: &Table, key: &[String]) -> OtherUniqueKeys {
        let part = self.parts().unique_keys;
        part.map(|part| part.other_unique_keys(table, key))
    }

    /// See [`StatementSplitting::statement_max`].
    pub fn statement_max(
        &self,
        table: &Table,
        columns: usize,
        method: Method,
        split: Split,
    ) -> Result<Option<StatementMax>> {
        match (self.parts().statement_splitting, split) {
            (Some(part), _) => part.statement_max(table, columns, method, split),
            (None, Split::Auto) => Ok(None),
            (None, Split::None) => Err(splits_nothing()),
        }
    }

    /// The local file that holds the ledger; none where the ledger is in the database.
    pub fn ledger_file(&self) -> Option<PathBuf> {
        self.parts().local_ledger.map(LocalLedger::ledger_file)
    }

    /// Keeps the ledger in the local file at `path`; to be called before its first use. `Config` where the ledger is in the
    /// database.
    pub fn keep_ledger(&self, path: &Path) -> Result<()> {
        match self.parts().local_ledger {
            Some(part) => part.keep_ledger(path),
            None => Err(self
                .lacks("keeps its ledger beside its tables, in the transactions of the rows")
                .hint("leave --ledger out, or write --ledger none for a load without one")),
        }
    }

    /// See [`Schemas`]. `Config` where it has none.
    pub fn schemas(&self) -> Result<&dyn Schemas> {
        let lacks = || {
            self.lacks("does not say how its tables are defined, so whole databases are not copied to or from it")
                .hint("tonnage load --create copies a table: tonnage load SOURCE_DB TARGET_DB -t TABLE --source-table TABLE")
        };
        self.parts().schemas.ok_or_else(lacks)
    }

    /// What measuring needs; none where it cannot be measured.
    pub fn instruments(&self) -> Option<&dyn Instruments> {
        self.parts().instruments
    }
}
