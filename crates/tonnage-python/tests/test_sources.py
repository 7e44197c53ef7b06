"""Whatever rows can be read from, and what may be wrong with it."""

import datetime
import decimal
import sqlite3
import uuid

import arro3.core
import duckdb
import nanoarrow
import numpy
import pandas
import polars
import pyarrow
import pytest

import tonnage


def rows_of(path, sql):
    connection = sqlite3.connect(path)
    found = connection.execute(sql).fetchall()
    connection.close()
    return found


TABLE = pyarrow.table({"id": [10, 11, 12], "total": [1.5, 2.5, 3.5]})


@pytest.mark.parametrize(
    "source",
    [
        lambda: TABLE,
        lambda: TABLE.to_batches()[0],
        lambda: TABLE.to_reader(),
        lambda: TABLE.to_pandas(),
        lambda: polars.from_arrow(TABLE),
        lambda: duckdb.sql("select 10 + range as id, 1.5 + range as total from range(3)"),
        lambda: nanoarrow.ArrayStream(TABLE),
        lambda: arro3.core.Table(TABLE),
        lambda: iter(TABLE.to_batches(max_chunksize=1)),
        lambda: [TABLE.slice(0, 1), TABLE.slice(1)],
        lambda: (frame for frame in [TABLE.to_pandas()]),
        lambda: (lambda: TABLE),
        lambda: TABLE.to_pylist(),
    ],
    ids=["table", "batch", "reader", "pandas", "polars", "duckdb", "nanoarrow", "arro3", "batches", "list", "frames",
         "function", "dicts"],
)
def test_every_producer_is_taken(shop, source):
    report = tonnage.load(source(), shop, "orders")
    assert report.rows.written == 3
    assert rows_of(shop, "select id, total from orders where id >= 10 order by id") == [(10, 1.5), (11, 2.5), (12, 3.5)]


def test_an_unload_is_a_source(shop, tmp_path):
    other = tmp_path / "other.db"
    report = tonnage.load(tonnage.unload(shop, "orders"), other, "orders", create="missing", key=["id"])
    assert report.rows.written == 3
    assert rows_of(other, "select count(*) from orders") == [(3,)]


def test_nan_is_what_is_asked_for(shop):
    create = {"create": "missing"}
    frame = pandas.DataFrame({"x": [1.0, float("nan")]})
    tonnage.load(frame, shop, "missing", **create)
    assert rows_of(shop, "select x from missing") == [(1.0,), (None,)]
    kept = polars.DataFrame({"x": [1.0, float("nan")]})
    tonnage.load(kept, shop, "nulled", nan="null", **create)
    assert rows_of(shop, "select x from nulled") == [(1.0,), (None,)]
    # SQLite has no such number, so it is refused and not changed.
    for source in (kept, [{"x": float("nan")}]):
        with pytest.raises(tonnage.RejectedError):
            tonnage.load(source, shop, "kept", **create)
    with pytest.raises(tonnage.RejectedError):
        tonnage.load(frame, shop, "kept", nan="keep", **create)


def test_values_of_python_arrive(shop):
    row = {
        "i": 2**62, "f": 0.1, "b": True, "s": 'a "text", ünd', "d": datetime.date(2025, 2, 28),
        "t": datetime.datetime(2025, 2, 28, 12, 30, 15, 123456), "n": decimal.Decimal("1234567.125"),
        "u": uuid.UUID(int=5), "y": b"\x00\xff", "none": None, "j": {"a": [1, 2]}, "np": numpy.int32(7),
    }
    tonnage.load([row], shop, "everything", create="missing")
    out = tonnage.unload(shop, "everything").to_pylist()[0]
    for name in ("i", "f", "b", "s", "d", "t", "y", "none"):
        assert out[name] == row[name], name
    assert decimal.Decimal(str(out["n"])) == row["n"]
    assert str(out["u"]).replace("-", "") == row["u"].hex or out["u"] == row["u"].bytes


def test_categoricals_nullable_ints_and_zones(shop):
    frame = pandas.DataFrame(
        {
            "c": pandas.Categorical(["a", "b", None]),
            "n": pandas.array([1, None, 2**60 + 1], dtype="Int64"),
            "z": pandas.to_datetime(["2025-01-01T00:00:00+02:00"] * 3),
        }
    )
    tonnage.load(frame, shop, "kinds", create="missing")
    out = tonnage.unload(shop, "kinds").to_arrow().to_pylist()
    assert [row["c"] for row in out] == ["a", "b", None]
    assert [row["n"] for row in out] == [1, None, 2**60 + 1]
    assert out[0]["z"].astimezone(datetime.UTC) == datetime.datetime(2024, 12, 31, 22, tzinfo=datetime.UTC)


def test_nanoseconds_are_not_lost_in_silence(shop):
    fine = pandas.DataFrame({"t": pandas.to_datetime(["2025-01-01T00:00:00.123456"])})
    assert tonnage.load(fine, shop, "times", create="missing").rows.written == 1
    too_fine = pandas.DataFrame({"t": pandas.to_datetime(["2025-01-01T00:00:00.123456789"])})
    with pytest.raises(tonnage.RejectedError) as refused:
        tonnage.load(too_fine, shop, "times")
    assert refused.value.report.rows.written == 0


def test_an_index_is_left_out_and_noted(shop):
    frame = pandas.DataFrame({"total": [1.0]}, index=pandas.Index([7], name="id"))
    report = tonnage.load(frame, shop, "orders")
    assert any("index id" in note for note in report.notes)
    tonnage.load(pandas.DataFrame({"total": [1.0]}, index=pandas.Index([70], name="id")), shop, "orders", index=True)
    assert rows_of(shop, "select count(*) from orders where id = 70") == [(1,)]


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (pandas.DataFrame([[1, 2]], columns=["a", "a"]), "two columns 'a'"),
        (pyarrow.Table.from_arrays([[1], [2]], names=["a", "a"]), "two columns 'a'"),
        (pandas.DataFrame({"a": [1, "x", object()]}), "column 'a' holds objects"),
    ],
)
def test_frames_that_are_no_tables_are_refused(shop, source, message):
    with pytest.raises(tonnage.SchemaError, match=message) as refused:
        tonnage.load(source, shop, "a", create="missing")
    assert refused.value.hint


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (5, "a int is nothing"),
        ({"a": [1]}, "a dict is nothing"),
        ([(1, 2)], "nothing says which columns"),
    ],
)
def test_what_has_no_rows_is_refused(shop, source, message):
    with pytest.raises(tonnage.ConfigError, match=message) as refused:
        tonnage.load(source, shop, "orders")
    assert refused.value.hint


def test_a_value_without_a_form_names_its_row_and_column(shop):
    with pytest.raises(tonnage.InputError, match="row 2: column 'total': a value of type object"):
        tonnage.load([{"id": 5, "total": 1}, {"id": 6, "total": object()}], shop, "orders")


def test_a_sqlalchemy_engine_is_a_url(shop):
    import sqlalchemy

    engine = sqlalchemy.create_engine(f"sqlite:///{shop}")
    assert tonnage.load([{"id": 8, "total": 1}], engine, "orders").rows.written == 1
    with engine.connect() as connection:
        assert tonnage.unload(connection, "orders").to_arrow().num_rows == 4
    url = sqlalchemy.engine.make_url("postgresql+psycopg://ada:secret@db/shop")
    assert tonnage.connect(url).url == "postgresql://ada:***@db/shop"
    assert tonnage.connect("mysql+pymysql://ada@db/shop").url.startswith("mysql://ada@db")


def test_bulk_put_calls_back(shop):
    streams = [
        [{"id": 1, "total": "1.00"}, {"id": 20, "total": "2.00"}],
        [{"id": 21, "total": "free"}, {"id": 22, "total": "3.00"}],
    ]
    completed, exists, failed = [], [], []

    def on_failed(failure, entry):
        failed.append((entry.stream, entry.row, failure.column))
        return True

    report = tonnage.bulk_put(
        shop, "orders", streams,
        on_completed=completed.append, on_key_exists=lambda entry: exists.append(entry.row), on_failed=on_failed,
    )
    assert (report.written, report.key_exists, report.failed) == (2, 1, 1)
    assert (sorted(completed), exists, failed) == ([0, 1], [1], [(1, 1, "total")])


def test_a_callback_that_raises_ends_the_put(shop):
    def on_failed(failure, entry):
        raise LookupError("no such rule")

    with pytest.raises(tonnage.Error) as ended:
        tonnage.bulk_put(shop, "orders", [[{"id": 30, "total": "x"}]], on_failed=on_failed)
    assert isinstance(ended.value.__cause__, LookupError)


def test_rows_of_related_tables(shop):
    connection = sqlite3.connect(shop)
    connection.execute("create table lines (id integer primary key, order_id int references orders(id), what text)")
    connection.execute("insert into lines values (1, 1, 'a'), (2, 1, 'b'), (3, 2, 'c')")
    connection.commit()
    connection.close()
    found = tonnage.get(shop, [1, 99], "orders", related=["lines"])
    assert found.to_arrow()["id"].to_pylist() == [1]
    assert found.related["lines"].to_arrow()["what"].to_pylist() == ["a", "b"]
    assert found.missing == [99]
    assert found.report.data["keys"]["missing"] == 1
