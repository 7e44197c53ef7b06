//! Tables as the system catalogue has them.

use tokio_postgres::{GenericClient, Row, types::ToSql};
use tonnage_core::{
    error::{Error, Result},
    operation::Operation,
    table::{
        Column, Equality, ForeignKey, Key, LessDurable, Loss, Numbered, Table, TableIdentity, TableName,
    },
};
use tonnage_sql::ledger;

use super::{
    carry::{Carried, Cast, carry},
    composition, errors,
    types::{MONEY_SCALE, ServerType, oid, quote_table},
};

/// A table, with what only this target needs to know of it.
#[derive(Debug, Clone)]
pub(super) struct Described {
    /// Its object id.
    pub oid: u32,
    /// `pg_class.relkind`.
    pub kind: String,
    /// As the engine sees it.
    pub table: Table,
    /// The columns' types, in the order of the table's columns.
    pub columns: Vec<DescribedColumn>,
    /// Constraints that would be checked at commit.
    pub deferred: bool,
    /// Row security applies to this role, so COPY does not work.
    pub row_security: bool,
    /// Its rows are in partitions.
    pub partitioned: bool,
    /// Events at which a BEFORE ROW trigger of it or of a partition sees rows, as bits of `tgtype`.
    pub triggered: i16,
    /// Events that a rule rewrites, with the rule's name.
    pub rules: Vec<(RuleEvent, String)>,
    /// The rule that does something else in the place of an INSERT.
    pub instead: Option<String>,
}

/// What a rule rewrites.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RuleEvent {
    /// INSERT.
    Insert,
    /// UPDATE.
    Update,
    /// DELETE.
    Delete,
}

/// Bits of `pg_trigger.tgtype`.
pub(super) mod trigger {
    pub const INSERT: i16 = 4;
    pub const DELETE: i16 = 8;
    pub const UPDATE: i16 = 16;
}

impl Described {
    /// Whether a trigger may leave out rows that the operation would not.
    pub fn may_leave_out(&self, operation: &Operation) -> bool {
        let events = match operation {
            Operation::Insert | Operation::Ignore { .. } => trigger::INSERT,
            Operation::Upsert { .. } => trigger::INSERT | trigger::UPDATE,
            // A row that moves to another partition is deleted here and inserted there.
            Operation::Update { .. } if self.partitioned => {
                trigger::UPDATE | trigger::INSERT | trigger::DELETE
            }
            Operation::Update { .. } => trigger::UPDATE,
            Operation::Delete { .. } => trigger::DELETE,
            // It says itself which rows it leaves out.
            Operation::Statement { .. } => 0,
        };
        self.triggered & events != 0
    }
}

/// A column, as only this target needs to know it.
#[derive(Debug, Clone)]
pub(super) struct DescribedColumn {
    /// Its type, or its domain's.
    pub server: ServerType,
    /// Generated always as identity: an INSERT must say that it means to override it.
    pub identity_always: bool,
    /// Its collation in SQL, quoted, where it is not its type's own.
    pub collation: Option<String>,
    /// How the server makes its values of text, where they travel so.
    pub cast: Option<Cast>,
    /// The operator that compares it, where the search path may lead to another one.
    pub equal: Option<String>,
}

/// The table next to the ledger that a crash of the server empties.
pub(super) const UNLOGGED: &str = "tonnage_unlogged";

/// The oldest server with all catalogue columns used here (generated columns, non-deterministic collations).
pub(super) const SERVER_VERSION_MIN: i32 = 120_000;

struct Candidate {
    oid: u32,
    name: TableName,
    kind: String,
    exact: bool,
}

/// Tables that may be meant by a name that is exact, or differs only in case; temporary tables of other sessions cannot
/// be. The server's own lower() folds what the database's collation says, which may be ASCII only, so letters beyond
/// ASCII (`$3`) are compared here.
const CANDIDATES: &str = "\
    SELECT c.oid, n.nspname::text, c.relname::text, c.relkind::text, \
           c.relname::text = $2 AND ($1::text IS NULL OR n.nspname::text = $1) \
    FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace \
    WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f') AND c.relpersistence <> 't' \
      AND ($3 OR pg_catalog.lower(c.relname::text COLLATE \"C\") = pg_catalog.lower($2 COLLATE \"C\")) \
      AND CASE WHEN $1::text IS NULL THEN pg_catalog.pg_table_is_visible(c.oid) \
               ELSE $3 OR pg_catalog.lower(n.nspname::text COLLATE \"C\") = pg_catalog.lower($1 COLLATE \"C\") END \
    ORDER BY 2, 3";

/// A domain is read as its base type, through any number of domains, with the modifier of the innermost one.
const COLUMNS: &str = "\
    SELECT a.attname::text, pg_catalog.format_type(a.atttypid, a.atttypmod), u.oid, \
           CASE u.oid WHEN 'pg_catalog.money'::pg_catalog.regtype THEN {MONEY_SCALE} ELSE u.modifier END, \
           a.attnotnull OR u.not_null, a.atthasdef OR t.typdefault IS NOT NULL, \
           a.attidentity::text, a.attgenerated::text, coalesce(l.collisdeterministic, true), \
           CASE WHEN a.attcollation <> t.typcollation THEN (SELECT pg_catalog.quote_ident(n.nspname) || '.' || \
                pg_catalog.quote_ident(l.collname) FROM pg_catalog.pg_namespace n WHERE n.oid = l.collnamespace) END, \
           pg_catalog.format_type(u.oid, -1), b.typtype = 'e', \
           (SELECT pg_catalog.quote_ident(n.nspname) FROM pg_catalog.pg_namespace n WHERE n.oid = b.typnamespace), \
           EXISTS (SELECT FROM pg_catalog.pg_depend d \
            WHERE d.classid = 'pg_catalog.pg_type'::pg_catalog.regclass AND d.objid = b.oid AND d.deptype = 'e' \
              AND d.refclassid = 'pg_catalog.pg_extension'::pg_catalog.regclass), \
           a.atthasdef AND EXISTS (SELECT FROM pg_catalog.pg_depend d \
                   JOIN pg_catalog.pg_class s ON s.oid = d.objid AND s.relkind = 'S' \
            WHERE d.classid = 'pg_catalog.pg_class'::pg_catalog.regclass AND d.refclassid = d.classid \
              AND d.refobjid = a.attrelid AND d.refobjsubid = a.attnum AND d.deptype = 'a') \
    FROM pg_catalog.pg_attribute a JOIN pg_catalog.pg_type t ON t.oid = a.atttypid \
    CROSS JOIN LATERAL ( \
        WITH RECURSIVE chain (oid, kind, base, base_modifier, modifier, not_null) AS ( \
            SELECT t.oid, t.typtype, t.typbasetype, t.typtypmod, a.atttypmod, t.typnotnull \
            UNION ALL \
            SELECT n.oid, n.typtype, n.typbasetype, n.typtypmod, c.base_modifier, c.not_null OR n.typnotnull \
            FROM chain c JOIN pg_catalog.pg_type n ON n.oid = c.base WHERE c.kind = 'd') \
        SELECT oid, modifier, not_null FROM chain WHERE kind <> 'd') u \
    JOIN pg_catalog.pg_type b ON b.oid = u.oid \
    LEFT JOIN pg_catalog.pg_collation l ON l.oid = a.attcollation \
    WHERE a.attrelid = $1 AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum";

/// Indexes that ON CONFLICT (columns) can use: unique, ready, of all rows, of plain columns, checked at once; a key
/// WITHOUT OVERLAPS is an exclusion. Servers before 15 do not know NULLS NOT DISTINCT.
const KEYS: &str = "\
    SELECT i.indisprimary, \
           ARRAY(SELECT a.attname::text FROM unnest(i.indkey) WITH ORDINALITY k (attnum, position) \
                 JOIN pg_catalog.pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.attnum \
                 WHERE k.position <= i.indnkeyatts ORDER BY k.position), \
           ARRAY(SELECT coalesce(l.collisdeterministic, true) \
                 FROM unnest(i.indcollation) WITH ORDINALITY k (collation_oid, position) \
                 LEFT JOIN pg_catalog.pg_collation l ON l.oid = k.collation_oid \
                 WHERE k.position <= i.indnkeyatts ORDER BY k.position), \
           coalesce((pg_catalog.to_jsonb(i) ->> 'indnullsnotdistinct')::bool, false) \
    FROM pg_catalog.pg_index i \
    WHERE i.indrelid = $1 AND i.indisunique AND i.indisvalid AND i.indimmediate AND NOT i.indisexclusion \
      AND i.indpred IS NULL AND i.indexprs IS NULL \
    ORDER BY i.indisprimary DESC, i.indexrelid";

const TRAITS: &str = "\
    SELECT (SELECT oid FROM pg_catalog.pg_database WHERE datname = pg_catalog.current_database()), \
           pg_catalog.row_security_active($1::oid), \
           EXISTS (SELECT FROM pg_catalog.pg_constraint WHERE conrelid = $1 AND condeferred), \
           ARRAY(SELECT tgname::text FROM pg_catalog.pg_trigger \
                 WHERE tgrelid = $1 AND NOT tgisinternal AND tgenabled <> 'D' AND tgtype & 7 = 7 ORDER BY 1), \
           ARRAY(SELECT ev_type::text || rulename::text FROM pg_catalog.pg_rewrite \
                 WHERE ev_class = $1 AND ev_type IN ('2', '3', '4') AND ev_enabled <> 'D' ORDER BY 1), \
           ARRAY(SELECT pg_catalog.pg_get_constraintdef(oid) FROM pg_catalog.pg_constraint \
                 WHERE conrelid = $1 ORDER BY conname, oid), \
           ARRAY(SELECT pg_catalog.pg_get_indexdef(indexrelid) FROM pg_catalog.pg_index \
                 WHERE indrelid = $1 AND indisunique ORDER BY indexrelid), \
           coalesce((SELECT pg_catalog.bit_or(tgtype) FROM pg_catalog.pg_trigger \
                     WHERE NOT tgisinternal AND tgenabled <> 'D' AND tgtype & 3 = 3 \
                       AND (tgrelid = $1 OR tgrelid IN (SELECT relid FROM pg_catalog.pg_partition_tree($1)))), \
                    0::int2), \
           (SELECT rulename::text FROM pg_catalog.pg_rewrite \
            WHERE ev_class = $1 AND ev_type = '3' AND is_instead AND ev_enabled <> 'D' ORDER BY 1 LIMIT 1), \
           ARRAY(SELECT DISTINCT r.rulename::text || CASE WHEN c.relkind = 'f' THEN ' uses the foreign table ' \
                     ELSE ' uses the UNLOGGED table ' END || c.relname::text \
                 FROM pg_catalog.pg_rewrite r JOIN pg_catalog.pg_depend d \
                   ON d.classid = 'pg_catalog.pg_rewrite'::pg_catalog.regclass AND d.objid = r.oid \
                  AND d.refclassid = 'pg_catalog.pg_class'::pg_catalog.regclass AND d.refobjid <> $1 \
                 JOIN pg_catalog.pg_class c ON c.oid = d.refobjid \
                 WHERE r.ev_class = $1 AND r.ev_type IN ('2', '3', '4') AND r.ev_enabled <> 'D' \
                   AND (c.relpersistence = 'u' OR c.relkind = 'f') ORDER BY 1), \
           ARRAY(SELECT tgname::text FROM pg_catalog.pg_trigger \
                 WHERE tgrelid = $1 AND NOT tgisinternal AND tgenabled <> 'D' AND tgtype & 2 = 0 ORDER BY 1)";

/// What is less durable than the ledger of all that has rows of a relation: itself, its partitions and children, and the
/// tables behind a view. The first of those that a crash empties, then the first of those of other servers.
const LESS_DURABLE: &str = "\
    WITH RECURSIVE tree (oid) AS (\
        SELECT $1::oid \
        UNION SELECT x.oid FROM tree t CROSS JOIN LATERAL (\
            SELECT i.inhrelid FROM pg_catalog.pg_inherits i WHERE i.inhparent = t.oid \
            UNION ALL SELECT d.refobjid FROM pg_catalog.pg_rewrite r JOIN pg_catalog.pg_depend d \
                ON d.classid = 'pg_catalog.pg_rewrite'::pg_catalog.regclass AND d.objid = r.oid \
               AND d.refclassid = 'pg_catalog.pg_class'::pg_catalog.regclass \
            WHERE r.ev_class = t.oid AND r.ev_type = '1') x (oid)) \
    SELECT DISTINCT ON (c.relkind = 'f') c.oid = $1, n.nspname::text, c.relname::text, s.srvname::text \
    FROM tree JOIN pg_catalog.pg_class c ON c.oid = tree.oid \
    JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace \
    LEFT JOIN pg_catalog.pg_foreign_table f ON f.ftrelid = c.oid \
    LEFT JOIN pg_catalog.pg_foreign_server s ON s.oid = f.ftserver \
    WHERE c.relkind = 'r' AND c.relpersistence = 'u' OR c.relkind = 'f' \
    ORDER BY c.relkind = 'f', c.oid <> $1, c.oid";

/// Whether a crash empties the table of this object id, or some of its partitions.
pub(super) async fn is_unlogged(client: &impl GenericClient, oid: u32) -> Result<bool> {
    let found = less_durable(client, oid, &TableName::bare("")).await?;
    Ok(found.iter().any(|less| less.loss == Loss::Table))
}

/// In what a relation, called `name`, is less durable than the ledger; what a crash empties first.
pub(super) async fn less_durable(
    client: &impl GenericClient,
    oid: u32,
    name: &TableName,
) -> Result<Vec<LessDurable>> {
    let found = client.query(LESS_DURABLE, &[&oid]).await;
    let read = |row: &Row| {
        let part = TableName {
            schema: Some(get(row, 1)?),
            name: get(row, 2)?,
        };
        let what = match get(row, 0)? {
            true => name.to_string(),
            false => format!("{part}, which has rows of {name},"),
        };
        Ok(match get::<Option<String>>(row, 3)? {
            Some(server) => LessDurable {
                why: format!("{what} is on the foreign server {server}"),
                loss: Loss::Apart,
                instead: "leave --durability out: the plan says what is given up".to_owned(),
            },
            None => LessDurable {
                why: format!("{what} is UNLOGGED"),
                loss: Loss::Table,
                instead: format!(
                    "ALTER TABLE {} SET LOGGED makes it durable; --durability relaxed loads it as it is",
                    quote_table(&part)
                ),
            },
        })
    };
    found.map_err(errors::statement)?.iter().map(read).collect()
}

const NAMES: &str = "\
    SELECT CASE WHEN pg_catalog.pg_table_is_visible(c.oid) THEN NULL ELSE n.nspname::text END, c.relname::text \
    FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace \
    WHERE c.relkind IN ('r', 'p') AND c.relpersistence <> 't' AND NOT c.relispartition \
      AND n.nspname NOT LIKE 'pg\\_%' AND n.nspname <> 'information_schema' \
      AND c.relname <> ALL ($1) \
    ORDER BY 1 NULLS FIRST, 2";

/// A table's foreign keys. Those to a partitioned table are there once more for each of its partitions; one that is in
/// force for a period is no equality.
const FOREIGN_KEYS: &str = "\
    SELECT m.nspname::text, f.relname::text, \
           ARRAY(SELECT a.attname::text FROM unnest(c.conkey) WITH ORDINALITY k (attnum, position) \
                 JOIN pg_catalog.pg_attribute a ON a.attrelid = c.conrelid AND a.attnum = k.attnum \
                 ORDER BY k.position), \
           ARRAY(SELECT a.attname::text FROM unnest(c.confkey) WITH ORDINALITY k (attnum, position) \
                 JOIN pg_catalog.pg_attribute a ON a.attrelid = c.confrelid AND a.attnum = k.attnum \
                 ORDER BY k.position) \
    FROM pg_catalog.pg_constraint c \
    JOIN pg_catalog.pg_class t ON t.oid = c.conrelid JOIN pg_catalog.pg_namespace n ON n.oid = t.relnamespace \
    JOIN pg_catalog.pg_class f ON f.oid = c.confrelid JOIN pg_catalog.pg_namespace m ON m.oid = f.relnamespace \
    WHERE c.contype = 'f' AND n.nspname = $1 AND t.relname = $2 \
      AND NOT coalesce((pg_catalog.to_jsonb(c) ->> 'conperiod')::bool, false) \
      AND NOT EXISTS (SELECT FROM pg_catalog.pg_constraint p WHERE p.oid = c.conparentid AND p.conrelid = c.conrelid) \
    ORDER BY c.conname, c.oid";

/// The foreign keys of the table of this exact name.
pub(super) async fn foreign_keys(client: &impl GenericClient, table: &TableName) -> Result<Vec<ForeignKey>> {
    let schema = table.schema.as_deref().unwrap_or_default();
    let rows = client
        .query(FOREIGN_KEYS, &[&schema, &table.name])
        .await
        .map_err(errors::statement)?;
    let foreign_key = |row: &Row| {
        Ok(ForeignKey {
            table: TableName {
                schema: Some(get(row, 0)?),
                name: get(row, 1)?,
            },
            columns: get(row, 2)?,
            key: get(row, 3)?,
            unlike: None,
            partial: None,
        })
    };
    rows.iter().map(foreign_key).collect()
}

/// Whether an index of all rows leads to those of given values of `columns`.
pub(super) async fn is_indexed(client: &impl GenericClient, oid: u32, columns: &[&str]) -> Result<bool> {
    const INDEXED: &str = "\
        SELECT EXISTS (SELECT FROM pg_catalog.pg_index i WHERE i.indrelid = $1 AND i.indisvalid AND i.indpred IS NULL \
            AND (SELECT count(DISTINCT a.attname) FROM unnest(i.indkey) WITH ORDINALITY k (attnum, position) \
                 JOIN pg_catalog.pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.attnum \
                 WHERE k.position <= pg_catalog.cardinality($2::text[]) AND a.attname::text = ANY ($2::text[])) \
                = pg_catalog.cardinality($2::text[]))";
    let row = client.query_one(INDEXED, &[&oid, &columns]).await;
    get(&row.map_err(errors::statement)?, 0)
}

/// Tables that are none of the user's: the ledger's.
pub(super) fn ours() -> Vec<&'static str> {
    ledger::TABLES.into_iter().chain([UNLOGGED]).collect()
}

/// Tables that a user may mean; with a schema where the search path does not lead to them.
pub(super) async fn names(client: &impl GenericClient) -> Result<Vec<String>> {
    // Nobody means to load the ledger's.
    let rows = client.query(NAMES, &[&ours()]).await.map_err(errors::statement)?;
    rows.iter()
        .map(|row| {
            let schema = get(row, 0)?;
            let name = get(row, 1)?;
            Ok(TableName { schema, name }.to_string())
        })
        .collect()
}

/// A column of a row, with the driver's error as ours.
pub(super) fn get<'a, T: tokio_postgres::types::FromSql<'a>>(row: &'a Row, index: usize) -> Result<T> {
    row.try_get(index)
        .map_err(|e| Error::bug(format!("PostgreSQL's answer has an unexpected form: {e}")).caused_by(e))
}

async fn find(client: &impl GenericClient, name: &TableName) -> Result<Option<Candidate>> {
    let beyond_ascii = !name.name.is_ascii() || !name.schema.as_deref().unwrap_or_default().is_ascii();
    let rows = client
        .query(CANDIDATES, &[&name.schema, &name.name, &beyond_ascii])
        .await
        .map_err(errors::statement)?;
    let same = |a: &str, b: &str| a.to_lowercase() == b.to_lowercase();
    let mut candidates = Vec::new();
    for row in &rows {
        let (schema, table): (&str, &str) = (get(row, 1)?, get(row, 2)?);
        if !same(table, &name.name) || name.schema.as_deref().is_some_and(|wanted| !same(schema, wanted)) {
            continue;
        }
        candidates.push(Candidate {
            oid: get(row, 0)?,
            name: TableName {
                schema: Some(get(row, 1)?),
                name: get(row, 2)?,
            },
            kind: get(row, 3)?,
            exact: get(row, 4)?,
        });
    }
    if let Some(at) = candidates.iter().position(|candidate| candidate.exact) {
        return Ok(Some(candidates.swap_remove(at)));
    }
    if candidates.len() > 1 {
        let names: Vec<_> = candidates.iter().map(|c| c.name.to_string()).collect();
        return Err(
            Error::schema(format!("'{name}' could be any of {}", names.join(", ")))
                .hint("write the name exactly as the database has it"),
        );
    }
    Ok(candidates.pop())
}

/// Reads a table that is to be written; none where there is none of this name.
pub(super) async fn describe(client: &impl GenericClient, name: &TableName) -> Result<Option<Described>> {
    let Some(found) = find(client, name).await? else {
        return Ok(None);
    };
    let what = match found.kind.as_str() {
        "v" => Some("a view"),
        "m" => Some("a materialized view"),
        "f" => Some("a foreign table"),
        _ => None,
    };
    if let Some(what) = what {
        return Err(
            Error::schema(format!("{} is {what}, not a table", found.name)).hint("name the table behind it")
        );
    }
    describe_found(client, found).await.map(Some)
}

/// Reads anything that has rows: a view, too.
pub(super) async fn describe_readable(
    client: &impl GenericClient,
    name: &TableName,
) -> Result<Option<Described>> {
    match find(client, name).await? {
        Some(found) => describe_found(client, found).await.map(Some),
        None => Ok(None),
    }
}

async fn describe_found(client: &impl GenericClient, found: Candidate) -> Result<Described> {
    let object: [&(dyn ToSql + Sync); 1] = [&found.oid];
    let columns = COLUMNS.replace("{MONEY_SCALE}", MONEY_SCALE);
    let ((columns, keys, traits), less_durable) = futures::try_join!(
        async {
            futures::try_join!(
                client.query(&columns, &object),
                client.query(KEYS, &object),
                client.query_one(TRAITS, &object),
            )
            .map_err(errors::statement)
        },
        less_durable(client, found.oid, &found.name),
    )?;
    let mut others = Vec::new();
    for row in &columns {
        let (oid, modifier) = (get(row, 2)?, get(row, 3)?);
        if (ServerType { oid, modifier }).column_type().is_none() {
            others.push(oid);
        }
    }
    let types = composition::read(client, others).await?;

    let mut columns = FoundColumns::read(&columns, &types)?;
    let keys = FoundKeys::read(&keys, &mut columns.table)?;
    let traits = Traits::read(&traits)?;
    let mut notes = traits.notes(&keys);
    notes.extend(columns.notes());
    let mut shape = columns.shape;
    shape.extend(traits.shape);
    Ok(Described {
        oid: found.oid,
        table: Table {
            name: found.name,
            identity: TableIdentity {
                object: format!("{}.{}", traits.database, found.oid),
                shape: shape.join("\n"),
            },
            columns: columns.table,
            keys: keys.keys,
            transactional: true,
            less_durable: less_durable.into_iter().next(),
            notes,
        },
        columns: columns.described,
        deferred: traits.deferred,
        row_security: traits.row_security,
        partitioned: found.kind == "p",
        triggered: traits.triggered,
        kind: found.kind,
        rules: traits.rules,
        instead: traits.instead,
    })
}

/// The columns of a table, in their order.
struct FoundColumns {
    /// As the engine sees them.
    table: Vec<Column>,
    /// What only this target needs to know of them.
    described: Vec<DescribedColumn>,
    /// A line of the table's shape each.
    shape: Vec<String>,
}

impl FoundColumns {
    /// Of the rows of `COLUMNS`.
    fn read(rows: &[Row], types: &composition::Types) -> Result<Self> {
        let mut found = Self {
            table: Vec::with_capacity(rows.len()),
            described: Vec::with_capacity(rows.len()),
            shape: Vec::with_capacity(rows.len()),
        };
        for row in rows {
            found.add(row, types)?;
        }
        Ok(found)
    }

    fn add(&mut self, row: &Row, types: &composition::Types) -> Result<()> {
        let server = ServerType {
            oid: get(row, 2)?,
            modifier: get(row, 3)?,
        };
        let name: String = get(row, 0)?;
        let mut declared: String = get(row, 1)?;
        let not_null: bool = get(row, 4)?;
        let identity: String = get(row, 6)?;
        let generated: String = get(row, 7)?;
        let is_enum: bool = get(row, 11)?;
        let schema: String = get(row, 12)?;
        let of_extension: bool = get(row, 13)?;

        let mut line = format!("{name} {declared}");
        if not_null {
            line.push_str(" not null");
        }
        match identity.as_str() {
            "a" => line.push_str(" generated always as identity"),
            "d" => line.push_str(" generated by default as identity"),
            _ => {}
        }
        if !generated.is_empty() {
            line.push_str(" generated");
        }
        self.shape.push(line);

        let (ty, cast) = match carry(server, types) {
            Carried::Binary(ty) => (Some(ty), None),
            Carried::Text { ty, direct, spelling } => {
                let name = get(row, 10)?;
                let cast = Cast {
                    name,
                    direct,
                    spelling,
                };
                (Some(ty), Some(cast))
            }
            Carried::Not(None) => (None, None),
            Carried::Not(Some(why)) => {
                declared = format!("{declared} ({why})");
                (None, None)
            }
        };
        self.described.push(DescribedColumn {
            server,
            identity_always: identity == "a",
            collation: get(row, 9)?,
            cast,
            equal: of_extension.then(|| format!("OPERATOR({schema}.=)")),
        });
        self.table.push(Column {
            name,
            ty,
            declared,
            nullable: !not_null,
            has_default: get::<bool>(row, 5)? || !identity.is_empty(),
            generated: !generated.is_empty(),
            numbered: match identity.as_str() {
                "a" => Some(Numbered::Always),
                "d" => Some(Numbered::ByDefault),
                _ => get::<bool>(row, 14)?.then_some(Numbered::ByDefault),
            },
            equality: match is_enum {
                // Labels are equal where their bytes are.
                true => Equality::Provable,
                false => server.equality(get(row, 8)?),
            },
        });
        Ok(())
    }

    /// What is to be known of how their values are written.
    fn notes(&self) -> Vec<String> {
        let columns = || self.table.iter().zip(&self.described);
        let mut notes = Vec::new();
        if columns().any(|(column, described)| described.server.oid == oid::JSONB && !column.generated) {
            notes.push(
                "jsonb columns keep the value of JSON, not its spacing, key order or repeated keys"
                    .to_owned(),
            );
        }
        let casts = || {
            self.described
                .iter()
                .filter_map(|described| described.cast.as_ref())
        };
        if casts().any(|cast| cast.spelling.has_interval()) {
            notes.push(
                "text is read as intervals with intervalstyle = postgres, set for the session".to_owned(),
            );
        }
        let texts: Vec<_> = columns()
            .filter(|(column, described)| {
                !column.generated && described.cast.as_ref().is_some_and(|cast| !cast.direct)
            })
            .map(|(column, _)| column.name.as_str())
            .collect();
        if !texts.is_empty() {
            notes.push(format!(
                "the server makes the values of {} of text: COPY of these goes through a temporary table",
                texts.join(", ")
            ));
        }
        notes
    }
}

/// The unique keys of a table.
struct FoundKeys {
    /// Those that rows can be recognised by.
    keys: Vec<Key>,
    /// Those that take nulls for equal, as lists in parentheses.
    nulls_not_distinct: Vec<String>,
}

impl FoundKeys {
    /// Of the rows of `KEYS`. A column whose index compares by a collation of its own is marked.
    fn read(rows: &[Row], table_columns: &mut [Column]) -> Result<Self> {
        let mut found = Self {
            keys: Vec::with_capacity(rows.len()),
            nulls_not_distinct: Vec::new(),
        };
        for row in rows {
            let columns: Vec<String> = get(row, 1)?;
            let deterministic: Vec<bool> = get(row, 2)?;
            // An index may compare by another collation than its column.
            for (name, deterministic) in columns.iter().zip(deterministic) {
                if !deterministic && let Some(column) = table_columns.iter_mut().find(|c| c.name == *name) {
                    column.equality = Equality::ServerOnly;
                }
            }
            // Here two nulls are the same key, everywhere else a null equals nothing: no operation can go by it.
            let nullable = |name: &String| table_columns.iter().any(|c| c.name == *name && c.nullable);
            if get::<bool>(row, 3)? && columns.iter().any(nullable) {
                found.nulls_not_distinct.push(format!("({})", columns.join(", ")));
                continue;
            }
            if !found.keys.iter().any(|key| key.columns == columns) {
                found.keys.push(Key {
                    columns,
                    primary: get(row, 0)?,
                });
            }
        }
        Ok(found)
    }
}

/// What is true of a table as a whole.
struct Traits {
    database: u32,
    row_security: bool,
    deferred: bool,
    triggered: i16,
    instead: Option<String>,
    rules: Vec<(RuleEvent, String)>,
    /// Triggers that run before each row.
    before_row: Vec<String>,
    /// Rules and triggers that write into other tables.
    writing_rules: Vec<String>,
    writing_triggers: Vec<String>,
    /// Lines of the table's shape.
    shape: Vec<String>,
}

impl Traits {
    /// Of the row of `TRAITS`.
    fn read(row: &Row) -> Result<Self> {
        let mut rules = Vec::new();
        for rule in get::<Vec<String>>(row, 4)? {
            let (event, name) = rule.split_at(1);
            let event = match event {
                "2" => RuleEvent::Update,
                "3" => RuleEvent::Insert,
                _ => RuleEvent::Delete,
            };
            rules.push((event, name.to_owned()));
        }
        let mut shape: Vec<String> = get(row, 5)?;
        shape.extend(get::<Vec<String>>(row, 6)?);
        Ok(Self {
            database: get(row, 0)?,
            row_security: get(row, 1)?,
            deferred: get(row, 2)?,
            before_row: get(row, 3)?,
            rules,
            shape,
            triggered: get(row, 7)?,
            instead: get(row, 8)?,
            writing_rules: get(row, 9)?,
            writing_triggers: get(row, 10)?,
        })
    }

    /// What is to be known before rows are written.
    fn notes(&self, keys: &FoundKeys) -> Vec<String> {
        let mut notes = Vec::new();
        if !self.before_row.is_empty() {
            notes.push(format!(
                "a BEFORE ROW trigger ({}) sees every row, may change it, and makes COPY insert row by row",
                self.before_row.join(", ")
            ));
        }
        let inserting = self.rules.iter().filter(|(event, _)| *event == RuleEvent::Insert);
        let inserting: Vec<_> = inserting.map(|(_, name)| name.as_str()).collect();
        if !inserting.is_empty() {
            notes.push(format!("COPY passes by the INSERT rule {}", inserting.join(", ")));
        }
        if !keys.nulls_not_distinct.is_empty() {
            notes.push(format!(
                "the unique key {} takes nulls for equal (NULLS NOT DISTINCT), so rows cannot be recognised by it",
                keys.nulls_not_distinct.join(", ")
            ));
        }
        if self.row_security {
            notes.push("row security applies to this role, so COPY cannot be used".to_owned());
        }
        for rule in &self.writing_rules {
            notes.push(format!(
                "the rule {rule}: what it writes there is as durable as that table is"
            ));
        }
        if !self.writing_triggers.is_empty() {
            notes.push(format!(
                "triggers run for what is written ({}): what they write into other tables is as durable as those are",
                self.writing_triggers.join(", ")
            ));
        }
        if self.deferred {
            notes.push("deferred constraints are checked with every statement, not at commit".to_owned());
        }
        notes
    }
}
