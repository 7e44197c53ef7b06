//! Rows of other tables, where all of them lie in several databases.

use super::Shards;
use crate::support::Database;

const TABLES: &str = "
    CREATE TABLE orders (customer bigint NOT NULL, id bigint NOT NULL, PRIMARY KEY (customer, id));
    CREATE TABLE parcels (customer bigint NOT NULL, id bigint NOT NULL, box bigint NOT NULL,
        PRIMARY KEY (customer, id, box), FOREIGN KEY (customer, id) REFERENCES orders (customer, id));
    CREATE TABLE boxes (customer bigint NOT NULL, id bigint NOT NULL PRIMARY KEY);
    CREATE TABLE labels (customer bigint NOT NULL, box bigint NOT NULL, text varchar(20), PRIMARY KEY (customer, box),
        FOREIGN KEY (box) REFERENCES boxes (id))";

/// With some rows of each table.
fn shop(database: Database) -> Shards {
    let shards = match database {
        Database::Sqlite => Shards::on(database, &format!("PRAGMA journal_mode = wal; {TABLES}")),
        _ => Shards::on(database, TABLES),
    };
    let place = shards.place();
    place.write("orders.csv", "customer,id\n1,10\n1,11\n2,10\n3,12\n");
    place.write("parcels.csv", "customer,id,box\n1,10,1\n1,10,2\n2,10,3\n");
    // Unique in each database, and not over them.
    place.write("boxes.csv", "customer,id\n1,7\n2,7\n3,7\n4,7\n5,8\n");
    place.write("labels.csv", "customer,box,text\n1,7,fragile\n");
    for table in ["orders", "parcels", "boxes", "labels"] {
        let ran = shards.run(&format!("load {table}.csv @orders -t {table} --on-error reject"));
        assert!(matches!(ran.code, Some(0 | 3)), "{}", ran.stderr);
    }
    shards
}

#[test]
fn a_foreign_key_by_the_shard_key_joins_tables() {
    for database in [Database::Postgres, Database::MariaDb, Database::Sqlite] {
        let shards = shop(database);
        let got = shards.done("get @orders 1,10 2,10 3,12 -t orders --with parcels --nested --ordered -q");
        assert_eq!(
            got.stdout_exact,
            "{\"customer\":1,\"id\":10,\"parcels\":[{\"customer\":1,\"id\":10,\"box\":1},{\"customer\":1,\"id\":10,\"box\":2}]}\n\
             {\"customer\":2,\"id\":10,\"parcels\":[{\"customer\":2,\"id\":10,\"box\":3}]}\n\
             {\"customer\":3,\"id\":12,\"parcels\":[]}\n",
            "{database:?}"
        );
        let got = shards.done("get @orders 2,10,3 -t parcels --with orders --nested -q");
        assert_eq!(
            got.stdout_exact, "{\"customer\":2,\"id\":10,\"box\":3,\"orders\":{\"customer\":2,\"id\":10}}\n",
            "{database:?}"
        );
    }
}

#[test]
fn a_foreign_key_of_each_database_is_not_followed_over_all() {
    for database in [Database::Postgres, Database::MariaDb, Database::Sqlite] {
        let shards = shop(database);
        let refused = shards.refused("get @orders 1,7 -t labels --with boxes --nested");
        assert!(
            refused.contains("cannot be followed: each database keeps it among its own rows")
                && refused.contains("by which boxes is sharded")
                    | refused.contains("by which public.boxes is sharded")
                && refused.contains("hint: --on '"),
            "{refused}"
        );
        // What has the same values in two databases is not one row.
        let both = shards.each("SELECT count(*) FROM boxes WHERE id = 7");
        assert!(both.iter().filter(|count| *count == "1").count() > 1, "{both:?}");
        let on = "--on 'boxes(id) = labels(box)'";
        let refused = shards.refused(&format!("get @orders 1,7 -t labels --with boxes --nested {on}"));
        assert!(refused.contains("has more than one row of"), "{refused}");
    }
}

#[test]
fn a_foreign_key_that_a_database_lacks_is_not_followed() {
    let shards = shop(Database::Postgres);
    shards.0[2].sql("ALTER TABLE parcels DROP CONSTRAINT parcels_customer_id_fkey");
    let refused = shards.refused("get @orders 1,10 -t orders --with parcels --nested");
    assert!(refused.contains("does not have it"), "{refused}");
}
