"""Jobs of Python programs, and of Dask and Spark: every row once, whatever the scheduler does."""

import multiprocessing
import os
import signal
import sys
import time

import pandas
import pyarrow
import pytest

import tonnage

FILES, ROWS = 12, 500


@pytest.fixture
def files(tmp_path):
    for number in range(FILES):
        ids = range(number * ROWS, (number + 1) * ROWS)
        pandas.DataFrame({"id": ids, "name": [f"n{n}" for n in ids]}).to_csv(tmp_path / f"in-{number}.csv", index=False)
    return str(tmp_path / "in-*.csv")


@pytest.fixture
def table(transactional):
    transactional.run(f"create table {transactional.table} (id bigint, name varchar(20))")
    return transactional


def assert_whole(place, report, rows=FILES * ROWS):
    assert place.count() == rows
    assert place.count("count(distinct id)") == rows
    assert report.state == "finished"
    assert report.rows == {"read": rows, "written": rows, "skipped": 0, "rejected": 0}


def _all(job):
    done = 0
    while job.run() is not None:
        done += 1
    return done


def test_processes_share_the_parts_of_a_job(table, files):
    job = tonnage.plan_job(files, table.url, table.table, parts=6)
    with pytest.raises(tonnage.ConfigError, match="6 parts of 6 not done: 0 to 5"):
        job.finish()
    with multiprocessing.get_context("spawn").Pool(3) as pool:
        assert sum(pool.map(_all, [job] * 3)) == 6
    again = job.run(4)
    assert again.already_done and again.rows["written"] == 2 * ROWS
    assert job.status().state == "to be finished"
    assert_whole(table, job.finish())
    assert_whole(table, job.finish())


def test_parts_of_a_program_are_there_once(table):
    frames = [pandas.DataFrame({"id": range(n * 10, n * 10 + 10), "name": "a"}) for n in range(3)]
    job = tonnage.plan_job(frames[0].head(0).astype({"name": "string"}), table.url, table.table, parts=3)
    for number in [2, 0, 2, 1]:
        job.run(number, frames[number])
    assert_whole(table, job.finish(), 30)
    later = tonnage.plan_job(pyarrow.table(frames[0]), table.url, table.table, parts=0)
    for number in [7, 3, 7]:
        later.run(number, pyarrow.table(frames[number % 3]))
    report = later.finish()
    assert (report.parts["total"], report.rows["written"]) == (2, 20)
    with pytest.raises(tonnage.ConfigError, match="comes too late"):
        later.run(1, frames[1])
    assert table.count() == 50


def test_a_program_that_raises_leaves_nothing_of_its_part(table):
    job = tonnage.plan_job(pyarrow.table({"id": [1], "name": ["a"]}), table.url, table.table, parts=1)

    def rows():
        # More than are looked at before the part is claimed.
        yield from ({"id": n, "name": "a"} for n in range(2_000))
        raise ValueError("no more")

    with pytest.raises(tonnage.InputError, match="no more"):
        job.run(0, rows())
    assert table.count() == 0
    failed = job.status()
    assert failed.parts["failed"] == 1 and "no more" in failed.list[0]["error"]
    job.run(0, [{"id": 1, "name": "a"}])
    assert_whole(table, job.finish(), 1)


@pytest.fixture(scope="module")
def cluster():
    from distributed import LocalCluster

    with LocalCluster(n_workers=3, threads_per_worker=2, processes=True, dashboard_address=None) as made:
        yield made


@pytest.fixture
def client(cluster):
    from distributed import Client

    with Client(cluster) as made:
        made.wait_for_workers(3)
        yield made


def _kill_one(client):
    pids = client.run(os.getpid)
    os.kill(next(iter(pids.values())), signal.SIGKILL)


def test_dask_loads_files(table, files, client):
    import tonnage.dask

    report = tonnage.dask.load(files, table.url, table.table, client=client)
    assert report.parts["total"] == FILES
    assert_whole(table, report)


def test_dask_loads_a_frame(table, client):
    import dask.dataframe

    import tonnage.dask

    frame = pandas.DataFrame({"id": range(2_000), "name": [f"n{n}" for n in range(2_000)]})
    partitions = dask.dataframe.from_pandas(frame, npartitions=8)
    report = tonnage.dask.load(partitions, table.url, table.table, client=client, recreate=table.kind != "mariadb")
    assert report.parts["total"] == 8
    assert_whole(table, report, 2_000)


def test_dask_loses_workers(table, files, client):
    import threading

    import tonnage.dask

    def lose():
        for _ in range(2):
            before = table.count()
            while table.count() == before:
                time.sleep(0.05)
            _kill_one(client)
            client.wait_for_workers(3)

    losing = threading.Thread(target=lose)
    losing.start()
    report = tonnage.dask.load(
        files, table.url, table.table, client=client, lease=3, rate="600/s", batch_rows=50, jobs=1, retries=10
    )
    losing.join()
    assert_whole(table, report)
    assert max(part["attempts"] for part in report.list) > 1


def test_dask_goes_on_with_a_job(table, files, client, tmp_path):
    import tonnage.dask

    bad = tmp_path / "in-99.csv"
    bad.write_text("id,name\nx,y\n")
    with pytest.raises(tonnage.Error) as raised:
        tonnage.dask.load(files, table.url, table.table, client=client, retries=0)
    note = raised.value.__notes__[-1]
    job = note.split("job='")[1].split("'")[0]
    assert tonnage.Job(table.url, job).status().parts["failed"] == 1
    with pytest.raises(tonnage.Error):
        tonnage.dask.load(files, table.url, table.table, client=client, retries=0, job=job)
    assert table.count() == FILES * ROWS


def _fill(table, rows=3_000):
    """A table with a key, and another column with nulls and very many of one value."""
    table.run(f"create table {table.table} (id bigint primary key, name varchar(20), part int)")
    frame = pandas.DataFrame({"id": range(rows), "name": [f"n{n}" for n in range(rows)]})
    frame["part"] = [None if n % 7 == 0 else (1 if n % 2 else n % 50) for n in range(rows)]
    tonnage.load(pyarrow.Table.from_pandas(frame.astype({"part": "Int32"})), table.url, table.table)


def _let_go():
    """Dask's frames are in cycles: what they hold ends with a collection."""
    import gc

    gc.collect()


@pytest.mark.filterwarnings("ignore:each part", "ignore:one part")
@pytest.mark.parametrize("split_by", [None, "id", "part", "name"])
def test_dask_unloads_a_table(transactional, client, split_by):
    import tonnage.dask

    _fill(transactional)
    frame = tonnage.dask.unload(
        transactional.url, transactional.table, client=client, partitions=5, split_by=split_by, where="id <> 5"
    )
    if split_by is not None:
        assert frame.npartitions == (1 if transactional.kind == "sqlite" else 5)
    read = frame.compute()
    assert sorted(read["id"]) == [n for n in range(3_000) if n != 5]
    assert read["part"].isna().sum() == 429
    assert dict(read.dtypes.astype(str)) == dict(frame.dtypes.astype(str))
    assert (frame["part"] == 1).sum().compute() == sum(n % 7 != 0 and n % 2 == 1 for n in range(3_000) if n != 5) + sum(
        n % 7 != 0 and n % 2 == 0 and n % 50 == 1 for n in range(3_000)
    )
    del frame
    _let_go()


@pytest.mark.parametrize("transactional", ["postgres"], indirect=True)
def test_dask_unloads_one_state(transactional, client):
    import tonnage.dask

    place = transactional
    _fill(place)
    frame = tonnage.dask.unload(place.url, place.table, client=client, partitions=6, split_by="id", state="one")
    place.run(f"delete from {place.table} where id < 1000")
    place.run(f"insert into {place.table} values (9999, 'later', 1)")
    _kill_one(client)
    assert sorted(frame["id"].compute()) == list(range(3_000))
    # Whoever has made something of it keeps the state too.
    longer = frame[frame["id"] < 2_000]
    del frame
    _let_go()
    assert len(longer) == 2_000
    del longer
    _let_go()
    held = "select count(*) from pg_stat_activity where state = 'idle in transaction' and xact_start is not null"
    before = place.run(held)[0][0]
    with tonnage.dask.one_state(place.url, place.table, client=client, partitions=2, split_by="id") as frame:
        assert place.run(held)[0][0] == before + 1
        place.run(f"delete from {place.table}")
        assert len(frame) == 2_001
    assert place.run(held)[0][0] == before
    with pytest.raises(tonnage.Error) as gone:
        frame.compute()
    assert "as long as the process and the frame that hold it" in gone.value.hint


@pytest.mark.parametrize("transactional", ["mariadb"], indirect=True)
def test_dask_says_where_there_is_no_one_state(transactional, client):
    import tonnage.dask

    _fill(transactional)
    with pytest.warns(UserWarning, match="each part is read of a state of its own"):
        tonnage.dask.unload(transactional.url, transactional.table, client=client, partitions=4, split_by="id")
    with pytest.raises(tonnage.ConfigError, match="can show no state to several processes"):
        tonnage.dask.unload(
            transactional.url, transactional.table, client=client, partitions=4, split_by="id", state="one"
        )
    with pytest.raises(tonnage.ConfigError, match="can show no state"), tonnage.dask.one_state(
        transactional.url, transactional.table, client=client, partitions=4, split_by="id"
    ):
        pass


@pytest.fixture(scope="module")
def spark(tmp_path_factory):
    from pyspark.sql import SparkSession

    from tonnage.spark import TonnageDataSource

    # Its processes are of this interpreter, which has the package.
    os.environ["PYSPARK_PYTHON"] = sys.executable
    built = (
        # Three tasks at once, each tried up to eight times.
        SparkSession.builder.master("local[3,8]")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.warehouse.dir", str(tmp_path_factory.mktemp("spark")))
        .config("spark.driver.host", "127.0.0.1")
        .getOrCreate()
    )
    built.dataSource.register(TonnageDataSource)
    yield built
    built.stop()


def _fails_once(directory):
    def fails(batches):
        for batch in batches:
            yield batch
            part = batch.column("id")[0].as_py()
            marker = os.path.join(directory, f"failed-{part}")
            if part % 3 == 0 and not os.path.exists(marker):
                open(marker, "w").close()
                raise ValueError("a task that fails once, after its first rows")

    return fails


def test_spark_writes_partitions_once(table, spark):
    frame = spark.range(0, 3_000, numPartitions=7).selectExpr("id", "concat('n', id) as name")
    frame.write.format("tonnage").options(url=table.url, table=table.table).mode("append").save()
    assert (table.count(), table.count("count(distinct id)")) == (3_000, 3_000)
    frame.write.format("tonnage").options(url=table.url, table=table.table).mode("overwrite").save()
    assert (table.count(), table.count("count(distinct id)")) == (3_000, 3_000)


def test_spark_tries_tasks_again(table, spark, tmp_path):
    frame = spark.range(0, 3_000, numPartitions=6).selectExpr("id", "concat('n', id) as name")
    frame = frame.mapInArrow(_fails_once(str(tmp_path)), frame.schema)
    frame.write.format("tonnage").options(url=table.url, table=table.table, lease="5").mode("append").save()
    assert list(tmp_path.glob("failed-*"))
    assert (table.count(), table.count("count(distinct id)")) == (3_000, 3_000)


@pytest.mark.parametrize("transactional", ["sqlite", "postgres"], indirect=True)
def test_spark_gives_up_and_nothing_is_seen(table, spark):
    table.run(f"insert into {table.table} values (-1, 'old')")

    def fails(batches):
        for batch in batches:
            yield batch
            if batch.column("id")[0].as_py() == 0:
                raise ValueError("a task that always fails")

    frame = spark.range(0, 300, numPartitions=3).selectExpr("id", "concat('n', id) as name")
    frame = frame.mapInArrow(fails, frame.schema)
    with pytest.raises(Exception, match="a task that always fails"):
        frame.write.format("tonnage").options(url=table.url, table=table.table, recreate="true", lease="5").mode(
            "append"
        ).save()
    assert table.count() == 1


@pytest.mark.parametrize("split_by", [None, "part"])
def test_spark_reads_partitions(transactional, spark, split_by):
    _fill(transactional)
    options = {"url": transactional.url, "table": transactional.table, "partitions": "5", "where": "id <> 5"}
    if split_by is not None:
        options["split_by"] = split_by
    frame = spark.read.format("tonnage").options(**options).load()
    partitions = frame.rdd.getNumPartitions()
    assert partitions == (5 if transactional.kind != "sqlite" and (split_by or transactional.kind == "postgres") else 1)
    rows = frame.collect()
    assert sorted(row["id"] for row in rows) == [n for n in range(3_000) if n != 5]
    assert sum(row["part"] is None for row in rows) == 429
    assert frame.where("name = 'n17'").count() == 1
    assert frame.select("name").distinct().count() == 2_999


@pytest.mark.parametrize("transactional", ["postgres"], indirect=True)
def test_spark_reads_one_state(transactional, spark):
    from tonnage.spark import one_state

    place = transactional
    _fill(place)
    with one_state(place.url, place.table, partitions=6, split_by="id", columns=["id", "name"]) as options:
        frame = spark.read.format("tonnage").options(**options).load()
        place.run(f"delete from {place.table} where id < 1000")
        assert frame.columns == ["id", "name"]
        assert sorted(row["id"] for row in frame.collect()) == list(range(3_000))
    with pytest.raises(Exception, match="snapshot"):
        frame.collect()


@pytest.mark.parametrize("transactional", ["mariadb"], indirect=True)
def test_spark_says_where_there_is_no_one_state(transactional, spark):
    from tonnage.spark import one_state

    _fill(transactional)
    with pytest.raises(tonnage.ConfigError, match="can show no state"), one_state(
        transactional.url, transactional.table, split_by="id"
    ):
        pass
