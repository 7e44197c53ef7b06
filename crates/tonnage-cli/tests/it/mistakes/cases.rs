//! The mistakes and the words, as data: files, tables, columns and values.

use super::Mistake;
use crate::support::Database::{MariaDb, Postgres};

pub(super) const ORDERS: &str = "CREATE TABLE orders (id integer PRIMARY KEY, qty integer)";

/// One row is in when the other stops the run.
pub(super) const UNFINISHED: &[(&str, &str)] = &[("orders.csv", "id,qty\n1,2\n1,3\n")];

pub(super) const MISTAKES: &[Mistake] = &[
    Mistake {
        name: "the source is forgotten",
        arguments: "load {db} -t orders",
        code: 2,
        says: "error: no source: 'shop.db' is the database\n\
               hint: name the files first: tonnage load FILE.. shop.db -t TABLE; - is standard input\n",
        ..Mistake::PLAIN
    },
    Mistake {
        name: "the table is misspelt",
        arguments: "load orders.csv {db} -t order",
        says: "error: there is no table order\n\
               hint: did you mean orders?\n",
        ..Mistake::PLAIN
    },
    Mistake {
        name: "the table is misspelt, PostgreSQL",
        on: Postgres,
        arguments: "load orders.csv {db} -t oders",
        says: "error: there is no table oders\n\
               hint: did you mean orders?\n",
        ..Mistake::PLAIN
    },
    Mistake {
        name: "the table is not there and none is near",
        arguments: "load orders.csv {db} -t visits",
        says: "error: there is no table visits\n\
               hint: --create makes it, with the 2 columns of orders.csv\n",
        ..Mistake::PLAIN
    },
    Mistake {
        name: "the file has a column that the table lacks",
        files: &[("orders.csv", "id,qty,remark\n1,2,x\n")],
        says: "error: orders.csv has a column 'remark', which table orders lacks\n\
               hint: its columns are id, qty; --map names another, --columns leaves it out\n",
        ..Mistake::PLAIN
    },
    Mistake {
        name: "the file has a column of nearly the same name",
        files: &[("orders.csv", "id,qyt\n1,2\n")],
        says: "error: orders.csv has a column 'qyt', which table orders lacks\n\
               hint: --map qyt=qty, or --columns to leave it out\n",
        ..Mistake::PLAIN
    },
    Mistake {
        name: "semicolons between fields",
        files: &[("orders.csv", "id;qty\n1;2\n")],
        arguments: "load orders.csv {db} -t orders --format csv",
        says: "error: orders.csv has a column 'id;qty', which table orders lacks\n\
               hint: the header is one field with ';' in it: --delimiter ';'\n",
        ..Mistake::PLAIN
    },
    Mistake {
        name: "tabs between fields",
        files: &[("orders.csv", "id\tqty\n1\t2\n")],
        arguments: "load orders.csv {db} -t orders --format csv",
        says: "error: orders.csv has a column 'id\tqty', which table orders lacks\n\
               hint: the header is one field with '\\t' in it: --delimiter '\\t'\n",
        ..Mistake::PLAIN
    },
    Mistake {
        name: "NA for an integer",
        files: &[("orders.csv", "id,qty\n1,2\n2,NA\n")],
        arguments: "load orders.csv {db} -t orders -q",
        says: "error: orders.csv row 2, column 'qty': 'NA' is not an int64\n\
               hint: if it stands for null, add --null 'NA'\n",
        ..Mistake::PLAIN
    },
    Mistake {
        name: "NA for an integer, PostgreSQL",
        on: Postgres,
        files: &[("orders.csv", "id,qty\n1,2\n2,NA\n")],
        arguments: "load orders.csv {db} -t orders -q",
        says: "error: orders.csv row 2, column 'qty': 'NA' is not an int32\n\
               hint: if it stands for null, add --null 'NA'\n",
        ..Mistake::PLAIN
    },
    Mistake {
        name: "upsert without a unique key",
        sql: "CREATE TABLE orders (id integer, qty integer)",
        arguments: "load orders.csv {db} -t orders --mode upsert",
        says: "error: table orders has no primary key to recognise rows by\n\
               hint: an upsert needs a primary key or a unique constraint: add one to the table\n",
        ..Mistake::PLAIN
    },
    Mistake {
        name: "upsert without a unique key, PostgreSQL",
        on: Postgres,
        sql: "CREATE TABLE orders (id integer, qty integer)",
        arguments: "load orders.csv {db} -t orders --mode upsert --key id",
        says: "error: table public.orders has no unique key on (id)\n\
               hint: an upsert needs a primary key or a unique constraint: add one to the table\n",
        ..Mistake::PLAIN
    },
    Mistake {
        name: "upsert by columns that are no key",
        arguments: "load orders.csv {db} -t orders --mode upsert --key qty",
        says: "error: table orders has no unique key on (qty)\n\
               hint: its unique keys are (id)\n",
        ..Mistake::PLAIN
    },
    Mistake {
        name: "upsert by a key that the file lacks",
        files: &[("orders.csv", "qty\n1\n")],
        arguments: "load orders.csv {db} -t orders --mode upsert",
        says: "error: orders.csv does not fill key column 'id'\n\
               hint: an upsert needs every column of its key; --map names a column of another name\n",
        ..Mistake::PLAIN
    },
    Mistake {
        name: "upsert by a column that is not there",
        arguments: "load orders.csv {db} -t orders --mode upsert --key idd",
        says: "error: table orders has no column 'idd'\n\
               hint: did you mean id?\n",
        ..Mistake::PLAIN
    },
    Mistake {
        name: "--key with insert",
        arguments: "load orders.csv {db} -t orders --key id",
        code: 2,
        says: "error: --key is not used by --mode insert\n\
               hint: did you mean --mode upsert?\n",
        ..Mistake::PLAIN
    },
    Mistake {
        name: "the table is misspelt, MariaDB",
        on: MariaDb,
        arguments: "load orders.csv {db} -t oders",
        says: "error: there is no table oders\n\
               hint: did you mean orders?\n",
        ..Mistake::PLAIN
    },
    Mistake {
        name: "the table's engine has no transactions",
        on: MariaDb,
        sql: "CREATE TABLE orders (id integer PRIMARY KEY, qty integer) ENGINE=Aria",
        arguments: "load orders.csv {db} -t orders",
        says: "error: table {name}.orders takes no part in transactions: its rows and the ledger cannot move together\n\
               hint: --ledger none loads it without one: what an interrupted run has written then stays\n",
        ..Mistake::PLAIN
    },
    Mistake {
        name: "an upsert could take a row for another",
        on: MariaDb,
        sql: "CREATE TABLE orders (id integer PRIMARY KEY, qty integer UNIQUE)",
        arguments: "load orders.csv {db} -t orders --mode upsert",
        code: 2,
        says: "error: upsert: the further unique key (qty) of {name}.orders could take a row for another one\n\
               hint: --any-unique-key goes by whichever key a row meets; --mode update is for rows that are there, \
                 --mode insert for new ones\n",
        ..Mistake::PLAIN
    },
    Mistake {
        name: "any unique key is asked for where one is told",
        sql: "CREATE TABLE orders (id integer PRIMARY KEY, qty integer UNIQUE)",
        arguments: "load orders.csv {db} -t orders --mode upsert --any-unique-key",
        code: 2,
        says: "error: the database goes by (id) and by no other key, so --any-unique-key would have no effect\n\
               hint: leave it out\n",
        ..Mistake::PLAIN
    },
    Mistake {
        name: "the file is missing",
        arguments: "load order.csv {db} -t orders",
        says: "error: order.csv: there is no such file\n\
               hint: did you mean orders.csv?\n",
        ..Mistake::PLAIN
    },
    Mistake {
        name: "the file's directory is missing",
        arguments: "load in/orders.csv {db} -t orders",
        says: "error: in/orders.csv: there is no directory in\n\
               hint: the working directory is {directory}\n",
        ..Mistake::PLAIN
    },
    Mistake {
        name: "a glob matches nothing",
        arguments: "load in*.csv {db} -t orders",
        says: "error: no file matches 'in*.csv'\n\
               hint: the working directory is {directory}\n",
        ..Mistake::PLAIN
    },
    Mistake {
        name: "a file is empty",
        files: &[("orders.csv", "")],
        says: "error: orders.csv is empty: there is no header\n\
               hint: a file without rows still names its columns in its first line\n",
        ..Mistake::PLAIN
    },
    Mistake {
        name: "one file twice",
        arguments: "load orders.csv ./orders.csv {db} -t orders",
        code: 2,
        says: "error: ./orders.csv is named twice: orders.csv leads to the same file\n\
               hint: its rows would be loaded twice; a glob or a directory may name it again\n",
        ..Mistake::PLAIN
    },
    Mistake {
        name: "an ending that tells no format",
        files: &[("orders.dat", "\u{1}\0\u{2}\0")],
        arguments: "load orders.dat {db} -t orders",
        code: 2,
        says: "error: orders.dat: neither its ending nor its content tells its format\n\
               hint: name it with --format: csv, tsv, json, parquet or arrow\n",
        ..Mistake::PLAIN
    },
    Mistake {
        name: "text called Parquet",
        files: &[("orders.parquet", "id,qty\n1,2\n")],
        arguments: "load orders.parquet {db} -t orders",
        says: "error: orders.parquet is not a Parquet file but text\n\
               hint: if it is text, read it with --format csv or --format tsv\n",
        ..Mistake::PLAIN
    },
    Mistake {
        name: "--columns names what the table lacks",
        arguments: "load orders.csv {db} -t orders --columns id,qyt",
        says: "error: table orders has no column 'qyt'\n\
               hint: did you mean qty?\n",
        ..Mistake::PLAIN
    },
    Mistake {
        name: "--columns names what the file lacks",
        files: &[("orders.csv", "id\n1\n")],
        arguments: "load orders.csv {db} -t orders --columns id,qty",
        says: "error: orders.csv has no column 'qty', which --columns names\n\
               hint: --map fills it from a column of another name; without it in --columns it takes its \
                 default\n",
        ..Mistake::PLAIN
    },
    Mistake {
        name: "--map from what the file lacks",
        arguments: "load orders.csv {db} -t orders --map amount=qty",
        code: 2,
        says: "error: --map amount=..: orders.csv has no column 'amount'\n\
               hint: its columns are id, qty\n",
        ..Mistake::PLAIN
    },
    Mistake {
        name: "--map to what the table lacks",
        arguments: "load orders.csv {db} -t orders --map qty=amount",
        says: "error: --map qty=amount: table orders has no column 'amount'\n\
               hint: its columns are id, qty\n",
        ..Mistake::PLAIN
    },
    Mistake {
        name: "--map the wrong way round",
        files: &[("orders.csv", "id,amount\n1,2\n")],
        arguments: "load orders.csv {db} -t orders --map qty=amount",
        says: "error: --map qty=amount: table orders has no column 'amount'\n\
               hint: the input's column comes first: --map amount=qty\n",
        ..Mistake::PLAIN
    },
    Mistake {
        name: "two columns to one",
        files: &[("orders.csv", "id,qty,amount\n1,2,3\n")],
        arguments: "load orders.csv {db} -t orders --map amount=qty",
        code: 2,
        says: "error: columns 'qty' and 'amount' of orders.csv both go to column 'qty'\n\
               hint: --map sends one of them to another column\n",
        ..Mistake::PLAIN
    },
    Mistake {
        name: "--map without a =",
        arguments: "load orders.csv {db} -t orders --map amount",
        code: 2,
        says: "error: invalid value 'amount' for '--map <SRC=DST,..>': write it as NAME=VALUE\n\
               \n\
               For more information, try '--help'.\n",
        ..Mistake::PLAIN
    },
    Mistake {
        name: "too many fields without a header",
        files: &[("orders.csv", "1,2,3\n")],
        arguments: "load orders.csv {db} -t orders --no-header",
        says: "error: orders.csv has 3 fields a row, orders has 2 columns to fill\n\
               hint: name the table columns of the fields, in order: --columns a,b,c\n",
        ..Mistake::PLAIN
    },
    Mistake {
        name: "an unknown type",
        arguments: "load orders.csv {db} -t visits --create --type id=number",
        code: 2,
        says: "error: --type id: unknown type 'number'\n\
               hint: types are bool, int16, int32, int64, float32, float64, decimal(p,s), numeric, text, \
                 varchar(n), char(n), bytes, date, time, timestamp, timestamptz, uuid, json\n",
        ..Mistake::PLAIN
    },
    Mistake {
        name: "a type without --create",
        arguments: "load orders.csv {db} -t orders --type id=int64",
        code: 2,
        says: "error: --type is for tables that --create makes\n\
               hint: a column's own type decides how text is read\n",
        ..Mistake::PLAIN
    },
    Mistake {
        name: "a type for a column that is not there",
        arguments: "load orders.csv {db} -t visits --create --type idd=int64",
        code: 2,
        says: "error: --type idd=..: the new table has no column 'idd'\n\
               hint: did you mean id?\n",
        ..Mistake::PLAIN
    },
    Mistake {
        name: "a new table that is there",
        arguments: "load orders.csv {db} -t orders --create=new",
        code: 2,
        says: "error: table orders exists\n\
               hint: --create=missing loads into it, --truncate empties it first\n",
        ..Mistake::PLAIN
    },
    Mistake {
        name: "a key of a new table that it lacks",
        arguments: "load orders.csv {db} -t visits --create --key number",
        code: 2,
        says: "error: --key number: the new table has no column 'number'\n\
               hint: its columns are id, qty\n",
        ..Mistake::PLAIN
    },
    Mistake {
        name: "a time without a zone",
        on: Postgres,
        sql: "CREATE TABLE orders (id integer PRIMARY KEY, placed timestamptz)",
        files: &[("orders.csv", "id,placed\n1,2024-03-01 12:00:00\n")],
        arguments: "load orders.csv {db} -t orders -q",
        says: "error: orders.csv row 1, column 'placed': '2024-03-01 12:00:00' has no offset from UTC, and \
                 no time zone was given\n\
               hint: name the zone of such times: --timezone ZONE\n",
        ..Mistake::PLAIN
    },
    Mistake {
        name: "an unknown zone",
        arguments: "load orders.csv {db} -t orders --timezone Europe/Berln",
        code: 2,
        says: "error: unknown time zone 'Europe/Berln'\n\
               hint: time zones are named as in the IANA database: UTC, Europe/Berlin, America/New_York\n",
        ..Mistake::PLAIN
    },
    Mistake {
        name: "a header names a column twice",
        files: &[("orders.csv", "id,qty,qty\n1,2,3\n")],
        says: "error: orders.csv has a column 'qty_2', which table orders lacks\n\
               hint: other columns go to qty: --columns leaves this one out\n",
        ..Mistake::PLAIN
    },
    Mistake {
        name: "a rejects file that holds something",
        files: &[("orders.csv", "id,qty\n1,2\n"), ("bad.jsonl", "{}\n")],
        arguments: "load orders.csv {db} -t orders --rejects bad.jsonl",
        code: 2,
        says: "error: rejects file {directory}/bad.jsonl exists and is not empty\n\
               hint: move it away, or name another with --rejects\n",
        ..Mistake::PLAIN
    },
    Mistake {
        name: "a rejects file in no directory",
        arguments: "load orders.csv {db} -t orders --rejects out/bad.jsonl",
        code: 2,
        says: "error: rejects file {directory}/out/bad.jsonl: there is no directory {directory}/out\n\
               hint: make the directory first, or name another file with --rejects\n",
        ..Mistake::PLAIN
    },
    Mistake {
        name: "--rejects with --on-error stop",
        arguments: "load orders.csv {db} -t orders --rejects bad.jsonl --on-error stop",
        code: 2,
        says: "error: --rejects and --on-error stop contradict each other\n\
               hint: leave one of them out\n",
        ..Mistake::PLAIN
    },
    Mistake {
        name: "an unknown encoding",
        arguments: "load orders.csv {db} -t orders --encoding latin-99",
        code: 2,
        says: "error: unknown encoding 'latin-99'\n\
               hint: encodings are named as on the web: utf-8, latin1, windows-1252, utf-16le, shift_jis, \
                 gbk\n",
        ..Mistake::PLAIN
    },
    Mistake {
        name: "the same character for two ends",
        arguments: "load orders.csv {db} -t orders --delimiter ; --quote ;",
        code: 2,
        says: "error: delimiter and quote are both ';'\n\
               hint: each needs a character of its own\n",
        ..Mistake::PLAIN
    },
    Mistake {
        name: "no jobs",
        arguments: "load orders.csv {db} -t orders --jobs 0",
        code: 2,
        says: "error: --jobs must be at least 1\n",
        ..Mistake::PLAIN
    },
    Mistake {
        name: "a column that the database computes",
        sql: "CREATE TABLE orders (id integer PRIMARY KEY, qty integer AS (id * 2) STORED)",
        says: "error: column 'qty' of orders is computed by the database and takes no values\n\
               hint: leave it out: --columns names the columns to load\n",
        ..Mistake::PLAIN
    },
    Mistake {
        name: "a view",
        on: Postgres,
        sql: "CREATE VIEW orders AS SELECT 1 AS id, 2 AS qty",
        says: "error: public.orders is a view, not a table\n\
               hint: name the table behind it\n",
        ..Mistake::PLAIN
    },
    Mistake {
        name: "--sort block without a primary key",
        sql: "CREATE TABLE orders (id integer, qty integer)",
        arguments: "load orders.csv {db} -t orders --sort block",
        code: 2,
        says: "error: --sort block needs a primary key of orders among the loaded columns\n\
               hint: leave --sort out, or load the key's first column\n",
        ..Mistake::PLAIN
    },
    Mistake {
        name: "a table name of three parts",
        arguments: "load orders.csv {db} -t a.b.c",
        code: 2,
        says: "error: 'a.b.c' is not a table name: it has more than two parts\n\
               hint: write it as table, schema.table or \"schema\".\"odd.name\"\n",
        ..Mistake::PLAIN
    },
    Mistake {
        name: "upsert into a new table without a key",
        arguments: "load orders.csv {db} -t visits --create --mode upsert",
        says: "error: table visits has no primary key to recognise rows by\n\
               hint: --key names the columns of the primary key that --create makes\n",
        ..Mistake::PLAIN
    },
    Mistake {
        name: "a float column of Parquet for an integer",
        sql: "CREATE TABLE readings (device integer, latitude integer)",
        before: &["generate readings --rows 10 -o r.parquet"],
        arguments: "load r.parquet {db} -t readings --columns device,latitude",
        says: "error: column 'latitude': float64 cannot be carried exactly into int64\n\
               hint: round the values to integers in the source, or load them into a column of type \
                 float64\n",
        ..Mistake::PLAIN
    },
    Mistake {
        name: "a float column of Parquet for an integer, PostgreSQL",
        on: Postgres,
        sql: "CREATE TABLE readings (device integer, latitude integer)",
        before: &["generate readings --rows 10 -o r.parquet"],
        arguments: "load r.parquet {db} -t readings --columns device,latitude",
        says: "error: column 'latitude': float64 cannot be carried exactly into int32\n\
               hint: round the values to integers in the source, or load them into a column of type \
                 float64\n",
        ..Mistake::PLAIN
    },
    Mistake {
        name: "Parquet from standard input",
        arguments: "load - {db} -t orders --format parquet",
        code: 2,
        says: "error: Parquet cannot be read from standard input\n\
               hint: save it to a file first: a Parquet file is read from its end\n",
        ..Mistake::PLAIN
    },
    Mistake {
        name: "CSV and Parquet in one run",
        before: &["generate readings --rows 10 -o r.parquet"],
        arguments: "load orders.csv r.parquet {db} -t orders",
        code: 2,
        says: "error: orders.csv is CSV but r.parquet is Parquet: the inputs of one run have one format\n\
               hint: load them one after another, or name the format of all with --format\n",
        ..Mistake::PLAIN
    },
    Mistake {
        name: "two files of different columns",
        files: &[("a.csv", "id,qty\n1,2\n"), ("b.csv", "id,amount\n2,3\n")],
        arguments: "load a.csv b.csv {db} -t orders",
        says: "error: b.csv and a.csv have different columns: b.csv has no 'qty', a.csv has no 'amount'\n\
               hint: --union takes the columns of all files, by name; or load files of different columns one after another\n",
        ..Mistake::PLAIN
    },
    Mistake {
        name: "a bad row among many stops the run",
        files: &[("orders.csv", "id,qty\n1,2\n1,3\n")],
        arguments: "load orders.csv {db} -t orders -q",
        says: "error: orders.csv row 2, column 'id': UNIQUE constraint failed: orders.id\n\
               hint: --on-error reject puts bad rows aside and goes on\n",
        ..Mistake::PLAIN
    },
    Mistake {
        name: "a bad row among many stops the run, PostgreSQL",
        on: Postgres,
        files: &[("orders.csv", "id,qty\n1,2\n1,3\n")],
        arguments: "load orders.csv {db} -t orders -q",
        says: "error: orders.csv row 2: duplicate key value violates unique constraint \"orders_pkey\" \
                 (Key (id)=(1) already exists)\n\
               hint: --on-error reject puts bad rows aside and goes on\n",
        ..Mistake::PLAIN
    },
    Mistake {
        name: "too few fields in a row",
        files: &[("orders.csv", "id,qty\n1\n")],
        arguments: "load orders.csv {db} -t orders -q",
        says: "error: orders.csv row 1: 1 field where 2 were expected\n\
               hint: --on-error reject puts bad rows aside and goes on\n",
        ..Mistake::PLAIN
    },
];
