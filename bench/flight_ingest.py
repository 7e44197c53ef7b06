"""A bulk ingest by the ADBC driver for Flight SQL: flight_ingest.py URI PARQUET. Prints `wall client` in seconds."""

import sys
import time

import adbc_driver_flightsql.dbapi as flight
import pyarrow.parquet as pq

uri, file = sys.argv[1:]
table = pq.read_table(file)
wall, client = time.monotonic(), time.process_time()
with flight.connect(uri, autocommit=True) as connection, connection.cursor() as cursor:
    assert cursor.adbc_ingest("single_rows", table.to_reader(10_000), "append") == table.num_rows
print(time.monotonic() - wall, time.process_time() - client)
