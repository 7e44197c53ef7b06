"""What the ADBC driver for Flight SQL does with a service: flight.py URI TOKEN WEAK_TOKEN, against an empty database.

WEAK_TOKEN may write into the table `readings` and do nothing else.
"""

import sys

import adbc_driver_flightsql.dbapi as flight
import pyarrow as pa
from adbc_driver_flightsql import DatabaseOptions

URI, TOKEN, WEAK = sys.argv[1:]


def connect(token=TOKEN, autocommit=True):
    options = {DatabaseOptions.AUTHORIZATION_HEADER.value: f"Bearer {token}"}
    return flight.connect(URI, options, autocommit=autocommit)


def refused(work, *words):
    """Something is refused, by a message that has these words."""
    try:
        work()
    except flight.Error as error:
        for word in words:
            assert word in str(error), (word, str(error))
    else:
        raise AssertionError(f"it was not refused: {words}")


def rows(connection, query="SELECT id, note, amount FROM readings ORDER BY id"):
    with connection.cursor() as cursor:
        cursor.execute(query)
        return [tuple(row) for row in cursor.fetchall()]


def readings(first, last):
    ids = range(first, last + 1)
    return pa.table(
        {
            "id": pa.array(ids, pa.int64()),
            "note": pa.array([None if i % 5 == 0 else f"reading {i}" for i in ids]),
            "amount": pa.array([i / 4 for i in ids], pa.float64()),
        }
    )


def ingest(connection, table, mode, name="readings", **more):
    with connection.cursor() as cursor:
        return cursor.adbc_ingest(name, table, mode, **more)


with connect() as db:
    # Modes of an ingest.
    refused(lambda: ingest(db, readings(1, 3), "append"), "readings")
    assert ingest(db, readings(1, 3), "create") == 3
    refused(lambda: ingest(db, readings(4, 4), "create"), "readings")
    assert ingest(db, readings(4, 20_000).to_reader(1_000), "append") == 19_997
    assert rows(db, "SELECT count(*), max(id) FROM readings") == [(20_000, 20_000)]
    assert ingest(db, readings(1, 2), "create_append") == 2
    assert ingest(db, readings(1, 10), "replace") == 10
    assert rows(db) == [(i, None if i % 5 == 0 else f"reading {i}", i / 4) for i in range(1, 11)]
    refused(lambda: ingest(db, readings(1, 1), "append", temporary=True), "temporary")

    # A stream with a bad row is not there at all.
    with db.cursor() as cursor:
        cursor.execute("CREATE TABLE strict (id BIGINT PRIMARY KEY, note VARCHAR(20) NOT NULL)")
    good = pa.table({"id": [1, 2], "note": ["a", "b"]})
    bad = pa.table({"id": [3, 4], "note": ["c", None]})
    assert ingest(db, good, "append", "strict") == 2
    refused(lambda: ingest(db, bad, "append", "strict"), "note")
    assert rows(db, "SELECT id FROM strict ORDER BY id") == [(1,), (2,)]

    # A statement for many rows, and a query as Arrow.
    with db.cursor() as cursor:
        cursor.executemany("UPDATE readings SET amount = ? WHERE id = ?", [(100.5, 1), (200.5, 2)])
        cursor.execute("UPDATE readings SET amount = ? WHERE id = ?", (300.5, 3))
    assert rows(db, "SELECT amount FROM readings WHERE id <= 3 ORDER BY id") == [(100.5,), (200.5,), (300.5,)]
    with db.cursor() as cursor:
        cursor.execute("SELECT * FROM readings")
        table = cursor.fetch_arrow_table()
    assert table.num_rows == 10 and table.column_names == ["id", "note", "amount"], table
    refused(lambda: rows(db, "SELECT id FROM nowhere"), "nowhere")

    # What there is.
    schema = db.adbc_get_table_schema("readings")
    assert schema.names == ["id", "note", "amount"] and schema.field("id").type == pa.int64(), schema
    assert db.adbc_get_table_types() == ["TABLE"]
    assert db.adbc_get_info()["vendor_name"] == "tonnage"
    objects = db.adbc_get_objects(depth="tables").read_all().to_pylist()
    names = [
        table["table_name"]
        for catalog in objects
        for schema in catalog["catalog_db_schemas"]
        for table in schema["db_schema_tables"]
    ]
    assert "readings" in names and "strict" in names, names

# Transactions are work for their end. (This driver sends no transaction with an ingest, or with what it does not prepare:
# these are committed at once.)
with connect(autocommit=False) as db:

    def change(statement, rows):
        # A statement is prepared in the transaction of its cursor.
        with db.cursor() as cursor:
            cursor.executemany(statement, rows)

    insert = "INSERT INTO strict (id, note) VALUES (?, ?)"
    change(insert, [(11, "x"), (12, "y")])
    db.rollback()
    assert rows(db, "SELECT count(*) FROM strict") == [(2,)]
    change(insert, [(13, "x"), (14, "y")])
    assert rows(db, "SELECT count(*) FROM strict") == [(2,)]
    refused(lambda: change("DELETE FROM strict WHERE id = ?", [(1,)]), "transaction")
    db.commit()
    assert rows(db, "SELECT id FROM strict ORDER BY id") == [(1,), (2,), (13,), (14,)]
    change(insert, [(15, "x"), (14, "y")])
    refused(db.commit, "id")
with connect() as db:
    assert rows(db, "SELECT count(*) FROM strict") == [(4,)]

# Who may do what.
refused(lambda: rows(connect("nobody")))
with connect(WEAK) as db:
    assert ingest(db, readings(16, 16), "append") == 1
    assert ingest(db, readings(17, 17), "create_append") == 1
    refused(lambda: ingest(db, readings(1, 1), "replace"), "right")
    refused(lambda: ingest(db, good, "create", "other"), "right")
    refused(lambda: ingest(db, good, "append", "strict"), "right")
    refused(lambda: rows(db), "right")

print("all of it")
