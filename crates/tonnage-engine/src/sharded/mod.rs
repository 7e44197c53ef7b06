//! One table over several databases of one kind: its members.
//!
//! Each member is a separate target, and does all that touches rows; here is only what keeps them together:
//! - A row belongs to the member that its shard key says (`key`), whatever is done with it and whoever asks.
//! - The table is defined alike in all members that can be reached, or nothing is done.
//! - A slot belongs to one member, whose own ledger moves it in the transaction of its rows (`ledger`). So a member
//!   that fails leaves its own slots behind and nobody else's, and a run is whole when all members have finished it.
//! - What needs all members at once and cannot have them is refused: a transaction over them, a swap of tables.
//!
//! The order to read in: `key`, `alike`, then this, `ledger`, `scan`, `getter`.

mod alike;
mod create;
mod foreign_keys;
mod getter;
mod instruments;
mod key;
mod ledger;
mod scan;
mod writer;

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, OnceLock},
};

use async_trait::async_trait;
use futures::future::join_all;
use tonnage_core::{
    driver::Connector,
    error::{Error, ErrorKind, Result},
    extent::Extent,
    getter::{GetRequest, Getter, ReadSnapshot},
    instruments::Instruments,
    ledger::{Ledger, RunHandle},
    operation::{Durability, Method, Operation, Split, Support},
    preparation::{Preparation, PreparationEffects},
    reader::{ScanRequest, Snapshot},
    statement::{Dialect, Statement},
    sync::Lock,
    table::{ColumnSpec, ForeignKey, LessDurable, Table, TableIdentity, TableName, TableSpec},
    target::{
        Capabilities, KeyPart, Lookup, Parts, Prepare, Relations, Routed, Routes, Rows, Scan,
        SeparateDatabases, StatementMax, StatementSplitting, Statements, Target, UniqueKeys, WriteRequest,
        Writer,
    },
    types::ColumnType,
};
use xxhash_rust::xxh3::xxh3_128;

pub use self::key::HASH;
use self::{key::ShardKey, ledger::Owned, writer::MemberWriter};

/// One of the databases.
struct Member {
    /// What messages call it: its URL without a password, or `@name`.
    name: String,
    connector: Connector,
    target: OnceLock<Arc<dyn Target>>,
}

impl Member {
    /// Its target; connects where that has not worked before.
    async fn target(&self) -> Result<Arc<dyn Target>> {
        if let Some(target) = self.target.get() {
            return Ok(target.clone());
        }
        let connected = (self.connector.connect)().await;
        let connected = connected.map_err(|error| error.at(&self.name))?;
        Ok(self.target.get_or_init(|| connected).clone())
    }
}

/// Whether an error says that a member is away, rather than that something is wrong.
fn is_away(error: &Error) -> bool {
    error.is_transient() || error.kind() == ErrorKind::Refused
}

/// Several databases that hold tables together.
pub struct ShardedTarget {
    members: Vec<Member>,
    names: Vec<String>,
    /// The columns that rows are routed by.
    key: Vec<String>,
    capabilities: Capabilities,
    /// Tables of each member, by what they are called: a table by its name, a statement's parameters by its text.
    known: Mutex<BTreeMap<String, Vec<Option<Arc<Table>>>>>,
    /// By what tables are called here, the names that were asked for: by these each member finds its own.
    asked: Mutex<BTreeMap<String, TableName>>,
    /// The runs that this process has begun or taken over, by their ids.
    owned: Mutex<BTreeMap<String, Owned>>,
}

impl ShardedTarget {
    /// Connects to each of `members`, which are of one kind and of which some may be away.
    pub async fn connect(members: Vec<Connector>, key: &[String]) -> Result<Self> {
        let members: Vec<Member> = members
            .into_iter()
            .map(|connector| Member {
                name: connector.shown.clone(),
                connector,
                target: OnceLock::new(),
            })
            .collect();
        let connected = join_all(members.iter().map(Member::target)).await;
        let mut first_away = None;
        let mut targets = Vec::new();
        for connected in connected {
            match connected {
                Ok(target) => targets.push(target),
                Err(error) if is_away(&error) => {
                    tracing::warn!("{error}");
                    first_away.get_or_insert(error);
                }
                Err(error) => return Err(error),
            }
        }
        if let (true, Some(away)) = (targets.is_empty(), first_away) {
            return Err(away);
        }
        if let Some(target) = targets.iter().find(|target| target.ledger_file().is_some()) {
            let product = &target.capabilities().product;
            return Err(Error::config(format!(
                "{product} spreads rows over its nodes itself, and is no member of several databases"
            ))
            .hint("load into one of them, by its URL"));
        }
        let capabilities = capabilities(&targets, members.len())?;
        Ok(Self {
            names: members.iter().map(|member| member.name.clone()).collect(),
            members,
            key: key.to_vec(),
            capabilities,
            known: Mutex::default(),
            asked: Mutex::default(),
            owned: Mutex::default(),
        })
    }

    /// What rows are routed by, where they bring the columns of the table.
    fn router_of(&self, types: Vec<ColumnType>) -> Routed {
        let columns = self.key.clone();
        Routed::By(Arc::new(ShardKey::new(&self.names, &self.key, columns, types)))
    }

    fn routing(&self) -> String {
        ShardKey::identity_of(&self.key, self.members.len())
    }

    /// What every member answers that is asked at once with the others.
    async fn all_answers<T, F: Future<Output = Result<T>>>(
        &self,
        ask: impl Fn(usize, Arc<dyn Target>) -> F,
    ) -> Vec<Result<T>> {
        let ask = &ask;
        let asked = self.members.iter().enumerate().map(|(at, member)| async move {
            let target = member.target().await?;
            ask(at, target).await.map_err(|error| error.at(&member.name))
        });
        join_all(asked).await
    }

    /// The same, where those that are away are none, unless all are, and any other error is that of the whole.
    async fn each<T, F: Future<Output = Result<T>>>(
        &self,
        ask: impl Fn(usize, Arc<dyn Target>) -> F,
    ) -> Result<Vec<Result<T>>> {
        let mut answers = Vec::with_capacity(self.members.len());
        for answer in self.all_answers(ask).await {
            match answer {
                Err(error) if !is_away(&error) => return Err(error),
                answer => answers.push(answer),
            }
        }
        if answers.iter().all(Result::is_err)
            && let Some(Err(error)) = answers.pop()
        {
            return Err(error);
        }
        Ok(answers)
    }

    /// What is asked of every member, none of which may be away.
    async fn all<T, F: Future<Output = Result<T>>>(
        &self,
        ask: impl Fn(usize, Arc<dyn Target>) -> F,
    ) -> Result<Vec<T>> {
        self.each(ask).await?.into_iter().collect()
    }

    fn keep(&self, called: String, tables: Vec<Option<Arc<Table>>>) {
        let mut known = self.known.locked();
        known.insert(called, tables);
    }

    fn kept(&self, called: &str) -> Vec<Option<Arc<Table>>> {
        let known = self.known.locked();
        known
            .get(called)
            .cloned()
            .unwrap_or_else(|| vec![None; self.members.len()])
    }

    /// What each member calls its own of the table called so here; the same where that is not known.
    fn own_tables(&self, called: &str) -> Vec<String> {
        let tables = self.kept(called).into_iter();
        tables
            .map(|table| table.map_or_else(|| called.to_owned(), |table| table.name.to_string()))
            .collect()
    }

    /// The name that was asked for where a table is called so here.
    fn asked(&self, called: &str) -> Option<TableName> {
        let asked = self.asked.locked();
        asked.get(called).cloned()
    }

    /// The table of member `at`, which is defined as in the others.
    async fn table_of(&self, at: usize, name: &TableName) -> Result<Arc<Table>> {
        let called = name.to_string();
        if let Some(Some(table)) = self.kept(&called).into_iter().nth(at) {
            return Ok(table);
        }
        // Looks at all of them again, so that this one is compared.
        self.table(name).await?;
        let found = self.kept(&called).into_iter().nth(at).flatten();
        found.ok_or_else(|| {
            Error::new(
                ErrorKind::Refused,
                format!("{}: its table {name} cannot be looked at", self.names[at]),
            )
        })
    }

    /// The table, or the parameters, that `plan` writes in member `at`.
    async fn written_in(&self, at: usize, plan: &WriteRequest) -> Result<Arc<Table>> {
        let Operation::Statement { statement, .. } = &plan.operation else {
            return self.table_of(at, &plan.table.name).await;
        };
        if self.kept(statement.text()).get(at).is_none_or(Option::is_none) {
            self.describe(statement).await?;
        }
        let found = self.kept(statement.text()).into_iter().nth(at).flatten();
        let own = found.ok_or_else(|| {
            Error::new(
                ErrorKind::Refused,
                format!("{}: the statement cannot be prepared there", self.names[at]),
            )
        })?;
        Ok(Arc::new(Table {
            name: plan.table.name.clone(),
            ..(*own).clone()
        }))
    }

    /// A name by which any member finds its own table: without the schema that is the database of member `at`.
    fn plain(&self, at: usize, name: &TableName) -> TableName {
        let target = self.members.get(at).and_then(|member| member.target.get());
        let own = target.and_then(|target| target.capabilities().own_schema.as_deref());
        match own.is_some() && own == name.schema.as_deref() {
            true => TableName::bare(&name.name),
            false => name.clone(),
        }
    }

    /// One table for all members, called `name`; those that are away are reported.
    fn united(&self, first: &Table, name: TableName, away: &[String], typed: bool) -> Table {
        let mut notes = first.notes.clone();
        notes.extend(
            away.iter()
                .map(|error| format!("its rows are left undone, as it cannot be reached: {error}")),
        );
        for key in first.keys.iter().filter(|_| typed) {
            if let Some(column) = self.key.iter().find(|column| !key.columns.contains(column)) {
                notes.push(format!(
                    "the unique key ({}) is without '{column}', so each database keeps it for itself only",
                    key.columns.join(", ")
                ));
            }
        }
        let mut object = self.routing();
        for name in &self.names {
            object.push('\0');
            object.push_str(name);
        }
        Table {
            identity: TableIdentity {
                object: format!("{:032x} {name}", xxh3_128(object.as_bytes())),
                shape: alike::shape(first),
            },
            name,
            notes,
            ..first.clone()
        }
    }

    /// In what the first of the members' tables that is less durable than its commits is so.
    fn less_durable<'a>(&self, tables: impl Iterator<Item = Option<&'a Table>>) -> Option<LessDurable> {
        self.names.iter().zip(tables).find_map(|(name, table)| {
            let less = table?.less_durable.clone()?;
            Some(LessDurable {
                why: format!("{name}: {}", less.why),
                ..less
            })
        })
    }

    fn refuse_transaction_over_all(&self, what: &str) -> Error {
        Error::config(format!(
            "{what} would have to happen in {} databases at one moment, which nothing makes sure of",
            self.members.len()
        ))
    }
}

/// The name of a table within a member. `Config` where it says that it is in another database: each member has its own.
fn within(target: &dyn Target, name: &TableName) -> Result<TableName> {
    match (&name.schema, target.capabilities().own_schema.as_deref()) {
        (Some(schema), Some(own)) if schema != own => Err(Error::config(format!(
            "{name} is not in the database '{own}', which is the member"
        ))
        .hint(format!("name it without its database: {}", name.name))),
        (Some(_), Some(_)) => Ok(TableName::bare(&name.name)),
        _ => Ok(name.clone()),
    }
}

/// What all members can do.
fn capabilities(targets: &[Arc<dyn Target>], members: usize) -> Result<Capabilities> {
    let of: Vec<&Capabilities> = targets.iter().map(|target| target.capabilities()).collect();
    let Some(first) = of.first() else {
        return Err(Error::bug("a sharded target without members"));
    };
    let mut products: Vec<&str> = of.iter().map(|c| c.product.as_str()).collect();
    products.dedup();
    fn common<T: PartialEq>(lists: impl Iterator<Item = &'static [T]> + Clone) -> Option<&'static [T]> {
        let within = |list: &&'static [T]| {
            lists
                .clone()
                .all(|other| list.iter().all(|one| other.contains(one)))
        };
        lists.clone().find(within)
    }
    let nothing = |what: &str| Error::config(format!("the members have no {what} in common"));
    Ok(Capabilities {
        product: format!("{} in {members} databases", products.join(" and ")),
        writers_max: first.writers_max.map(|writers| writers * members),
        durability: common(of.iter().map(|c| c.durability)).ok_or_else(|| nothing("durability"))?,
        methods: common(of.iter().map(|c| c.methods)).ok_or_else(|| nothing("methods"))?,
        text_holds_nul: of.iter().all(|c| c.text_holds_nul),
        partial_dates: of.iter().all(|c| c.partial_dates),
        repeats_keys: of.iter().all(|c| c.repeats_keys),
        batch_rows_default: first.batch_rows_default,
        batch_bytes_default: first.batch_bytes_default,
        commits: first.commits,
        insert_replaces: of.iter().any(|c| c.insert_replaces),
        says_key_exists: first.says_key_exists,
        own_schema: None,
        array_rows_max: first.array_rows_max,
    })
}

/// Whether values of one type are those of another in all that their form depends on.
fn same_values(a: ColumnType, b: ColumnType) -> bool {
    let is_integer = |ty| matches!(ty, ColumnType::Int16 | ColumnType::Int32 | ColumnType::Int64);
    is_integer(a) && is_integer(b) || std::mem::discriminant(&a) == std::mem::discriminant(&b)
}

#[async_trait]
impl Target for ShardedTarget {
    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    fn support(&self, table: &Table, operation: &Operation, method: Method) -> Support {
        let called = match operation {
            Operation::Statement { statement, .. } => statement.text().to_owned(),
            _ => table.name.to_string(),
        };
        for (member, own) in self.members.iter().zip(self.kept(&called)) {
            let Some(target) = member.target.get() else {
                continue;
            };
            let asked = target.support(own.as_deref().unwrap_or(table), operation, method);
            if let Support::No { why, instead } = asked {
                return Support::No {
                    why: format!("{}: {why}", member.name),
                    instead,
                };
            }
        }
        Support::Yes
    }

    async fn table(&self, name: &TableName) -> Result<Option<Table>> {
        let asked = self.asked(&name.to_string());
        let name = asked.as_ref().unwrap_or(name);
        let answers = self
            .each(async |_, target| target.table(&within(&*target, name)?).await)
            .await?;
        let mut away = Vec::new();
        let mut first: Option<(usize, &Table)> = None;
        let mut without = None;
        for (at, answer) in answers.iter().enumerate() {
            match answer {
                Err(error) => away.push(error.to_string()),
                Ok(None) => without = without.or(Some(at)),
                Ok(Some(table)) => match first {
                    None => first = Some((at, table)),
                    Some((known, of)) => alike::check((&self.names[known], of), (&self.names[at], table))?,
                },
            }
        }
        let Some((at, table)) = first else {
            return Ok(None);
        };
        if let Some(without) = without {
            return Err(Error::schema(format!(
                "{}: there is no table {name}, as {} has one",
                self.names[without], self.names[at]
            ))
            .hint("create it there as it is in the others"));
        }
        alike::key_types(table, &self.key)?;
        let united = Table {
            less_durable: self.less_durable(answers.iter().map(|answer| answer.as_ref().ok()?.as_ref())),
            ..self.united(table, self.plain(at, &table.name), &away, true)
        };
        let tables = answers
            .into_iter()
            .map(|answer| answer.ok().flatten().map(Arc::new));
        let tables: Vec<_> = tables.collect();
        self.keep(name.to_string(), tables.clone());
        self.keep(united.name.to_string(), tables);
        let mut asked = self.asked.locked();
        asked.insert(united.name.to_string(), name.clone());
        Ok(Some(united))
    }

    async fn table_names(&self) -> Result<Vec<String>> {
        let answers = self.each(async |_, target| target.table_names().await).await?;
        Ok(answers.into_iter().find_map(Result::ok).unwrap_or_default())
    }

    fn column_type(&self, wanted: ColumnType, extent: &Extent, key: KeyPart) -> ColumnType {
        // All are of one kind.
        let connected = self.members.iter().find_map(|member| member.target.get());
        connected.map_or(wanted, |member| member.column_type(wanted, extent, key))
    }

    fn create_statement(&self, spec: &TableSpec) -> Result<String> {
        create::statement(self, spec)
    }

    async fn create(&self, spec: &TableSpec) -> Result<()> {
        create::create(self, spec).await
    }

    async fn drop_table(&self, table: &Table, rows: Rows) -> Result<bool> {
        let dropped = self
            .all(async |at, target| {
                let table = self.table_of(at, &table.name).await?;
                target.drop_table(&table, rows).await
            })
            .await?;
        Ok(dropped.into_iter().all(|dropped| dropped))
    }

    fn settings(&self, durability: Durability) -> Vec<String> {
        let mut settings = Vec::new();
        for target in self.members.iter().filter_map(|member| member.target.get()) {
            for setting in target.settings(durability) {
                if !settings.contains(&setting) {
                    settings.push(setting);
                }
            }
        }
        settings
    }

    async fn writer(&self, _: &WriteRequest, _: Option<&RunHandle>) -> Result<Box<dyn Writer>> {
        Err(Error::bug("a writer into several databases at once"))
    }

    fn ledger(&self) -> &dyn Ledger {
        self
    }

    /// Members are of one kind, so they have the same parts.
    fn parts(&self) -> Parts<'_> {
        let Some(member) = self.members.iter().find_map(|member| member.target.get()) else {
            return Parts::NONE;
        };
        let of = member.parts();
        Parts {
            statements: of.statements.map(|_| self as &dyn Statements),
            scan: of.scan.map(|_| self as &dyn Scan),
            // Each member would have a state of its own: they are read by one process, which says so.
            scan_apart: None,
            lookup: of.lookup.map(|_| self as &dyn Lookup),
            relations: of.relations.map(|_| self as &dyn Relations),
            routes: Some(self),
            separate_databases: Some(self),
            prepare: of.prepare.map(|_| self as &dyn Prepare),
            unique_keys: of.unique_keys.map(|_| self as &dyn UniqueKeys),
            statement_splitting: of.statement_splitting.map(|_| self as &dyn StatementSplitting),
            // Each member has its own in its database: those that have not are refused at connect.
            local_ledger: None,
            schemas: None,
            instruments: of.instruments.map(|_| self as &dyn Instruments),
        }
    }
}

#[async_trait]
impl Statements for ShardedTarget {
    fn dialect(&self) -> Dialect {
        let mut connected = self.members.iter().filter_map(|member| member.target.get());
        connected.find_map(|target| target.dialect()).unwrap_or_default()
    }

    async fn run_script(&self, script: &str) -> Result<()> {
        self.all(async |_, target| target.run_script(script).await)
            .await?;
        Ok(())
    }

    async fn describe(&self, statement: &Statement) -> Result<Table> {
        let answers = self
            .each(async |_, target| target.describe(statement).await)
            .await?;
        let mut away = Vec::new();
        let mut first: Option<(usize, &Table)> = None;
        for (at, answer) in answers.iter().enumerate() {
            match (answer, first) {
                (Err(error), _) => away.push(error.to_string()),
                (Ok(table), None) => first = Some((at, table)),
                (Ok(table), Some((known, of))) => {
                    alike::check((&self.names[known], of), (&self.names[at], table))?;
                }
            }
        }
        let Some((at, table)) = first else {
            return Err(Error::bug("no member has described a statement"));
        };
        let united = Table {
            less_durable: self.less_durable(answers.iter().map(|answer| answer.as_ref().ok())),
            ..self.united(table, self.plain(at, &table.name), &away, false)
        };
        let tables = answers.into_iter().map(|answer| answer.ok().map(Arc::new));
        self.keep(statement.text().to_owned(), tables.collect());
        Ok(united)
    }
}

#[async_trait]
impl Scan for ShardedTarget {
    async fn scan(&self, request: &ScanRequest) -> Result<Snapshot> {
        scan::scan(self, request).await
    }
}

#[async_trait]
impl Lookup for ShardedTarget {
    /// No state is that of several databases.
    async fn read_snapshot(&self, _: usize) -> Result<Option<Box<dyn ReadSnapshot>>> {
        Ok(None)
    }

    async fn getter(&self, request: &GetRequest) -> Result<Box<dyn Getter>> {
        getter::open(self, request).await
    }
}

#[async_trait]
impl Relations for ShardedTarget {
    async fn foreign_keys(&self, table: &TableName) -> Result<Vec<ForeignKey>> {
        foreign_keys::of(self, table).await
    }
}

#[async_trait]
impl Routes for ShardedTarget {
    async fn router(&self, table: &Table) -> Result<Routed> {
        alike::key_types(table, &self.key).map(|types| self.router_of(types))
    }
}

#[async_trait]
impl SeparateDatabases for ShardedTarget {
    async fn statement_router(&self, statement: &Statement, parameters: &Table) -> Result<Routed> {
        let refused = |why: String| {
            Error::config(format!("the statement cannot be sent to one database: {why}")).hint(format!(
                "each row's statement has to say by '{}' which rows it touches",
                self.key.join("', '")
            ))
        };
        let name = statement.table();
        let Some(table) = self.table(name).await? else {
            return Err(refused(format!("there is no table {name}")));
        };
        let wanted = alike::key_types(&table, &self.key)?;
        let (mut columns, mut types) = (Vec::new(), Vec::new());
        for (column, wanted) in self.key.iter().zip(wanted) {
            let index = statement.pinned(column, &table).map_err(refused)?;
            let parameter = parameters
                .columns
                .get(index)
                .ok_or_else(|| Error::bug("a parameter that was not described"))?;
            match parameter.ty {
                Some(ty) if same_values(ty, wanted) => types.push(ty),
                _ => {
                    return Err(refused(format!(
                        "the database takes :{} as {}, and '{column}' is {wanted}",
                        parameter.name,
                        match parameter.declared.as_str() {
                            "" => "any type",
                            declared => declared,
                        }
                    )));
                }
            }
            columns.push(parameter.name.clone());
        }
        Ok(Routed::By(Arc::new(ShardKey::new(
            &self.names,
            &self.key,
            columns,
            types,
        ))))
    }

    async fn shard_writer(
        &self,
        plan: &WriteRequest,
        run: Option<&RunHandle>,
        shard: usize,
    ) -> Result<Box<dyn Writer>> {
        let Some(member) = self.members.get(shard) else {
            return Err(Error::bug("a writer into a database that is no member"));
        };
        let handle = run.map(|run| self.handle_of(run, shard)).transpose()?;
        let target = member.target().await?;
        let plan = WriteRequest {
            table: self.written_in(shard, plan).await?,
            routing: None,
            ..plan.clone()
        };
        let writer = target.writer(&plan, handle.as_ref()).await;
        Ok(Box::new(MemberWriter {
            name: member.name.clone(),
            writer: writer.map_err(|error| error.at(&member.name))?,
        }))
    }
}

#[async_trait]
impl Prepare for ShardedTarget {
    async fn truncate(&self, name: &TableName) -> Result<()> {
        self.all(async |at, target| target.truncate(&self.table_of(at, name).await?.name).await)
            .await?;
        Ok(())
    }

    async fn add_columns(&self, table: &Table, columns: &[ColumnSpec]) -> Result<()> {
        self.all(async |at, target| {
            let own = self.table_of(at, &table.name).await?;
            target.add_columns(&own, columns).await
        })
        .await?;
        Ok(())
    }

    async fn check_preparation(&self, table: &Table, preparation: Preparation) -> Result<PreparationEffects> {
        if let Some(option) = preparation.option() {
            return Err(self
                .refuse_transaction_over_all(option)
                .hint(format!("leave {option} out, or load each database by itself")));
        }
        let mut effects = PreparationEffects::default();
        for (member, own) in self.members.iter().zip(self.kept(&table.name.to_string())) {
            if let (Some(target), Some(own)) = (member.target.get(), own) {
                let one = target.check_preparation(&own, preparation).await;
                effects = one.map_err(|error| error.at(&member.name))?;
            }
        }
        Ok(effects)
    }
}

impl UniqueKeys for ShardedTarget {
    fn other_unique_keys(&self, table: &Table, key: &[String]) -> Vec<Vec<String>> {
        let own = self.kept(&table.name.to_string());
        let mut members = self.members.iter().zip(own);
        let found = members.find_map(|(member, own)| {
            let target = member.target.get()?;
            target.other_unique_keys(own.as_deref().unwrap_or(table), key)
        });
        found.unwrap_or_default()
    }
}

impl StatementSplitting for ShardedTarget {
    fn statement_max(
        &self,
        table: &Table,
        columns: usize,
        method: Method,
        split: Split,
    ) -> Result<Option<StatementMax>> {
        let mut least: Option<StatementMax> = None;
        for (member, own) in self.members.iter().zip(self.kept(&table.name.to_string())) {
            let Some(target) = member.target.get() else {
                continue;
            };
            let most = target.statement_max(own.as_deref().unwrap_or(table), columns, method, split)?;
            least = match (least, most) {
                (Some(least), Some(most)) => Some(StatementMax {
                    rows: least.rows.min(most.rows),
                    bytes: least.bytes.min(most.bytes),
                    why: least.why,
                }),
                (least, most) => least.or(most),
            };
        }
        Ok(least)
    }
}
