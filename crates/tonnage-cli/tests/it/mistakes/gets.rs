//! Mistakes with `tonnage get`.

use super::{Mistake, cases::ORDERS};
use crate::support::Database::Postgres;

const LINES: &str =
    "CREATE TABLE lines (order_id integer, line integer, article text, PRIMARY KEY (order_id, line));
    CREATE TABLE notes (text text);
    CREATE TABLE codes (code text UNIQUE, name text)";

const GET: Mistake = Mistake {
    sql: LINES,
    files: &[("wanted.csv", "order,line\n1,2\n")],
    ..Mistake::PLAIN
};

pub(super) const MISTAKES: &[Mistake] = &[
    Mistake {
        name: "no keys",
        arguments: "get {db} -t lines",
        code: 2,
        says: "error: no keys\n\
               hint: name them behind the database, or a file of them: tonnage get shop.db --keys wanted.csv -t lines; \
               - is standard input\n",
        ..GET
    },
    Mistake {
        name: "a table that is misspelt",
        arguments: "get {db} 1 -t line",
        says: "error: there is no table line\nhint: did you mean lines?\n",
        ..GET
    },
    Mistake {
        name: "a table without a key",
        arguments: "get {db} 1 -t notes",
        says: "error: table notes has no primary or unique key to look rows up by\n\
               hint: add one to the table, or read it whole: tonnage unload --where\n",
        ..GET
    },
    Mistake {
        name: "a table with a unique key only",
        arguments: "get {db} 1 -t codes",
        says: "error: table codes has no primary key\nhint: --key names a unique key: (code)\n",
        ..GET
    },
    Mistake {
        name: "a column that is no key",
        arguments: "get {db} pen -t lines --key article",
        says: "error: no key of table lines begins with (article)\n\
               hint: its keys are (order_id, line); rows by other columns: tonnage unload --where\n",
        ..GET
    },
    Mistake {
        name: "a key column that is not there",
        arguments: "get {db} 1 -t lines --key order",
        says: "error: table lines has no column 'order'\nhint: did you mean order_id?\n",
        ..GET
    },
    Mistake {
        name: "a wanted column that is not there",
        arguments: "get {db} 1 -t lines --columns artikel",
        says: "error: table lines has no column 'artikel'\nhint: did you mean article?\n",
        ..GET
    },
    Mistake {
        name: "a key of too many fields",
        arguments: "get {db} 1,2,3 -t lines",
        says: "error: arguments: a key has 3 fields, but the key (order_id, line) of lines has 2 columns\n\
               hint: a key is a CSV record: quote a field with a comma in it, as in '\"a,b\"'\n",
        ..GET
    },
    Mistake {
        name: "keys of several lengths",
        arguments: "get {db} 1,2 3 -t lines",
        code: 2,
        says: "error: '3' is not a CSV record: 1 field where 2 were expected\n\
               hint: quote a field with a comma in it and double the quotes in it, as in '\"a,\"\"b\"\"\"'\n",
        ..GET
    },
    Mistake {
        name: "a key of another type",
        arguments: "get {db} 1,2 2,two -t lines -q",
        says: "error: arguments row 2, column 'line': 'two' is not an int64\n\
               hint: a key of another type can have no row: take it out of the keys\n",
        ..GET
    },
    Mistake {
        name: "keys under another name",
        arguments: "get {db} --keys wanted.csv -t lines",
        says: "error: wanted.csv has no column 'order_id' of the key (order_id, line) of lines\n\
               hint: did you mean order?; where the first line is a key and not names, --keys-no-header\n",
        ..GET
    },
    Mistake {
        name: "keys without a header",
        files: &[("wanted.csv", "a7,x\na8,y\n")],
        arguments: "get {db} --keys wanted.csv -t lines",
        says: "error: wanted.csv has no column 'order_id' of the key (order_id, line) of lines\n\
               hint: its columns are a7, x; where the first line is a key and not names, --keys-no-header\n",
        ..GET
    },
    Mistake {
        name: "a file of keys that is not there",
        arguments: "get {db} --keys wnted.csv -t lines",
        says: "error: wnted.csv: there is no such file\nhint: did you mean wanted.csv?\n",
        ..GET
    },
    Mistake {
        name: "a range behind the whole key",
        arguments: "get {db} 1,2 -t lines --from 1",
        code: 2,
        says: "error: a range needs a key column that no key gives, and (order_id, line) is all of the key of lines\n\
               hint: give the first columns of a longer key; the range is on the next one\n",
        ..GET
    },
    Mistake {
        name: "a range of another type",
        on: Postgres,
        arguments: "get {db} 1 -t lines --from first",
        code: 2,
        says: "error: where the range begins, column 'line': 'first' is not an int32\n\
               hint: the range is on 'line', which is integer\n",
        ..GET
    },
    Mistake {
        name: "rows and the report at once",
        arguments: "get {db} 1 -t lines --report -",
        code: 2,
        says: "error: only one of rows, missing keys and the report can go to standard output\n\
               hint: send the others to files: -o OUT, --missing PATH, --report PATH\n",
        ..GET
    },
    Mistake {
        name: "a file that exists",
        arguments: "get {db} 1 -t lines -o wanted.csv",
        code: 2,
        says: "error: 'wanted.csv' exists\nhint: replace it with --overwrite, or name another file\n",
        ..GET
    },
    Mistake {
        name: "no job",
        arguments: "get {db} 1 -t orders -j 0",
        sql: ORDERS,
        code: 2,
        says: "error: --jobs must be at least 1\n",
        ..GET
    },
];
