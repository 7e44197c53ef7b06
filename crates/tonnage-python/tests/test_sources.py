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


UTC = datetime.UTC


def objects(*values):
    return pandas.DataFrame({"a": pandas.Series(values, dtype=object)})


# What pyarrow by itself would change without a word is among them: it cuts times to dates, takes naive times for those of UTC, and
# makes numbers of periods.
@pytest.mark.parametrize(
    ("source", "message"),
    [
        (pandas.DataFrame([[1, 2]], columns=["a", "a"]), "two columns 'a'"),
        (pyarrow.Table.from_arrays([[1], [2]], names=["a", "a"]), "two columns 'a'"),
        (pandas.DataFrame({"a": [1, "x", object()]}), "column 'a' holds objects"),
        (pandas.DataFrame([[1]], columns=[None]), "column 1 of the frame has no name"),
        (objects(datetime.date(2025, 1, 1), datetime.datetime(2025, 1, 1, 5)), "types that no column has together: date, datetime"),
        (objects(b"x", "y"), "types that no column has together: bytes, str"),
        (objects(datetime.datetime(2025, 1, 1, tzinfo=UTC), datetime.datetime(2025, 1, 1)), "with a zone and others without"),
        (objects(pandas.Timestamp("2025-01-01"), pandas.Timestamp("2025-01-01", tz="UTC")), "with a zone and others without"),
        (objects(datetime.time(1, tzinfo=UTC)), "times of day with a zone"),
        (objects(2**70), "integers beyond 64 bits"),
        (objects(1j), "a type that no column has: complex"),
        (pandas.DataFrame({"a": pandas.period_range("2025-01", periods=2, freq="M")}), r"the type period\[M\]"),
        (pandas.DataFrame({"a": pandas.arrays.IntervalArray.from_tuples([(0, 1)])}), "the type interval"),
        (polars.DataFrame({"a": [object()]}, schema={"a": polars.Object}), "the type Object, which polars alone has"),
        (polars.DataFrame({"a": [2**100]}, schema={"a": polars.Int128}), "the type Int128, which polars alone has"),
        (polars.DataFrame({"a": [[2**100]]}, schema={"a": polars.List(polars.Int128)}), "which polars alone has"),
    ],
)
def test_frames_that_are_no_tables_are_refused(shop, source, message):
    with pytest.raises(tonnage.SchemaError, match=message) as refused:
        tonnage.load(source, shop, "a", create="missing")
    assert refused.value.hint


def test_an_index_that_is_a_column_already_is_refused(shop):
    frame = pandas.DataFrame({"id": [1]}, index=pandas.Index([7], name="id"))
    with pytest.raises(tonnage.SchemaError, match="the index id has the name of a column"):
        tonnage.load(frame, shop, "a", create="missing", index=True)


def test_objects_keep_their_nanoseconds(shop):
    fine = objects(pandas.Timestamp("2025-01-01T00:00:00.000000001"), None)
    with pytest.raises(tonnage.RejectedError, match="finer than a microsecond"):
        tonnage.load(fine, shop, "times", create="missing")
    zoned = objects(pandas.Timestamp("2025-01-01T00:00:00.000000001", tz="Europe/Berlin"), pandas.NaT)
    with pytest.raises(tonnage.RejectedError, match="2024-12-31 23:00:00.000000001"):
        tonnage.load(zoned, shop, "times", create="missing")
    tonnage.load(objects(pandas.Timedelta(1, "ns"), None), shop, "differences", create="missing")
    assert rows_of(shop, "select a from differences") == [("PT0.000000001S",), (None,)]
    assert tonnage.load(objects(pandas.Timestamp("2025-01-01"), pandas.NaT), shop, "whole", create="missing").rows.written == 2


def test_a_frame_of_a_class_of_its_own_has_the_same_traps(shop):
    class Orders(pandas.DataFrame):
        pass

    report = tonnage.load(Orders({"x": [1.0, float("nan")]}, index=["a", "b"]), shop, "own", create="missing")
    assert rows_of(shop, "select * from own") == [(1.0,), (None,)]
    assert any("index" in note for note in report.notes)


def test_sparse_columns_and_columns_of_nothing(shop):
    tonnage.load(pandas.DataFrame({"a": pandas.arrays.SparseArray([0, 0, 1])}), shop, "sparse", create="missing")
    assert rows_of(shop, "select a from sparse") == [(0,), (0,), (1,)]
    nothing = polars.DataFrame({"n": [None], "l": [[]], "s": [{"a": None}]})
    tonnage.load(nothing, shop, "empties", create="missing")
    assert rows_of(shop, "select * from empties") == [(None, "[]", '{"a":null}')]
    tonnage.load(iter([nothing, nothing]), shop, "empties")
    assert rows_of(shop, "select count(*) from empties") == [(3,)]


def test_times_of_numpy_are_no_numbers(shop):
    row = {
        "a": numpy.datetime64("2025-01-01T00:00:00.123456"), "b": numpy.datetime64("NaT"),
        "c": numpy.timedelta64(90, "s"), "d": numpy.float32(0.5),
    }
    tonnage.load([row], shop, "numpys", create="missing", types={"b": "timestamp"})
    assert rows_of(shop, "select * from numpys") == [("2025-01-01 00:00:00.123456", None, "0:01:30", 0.5)]
    fine = {"a": numpy.datetime64("2025-01-01T00:00:00.123456789")}
    with pytest.raises(tonnage.RejectedError, match="finer than a microsecond"):
        tonnage.load([fine], shop, "fine", create="missing", types={"a": "timestamp"})
    with pytest.raises(tonnage.InputError, match="row 1: column 'a': a timedelta64 of this unit"):
        tonnage.load([{"a": numpy.timedelta64(90, "ns")}], shop, "fine", create="missing")


def test_the_types_of_a_new_table_are_those_of_the_objects(shop):
    rows = [
        {"a": pandas.NA, "b": pandas.NaT, "c": None, "d": True},
        {"a": 1, "b": pandas.Timestamp("2025-01-01"), "c": numpy.int16(3), "d": numpy.bool_(False)},
    ]
    tonnage.load(rows, shop, "typed", create="missing")
    columns = rows_of(shop, "select name, type from pragma_table_info('typed')")
    assert columns == [("a", "INTEGER"), ("b", "TIMESTAMP"), ("c", "INTEGER"), ("d", "BOOLEAN")]


def test_a_batch_of_other_columns_is_named(shop):
    drifting = [pandas.DataFrame({"a": [1, 2]}), pandas.DataFrame({"a": [1.5, None]})]
    with pytest.raises(tonnage.InputError, match="batch 2 of .*: 'a' is Float64, and was Int64"):
        tonnage.load(iter(drifting), shop, "drifting", create="missing")


def test_keys_are_columns_and_dicts_too(shop):
    keys = [1, 99]
    for given in (
        pandas.Series(keys, name="id"), pandas.Index(keys, name="id"), pandas.DataFrame({"id": keys}),
        polars.Series("id", keys), [{"id": key} for key in keys], numpy.array(keys), {*keys},
    ):
        assert tonnage.get(shop, given, "orders").missing == [99], type(given)
    with pytest.raises(tonnage.ConfigError, match="the keys are a int") as refused:
        tonnage.get(shop, 17, "orders")
    assert refused.value.hint == "[17]"


@pytest.mark.parametrize(
    "options",
    [{"progress": "yes"}, {"columns": 5}, {"types": ["id"], "create": "missing"}, {"nan": "drop"}],
    ids=lambda options: next(iter(options)),
)
def test_options_of_another_type_are_refused_before_anything_is_done(shop, options):
    with pytest.raises(tonnage.ConfigError, match=next(iter(options))):
        tonnage.load([{"id": 50}], shop, "orders", **options)
    assert rows_of(shop, "select count(*) from orders") == [(3,)]


async def several():
    yield {"id": 1}


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (5, "a int is nothing"),
        ({"a": [1]}, "a dict is nothing"),
        ([(1, 2)], "nothing says which columns"),
        (polars.LazyFrame({"id": [1]}), "a LazyFrame is nothing"),
        (pandas.Series([1]), "a Series is nothing"),
        (polars.Series([1]), "a Series is nothing"),
        (pyarrow.array([1]), "a Int64Array is nothing"),
        (pyarrow.chunked_array([[1]]), "a ChunkedArray is nothing"),
        (numpy.array([[1]]), "a ndarray is nothing"),
        (several(), "a async_generator is nothing"),
        ([{1: 2}], "a column is called 1"),
    ],
)
def test_what_has_no_rows_is_refused(shop, source, message):
    with pytest.raises(tonnage.ConfigError, match=message) as refused:
        tonnage.load(source, shop, "orders")
    assert refused.value.hint


def test_a_value_without_a_form_names_its_row_and_column(shop):
    with pytest.raises(tonnage.InputError, match="row 2: column 'total': a value of type object"):
        tonnage.load([{"id": 5, "total": 1}, {"id": 6, "total": object()}], shop, "orders")
    with pytest.raises(tonnage.InputError, match="row 1: column 'total': a text has a lone surrogate"):
        tonnage.load([{"id": 5, "total": "\ud800"}], shop, "orders")
    with pytest.raises(tonnage.InputError, match="row 1: a row is a dict, or a tuple with columns=, and this is a int"):
        tonnage.load([5], shop, "orders", columns=["id"])


def test_a_sqlalchemy_engine_is_a_url(shop):
    import sqlalchemy.orm

    engine = sqlalchemy.create_engine(f"sqlite:///{shop}")
    assert tonnage.load([{"id": 8, "total": 1}], engine, "orders").rows.written == 1
    with engine.connect() as connection:
        assert tonnage.unload(connection, "orders").to_arrow().num_rows == 4
    with sqlalchemy.orm.Session(engine) as session:
        assert tonnage.unload(session, "orders").to_arrow().num_rows == 4
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
