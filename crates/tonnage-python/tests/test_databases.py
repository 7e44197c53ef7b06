"""Rows in and out of every kind of database."""

import os
import signal
import subprocess
import sys

import pandas
import polars
import pyarrow
import pytest

import tonnage

ROWS = 5_000


@pytest.fixture
def frame():
    return polars.DataFrame(
        {"id": range(ROWS), "name": [f"n{i}" for i in range(ROWS)], "value": [i / 4 for i in range(ROWS)]}
    )


def test_a_frame_goes_in_and_comes_out_as_it_was(place, frame):
    report = tonnage.load(frame, place.url, place.table, create="missing", key=["id"])
    assert (report.state, report.rows.read, report.rows.written) == ("finished", ROWS, ROWS)
    assert place.count() == ROWS
    out = tonnage.unload(place.url, place.table).to_polars()
    out = out.with_columns(polars.col("id").cast(polars.Int64)).sort("id").select(frame.columns)
    assert out.equals(frame)


def test_rows_are_replaced_by_key(place, frame):
    with tonnage.connect(place.url) as db:
        db.load(frame, place.table, create="missing", key=["id"])
        changed = frame.with_columns(value=polars.col("value") + 1000)
        report = db.load(changed, place.table, mode="upsert", key=["id"])
        assert report.rows.written == ROWS
        assert place.count() == ROWS
        found = db.get([7, ROWS + 1], place.table, columns=["id", "value"])
        assert found.missing == [ROWS + 1]
        assert [(row["id"], row["value"]) for row in found.to_pylist()] == [(7, 7 / 4 + 1000)]


def test_dicts_and_tuples_are_rows(place):
    rows = [{"id": n, "name": f"n{n}"} for n in range(100)]
    tonnage.load(rows, place.url, place.table, create="missing", key=["id"])
    tuples = ((n, f"n{n}") for n in range(100, 200))
    report = tonnage.load(tuples, place.url, place.table, columns=["id", "name"])
    assert report.rows.written == 100
    assert place.count() == 200


def test_files_are_loaded_and_resumed_as_finished(place, frame, tmp_path):
    path = tmp_path / "frame.parquet"
    frame.write_parquet(path)
    tonnage.load(path, place.url, place.table, create="missing", key=["id"])
    again = tonnage.load(path, place.url, place.table, resume=True)
    assert again.state == "nothing to do"
    assert place.count() == ROWS


def test_a_statement_runs_for_every_row(transactional, frame):
    place = transactional
    tonnage.load(frame, place.url, place.table, create="missing", key=["id"])
    statement = f"update {place.table} set value = value + :more where id = :id"
    report = tonnage.execute(statement, [{"id": n, "more": 2} for n in range(10)], place.url)
    assert report.rows.written == 10
    assert place.count("sum(value)") == pytest.approx(frame["value"].sum() + 20)


def test_rows_of_the_program_are_all_there_or_none(transactional):
    place = transactional
    place.run(f"create table {place.table} (id int primary key)")

    def rows():
        for n in range(50_000):
            yield {"id": n}
        raise RuntimeError("the program fails")

    with pytest.raises(tonnage.InputError, match="RuntimeError: the program fails") as failed:
        tonnage.load(rows(), place.url, place.table)
    assert isinstance(failed.value.__cause__, RuntimeError)
    assert place.count() == 0


def test_a_put_waits_until_its_row_is_there(transactional):
    place = transactional
    tonnage.load([{"id": 0, "name": "first"}], place.url, place.table, create="missing", key=["id"])
    with tonnage.connect(place.url).buffer(place.table) as buffer:
        number = buffer.put({"id": 1, "name": "second"})
        buffer.put_many([{"id": n, "name": "more"} for n in range(2, 50)])
        last = buffer.put_many(pyarrow.table({"id": pyarrow.array(range(50, 60)), "name": ["x"] * 10}))
        assert number == 1
        buffer.wait(last)
        assert buffer.committed >= last
        assert place.count() == 60
    assert buffer.close().data["rows"]["written"] == 59


def test_pandas_out_and_in_again(transactional, frame):
    place = transactional
    tonnage.load(frame.to_pandas(), place.url, place.table, create="missing", key=["id"])
    out = tonnage.unload(place.url, place.table).to_pandas().sort_values("id").reset_index(drop=True)
    pandas.testing.assert_frame_equal(out[["id", "name", "value"]], frame.to_pandas(), check_dtype=False)


TYPES = {
    "mariadb": """select 1 as a, 2.5e0 as b, 1.50 as c, 'text' as d, x'00ff' as e, date '2024-02-29' as f,
                  time '23:59:59.000001' as g, timestamp '1969-12-31 23:59:59.999999' as h
                  union all select null, null, null, null, null, null, null, null""",
    "sqlite": """select 1 as n, 2.5 as f, 'text' as t, x'00ff' as b, null as missing
                 union all select -1, null, '', x'', null""",
    "postgres": """select 1::smallint as a, 2::bigint as b, 2.5::float8 as c, 1.50::numeric(10, 2) as d, true as e,
                   'text'::text as f, '\\x00ff'::bytea as g, date '2024-02-29' as h, time '23:59:59.000001' as i,
                   timestamp '1969-12-31 23:59:59.999999' as j, timestamptz '2024-06-01 12:00:00+02' as k,
                   '00112233-4455-6677-8899-aabbccddeeff'::uuid as l, '{"a": 1}'::jsonb as m
                   union all select null, null, null, null, null, null, null, null, null, null, null, null, null""",
}


def test_objects_are_those_of_pyarrow_and_need_none(transactional):
    place = transactional
    query = TYPES[place.kind]
    ours = tonnage.unload(place.url, query=query).to_pylist()
    theirs = tonnage.unload(place.url, query=query).to_arrow().to_pylist()
    assert ours == theirs
    assert [[type(value) for value in row.values()] for row in ours] == [
        [type(value) for value in row.values()] for row in theirs
    ]
    code = (
        "import sys; sys.modules['pyarrow'] = None\n"
        "import tonnage\n"
        f"print(len(tonnage.unload({place.url!r}, query={query!r}).to_pylist()))"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert ran.stdout.strip() == "2", ran.stderr


def test_a_query_that_fails_while_it_is_read_says_so_in_every_form():
    url = os.environ["TONNAGE_TEST_POSTGRES_URL"]
    query = "select 10 / (5000 - n) as x from generate_series(1, 10000) as n"
    for form in ("to_arrow", "to_pandas", "to_polars", "to_pylist"):
        with pytest.raises(tonnage.DatabaseError, match="division by zero") as failed:
            getattr(tonnage.unload(url, query=query), form)()
        assert failed.value.code == "22012"


WAITING = """
import sys, tonnage
try:
    rows = tonnage.unload(sys.argv[1], query="select n, pg_sleep(600) from generate_series(1, 2) as n")
    print("begun", flush=True)
    getattr(rows, sys.argv[2])()
except KeyboardInterrupt:
    sys.exit(7)
"""


@pytest.mark.parametrize("form", ["to_arrow", "to_pandas", "to_polars", "to_pylist"])
def test_ctrl_c_ends_a_query_that_is_read(form):
    url = os.environ["TONNAGE_TEST_POSTGRES_URL"]
    process = subprocess.Popen([sys.executable, "-c", WAITING, url, form], stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "begun\n"
    process.send_signal(signal.SIGINT)
    assert process.wait(60) == 7
