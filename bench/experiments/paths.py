"""E3: whether rows reach the pages and the log by array or row by row."""

import sqlite3
import tempfile
from pathlib import Path
from urllib.parse import urlsplit

import data
import mariadb
import postgres
import ran
import servers
from ran import Found, Point, times

TABLE = "tonnage_experiment_e3"
# One record for each of so many rows at least is row by row.
ROW_BY_ROW = 0.9
# Rows of the published run.
PUBLISHED_ROWS = 100_000
# Page sizes, and the published one that each behaves as: the file of those figures says so of 2k and 16k.
AS_PUBLISHED = {2_048: 4_096, 4_096: 4_096, 8_192: 8_192, 16_384: 8_192}
MARIADB_PAGES = [4_096, 8_192, 16_384]
# Characters that the text is declared as; pages of PostgreSQL have 8,192 bytes.
WIDTHS = [100, 1_000, 4_000, 20_000]


class Published:
    """The published run, by page size."""

    def __init__(self):
        rows, self.about = ran.published("block_size.csv")
        self.rows = {int(row["block_bytes"]): row for row in rows}

    def records(self, page_bytes):
        """Records a row."""
        return self.rows[AS_PUBLISHED[page_bytes]]["redo_entries"] / PUBLISHED_ROWS

    def taken(self, sizes):
        return {size: said(self.records(size)) for size in sizes}

    def log_ratio(self):
        """Bytes of the log at 4k over those at 8k."""
        return self.rows[4_096]["redo_bytes"] / self.rows[8_192]["redo_bytes"]


def run(quick):
    rows = 5_000 if quick else 100_000
    there = Published()
    found = Found("by array or row by row")
    found.lines += [
        f"{there.about}.", "",
        f"Here {rows:,} rows of a number and 100 bytes of text; records of the log about the table's rows, a row.", "",
    ]
    in_postgres(found, rows, there)
    in_mariadb(found, rows, there)
    in_sqlite(found, rows, there)
    return found


def kibi(number):
    return f"{number >> 10}k" if number >= 1_024 else str(number)


def grouped(by_size, shown=kibi):
    """Verdicts by size in words: `by array at 512 to 32k, mixed at 64k`."""
    groups = []
    for size, verdict in by_size.items():
        if groups and groups[-1][0] == verdict:
            groups[-1][1].append(size)
        else:
            groups.append((verdict, [size]))
    ends = lambda sizes: " to ".join(shown(size) for size in dict.fromkeys([sizes[0], sizes[-1]]))
    return ", ".join(f"{verdict or 'unknown'} at {ends(sizes)}" for verdict, sizes in groups)


def psql(*statements):
    command = ["psql", "-qXAt", "-v", "ON_ERROR_STOP=1", postgres.URL]
    for statement in statements:
        command += ["-c", statement]
    return data.run(command).strip()


def wide(rows):
    """A number and 100 bytes of text, which differ from row to row."""

    def make(path):
        path.write_text("id,wide\n" + "".join(f"{n},{n:0>100}\n" for n in range(1, rows + 1)))

    return data.made(f"wide-text-{rows}.csv", make)


def verdicts(url, table, rows, *options):
    """What explain says: (operation, method, verdict, records a row, of indexes, bytes of log a row)."""
    report = ran.explain(url, table, wide(rows), "--rows", rows, "--batch-rows", "1k", *options)
    figures = ["row_records", "index_records", "log_bytes"]
    return [
        (one["operation"], one["method"], one["taken"].replace("_", " "), *(one[figure] for figure in figures))
        for one in report["methods"]
    ]


HEAD = ["", "operation", "way", "taken", "records a row", "of indexes", "log bytes a row"]


def lines(title, found):
    """Verdicts as lines of a table, numbers rounded."""
    return [[title, operation, method, taken, *map(ran.short, figures)] for operation, method, taken, *figures in found]


def taken_of(found, method):
    return next((one[2] for one in found if one[:2] == ("insert", method)), None)


def point(found, text, published, is_so, measured, note=""):
    is_known = measured is not None and "unknown" not in measured
    found.points.append(Point(text, published, measured or "-", is_so if is_known else None, note))


def in_postgres(found, rows, there):
    drop = f"DROP TABLE IF EXISTS {TABLE}"
    try:
        psql(drop)
        lines_of, native = [], {}
        for width in WIDTHS:
            psql(f"CREATE TABLE {TABLE} (id int PRIMARY KEY, wide varchar({width}))")
            usual = width == 4_000
            by_method = verdicts(postgres.URL, TABLE, rows, *([] if usual else ["--operation", "insert"]))
            lines_of += lines(f"declared {width:,}", by_method)
            native[width] = taken_of(by_method, "native")
            if usual:
                own = of_the_server(rows)
                with_trigger = triggered(rows)
            psql(drop)
    finally:
        psql(drop, f"DROP FUNCTION IF EXISTS {TABLE}()")
    found.lines += ["## PostgreSQL", ""]
    select = own["insert"]
    table = [
        ["one statement", operation, "of the server", said(records), f"{records:.3g}", "-", "-"]
        for operation, records in own.items()
    ]
    found.lines += ran.table(HEAD, table + lines_of + lines("with a BEFORE trigger", with_trigger))
    theirs = said(there.records(8_192))
    point(found, "PostgreSQL: INSERT SELECT, pages of 8k", with_records(theirs, there.records(8_192)),
          said(select) == theirs, with_records(said(select), select),
          "the published database gathers rows for a page where a row cannot be larger than one; PostgreSQL's INSERT adds "
          "each by itself")
    point(found, "PostgreSQL: a way that is by array at pages of 8k (COPY)", theirs, native[4_000] == theirs, native[4_000])
    back = taken_of(with_trigger, "native")
    theirs = said(there.records(4_096))
    point(found, "PostgreSQL: a cause brings row by row back (there a declared row larger than a page, here a BEFORE ROW "
          "trigger)", theirs, back == theirs, back)
    apart = len(set(native.values())) > 1
    point(found, "PostgreSQL: the declared width, in characters, decides (COPY)",
          "row by row where the declared row is larger than a page",
          apart, None if None in native.values() else grouped(native, "{:,}".format),
          "COPY gathers rows by their number and their bytes, whatever they are declared as")


def triggered(rows):
    """What COPY does to the table that is there once it has a trigger before each row."""
    psql(
        f"CREATE OR REPLACE FUNCTION {TABLE}() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NEW; END $$",
        f"CREATE TRIGGER seen BEFORE INSERT ON {TABLE} FOR EACH ROW EXECUTE FUNCTION {TABLE}()",
    )
    inserts = ["--method", "native", "--operation", "insert"]
    return verdicts(postgres.URL, TABLE, rows, *inserts, "--with-triggers")


def with_records(taken, records):
    return f"{taken} ({records:.2f} records a row)"


def said(records):
    return "row by row" if records >= ROW_BY_ROW else "by array" if records < 0.2 else "mixed"


def of_the_server(rows):
    """Records a row that one statement of the server's own, about so many rows, leaves: by operation."""
    text = lambda digit: f"lpad(n::text, 100, '{digit}')"
    statements = {
        "insert": f"INSERT INTO {TABLE} SELECT n, {text(0)} FROM generate_series(1, {rows}) n",
        "update": f"UPDATE {TABLE} SET wide = reverse(wide)",
        # One half of the rows is there.
        "merge": f"MERGE INTO {TABLE} USING generate_series({rows // 2 + 1}, {rows // 2 + rows}) n ON id = n "
                 f"WHEN MATCHED THEN UPDATE SET wide = {text(1)} WHEN NOT MATCHED THEN INSERT VALUES (n, {text(1)})",
        "delete": f"DELETE FROM {TABLE} WHERE id <= {rows}",
    }
    psql("CREATE EXTENSION IF NOT EXISTS pg_walinspect", f"TRUNCATE {TABLE}")
    try:
        return {operation: heap_records(statement) / rows for operation, statement in statements.items()}
    finally:
        psql(f"TRUNCATE {TABLE}", "DROP EXTENSION pg_walinspect")


def heap_records(statement):
    """Records about the table's rows that a statement of PostgreSQL leaves in the log."""
    begun = psql("SELECT pg_current_wal_insert_lsn()")
    psql(statement)
    # A commit that has logged something brings to disk what was logged before it.
    psql("SELECT pg_logical_emit_message(true, 'tonnage', '')")
    counted = psql(
        f"SELECT count(*) FROM pg_get_wal_records_info('{begun}', pg_current_wal_flush_lsn()) "
        "WHERE resource_manager IN ('Heap', 'Heap2') AND record_type ~ '(INSERT|UPDATE|DELETE)' "
        f"AND block_ref LIKE '%/' || pg_relation_filenode('{TABLE}') || ' fork main %'"
    )
    return int(counted.splitlines()[-1])


def counters(parts):
    """Changes of pages of the whole server, and bytes of its log."""
    query = "show global status where variable_name in ('Innodb_buffer_pool_write_requests', 'Innodb_lsn_current')"
    told = data.run(mariadb.client("--skip-column-names", "--batch", "--execute", query, parts=parts))
    values = dict(line.split("\t") for line in told.strip().splitlines())
    return int(values["Innodb_buffer_pool_write_requests"]), int(values["Innodb_lsn_current"])


def grown_by(parts, rows):
    """Changes of pages and bytes of log, a row, of one statement of the server's own: by operation."""
    half, text = rows // 2, lambda digit: f"lpad(seq, 100, '{digit}')"
    statements = {
        "insert": f"insert into {TABLE} select seq, {text(0)} from seq_1_to_{rows}",
        "update": f"update {TABLE} set wide = reverse(wide)",
        # It has no MERGE. One half of the rows is there.
        "upsert": f"insert into {TABLE} select seq, {text(1)} from seq_{half + 1}_to_{half + rows} "
                  "on duplicate key update wide = values(wide)",
        "delete": f"delete from {TABLE} where id <= {rows}",
    }
    grown = {}
    for operation, statement in statements.items():
        before = counters(parts)
        mariadb.statements(statement, parts=parts)
        grown[operation] = [(after - earlier) / rows for earlier, after in zip(before, counters(parts))]
    return grown


def in_mariadb(found, rows, there):
    """By a server of its own for each page size."""
    table, changes, log_bytes = [], {}, {}
    for page_bytes in MARIADB_PAGES:
        with servers.mariadb(page_bytes) as url:
            parts = urlsplit(url)
            columns = "id int primary key, wide varchar(4000)"
            mariadb.statements(f"create table {TABLE} ({columns})", parts=parts)
            own = grown_by(parts, rows)
            mariadb.statements(f"truncate table {TABLE}", parts=parts)
            by_method = verdicts(url, TABLE, rows)
        changes[page_bytes], log_bytes[page_bytes] = own["insert"]
        title = f"pages of {page_bytes:,}"
        table += [
            [title, operation, "of the server", said(changed), ran.short(changed), "-", ran.short(bytes_)]
            for operation, (changed, bytes_) in own.items()
        ]
        table += lines(title, by_method)
    found.lines += [
        "## MariaDB", "",
        "A server of its own for each page size. Changes of pages, of the whole server: table, index and undo log together.",
        "",
    ]
    found.lines += ran.table(HEAD, table)
    taken, theirs = {size: said(changed) for size, changed in changes.items()}, there.taken(MARIADB_PAGES)
    point(found, "MariaDB: INSERT SELECT by page size", grouped(theirs), taken == theirs, grouped(taken),
          "InnoDB adds rows one by one, however many a page holds; its bulk insert needs an empty table and both checks of "
          "keys off")
    logged(found, "MariaDB: INSERT SELECT", there, log_bytes, taken)


def logged(found, name, there, log_bytes, taken):
    """Bytes of log a row at 4k over those at 8k: at least half of the difference that was published."""
    theirs, ours = there.log_ratio(), ran.over(log_bytes[4_096], log_bytes[8_192])
    small, large = taken[4_096], taken[8_192]
    point(found, f"{name}: bytes of log at pages of 4k over those at 8k", times(theirs),
          ours is not None and ours - 1 >= (theirs - 1) / 2, None if ours is None else times(ours),
          f"rows are taken {small} at both" if small == large else "")


def in_sqlite(found, rows, there):
    table, native, select, log_bytes = [], {}, {}, {}
    with tempfile.TemporaryDirectory() as directory:
        for page_bytes in [512, 1024, 2048, 4096, 8192, 16384, 32768, 65536]:
            path = Path(directory) / f"{page_bytes}.db"
            connection = sqlite3.connect(path, isolation_level=None)
            for statement in [
                f"pragma page_size = {page_bytes}", "pragma journal_mode = wal", "pragma wal_autocheckpoint = 0",
                f"create table {TABLE} (id integer primary key, wide text)",
            ]:
                connection.execute(statement)
            wal = Path(f"{path}-wal")
            before = wal.stat().st_size
            numbers = f"with recursive n (n) as (values (1) union all select n + 1 from n where n < {rows})"
            connection.execute(f"insert into {TABLE} {numbers} select n, printf('%0100d', n) from n")
            grown = wal.stat().st_size - before
            frames = grown / (page_bytes + 24) / rows
            select[page_bytes], log_bytes[page_bytes] = said(frames), grown / rows
            connection.execute(f"delete from {TABLE}")
            connection.close()
            title = f"pages of {page_bytes:,}"
            table.append([title, "insert", "INSERT SELECT", said(frames), ran.short(frames), "-", ran.short(grown / rows)])
            # A log that reaches 32 MiB begins anew, and is counted no more.
            most = min(rows, 50_000)
            by_method = verdicts(path, TABLE, most, "--operation", "insert", "--method", "native,single")
            native[page_bytes] = taken_of(by_method, "native")
            table += lines(title, by_method)
    found.lines += ["## SQLite", "", "Frames of the write-ahead log: a page whole, for each commit that changes it.", ""]
    found.lines += ran.table(HEAD, table)
    theirs = there.taken(AS_PUBLISHED)
    point(found, "SQLite: by page size (native)", grouped(theirs), all(native[size] == theirs[size] for size in theirs),
          None if None in native.values() else grouped(native),
          "a commit logs a page once, however many rows have changed on it: the rows of a commit decide")
    logged(found, "SQLite: INSERT SELECT", there, log_bytes, select)
