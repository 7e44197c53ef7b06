"""The options of the functions: those of the command line. Made by scripts/python-options."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike
from typing import Literal, TypedDict


class LoadOptions(TypedDict, total=False):
    """Those of ``tonnage load``."""

    mode: Literal["insert", "upsert", "ignore", "update", "delete"] | None
    """What happens to a row"""
    key: Sequence[str] | str | None
    """The columns that recognise a row [default: the primary key], or the primary key of a table that --create makes"""
    any_unique_key: bool | None
    """Let an upsert or an ignore go by whichever unique key a row meets, where a table has several and the database can be told no single one"""
    create: Literal["missing", "new", "replace"] | bool | None
    """Create the table from the source's columns: where it is missing, as one that must be new, or in place of one that is there, which is dropped with its rows"""
    scan: Literal["auto", "sample", "all"] | None
    """The rows of text that the types of a table that --create makes are inferred from: the first ones, or all, which are read once more before; auto takes all of files of up to 64 MiB together"""
    types: Mapping[str, str] | None
    """The type of a column of a table that --create makes: id=int64, price=decimal(10,2); timestamp(epoch_ms), also epoch_s, _us, _ns, reads instants that are numbers, into a table that is there as well"""
    truncate: bool | None
    """Empty the table when the run starts"""
    add_columns: bool | None
    """Give the table the columns of the input that it lacks; they may be null"""
    before_sql: Sequence[str] | str | None
    """SQL to run before the first row; may be given again. An attempt after one that has written nothing runs it again"""
    after_sql: Sequence[str] | str | None
    """SQL to run after the last row; may be given again. Where it fails the run is unfinished, and --resume runs it again"""
    new_files: bool | None
    """Load only the files that no finished run has loaded into the table; with --resume an unfinished run goes on first"""
    recreate: bool | None
    """Load into a new table like the table, which takes its place at the end; until then readers see the old one"""
    rebuild_indexes: bool | None
    """Drop the secondary indexes of an empty table when the run starts, and build them again at its end; a run that is interrupted builds them when it is resumed or forgotten"""
    verify: bool | None
    """Read the input again at the end and look whether every row that was to be written is in the table with its values; exit code 5 where one is not"""
    single_transaction: bool | None
    """All rows or none: one job writes them in one transaction"""
    map: Mapping[str, str] | None
    """Fill table column, or parameter, DST from source column SRC"""
    add: Mapping[str, str] | None
    """A column that the input does not have, or another value for one that it has: a text, or {column}, {file}, {row}"""
    normalize_names: bool | None
    """Make the names of the input plain: `First Name (mm)` is first_name_mm"""
    limit: int | str | None
    """Read at most N rows"""
    method: Literal["auto", "single", "batch", "array", "native"] | None
    """How rows travel"""
    jobs: int | str | None
    """Connections that write at once [default: one a processor, at most 4; 1 where the database has one writer]"""
    jobs_per_shard: int | str | None
    """Connections that write to one database, or one partition, at once [default: as many as --jobs come to]"""
    tune: Literal["auto", "off"] | None
    """Whether sizes of writes and the number of jobs that are not named are found: auto takes what `tonnage tune --save` has kept for the table of an @NAME, and else changes them while rows go in, up to the most that the plan says; off leaves them as the plan says"""
    batch_rows: int | str | None
    """Rows of a write at most; a write is a commit"""
    batch_bytes: int | str | None
    """Bytes of a write at most [default: 16MiB]"""
    split: Literal["auto", "none"] | None
    """Statements that the database would split (PolarDB-X): keep below its limits, or tell it not to"""
    rate: str | None
    """Rows or bytes a second at most: 50k/s, 20MB/s"""
    durability: Literal["none", "relaxed", "durable", "majority", "all"] | None
    """What a commit promises [default: durable; majority where replicas acknowledge]"""
    on_error: Literal["stop", "reject"] | None
    """What a bad row does: stop the run, or go to the rejects file [default: stop; reject with --rejects]"""
    rejects: str | PathLike[str] | bool | None
    """Where bad rows go, as JSON lines [default: ./TABLE-RUN.rejects.jsonl]"""
    max_rejects: int | str | None
    """Stop after more rejects than this, a number or a share such as 5%"""
    resume: bool | None
    """Go on with an unfinished run of the same input; a new run where there is none"""
    restart: bool | None
    """Forget an unfinished run of the same input and load from the beginning"""
    ledger: str | PathLike[str] | None
    """Where positions are kept: in tables of the database, whose names begin with tonnage_ (target; `tonnage init` prints what makes them), nowhere (none), or in a file of this machine, for databases that have no transactions [auto: target, or such a file]"""
    source_table: str | None
    """The table or view to read, where the source is a database: table, schema.table or 'odd.name'"""
    source_query: str | None
    """The query whose rows to read, where the source is a database"""
    format: Literal["auto", "csv", "tsv", "json", "parquet", "arrow"] | None
    """The format"""
    delimiter: str | None
    """Between fields: one character, or \\t [default: , for CSV, tab for TSV]"""
    quote: str | None
    """Around fields: one character, or none"""
    escape: str | None
    """Before a quote inside a quoted field [default: the quote is doubled]"""
    no_header: bool | None
    """The first line is a row, not names"""
    null: Sequence[str] | str | None
    """Unquoted text that means null, instead of the empty field; may be given again"""
    comment: str | None
    """Skip lines that begin with this character"""
    skip: int | str | None
    """Lines before the header, or the first row, that are not read [default: titles above a header are found]"""
    skip_footer: int | str | None
    """Lines at the end of each file that are not read, such as totals"""
    trim: bool | None
    """Take spaces around unquoted fields for nothing"""
    date_format: Sequence[str] | str | None
    """How dates are written: dmy, mdy, ymd, or a pattern such as %d.%m.%y; may be given again. ISO dates are read as well"""
    decimal: str | None
    """The decimal sign of numbers"""
    thousands: str | None
    """The sign between groups of three digits"""
    true: Sequence[str] | str | None
    """A word for true, besides true, t, yes, y, on and 1; may be given again"""
    false: Sequence[str] | str | None
    """A word for false, besides false, f, no, n, off and 0; may be given again"""
    flatten: bool | None
    """Make columns of the keys of objects within objects of JSON: address.city"""
    union: bool | None
    """Take the columns of all files, by name, where they differ; a file that lacks one has nulls for it"""
    sheet: str | None
    """The sheet of an Excel file [default: the first]"""
    encoding: str | None
    """The character set of text files; auto tells it by their bytes [default: utf-8, or another one where the bytes are clearly of that]"""
    timezone: str | None
    """The zone of times that carry none, for columns with time zone: Europe/Berlin, UTC"""
    sort: Literal["auto", "none", "block", "full"] | None
    """Sort rows by primary key: not at all, within each block, or all of them before the first is written (spills to temporary files) [auto: block where there is a primary key]"""


class ExecOptions(TypedDict, total=False):
    """Those of ``tonnage exec``."""

    key: Sequence[str] | str | None
    """The parameters that say which rows the statement touches: rows that differ in them may be applied at the same time [default: all rows in their order, by one job]"""
    types: Mapping[str, str] | None
    """The type of a parameter, where the database has none: id=int64, price=decimal(10,2)"""
    single_transaction: bool | None
    """All rows or none: one job writes them in one transaction"""
    map: Mapping[str, str] | None
    """Fill table column, or parameter, DST from source column SRC"""
    add: Mapping[str, str] | None
    """A column that the input does not have, or another value for one that it has: a text, or {column}, {file}, {row}"""
    normalize_names: bool | None
    """Make the names of the input plain: `First Name (mm)` is first_name_mm"""
    limit: int | str | None
    """Read at most N rows"""
    method: Literal["auto", "single", "batch", "array", "native"] | None
    """How rows travel"""
    jobs: int | str | None
    """Connections that write at once [default: one a processor, at most 4; 1 where the database has one writer]"""
    jobs_per_shard: int | str | None
    """Connections that write to one database, or one partition, at once [default: as many as --jobs come to]"""
    tune: Literal["auto", "off"] | None
    """Whether sizes of writes and the number of jobs that are not named are found: auto takes what `tonnage tune --save` has kept for the table of an @NAME, and else changes them while rows go in, up to the most that the plan says; off leaves them as the plan says"""
    batch_rows: int | str | None
    """Rows of a write at most; a write is a commit"""
    batch_bytes: int | str | None
    """Bytes of a write at most [default: 16MiB]"""
    split: Literal["auto", "none"] | None
    """Statements that the database would split (PolarDB-X): keep below its limits, or tell it not to"""
    rate: str | None
    """Rows or bytes a second at most: 50k/s, 20MB/s"""
    durability: Literal["none", "relaxed", "durable", "majority", "all"] | None
    """What a commit promises [default: durable; majority where replicas acknowledge]"""
    on_error: Literal["stop", "reject"] | None
    """What a bad row does: stop the run, or go to the rejects file [default: stop; reject with --rejects]"""
    rejects: str | PathLike[str] | bool | None
    """Where bad rows go, as JSON lines [default: ./TABLE-RUN.rejects.jsonl]"""
    max_rejects: int | str | None
    """Stop after more rejects than this, a number or a share such as 5%"""
    resume: bool | None
    """Go on with an unfinished run of the same input; a new run where there is none"""
    restart: bool | None
    """Forget an unfinished run of the same input and load from the beginning"""
    ledger: str | PathLike[str] | None
    """Where positions are kept: in tables of the database, whose names begin with tonnage_ (target; `tonnage init` prints what makes them), nowhere (none), or in a file of this machine, for databases that have no transactions [auto: target, or such a file]"""
    source_table: str | None
    """The table or view to read, where the source is a database: table, schema.table or 'odd.name'"""
    source_query: str | None
    """The query whose rows to read, where the source is a database"""
    format: Literal["auto", "csv", "tsv", "json", "parquet", "arrow"] | None
    """The format"""
    delimiter: str | None
    """Between fields: one character, or \\t [default: , for CSV, tab for TSV]"""
    quote: str | None
    """Around fields: one character, or none"""
    escape: str | None
    """Before a quote inside a quoted field [default: the quote is doubled]"""
    no_header: bool | None
    """The first line is a row, not names"""
    null: Sequence[str] | str | None
    """Unquoted text that means null, instead of the empty field; may be given again"""
    comment: str | None
    """Skip lines that begin with this character"""
    skip: int | str | None
    """Lines before the header, or the first row, that are not read [default: titles above a header are found]"""
    skip_footer: int | str | None
    """Lines at the end of each file that are not read, such as totals"""
    trim: bool | None
    """Take spaces around unquoted fields for nothing"""
    date_format: Sequence[str] | str | None
    """How dates are written: dmy, mdy, ymd, or a pattern such as %d.%m.%y; may be given again. ISO dates are read as well"""
    decimal: str | None
    """The decimal sign of numbers"""
    thousands: str | None
    """The sign between groups of three digits"""
    true: Sequence[str] | str | None
    """A word for true, besides true, t, yes, y, on and 1; may be given again"""
    false: Sequence[str] | str | None
    """A word for false, besides false, f, no, n, off and 0; may be given again"""
    flatten: bool | None
    """Make columns of the keys of objects within objects of JSON: address.city"""
    union: bool | None
    """Take the columns of all files, by name, where they differ; a file that lacks one has nulls for it"""
    sheet: str | None
    """The sheet of an Excel file [default: the first]"""
    encoding: str | None
    """The character set of text files; auto tells it by their bytes [default: utf-8, or another one where the bytes are clearly of that]"""
    timezone: str | None
    """The zone of times that carry none, for columns with time zone: Europe/Berlin, UTC"""


class UnloadOptions(TypedDict, total=False):
    """Those of ``tonnage unload``."""

    columns: Sequence[str] | str | None
    """The columns wanted, in order [default: all, but for those of a table that the database computes]"""
    where: str | None
    """Only rows of which this is true: a condition in the database's own SQL"""
    limit: int | str | None
    """At most N rows, whichever they are"""
    text: Sequence[str] | str | None
    """Columns to give as the database's own text, whatever they hold"""
    jobs: int | str | None
    """Connections that read at once [default: one a processor, at most 4]"""
    split_by: str | None
    """Cut the work by the values of this column [default: by where rows are stored, where the database can]"""
    format: str | None
    """The format: csv, tsv, jsonl, parquet or arrow [default: by the ending of OUT; csv for -, parquet for a directory]"""
    compression: Literal["none", "gzip", "zstd", "snappy"] | None
    """How files are compressed [default: by the ending of OUT; for Parquet snappy, where it pays]"""
    delimiter: str | None
    """Between fields of CSV: one character, or \\t"""
    no_header: bool | None
    """Leave the line of column names out of CSV"""
    overwrite: bool | None
    """Replace OUT if it exists"""
    manifest: bool | None
    """Write _manifest.json beside the files, last: their names, rows, bytes and SHA-256"""


class GetOptions(TypedDict, total=False):
    """Those of ``tonnage get``."""

    key: Sequence[str] | str | None
    """The columns that keys are of: a primary or unique key, or the first columns of one [default: the primary key, or as many of its first columns as a key has]"""
    columns: Sequence[str] | str | None
    """The columns wanted, in order, of another table as TABLE.COLUMN [default: all, but for those that the database computes]"""
    text: Sequence[str] | str | None
    """Columns to give as the database's own text, whatever they hold"""
    from_: str | None
    """Only rows whose next key column, behind those that are given, is at least V"""
    after: str | None
    """Only rows whose next key column is greater than V"""
    to: str | None
    """Only rows whose next key column is at most V"""
    before: str | None
    """Only rows whose next key column is less than V"""
    on: Sequence[str] | str | None
    """The columns that tables are joined by, where their foreign keys do not say it: 'lines(order_id) = orders(id)'"""
    nested: bool | None
    """Rows of other tables within those that they belong to: children as a list under their table's name, a parent as an object; as JSON lines, Parquet or Arrow [default: a file for each table]"""
    ordered: bool | None
    """Answer keys as often and in the order in which they are asked [default: each once, sorted]"""
    jobs: int | str | None
    """Connections that ask at once [default: one a processor, at most 4]"""
    request_keys: int | str | None
    """Keys of a request at most"""
    keys_format: str | None
    """The format of keys: csv, tsv, jsonl, parquet or arrow [default: by the files' endings; csv for standard input and other endings]"""
    keys_no_header: bool | None
    """The first line of keys is a key, not names"""
    timezone: str | None
    """The zone of times that carry none, for columns with time zone: Europe/Berlin, UTC"""


class BufferOptions(TypedDict, total=False):
    """Those of ``tonnage ingest``."""

    input: str | None
    """A file, glob, directory or URL of JSON lines, taken one after another; - is standard input"""
    ack: Literal["accepted", "journaled", "committed"] | None
    """When a row is acknowledged"""
    journal: str | PathLike[str] | None
    """Keep rows in a journal in DIR until the database has them; the next ingest with it goes on with what is left"""
    journal_bytes: int | str | None
    """The most bytes of the journal; producers are held when they are reached [default: 1GiB]"""
    accept_loss: bool | None
    """Go on without rows of the journal that are damaged or missing, and with an old copy of it"""
    mode: Literal["insert", "upsert", "ignore", "update", "delete"] | None
    """What happens to a row"""
    key: Sequence[str] | str | None
    """The columns that recognise a row [default: the primary key]"""
    any_unique_key: bool | None
    """Let an upsert or an ignore go by whichever unique key a row meets, where a table has several and the database can be told no single one"""
    memory: int | str | None
    """The most bytes of rows in memory [default: 64MiB]"""
    drain_bytes: int | str | None
    """Drain when this much has gathered"""
    drain_age: int | str | None
    """Drain when the oldest row is this old; at once where --ack committed waits for it"""
    durability: Literal["relaxed", "durable"] | None
    """What a commit promises [default: the strongest the database has]"""
    rejects: str | PathLike[str] | bool | None
    """Where bad rows go [default: a name of the run's own]"""
    max_rejects: int | str | None
    """Stop after more rejects than this"""
    timezone: str | None
    """The zone of times that carry none, for columns with time zone: Europe/Berlin, UTC"""
