"""Reads a table by connectorx into Arrow in memory, in two partitions, and prints the seconds and the processor seconds
that it took, imports left out.

    python connectorx_read.py URL TABLE COLUMN
"""

import resource
import sys
import time

import connectorx
import pyarrow  # noqa: F401 - connectorx imports it when it is first asked

url, table, column = sys.argv[1:]


def processor_seconds():
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


started, used = time.monotonic(), processor_seconds()
read = connectorx.read_sql(
    url, f"select * from {table}", partition_on=column, partition_num=2, return_type="arrow"
)
print(read.num_rows, time.monotonic() - started, processor_seconds() - used)
