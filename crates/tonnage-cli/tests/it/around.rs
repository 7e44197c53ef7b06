//! `--recreate` and `--rebuild-indexes`: what a run does to its table around its rows, whatever ends it.

use std::{thread::sleep, time::Duration};

use crate::{
    database::Database,
    events::{Chance, Events, Mode, Size, handled},
    process::{Running, count, report},
    support::{
        BOTH,
        Database::{Postgres, Sqlite},
        Place,
    },
};

const CSV: &str = "id,customer,total\n1,anna,5\n2,ben,6\n3,cleo,7\n";

/// A table with all that can be carried to its successor.
fn full(database: crate::support::Database) -> &'static str {
    match database {
        Sqlite => {
            "CREATE TABLE \"or ders\" (id INTEGER PRIMARY KEY AUTOINCREMENT, customer TEXT NOT NULL DEFAULT 'x',
                 total INT CHECK (total < 100), UNIQUE (customer, total));
             CREATE INDEX by_total ON \"or ders\" (total DESC) WHERE total > 0;
             CREATE UNIQUE INDEX \"one customer\" ON \"or ders\" (lower(customer));
             CREATE VIEW totals AS SELECT sum(total) AS total FROM \"or ders\";
             INSERT INTO \"or ders\" VALUES (40, 'old', 40)"
        }
        Postgres => {
            "CREATE ROLE reader_{name}; CREATE ROLE writer_{name};
             CREATE TABLE places (id int PRIMARY KEY); INSERT INTO places VALUES (1), (2);
             CREATE TABLE \"or ders\" (id bigint GENERATED ALWAYS AS IDENTITY, gone int, number serial,
                 customer text COLLATE \"C\" NOT NULL DEFAULT 'x', total int CHECK (total < 100),
                 place int DEFAULT 1 CONSTRAINT at_place REFERENCES places, twice int GENERATED ALWAYS AS (total * 2) STORED,
                 CONSTRAINT the_key PRIMARY KEY (id), UNIQUE (customer, total)) WITH (fillfactor = 70);
             ALTER TABLE \"or ders\" DROP COLUMN gone;
             ALTER TABLE \"or ders\" ALTER COLUMN total SET STATISTICS 500;
             CREATE INDEX by_total ON \"or ders\" (total DESC) INCLUDE (customer) WHERE total > 0;
             CREATE INDEX by_total_too ON \"or ders\" (total DESC) INCLUDE (customer) WHERE total > 0;
             CREATE UNIQUE INDEX \"one customer\" ON \"or ders\" (lower(customer));
             COMMENT ON TABLE \"or ders\" IS 'all of it'; COMMENT ON COLUMN \"or ders\".total IS 'in cents';
             COMMENT ON INDEX by_total IS 'for the report';
             GRANT SELECT ON \"or ders\" TO reader_{name}, PUBLIC; GRANT UPDATE (total) ON \"or ders\" TO writer_{name};
             INSERT INTO \"or ders\" (customer, total) VALUES ('old', 40)"
        }
    }
}

/// All that the database says of a table.
fn definition(place: &Place) -> Vec<String> {
    match place.database {
        Sqlite => place.sql(
            "SELECT type, name, replace(sql, '''or ders''', '\"or ders\"') FROM sqlite_schema \
             WHERE tbl_name NOT LIKE 'tonnage%' AND name <> 'sqlite_sequence' ORDER BY 1, 2",
        ),
        Postgres => place.sql(
            "SELECT attname, format_type(atttypid, atttypmod), attnotnull, attidentity, attgenerated, attstattarget, \
                    attacl, col_description(attrelid, attnum), attcollation, pg_get_expr(adbin, adrelid) \
             FROM pg_attribute a LEFT JOIN pg_attrdef d ON d.adrelid = attrelid AND d.adnum = attnum \
             WHERE attrelid = '\"or ders\"'::regclass AND attnum > 0 AND NOT attisdropped ORDER BY attname; \
             SELECT conname, pg_get_constraintdef(oid) FROM pg_constraint WHERE conrelid = '\"or ders\"'::regclass \
             ORDER BY 1; \
             SELECT indexrelid::regclass, pg_get_indexdef(indexrelid), obj_description(indexrelid) FROM pg_index \
             WHERE indrelid = '\"or ders\"'::regclass ORDER BY 1::text; \
             SELECT relacl, reloptions, obj_description(oid), relowner::regrole FROM pg_class \
             WHERE oid = '\"or ders\"'::regclass; \
             SELECT relname, pg_get_serial_sequence('\"or ders\"', 'number'), \
                    pg_get_serial_sequence('\"or ders\"', 'id') \
             FROM pg_class WHERE relkind IN ('r', 'S', 'i') AND relnamespace = 'public'::regnamespace \
               AND relname NOT LIKE 'tonnage_runs%' AND relname NOT LIKE 'tonnage_slots%' ORDER BY 1",
        ),
    }
}

fn make(place: &Place) {
    let sql = full(place.database).replace("{name}", place.name());
    // A statement by itself, as the server would run them in one transaction.
    place.sql(&sql);
}

#[test]
fn the_table_is_replaced_by_one_that_is_the_same_but_for_its_rows() {
    for database in BOTH {
        let place = Place::with(*database, "", &[("orders.csv", CSV)]);
        make(&place);
        let before = definition(&place);
        assert!(before.len() >= 5, "{before:?}");
        let load = "load orders.csv {db} -t '\"or ders\"' --recreate --columns customer,total";
        let ran = place.run(load);
        assert_eq!(ran.code, Some(0), "{}", ran.stderr);
        assert_eq!(definition(&place), before, "{database:?}");
        assert_eq!(
            place.sql("SELECT customer, total FROM \"or ders\" ORDER BY total"),
            ["anna|5", "ben|6", "cleo|7"]
        );
        // The key counts on from where it was, also after the swap.
        place.sql("INSERT INTO \"or ders\" (customer, total) VALUES ('new', 8)");
        let ids = match database {
            Sqlite => ["41", "42", "43", "44"],
            Postgres => ["2", "3", "4", "5"],
        };
        assert_eq!(place.sql("SELECT id FROM \"or ders\" ORDER BY total"), ids);
        let ran = place.run(&format!("{load} --resume"));
        assert!(ran.stderr.contains("has loaded all of this already"), "{}", ran.stderr);
        let ran = place.run(load);
        assert!(ran.stderr.contains("was loaded into"), "{}", ran.stderr);
        assert_eq!(definition(&place), before, "{database:?}");
        assert_eq!(place.sql("SELECT count(*) FROM \"or ders\""), ["3"]);
        // What another release might have left behind.
        let ran = place.run("runs {db}");
        assert!(!ran.stdout.contains("unfinished"), "{}", ran.stdout);
    }
}
