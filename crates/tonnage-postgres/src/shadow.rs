//! A table made like another, which takes its place.
//!
//! What LIKE does not copy is carried by statements of its own: storage parameters, statistics targets, foreign keys,
//! the state of identity columns, comment, replica identity, privileges and owner. What cannot be carried, or rests on
//! the table by its object id, is an obstacle: the table is refused, and nothing about it is lost in silence. Indexes
//! are paired by what they are, not by their order, and one without a pair is an obstacle too.

use tokio_postgres::GenericClient;
use tonnage_core::{
    error::{Error, Result},
    preparation::not_recreatable,
    table::{Table, TableName},
};

use super::{
    catalog, errors,
    prepare::{beside, execute, oid},
    types::{quote, quote_table},
};

/// What is in the way of replacing a table, a sentence each.
const OBSTACLES: &str = "\
    WITH t AS (SELECT * FROM pg_catalog.pg_class WHERE oid = $1) \
    SELECT 'it is partitioned' FROM t WHERE relkind = 'p' \
    UNION ALL SELECT 'it is a partition' FROM t WHERE relispartition \
    UNION ALL SELECT 'it inherits from a table' FROM t WHERE NOT relispartition AND EXISTS \
        (SELECT FROM pg_catalog.pg_inherits WHERE inhrelid = $1) \
    UNION ALL SELECT 'a table inherits from it' FROM t WHERE relkind <> 'p' AND EXISTS \
        (SELECT FROM pg_catalog.pg_inherits WHERE inhparent = $1) \
    UNION ALL SELECT 'it is of a composite type' FROM t WHERE reloftype <> 0 \
    UNION ALL SELECT 'foreign key ' || conname || ' of ' || conrelid::regclass || ' refers to it' \
        FROM pg_catalog.pg_constraint WHERE contype = 'f' AND confrelid = $1 AND conparentid = 0 \
    UNION ALL SELECT 'it has the trigger ' || tgname FROM pg_catalog.pg_trigger \
        WHERE tgrelid = $1 AND NOT tgisinternal \
    UNION ALL SELECT 'it has row security' FROM t WHERE relrowsecurity OR relforcerowsecurity OR EXISTS \
        (SELECT FROM pg_catalog.pg_policy WHERE polrelid = $1) \
    UNION ALL SELECT 'it has the rule ' || rulename FROM pg_catalog.pg_rewrite WHERE ev_class = $1 \
    UNION ALL SELECT 'it is in the publication ' || p.pubname FROM t JOIN pg_catalog.pg_namespace n \
        ON n.oid = t.relnamespace JOIN pg_catalog.pg_publication_tables p \
        ON p.schemaname = n.nspname AND p.tablename = t.relname \
    UNION ALL SELECT 'it belongs to an extension' FROM t WHERE EXISTS (SELECT FROM pg_catalog.pg_depend \
        WHERE classid = 'pg_catalog.pg_class'::regclass AND objid = $1 AND deptype = 'e') \
    UNION ALL SELECT 'it has a security label' FROM t WHERE EXISTS (SELECT FROM pg_catalog.pg_seclabel \
        WHERE classoid = 'pg_catalog.pg_class'::regclass AND objoid = $1) \
    UNION ALL SELECT 'an index is its replica identity' FROM t WHERE relreplident = 'i' \
    UNION ALL SELECT 'it is clustered by ' || indexrelid::regclass FROM pg_catalog.pg_index \
        WHERE indrelid = $1 AND indisclustered \
    UNION ALL SELECT 'its index ' || indexrelid::regclass || ' is not valid' FROM pg_catalog.pg_index \
        WHERE indrelid = $1 AND NOT indisvalid \
    UNION ALL SELECT pg_catalog.pg_describe_object(r.classid, r.objid, r.objsubid) || ' rests on it' FROM ( \
        SELECT DISTINCT d.classid, d.objid, \
               CASE WHEN d.classid = 'pg_catalog.pg_class'::regclass THEN d.objsubid ELSE 0 END AS objsubid \
        FROM t JOIN pg_catalog.pg_depend d ON d.refclassid = 'pg_catalog.pg_class'::regclass AND d.refobjid = t.oid \
        WHERE d.classid NOT IN ('pg_catalog.pg_trigger'::regclass, 'pg_catalog.pg_policy'::regclass, \
                                'pg_catalog.pg_publication_rel'::regclass, 'pg_catalog.pg_type'::regclass) \
          AND NOT (d.classid = 'pg_catalog.pg_attrdef'::regclass AND EXISTS \
                   (SELECT FROM pg_catalog.pg_attrdef WHERE oid = d.objid AND adrelid = $1)) \
          AND NOT (d.classid = 'pg_catalog.pg_constraint'::regclass AND EXISTS \
                   (SELECT FROM pg_catalog.pg_constraint WHERE oid = d.objid AND $1 IN (conrelid, confrelid))) \
          AND NOT (d.classid = 'pg_catalog.pg_rewrite'::regclass AND EXISTS \
                   (SELECT FROM pg_catalog.pg_rewrite WHERE oid = d.objid AND ev_class = $1)) \
          AND NOT (d.classid = 'pg_catalog.pg_class'::regclass AND (d.objid IN ($1, t.reltoastrelid) OR EXISTS \
                   (SELECT FROM pg_catalog.pg_index WHERE indexrelid = d.objid AND indrelid = $1) OR EXISTS \
                   (SELECT FROM pg_catalog.pg_inherits WHERE inhrelid = d.objid AND inhparent = $1) OR \
                   (d.deptype IN ('a', 'i') AND EXISTS \
                    (SELECT FROM pg_catalog.pg_class WHERE oid = d.objid AND relkind = 'S')))) \
        UNION \
        SELECT d.classid, d.objid, d.objsubid FROM t JOIN pg_catalog.pg_type y ON y.oid = t.reltype \
        JOIN pg_catalog.pg_depend d ON d.refclassid = 'pg_catalog.pg_type'::regclass \
            AND d.refobjid IN (y.oid, y.typarray) AND d.objid <> y.typarray) r";

/// What LIKE leaves out, as statements. $1 is the table, $2 and $3 the shadow and its name in SQL, $4 the table's.
const CARRY: &str = "\
    WITH t AS (SELECT * FROM pg_catalog.pg_class WHERE oid = $1), \
    parameters AS ( \
        SELECT '' AS before, unnest(reloptions) AS parameter FROM t UNION ALL \
        SELECT 'toast.', unnest(k.reloptions) FROM t JOIN pg_catalog.pg_class k ON k.oid = t.reltoastrelid) \
    SELECT statement FROM ( \
    SELECT 1 AS step, pg_catalog.format('ALTER TABLE %s SET (%s%I = %L)', $3::text, before, \
           split_part(parameter, '=', 1), substr(parameter, strpos(parameter, '=') + 1)) AS statement \
        FROM parameters \
    UNION ALL SELECT 2, pg_catalog.format('ALTER TABLE %s ALTER COLUMN %I SET STATISTICS %s', $3::text, attname, \
           attstattarget) \
        FROM pg_catalog.pg_attribute WHERE attrelid = $1 AND attnum > 0 AND NOT attisdropped AND attstattarget >= 0 \
    UNION ALL SELECT 3, pg_catalog.format('ALTER TABLE %s ALTER COLUMN %I SET (%I = %L)', $3::text, attname, \
           split_part(o, '=', 1), substr(o, strpos(o, '=') + 1)) \
        FROM pg_catalog.pg_attribute, unnest(attoptions) o \
        WHERE attrelid = $1 AND attnum > 0 AND NOT attisdropped \
    UNION ALL SELECT 4, pg_catalog.format('ALTER TABLE %s ADD CONSTRAINT %I %s', $3::text, conname, \
           pg_catalog.pg_get_constraintdef(oid)) \
        FROM pg_catalog.pg_constraint WHERE conrelid = $1 AND contype = 'f' \
    UNION ALL SELECT 5, pg_catalog.format('COMMENT ON CONSTRAINT %I ON %s IS %L', conname, $3::text, \
           pg_catalog.obj_description(oid, 'pg_constraint')) \
        FROM pg_catalog.pg_constraint WHERE conrelid = $1 AND contype = 'f' \
          AND pg_catalog.obj_description(oid, 'pg_constraint') IS NOT NULL \
    UNION ALL SELECT 6, pg_catalog.format('COMMENT ON TABLE %s IS %L', $3::text, \
           pg_catalog.obj_description($1, 'pg_class')) \
        FROM t WHERE pg_catalog.obj_description($1, 'pg_class') IS NOT NULL \
    UNION ALL SELECT 7, pg_catalog.format('ALTER TABLE %s REPLICA IDENTITY %s', $3::text, \
           CASE relreplident WHEN 'f' THEN 'FULL' ELSE 'NOTHING' END) \
        FROM t WHERE relreplident IN ('f', 'n') \
    UNION ALL SELECT 8, pg_catalog.format('SELECT pg_catalog.setval(%L::regclass, last_value, is_called) FROM %s', \
           pg_catalog.pg_get_serial_sequence($3::text, attname), \
           pg_catalog.pg_get_serial_sequence($4::text, attname)) \
        FROM pg_catalog.pg_attribute WHERE attrelid = $1 AND attnum > 0 AND NOT attisdropped AND attidentity <> '' \
    UNION ALL SELECT 9, pg_catalog.format('REVOKE ALL ON %s FROM %s', $3::text, \
           CASE a.grantee WHEN 0 THEN 'PUBLIC' ELSE a.grantee::regrole::text END) \
        FROM pg_catalog.pg_class s, pg_catalog.aclexplode(s.relacl) a \
        WHERE s.oid = $2::oid AND a.grantee <> s.relowner \
    UNION ALL SELECT 10, pg_catalog.format('GRANT %s ON %s TO %s%s', a.privilege_type, $3::text, \
           CASE a.grantee WHEN 0 THEN 'PUBLIC' ELSE a.grantee::regrole::text END, \
           CASE WHEN a.is_grantable THEN ' WITH GRANT OPTION' ELSE '' END) \
        FROM t, pg_catalog.aclexplode(t.relacl) a WHERE a.grantee <> t.relowner \
    UNION ALL SELECT 11, pg_catalog.format('GRANT %s (%I) ON %s TO %s%s', a.privilege_type, c.attname, $3::text, \
           CASE a.grantee WHEN 0 THEN 'PUBLIC' ELSE a.grantee::regrole::text END, \
           CASE WHEN a.is_grantable THEN ' WITH GRANT OPTION' ELSE '' END) \
        FROM pg_catalog.pg_attribute c, pg_catalog.aclexplode(c.attacl) a \
        WHERE c.attrelid = $1 AND c.attnum > 0 AND NOT c.attisdropped \
    UNION ALL SELECT 12, pg_catalog.format('ALTER TABLE %s OWNER TO %s', $3::text, relowner::regrole) \
        FROM t WHERE relowner::regrole::text <> pg_catalog.quote_ident(current_user) \
    ) s ORDER BY step";

/// The indexes of a table by what they are, each distinguished from equal ones by its number among them.
const INDEXES: &str = "\
    SELECT c.relname::text, concat_ws(' ', signature, row_number() OVER (PARTITION BY signature ORDER BY c.oid)) \
    FROM pg_catalog.pg_index i JOIN pg_catalog.pg_class c ON c.oid = i.indexrelid \
    LEFT JOIN pg_catalog.pg_constraint k ON k.conindid = c.oid AND k.conrelid = i.indrelid \
        AND k.contype IN ('p', 'u', 'x') \
    CROSS JOIN LATERAL (SELECT concat_ws('|', c.relam, c.reltablespace, c.reloptions::text, i.indisunique, \
        i.indisprimary, i.indisexclusion, i.indimmediate, i.indnkeyatts, i.indclass::text, i.indcollation::text, \
        i.indoption::text, k.contype, k.condeferrable, k.condeferred, k.conexclop::text, \
        to_jsonb(i) ->> 'indnullsnotdistinct', pg_catalog.pg_get_expr(i.indpred, i.indrelid), \
        (SELECT string_agg(pg_catalog.pg_get_indexdef(c.oid, n, true), ',' ORDER BY n) \
         FROM generate_series(1, i.indnatts) n)) AS signature) s \
    WHERE i.indrelid = $1 ORDER BY c.oid";

/// What is in the way of replacing the table.
pub(super) async fn obstacles(client: &impl GenericClient, oid: u32) -> Result<Vec<String>> {
    let rows = client
        .query(OBSTACLES, &[&oid])
        .await
        .map_err(errors::statement)?;
    rows.iter().map(|row| catalog::get(row, 0)).collect()
}

/// Makes a table like `table` under the name `shadow`.
pub(super) async fn make(client: &impl GenericClient, table: &Table, shadow: &TableName) -> Result<()> {
    let (original, name) = (quote_table(&table.name), quote_table(shadow));
    let failed = |error: Error| error.at(format!("cannot make a table like {}", table.name));
    let storage = client
        .query_one(
            "SELECT c.relpersistence = 'u', m.amname::text, s.spcname::text FROM pg_catalog.pg_class c \
             JOIN pg_catalog.pg_am m ON m.oid = c.relam \
             LEFT JOIN pg_catalog.pg_tablespace s ON s.oid = c.reltablespace WHERE c.oid = $1",
            &[&oid(table)?],
        )
        .await
        .map_err(errors::statement)?;
    let unlogged = if catalog::get(&storage, 0)? {
        "UNLOGGED "
    } else {
        ""
    };
    let method: String = catalog::get(&storage, 1)?;
    let tablespace: Option<String> = catalog::get(&storage, 2)?;
    let tablespace = tablespace.map(|name| format!(" TABLESPACE {}", quote(&name)));
    let create = format!(
        "CREATE {unlogged}TABLE {name} (LIKE {original} INCLUDING ALL) USING {}{}",
        quote(&method),
        tablespace.unwrap_or_default()
    );
    execute(client, &create).await.map_err(failed)?;
    let made = catalog::describe(client, shadow).await?;
    let made = made
        .ok_or_else(|| Error::bug(format!("table {shadow} is not there once made")))?
        .table;
    let rows = client
        .query(CARRY, &[&oid(table)?, &oid(&made)?, &name, &original])
        .await
        .map_err(errors::statement)?;
    for row in &rows {
        execute(client, &catalog::get::<String>(row, 0)?)
            .await
            .map_err(failed)?;
    }
    pairs(client, table, &made).await.map(|_| ())
}

/// The indexes of the shadow with the names that they are to have.
async fn pairs(client: &impl GenericClient, table: &Table, shadow: &Table) -> Result<Vec<(String, String)>> {
    let (originals, made) = (oid(table)?, oid(shadow)?);
    let (originals, made) = (
        client.query(INDEXES, &[&originals]).await,
        client.query(INDEXES, &[&made]).await,
    );
    let mut made: Vec<(String, String)> = read(&made.map_err(errors::statement)?)?;
    let mut found = Vec::new();
    let mut alone = Vec::new();
    for (name, signature) in read(&originals.map_err(errors::statement)?)? {
        match made.iter().position(|(_, s)| *s == signature) {
            Some(at) => found.push((made.swap_remove(at).0, name)),
            None => alone.push(format!("its index {name} cannot be made again")),
        }
    }
    alone.extend(
        made.iter()
            .map(|_| "it has lost an index since the run began".to_owned()),
    );
    not_recreatable(&table.name, &alone)?;
    Ok(found)
}

fn read(rows: &[tokio_postgres::Row]) -> Result<Vec<(String, String)>> {
    rows.iter()
        .map(|row| Ok((catalog::get(row, 0)?, catalog::get(row, 1)?)))
        .collect()
}

/// Puts the shadow in the place of the table, which is locked.
pub(super) async fn swap(client: &impl GenericClient, table: &Table, shadow: &Table) -> Result<()> {
    let (original, name) = (quote_table(&table.name), quote_table(&shadow.name));
    let mut renames = pairs(client, table, shadow).await?;
    let sequences = client
        .query(
            "SELECT c.relname::text, n.nspname::text, a.attname::text, d.deptype = 'i', \
                    (SELECT s.relname::text FROM pg_catalog.pg_depend e JOIN pg_catalog.pg_class s ON s.oid = e.objid \
                     JOIN pg_catalog.pg_attribute b ON b.attrelid = e.refobjid AND b.attnum = e.refobjsubid \
                     WHERE e.classid = d.classid AND e.refclassid = d.refclassid AND e.refobjid = $2 \
                       AND e.deptype = 'i' AND s.relkind = 'S' AND b.attname = a.attname) \
             FROM pg_catalog.pg_depend d JOIN pg_catalog.pg_class c ON c.oid = d.objid AND c.relkind = 'S' \
             JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace \
             JOIN pg_catalog.pg_attribute a ON a.attrelid = d.refobjid AND a.attnum = d.refobjsubid \
             WHERE d.classid = 'pg_catalog.pg_class'::regclass AND d.refclassid = d.classid AND d.refobjid = $1 \
               AND d.deptype IN ('a', 'i')",
            &[&oid(table)?, &oid(shadow)?],
        )
        .await
        .map_err(errors::statement)?;
    for row in &sequences {
        let sequence: String = catalog::get(row, 0)?;
        match (
            catalog::get::<bool>(row, 3)?,
            catalog::get::<Option<String>>(row, 4)?,
        ) {
            // An identity column of the shadow has a sequence of its own, which takes the name.
            (true, Some(own)) => renames.push((own, sequence)),
            (true, None) => return Err(Error::bug(format!("{} has lost an identity", shadow.name))),
            // A serial column's sequence is shared by default and must outlive the old table.
            (false, _) => {
                let sequence = TableName {
                    schema: Some(catalog::get(row, 1)?),
                    name: sequence,
                };
                let column: String = catalog::get(row, 2)?;
                let owned = format!(
                    "ALTER SEQUENCE {} OWNED BY {name}.{}",
                    quote_table(&sequence),
                    quote(&column)
                );
                execute(client, &owned).await?;
            }
        }
    }
    execute(client, &format!("DROP TABLE {original}")).await?;
    execute(
        client,
        &format!("ALTER TABLE {name} RENAME TO {}", quote(&table.name.name)),
    )
    .await?;
    for (from, to) in renames {
        // Of an index that a constraint rests on, this renames the constraint too.
        let from = quote_table(&beside(&table.name, &from));
        execute(client, &format!("ALTER TABLE {from} RENAME TO {}", quote(&to))).await?;
    }
    Ok(())
}
