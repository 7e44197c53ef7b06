"""E3: whether rows reach the pages and the log by array or row by row."""

import sqlite3
import tempfile
from pathlib import Path

import data
import mariadb
import postgres
import ran
from ran import Found, Point

TABLE = "tonnage_experiment_e3"
# One record for each of so many rows at least is row by row.
ROW_BY_ROW = 0.9


def run(quick):
    rows = 5_000 if quick else 100_000
    there, about = ran.published("block_size.csv")
    found = Found("by array or row by row")
    found.lines += [
        f"{about}.", "",
        f"Here {rows:,} rows of a number and 100 bytes of text; records of the log about the table's rows, a row.", "",
    ]
    by_size = {int(row["block_bytes"]): row["redo_entries"] / 100_000 for row in there}
    published = f"by array at 8k ({by_size[8192]:.2f} records a row), row by row at 4k ({by_size[4096]:.2f})"
    in_postgres(found, rows, published)
    in_mariadb(found, rows, published)
    in_sqlite(found, rows)
    return found


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
    shown = lambda value: "-" if value is None else f"{value:.3g}"
    return [[title, operation, method, taken, *map(shown, figures)] for operation, method, taken, *figures in found]


def taken_of(found, method):
    return next((one[2] for one in found if one[:2] == ("insert", method)), None)


def point(found, text, published, is_so, measured, note=""):
    found.points.append(Point(text, published, measured or "-", None if measured in (None, "unknown") else is_so, note))


def in_postgres(found, rows, published):
    drop = f"DROP TABLE IF EXISTS {TABLE}"
    try:
        psql(drop, f"CREATE TABLE {TABLE} (id int PRIMARY KEY, wide varchar(4000))")
        by_method = verdicts(postgres.URL, TABLE, rows)
        select = insert_select(rows)
        psql(
            f"CREATE OR REPLACE FUNCTION {TABLE}() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NEW; END $$",
            f"CREATE TRIGGER seen BEFORE INSERT ON {TABLE} FOR EACH ROW EXECUTE FUNCTION {TABLE}()",
        )
        inserts = ["--method", "native", "--operation", "insert"]
        with_trigger = verdicts(postgres.URL, TABLE, rows, *inserts, "--with-triggers")
        psql(drop)
        narrow = []
        for width in [100, 1000]:
            psql(f"CREATE TABLE {TABLE} (id int PRIMARY KEY, wide varchar({width}))")
            narrow += lines(f"declared {width}", verdicts(postgres.URL, TABLE, rows, "--operation", "insert"))
            psql(drop)
    finally:
        psql(drop, f"DROP FUNCTION IF EXISTS {TABLE}()")
    found.lines += ["## PostgreSQL", ""]
    table = [["INSERT SELECT", "insert", "of the server", said(select), f"{select:.3g}", "-", "-"]]
    table += lines("declared 4000", by_method) + narrow + lines("with a BEFORE trigger", with_trigger)
    found.lines += ran.table(HEAD, table)
    point(found, "PostgreSQL: INSERT SELECT, pages of 8k", published, said(select) == "by array", said(select),
          "the published database adds many rows to a page at once where a row cannot be larger than one; PostgreSQL's "
          "INSERT never does")
    native = taken_of(by_method, "native")
    point(found, "PostgreSQL: a way that is by array", "by array at 8k pages", native == "by array", native, "COPY")
    back = taken_of(with_trigger, "native")
    point(found, "PostgreSQL: a cause that brings row by row back", "the declared row is larger than a page",
          back == "row by row", back, "a BEFORE ROW trigger; the declared width changes nothing here")


def said(records):
    return "row by row" if records >= ROW_BY_ROW else "by array" if records < 0.2 else "mixed"


def insert_select(rows):
    """Records a row that the server's own INSERT SELECT of so many rows leaves."""
    psql("CREATE EXTENSION IF NOT EXISTS pg_walinspect", f"TRUNCATE {TABLE}")
    try:
        begun = psql("SELECT pg_current_wal_insert_lsn()")
        psql(f"INSERT INTO {TABLE} SELECT n, lpad(n::text, 100, '0') FROM generate_series(1, {rows}) n")
        # A commit that has logged something brings to disk what was logged before it.
        psql("SELECT pg_logical_emit_message(true, 'tonnage', '')")
        counted = psql(
            "SELECT count(*) FROM pg_get_wal_records_info("
            f"'{begun}', pg_current_wal_flush_lsn()) WHERE resource_manager IN ('Heap', 'Heap2') "
            "AND record_type ~ '^(MULTI_)?INSERT' AND block_ref LIKE "
            f"'%/' || pg_relation_filenode('{TABLE}') || ' fork main %'"
        )
        return int(counted.splitlines()[-1]) / rows
    finally:
        psql(f"TRUNCATE {TABLE}", "DROP EXTENSION pg_walinspect")


def counters():
    """Changes of pages of the whole server, and bytes of its log."""
    query = "show global status where variable_name in ('Innodb_buffer_pool_write_requests', 'Innodb_lsn_current')"
    said = data.run(mariadb.client("--skip-column-names", "--batch", "--execute", query))
    values = dict(line.split("\t") for line in said.strip().splitlines())
    return int(values["Innodb_buffer_pool_write_requests"]), int(values["Innodb_lsn_current"])


def in_mariadb(found, rows, published):
    try:
        columns = "id int primary key, wide varchar(4000)"
        mariadb.statements(f"drop table if exists {TABLE}", f"create table {TABLE} ({columns})")
        before = counters()
        mariadb.statements(f"insert into {TABLE} select seq, lpad(seq, 100, '0') from seq_1_to_{rows}")
        changes, bytes_ = ((after - earlier) / rows for earlier, after in zip(before, counters()))
        mariadb.statements(f"truncate table {TABLE}")
        by_method = verdicts(mariadb.URL, TABLE, rows)
    finally:
        mariadb.statements(f"drop table if exists {TABLE}")
    found.lines += ["## MariaDB", "", "Changes of pages, of the whole server: table, index and undo log together.", ""]
    table = [["INSERT SELECT", "insert", "of the server", said(changes), f"{changes:.3g}", "-", f"{bytes_:.3g}"]]
    found.lines += ran.table(HEAD, [*table, *lines("declared 4000", by_method)])
    point(found, "MariaDB: INSERT SELECT, pages of 16k", published, said(changes) == "by array", said(changes),
          "InnoDB adds rows one by one; its bulk insert needs an empty table and both checks of keys off")


def in_sqlite(found, rows):
    table, native = [], {}
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
            connection.execute(f"delete from {TABLE}")
            connection.close()
            title = f"pages of {page_bytes:,}"
            table.append([title, "insert", "INSERT SELECT", said(frames), f"{frames:.3g}", "-", f"{grown / rows:.3g}"])
            # A log that reaches 32 MiB begins anew, and is counted no more.
            most = min(rows, 50_000)
            by_method = verdicts(path, TABLE, most, "--operation", "insert", "--method", "native,single")
            native[page_bytes] = taken_of(by_method, "native")
            table += lines(title, by_method)
    found.lines += ["## SQLite", "", "Frames of the write-ahead log: a page whole, for each commit that changes it.", ""]
    found.lines += ran.table(HEAD, table)
    small, large = native[512], native[65536]
    point(found, "SQLite: by array whatever the page size", "row by row at 4k and less, by array at 8k and more",
          small == large == "by array", small if small == large else f"{small} to {large}",
          "a commit logs a page once, however many rows have changed on it")
