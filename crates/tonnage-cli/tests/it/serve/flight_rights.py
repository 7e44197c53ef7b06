"""Who may do what by Flight SQL: flight_rights.py URI TOKEN.., against a database with the tables `a`, with a row, and `b`.

Prints a line for each action: its name, and for each token 1 where it is done and 0 where it is refused for want of a right.
"""

import sys

import adbc_driver_flightsql.dbapi as flight
import pyarrow as pa
from adbc_driver_flightsql import DatabaseOptions

URI, *TOKENS = sys.argv[1:]
number = 100


def rows():
    global number
    number += 1
    return pa.table({"id": [number]})


def ingest(table, mode):
    def run(cursor):
        cursor.adbc_ingest(table, rows(), mode)

    return run


def query(text):
    def run(cursor):
        cursor.execute(text)
        cursor.fetchall()

    return run


def change(cursor):
    cursor.executemany("UPDATE a SET id = id WHERE id = ?", [(1,)])


ACTIONS = {
    "read a": query("SELECT * FROM a"),
    "read b": query("SELECT * FROM b"),
    "query": query("SELECT count(*) FROM a"),
    "change": change,
    "append a": ingest("a", "append"),
    "append b": ingest("b", "append"),
    "create a": ingest("a", "create_append"),
    "create new": ingest("new", "create_append"),
    "replace a": ingest("a", "replace"),
    "replace b": ingest("b", "replace"),
}
WORDS = ("no right", "valid token", "UNAUTHENTICATED", "Unauthenticated")

for name, action in ACTIONS.items():
    done = []
    for token in TOKENS:
        options = {DatabaseOptions.AUTHORIZATION_HEADER.value: f"Bearer {token}"} if token != "-" else {}
        try:
            with flight.connect(URI, options, autocommit=True) as db, db.cursor() as cursor:
                action(cursor)
            done.append("1")
        except flight.Error as error:
            assert any(word in str(error) for word in WORDS), (name, token, str(error))
            done.append("0")
    print(f"{name}: {''.join(done)}")
