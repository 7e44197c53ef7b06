//! Mistakes with which database is meant, and who may use it.

use super::Mistake;
use crate::support::Database::{MariaDb, Postgres};

pub(super) const DATABASES: &[Mistake] = &[
    Mistake {
        name: "the database is forgotten",
        arguments: "load orders.csv -t orders",
        code: 2,
        says: "error: the last argument, 'orders.csv', is a file and not a database\n\
               hint: name the database last, as in cp: tonnage load orders.csv shop.db -t TABLE\n",
        ..Mistake::PLAIN
    },
    Mistake {
        name: "the database is forgotten after several files",
        files: &[("a.csv", "id,qty\n"), ("b.csv", "id,qty\n")],
        arguments: "load a.csv b.csv -t orders",
        code: 2,
        says: "error: the last argument, 'b.csv', is a file and not a database\n\
               hint: name the database last, as in cp: tonnage load a.csv b.csv shop.db -t TABLE\n",
        ..Mistake::PLAIN
    },
    Mistake {
        name: "the database comes first",
        arguments: "load shop.db orders.csv -t orders",
        code: 2,
        says: "error: the last argument, 'orders.csv', is a file and not a database\n\
               hint: name the database last, as in cp: tonnage load orders.csv shop.db -t TABLE\n",
        ..Mistake::PLAIN
    },
    Mistake {
        name: "wrong password in the URL",
        on: Postgres,
        arguments: "load orders.csv postgresql://tonnage:wrong@{server}/{name} -t orders",
        code: 2,
        says: "error: password authentication failed for user \"tonnage\" at {server} (password from the \
                 URL)\n\
               hint: check the password in the URL; special characters are written as %XX\n",
        ..Mistake::PLAIN
    },
    Mistake {
        name: "wrong password in PGPASSWORD",
        on: Postgres,
        arguments: "load orders.csv postgresql://tonnage@{server}/{name} -t orders",
        environment: &[("PGPASSWORD", "wrong")],
        code: 2,
        says: "error: password authentication failed for user \"tonnage\" at {server} (password from \
                 PGPASSWORD)\n\
               hint: check PGPASSWORD, and that the user is the right one\n",
        ..Mistake::PLAIN
    },
    Mistake {
        name: "wrong password in the password file",
        on: Postgres,
        arguments: "load orders.csv postgresql://tonnage@{server}/{name} -t orders",
        environment: &[("PGPASSFILE", "{directory}/passwords")],
        code: 2,
        says: "error: password authentication failed for user \"tonnage\" at {server} (password from \
                 {directory}/passwords)\n\
               hint: check that line of the password file, and that the user is the right one\n",
        ..Mistake::PLAIN
    },
    Mistake {
        name: "no password",
        on: Postgres,
        arguments: "load orders.csv postgresql://tonnage@{server}/{name} -t orders",
        code: 2,
        says: "error: password authentication failed for user \"tonnage\" at {server} (none was given)\n\
               hint: set PGPASSWORD, or add a line host:port:database:user:password to ~/.pgpass (mode \
                 0600)\n",
        ..Mistake::PLAIN
    },
    Mistake {
        name: "nothing listens there",
        arguments: "load orders.csv postgresql://app:secret@127.0.0.1:1/shop -t orders",
        says: "error: cannot connect to 127.0.0.1:1: connection refused\n\
               hint: is the server running, and does it listen there? check host and port\n",
        ..Mistake::PLAIN
    },
    Mistake {
        name: "no such database on the server",
        on: Postgres,
        arguments: "load orders.csv {db}x -t orders",
        code: 2,
        says: "error: database \"{name}x\" does not exist at {server}\n\
               hint: the database is the last part of the URL: postgresql://{server}/NAME\n",
        ..Mistake::PLAIN
    },
    Mistake {
        name: "the password is wrong, MariaDB",
        on: MariaDb,
        arguments: "load orders.csv mariadb://tonnage:wrong@{server}/{name} -t orders",
        code: 2,
        says: "error: access denied for user \"tonnage\" at {server} (password from the URL)\n\
               hint: check the password in the URL; special characters are written as %XX\n",
        ..Mistake::PLAIN
    },
    Mistake {
        name: "the database is misspelt, MariaDB",
        on: MariaDb,
        arguments: "load orders.csv {db}x -t orders",
        code: 2,
        says: "error: database \"{name}x\" does not exist at {server}\n\
               hint: the database is the last part of the URL; tonnage does not make databases\n",
        ..Mistake::PLAIN
    },
    Mistake {
        name: "an unknown kind of database",
        arguments: "load orders.csv oracle://app@db/shop -t orders",
        code: 2,
        says: "error: 'oracle:' is no kind of database that tonnage knows\n\
               hint: databases are named as sqlite:path.db or postgresql://user@localhost:5432/database or \
                 mariadb://user@localhost:3306/database or cassandra://host1,host2/keyspace or \
                 duckdb:path.duckdb\n",
        ..Mistake::PLAIN
    },
    Mistake {
        name: "a misspelt kind of database",
        arguments: "load orders.csv postgrsql://app@db/shop -t orders",
        code: 2,
        says: "error: 'postgrsql:' is no kind of database that tonnage knows\n\
               hint: did you mean 'postgresql:'?\n",
        ..Mistake::PLAIN
    },
    Mistake {
        name: "no kind of database at all",
        arguments: "load orders.csv shop -t orders",
        code: 2,
        says: "error: 'shop' names no database\n\
               hint: the database comes last, as in cp, and is named as sqlite:path.db or \
                 postgresql://user@localhost:5432/database or mariadb://user@localhost:3306/database or \
                 cassandra://host1,host2/keyspace or duckdb:path.duckdb; if 'shop' is to be a file of a database: \
                 sqlite:shop\n",
        ..Mistake::PLAIN
    },
    Mistake {
        name: "the database file is something else",
        sql: "",
        files: &[
            ("orders.csv", "id,qty\n1,2\n"),
            ("shop.db", "this is a text and no database\n"),
        ],
        code: 2,
        says: "error: {directory}/shop.db is not a SQLite database\n\
               hint: the database comes last: tonnage load SOURCE... TARGET -t TABLE\n",
        ..Mistake::PLAIN
    },
    Mistake {
        name: "the database's directory is missing",
        arguments: "load orders.csv data/shop.db -t orders",
        code: 2,
        says: "error: {directory}/data/shop.db: the directory {directory}/data does not exist\n\
               hint: make the directory first, or check the path\n",
        ..Mistake::PLAIN
    },
    Mistake {
        name: "the database file is missing",
        arguments: "load orders.csv new.db -t orders",
        says: "error: there is no table orders, nor any other in this database\n\
               hint: --create makes it, with the 2 columns of orders.csv\n",
        ..Mistake::PLAIN
    },
    Mistake {
        name: "the role may not write",
        on: Postgres,
        sql: "CREATE TABLE orders (id integer PRIMARY KEY, qty integer);
              DO $$ BEGIN CREATE ROLE tonnage_reader LOGIN PASSWORD 'reader'; EXCEPTION WHEN duplicate_object
              THEN NULL; END $$; GRANT SELECT ON orders TO tonnage_reader",
        arguments: "load orders.csv postgresql://tonnage_reader:reader@{server}/{name} -t orders -q",
        says: "error: cannot make the ledger: role tonnage_reader may make no tables in schema public, and there is none \
               in schema tonnage that it may use\n\
               hint: `tonnage init TARGET --grant tonnage_reader` prints what makes a ledger and lets that role use it, for \
               the database's owner; --ledger none loads without one\n",
        ..Mistake::PLAIN
    },
];
