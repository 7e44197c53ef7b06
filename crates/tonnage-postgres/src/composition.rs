//! What types are made of, as the catalogue has it: the elements of arrays, the bounds of ranges, the fields of rows.

use std::collections::{BTreeMap, BTreeSet};

use tokio_postgres::GenericClient;
use tonnage_core::error::Result;

use super::{catalog::get, errors};

/// A type.
#[derive(Debug, Clone)]
pub(super) struct Made {
    /// `pg_type.typtype`.
    pub kind: String,
    /// Object id of what a domain is based on, else 0.
    pub base: u32,
    /// The modifier that a domain gives it.
    pub base_modifier: i32,
    /// Object id of an array's elements, else 0.
    pub element: u32,
    /// Object id of the bounds of a range or multirange, else 0.
    pub bound: u32,
    /// Extension and name, for the type of an extension.
    pub extension: Option<String>,
    /// The fields of a row: name, type and modifier.
    pub fields: Vec<(String, u32, i32)>,
}

/// Types by object id.
pub(super) type Types = BTreeMap<u32, Made>;

/// A multirange is known by its range, on servers that have them.
const TYPES: &str = "\
    SELECT t.oid, t.typtype::text, t.typbasetype, t.typtypmod, \
           CASE WHEN t.typcategory = 'A' AND t.typlen = -1 THEN t.typelem ELSE 0 END, \
           coalesce((SELECT r.rngsubtype FROM pg_catalog.pg_range r WHERE r.rngtypid = t.oid \
                     OR pg_catalog.to_jsonb(r) ->> 'rngmultitypid' = t.oid::text), 0), \
           (SELECT e.extname || '.' || t.typname FROM pg_catalog.pg_depend d \
                   JOIN pg_catalog.pg_extension e ON e.oid = d.refobjid \
            WHERE d.classid = 'pg_catalog.pg_type'::pg_catalog.regclass AND d.objid = t.oid AND d.deptype = 'e' \
              AND d.refclassid = 'pg_catalog.pg_extension'::pg_catalog.regclass), \
           f.names, f.types, f.modifiers \
    FROM pg_catalog.pg_type t CROSS JOIN LATERAL ( \
        SELECT coalesce(pg_catalog.array_agg(a.attname::text ORDER BY a.attnum), '{}') AS names, \
               coalesce(pg_catalog.array_agg(a.atttypid ORDER BY a.attnum), '{}') AS types, \
               coalesce(pg_catalog.array_agg(a.atttypmod ORDER BY a.attnum), '{}') AS modifiers \
        FROM pg_catalog.pg_attribute a \
        WHERE t.typtype = 'c' AND a.attrelid = t.typrelid AND a.attnum > 0 AND NOT a.attisdropped) f \
    WHERE t.oid = ANY ($1)";

/// Reads `wanted` and all that they are made of.
pub(super) async fn read(
    client: &impl GenericClient,
    wanted: impl IntoIterator<Item = u32>,
) -> Result<Types> {
    let mut types = Types::new();
    let mut missing: BTreeSet<u32> = wanted.into_iter().collect();
    while !missing.is_empty() {
        let asked: Vec<u32> = std::mem::take(&mut missing).into_iter().collect();
        for row in client.query(TYPES, &[&asked]).await.map_err(errors::statement)? {
            let names: Vec<String> = get(&row, 7)?;
            let fields = names
                .into_iter()
                .zip(get::<Vec<u32>>(&row, 8)?)
                .zip(get::<Vec<i32>>(&row, 9)?);
            let made = Made {
                kind: get(&row, 1)?,
                base: get(&row, 2)?,
                base_modifier: get(&row, 3)?,
                element: get(&row, 4)?,
                bound: get(&row, 5)?,
                extension: get(&row, 6)?,
                fields: fields
                    .map(|((name, oid), modifier)| (name, oid, modifier))
                    .collect(),
            };
            let parts = [made.base, made.element, made.bound].into_iter();
            missing.extend(
                parts
                    .chain(made.fields.iter().map(|field| field.1))
                    .filter(|oid| *oid != 0),
            );
            types.insert(get(&row, 0)?, made);
        }
        missing.retain(|oid| !types.contains_key(oid));
        // What the catalogue does not have, although another type is made of it, is not asked for again.
        missing.retain(|oid| !asked.contains(oid));
    }
    Ok(types)
}
