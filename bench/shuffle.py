"""Writes the rows of a Parquet file in an order that is random, and the same every time.

    python shuffle.py IN OUT
"""

import random
import sys

import pyarrow
import pyarrow.parquet

table = pyarrow.parquet.read_table(sys.argv[1])
order = list(range(table.num_rows))
random.Random(1).shuffle(order)
table = table.combine_chunks()
pyarrow.parquet.write_table(table.take(pyarrow.array(order)), sys.argv[2], compression="snappy", row_group_size=131_072)
