//! Mistakes with what a run does around its rows: one transaction, another table, indexes built again.

use super::{Mistake, cases::UNFINISHED};
use crate::support::Database::MariaDb;

pub(super) const WHOLE: &[Mistake] = &[
    Mistake {
        name: "a commit a row and one for all",
        arguments: "load orders.csv {db} -t orders -1 --method single",
        code: 2,
        says: "error: --method single commits every row, --single-transaction all of them at once\n\
               hint: --method batch sends a row a statement and leaves the commit to the end\n",
        ..Mistake::PLAIN
    },
    Mistake {
        name: "half a run is asked to be whole",
        files: UNFINISHED,
        before: &["load orders.csv {db} -t orders --batch-rows 1 --sort none -j 1"],
        arguments: "load orders.csv {db} -t orders -1 --resume",
        says: "error: the run began without --single-transaction and is now asked to go on with it\n\
               hint: --restart loads it from the beginning, as a new run\n",
        ..Mistake::PLAIN
    },
    Mistake {
        name: "--recreate and --truncate",
        arguments: "load orders.csv {db} -t orders --recreate --truncate",
        code: 2,
        says: "error: --recreate and --truncate do not go together\n\
               hint: --recreate leaves no row of the old table by itself\n",
        ..Mistake::PLAIN
    },
    Mistake {
        name: "--recreate and --rebuild-indexes",
        arguments: "load orders.csv {db} -t orders --recreate --rebuild-indexes",
        code: 2,
        says: "error: --recreate and --rebuild-indexes do not go together\n\
               hint: --truncate --rebuild-indexes empties the table and builds its indexes at the end\n",
        ..Mistake::PLAIN
    },
    Mistake {
        name: "--recreate without a ledger",
        arguments: "load orders.csv {db} -t orders --recreate --ledger none",
        code: 2,
        says: "error: --recreate needs the ledger\n\
               hint: leave --ledger none out: the ledger holds what is owed to the table\n",
        ..Mistake::PLAIN
    },
    Mistake {
        name: "--recreate as one transaction",
        arguments: "load orders.csv {db} -t orders --recreate -1",
        code: 2,
        says: "error: --recreate does not go with --single-transaction\n\
               hint: leave one out: --recreate shows all rows or none by itself\n",
        ..Mistake::PLAIN
    },
    Mistake {
        name: "--rebuild-indexes as one transaction",
        arguments: "load orders.csv {db} -t orders --rebuild-indexes -1",
        code: 2,
        says: "error: --rebuild-indexes does not go with --single-transaction\n\
               hint: leave one out: indexes are dropped before the rows, in a transaction of its own\n",
        ..Mistake::PLAIN
    },
    Mistake {
        name: "an update of a table without rows",
        arguments: "load orders.csv {db} -t orders --recreate --mode update",
        code: 2,
        says: "error: --recreate starts without rows, so an update would find nothing\n\
               hint: leave --recreate out\n",
        ..Mistake::PLAIN
    },
    Mistake {
        name: "--recreate of a table that is not there",
        arguments: "load orders.csv {db} -t visits --recreate",
        says: "error: there is no table visits\n\
               hint: --create makes it, with the 2 columns of orders.csv\n",
        ..Mistake::PLAIN
    },
    Mistake {
        name: "--recreate where making a table commits, MariaDB",
        on: MariaDb,
        arguments: "load orders.csv {db} -t orders --recreate",
        code: 2,
        says: "error: --recreate cannot be done for {name}.orders: MariaDB commits whenever it makes, \
               renames or drops a table or an index, so what was done could not be kept apart from what is owed\n\
               hint: --truncate empties the table first; with --single-transaction in the transaction of the rows\n",
        ..Mistake::PLAIN
    },
    Mistake {
        name: "--rebuild-indexes where making an index commits, MariaDB",
        on: MariaDb,
        arguments: "load orders.csv {db} -t orders --rebuild-indexes",
        code: 2,
        says: "error: --rebuild-indexes cannot be done for {name}.orders: MariaDB commits whenever it makes, \
               renames or drops a table or an index, so what was done could not be kept apart from what is owed\n\
               hint: leave it out: rows sorted by the primary key (--sort full) are what helps most\n",
        ..Mistake::PLAIN
    },
    Mistake {
        name: "all or none into a table that undoes nothing, MariaDB",
        on: MariaDb,
        sql: "CREATE TABLE orders (id integer PRIMARY KEY, qty integer) ENGINE=MyISAM",
        arguments: "load orders.csv {db} -t orders -1 --ledger none --method batch",
        says: "error: table {name}.orders takes no part in transactions: --single-transaction could not undo \
               what it has written\nhint: leave --single-transaction out\n",
        ..Mistake::PLAIN
    },
    Mistake {
        name: "statements that nothing splits",
        arguments: "load orders.csv {db} -t orders --split none --method array",
        code: 2,
        says: "error: the database splits no statements, so --split none would have no effect\nhint: leave it out\n",
        ..Mistake::PLAIN
    },
    Mistake {
        name: "statements that nothing splits, MariaDB",
        on: MariaDb,
        arguments: "load orders.csv {db} -t orders --split none",
        code: 2,
        says: "error: the database splits no statements, so --split none would have no effect\nhint: leave it out\n",
        ..Mistake::PLAIN
    },
];
