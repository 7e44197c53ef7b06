//! Mistakes with runs that are unfinished, and with going on with them.

use super::{Mistake, cases::UNFINISHED};
use crate::support::Database::{MariaDb, Postgres};

pub(super) const RUNS: &[Mistake] = &[
    Mistake {
        name: "the table was made again between two attempts",
        on: MariaDb,
        files: UNFINISHED,
        before: &["load orders.csv {db} -t orders --batch-rows 1 -j 1"],
        altered: "DROP TABLE orders; CREATE TABLE orders (id integer PRIMARY KEY, qty integer)",
        arguments: "load orders.csv {db} -t orders --resume",
        says: "error: table {name}.orders has been rebuilt, created again or restored from a dump since the run began\n\
               hint: --restart loads it from the beginning, as a new run\n",
        ..Mistake::PLAIN
    },
    Mistake {
        name: "--resume and --restart",
        arguments: "load orders.csv {db} -t orders --resume --restart",
        code: 2,
        says: "error: the argument '--resume' cannot be used with '--restart'\n\
               \n\
               Usage: tonnage load --table <TABLE> --resume <SOURCE... TARGET>...\n\
               \n\
               For more information, try '--help'.\n",
        ..Mistake::PLAIN
    },
    Mistake {
        name: "--resume of a pipe",
        arguments: "load - {db} -t orders --resume",
        input: "id,qty\n1,2\n",
        code: 2,
        says: "error: the input cannot be read again, so its run cannot be resumed\n\
               hint: load from a file, or leave --resume out\n",
        ..Mistake::PLAIN
    },
    Mistake {
        name: "an unfinished run of the same file",
        files: UNFINISHED,
        before: &["load orders.csv {db} -t orders --batch-rows 1 --sort none"],
        code: 2,
        says: "error: run {run} of {directory}/orders.csv into orders is unfinished, 1 row written\n\
               hint: --resume goes on where it stopped; --restart forgets it and loads from the beginning \
                 (what it has written stays in the table, unless --truncate)\n",
        ..Mistake::PLAIN
    },
    Mistake {
        name: "an unfinished run of the same file, PostgreSQL",
        on: Postgres,
        files: UNFINISHED,
        before: &["load orders.csv {db} -t orders --batch-rows 1 --sort none -j 1"],
        code: 2,
        says: "error: run {run} of {directory}/orders.csv into public.orders is unfinished, 1 row written\n\
               hint: --resume goes on where it stopped; --restart forgets it and loads from the beginning \
                 (what it has written stays in the table, unless --truncate)\n",
        ..Mistake::PLAIN
    },
    Mistake {
        name: "the file has changed when its run is resumed",
        files: UNFINISHED,
        before: &["load orders.csv {db} -t orders --batch-rows 1 --sort none"],
        changed: &[("orders.csv", "id,qty\n1,2\n22,3\n")],
        arguments: "load orders.csv {db} -t orders --resume",
        says: "error: {directory}/orders.csv has changed since the run began: 15 bytes then, 16 now\n\
               hint: --restart loads it from the beginning, as a new run\n",
        ..Mistake::PLAIN
    },
    Mistake {
        name: "other options when a run is resumed",
        files: UNFINISHED,
        before: &["load orders.csv {db} -t orders --batch-rows 1 --sort none"],
        arguments: "load orders.csv {db} -t orders --resume --null NA",
        says: "error: the run began with null=[\"\"] and is now asked to go on with null=[\"NA\"]\n\
               hint: --restart loads it from the beginning, as a new run\n",
        ..Mistake::PLAIN
    },
    Mistake {
        name: "the table was altered when its run is resumed",
        files: UNFINISHED,
        before: &["load orders.csv {db} -t orders --batch-rows 1 --sort none"],
        altered: "ALTER TABLE orders ADD COLUMN note text",
        arguments: "load orders.csv {db} -t orders --resume",
        says: "error: table orders has been altered since the run began; then: CREATE TABLE orders (id integer \
               PRIMARY KEY, qty integer); now: CREATE TABLE orders (id integer PRIMARY KEY, qty integer, note text)\n\
               hint: --restart loads it from the beginning, as a new run\n",
        ..Mistake::PLAIN
    },
    Mistake {
        name: "a run to forget that is not there",
        arguments: "runs {db} --forget 0198",
        code: 2,
        says: "error: no run has an id that begins with '0198'\n\
               hint: `tonnage runs shop.db` lists them\n",
        ..Mistake::PLAIN
    },
];
