//! The mistakes of those who unload, or copy from a database.

use super::Mistake;
use crate::support::Database::Postgres;

pub(super) const MISTAKES: &[Mistake] = &[
    Mistake {
        name: "an unload of a table that is misspelt",
        arguments: "unload {db} -t order -o o.csv",
        says: "error: there is no table order\n\
               hint: did you mean orders?\n",
        ..Mistake::PLAIN
    },
    Mistake {
        name: "an unload of a column that is misspelt",
        arguments: "unload {db} -t orders -o o.csv --columns id,qyt",
        says: "error: orders has no column 'qyt'\n\
               hint: did you mean qty?\n",
        ..Mistake::PLAIN
    },
    Mistake {
        name: "an unload of a query that is no SQL",
        on: Postgres,
        arguments: "unload {db} --query 'SELCT 1' -o o.csv",
        says: "error: the query: syntax error at or near \"SELCT\"\n",
        ..Mistake::PLAIN
    },
    Mistake {
        name: "an unload whose ending says no format",
        arguments: "unload {db} -t orders -o orders.txt",
        code: 2,
        says: "error: the ending of 'orders.txt' says no format\n\
               hint: end it in .csv, .csv.gz, .csv.zst, .tsv, .jsonl, .parquet or .arrow, or give --format\n",
        ..Mistake::PLAIN
    },
    Mistake {
        name: "an unload over a file that is there",
        arguments: "unload {db} -t orders -o orders.csv",
        code: 2,
        says: "error: 'orders.csv' exists\n\
               hint: replace it with --overwrite, or name another file\n",
        ..Mistake::PLAIN
    },
    Mistake {
        name: "an unload into a directory of other things",
        files: &[("d/mine.txt", "")],
        arguments: "unload {db} -t orders -o d --overwrite",
        code: 2,
        says: "error: 'd' holds 'mine.txt', which is not of an unload: loaded again, the directory would be more than \
               this table\n\
               hint: name an empty directory, or a new one\n",
        ..Mistake::PLAIN
    },
    Mistake {
        name: "an unload into a directory that is not there",
        arguments: "unload {db} -t orders -o d/o.csv",
        says: "error: cannot create d/o.csv: No such file or directory (os error 2)\n\
               hint: its directory does not exist; create it first\n",
        ..Mistake::PLAIN
    },
    Mistake {
        name: "rows and a report that both go to standard output",
        arguments: "unload {db} -t orders -o - --report -",
        code: 2,
        says: "error: rows and the report cannot both go to standard output\n\
               hint: send one of them to a file\n",
        ..Mistake::PLAIN
    },
    Mistake {
        name: "Parquet with gzip",
        arguments: "unload {db} -t orders -o o.parquet --compression gzip",
        code: 2,
        says: "error: Parquet is not written with gzip\n\
               hint: --compression takes none, snappy or zstd for Parquet\n",
        ..Mistake::PLAIN
    },
    Mistake {
        name: "a value that its column's type does not have",
        sql: "CREATE TABLE orders (id integer PRIMARY KEY, placed date); INSERT INTO orders VALUES (4, 1700000000)",
        arguments: "unload {db} -t orders -o o.csv",
        says: "error: column 'placed' of the row with id = 4: the integer 1700000000 is not a date\n\
               hint: --text placed gives every value of the column as text\n",
        ..Mistake::PLAIN
    },
    Mistake {
        name: "a database as source, without what to read of it",
        arguments: "load other.db {db} -t orders",
        code: 2,
        says: "error: the source 'other.db' is a database, and nothing says what to read\n\
               hint: --source-table TABLE or --source-query SQL says it\n",
        ..Mistake::PLAIN
    },
    Mistake {
        name: "a file as source, with a table to read of it",
        arguments: "load orders.csv {db} -t orders --source-table orders",
        code: 2,
        says: "error: --source-table and --source-query read a database, and 'orders.csv' is none\n\
               hint: leave them out to load files\n",
        ..Mistake::PLAIN
    },
    Mistake {
        name: "a database as source that is not there",
        arguments: "load other.db {db} -t orders --source-table orders",
        says: "error: {directory}/other.db does not exist\n\
               hint: is it the database you mean? A load with --create makes one\n",
        ..Mistake::PLAIN
    },
];
