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
