//! Mistakes in statements of one's own.

use super::Mistake;
use crate::support::Database::{MariaDb, Postgres};

const PLAIN: Mistake = Mistake {
    code: 2,
    ..Mistake::PLAIN
};

pub(super) const STATEMENTS: &[Mistake] = &[
    Mistake {
        name: "a statement that reads",
        arguments: "exec orders.csv {db} --sql 'select :id'",
        says: "error: the statement cannot be run: SELECT reads, and what it reads would go nowhere\n\
               hint: give one INSERT, UPDATE, DELETE or MERGE\n",
        ..PLAIN
    },
    Mistake {
        name: "two statements",
        arguments: "exec orders.csv {db} --sql 'delete from orders where id = :id; delete from orders'",
        says: "error: the statement cannot be run: the text holds several statements\n\
               hint: give one INSERT, UPDATE, DELETE or MERGE\n",
        ..PLAIN
    },
    Mistake {
        name: "a question mark for a parameter",
        arguments: "exec orders.csv {db} --sql 'delete from orders where id = ?'",
        says: "error: the statement cannot be run: '?' at column 31 is a parameter that nothing gives a value\n\
               hint: write parameters as :name\n",
        ..PLAIN
    },
    Mistake {
        name: "no parameter",
        arguments: "exec orders.csv {db} --sql 'delete from orders'",
        says: "error: the statement cannot be run: it has no :parameter, so every row would do the same\n\
               hint: write :name where the value of column 'name' of the source belongs\n",
        ..PLAIN
    },
    Mistake {
        name: "the file of the statement is not there",
        arguments: "exec orders.csv {db} --sql @none.sql",
        says: "error: --sql @none.sql: No such file or directory (os error 2)\n\
               hint: @ is followed by the name of a file that holds the statement\n",
        ..PLAIN
    },
    Mistake {
        name: "the database of a statement is forgotten",
        arguments: "exec orders.csv --sql 'delete from orders where id = :id'",
        says: "error: the last argument, 'orders.csv', is a file and not a database\n\
               hint: name the database last, as in cp: tonnage exec orders.csv shop.db --sql SQL\n",
        ..PLAIN
    },
    Mistake {
        name: "a parameter that the file has no column for",
        arguments: "exec orders.csv {db} --sql 'update orders set qty = :qyt where id = :id'",
        says: "error: orders.csv has no column 'qyt' for the parameter :qyt\n\
               hint: did you mean qty? --map qty=qyt\n",
        code: 1,
        ..PLAIN
    },
    Mistake {
        name: "a key that is no parameter",
        arguments: "exec orders.csv {db} --sql 'update orders set qty = :qty where id = :id' --key number",
        says: "error: --key: the statement has no parameter :number\n\
               hint: its parameters are :qty, :id\n",
        ..PLAIN
    },
    Mistake {
        name: "a misspelt column, SQLite",
        arguments: "exec orders.csv {db} --sql 'update orders set qyt = :qty where id = :id'",
        says: "error: the statement: no such column: qyt\n",
        code: 1,
        ..PLAIN
    },
    Mistake {
        name: "a misspelt column, PostgreSQL",
        on: Postgres,
        arguments: "exec orders.csv {db} --sql 'update orders set qty = :qty where ident = :id'",
        says: "error: the statement, column 36: column \"ident\" does not exist\n",
        code: 1,
        ..PLAIN
    },
    Mistake {
        name: "a table that is not there, PostgreSQL",
        on: Postgres,
        arguments: "exec orders.csv {db} --sql 'delete from order_s where id = :id'",
        says: "error: the statement, column 13: relation \"order_s\" does not exist\n",
        code: 1,
        ..PLAIN
    },
    Mistake {
        name: "a parameter of no type, PostgreSQL",
        on: Postgres,
        arguments: "exec orders.csv {db} --sql 'delete from orders where :id is null'",
        says: "error: the statement: could not determine data type of parameter :id\n\
               hint: say what it is: CAST(:name AS type)\n",
        code: 1,
        ..PLAIN
    },
    Mistake {
        name: "a method that serves no update, PostgreSQL",
        on: Postgres,
        arguments: "exec orders.csv {db} --sql 'update orders set qty = :qty where id = :id' --method array",
        says: "error: statement by method array: only INSERT .. VALUES of nothing but parameters, with at most \
               ON CONFLICT DO NOTHING, means the same for many rows at once\n\
               hint: --method batch pipelines its executions\n",
        ..PLAIN
    },
    Mistake {
        name: "an array insert that triggers would see, PostgreSQL",
        on: Postgres,
        sql: "CREATE TABLE orders (id integer PRIMARY KEY, qty integer REFERENCES orders)",
        arguments: "exec orders.csv {db} --sql 'insert into orders values (:id, :qty)' --method array",
        says: "error: statement by method array: orders: its rows refer to each other, and one could refer to a later \
               one\nhint: --method batch pipelines its executions\n",
        ..PLAIN
    },
    Mistake {
        name: "a bad value",
        files: &[("orders.csv", "id,qty\n1,2\n2,NA\n")],
        arguments: "exec orders.csv {db} -q --sql 'update orders set qty = :qty where id = :id'",
        says: "error: orders.csv row 2, column 'qty': 'NA' is not an int64\n\
               hint: if it stands for null, add --null 'NA'\n",
        code: 1,
        ..PLAIN
    },
    Mistake {
        name: "a misspelt column, MariaDB",
        on: MariaDb,
        arguments: "exec orders.csv {db} --sql 'update orders set qyt = :qty where id = :id'",
        says: "error: the statement: Unknown column 'qyt' in 'SET'\n",
        code: 1,
        ..PLAIN
    },
    Mistake {
        name: "a table that is not there, MariaDB",
        on: MariaDb,
        arguments: "exec orders.csv {db} --sql 'delete from order_s where id = :id'",
        says: "error: the statement: Table '{name}.order_s' doesn't exist\n",
        code: 1,
        ..PLAIN
    },
    Mistake {
        name: "a statement that keeps what does not fit, MariaDB",
        on: MariaDb,
        arguments: "exec orders.csv {db} --sql 'insert ignore into orders values (:id, :qty)'",
        says: "error: the statement cannot be run: with IGNORE the database changes values that do not fit\n\
               hint: leave IGNORE out; ON DUPLICATE KEY UPDATE id = id leaves rows alone whose key is there\n",
        ..PLAIN
    },
    Mistake {
        name: "a comment that is none, MariaDB",
        on: MariaDb,
        arguments: "exec orders.csv {db} --sql 'delete from orders where id = :id /*! or 1 = 1 */'",
        says: "error: the statement cannot be run: the comment at column 35 is one that the server runs\n\
               hint: write what it holds without the comment's signs\n",
        ..PLAIN
    },
    Mistake {
        name: "a method that serves no update, MariaDB",
        on: MariaDb,
        arguments: "exec orders.csv {db} --sql 'update orders set qty = :qty where id = :id' --method array",
        says: "error: statement by method array: only INSERT .. VALUES of nothing but parameters means the same for \
               many rows at once\nhint: --method batch executes it row by row\n",
        ..PLAIN
    },
    Mistake {
        name: "a statement for a table that undoes nothing, MariaDB",
        on: MariaDb,
        sql: "CREATE TABLE orders (id integer PRIMARY KEY, qty integer) ENGINE=MyISAM",
        arguments: "exec orders.csv {db} --sql 'update orders set qty = :qty where id = :id'",
        says: "error: table {name}.orders takes no part in transactions: its rows and the ledger cannot move together\n\
               hint: --ledger none loads it without one: what an interrupted run has written then stays\n",
        code: 1,
        ..PLAIN
    },
];
