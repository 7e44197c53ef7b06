"""Servers of an experiment's own: some that have a share of a core each, one whose pages have another size."""

import getpass
import os
import random
import secrets
import shutil
import socket
import subprocess
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import data
import mariadb as client
import ran
from measure import Failed

START_SECONDS_MAX = 120
PORTS = range(20_000, 32_000)


def as_user(user, *command):
    """The words of a command as the user of a server: none runs as root."""
    if getpass.getuser() == "root":
        command = ["setpriv", f"--reuid={user}", f"--regid={user}", "--init-groups", "--", *command]
    return [str(word) for word in command]


@contextmanager
def directory(user):
    """An empty directory of that user's, gone afterwards."""
    place = Path(tempfile.mkdtemp(prefix="experiment-", dir=ran.servers_directory()))
    try:
        if getpass.getuser() == "root":
            shutil.chown(place, user, user)
        yield place
    finally:
        shutil.rmtree(place, ignore_errors=True)


def free_port():
    """A port that nobody listens on, below those that the system gives to whoever asks for any."""
    for port in random.sample(PORTS, 50):
        with socket.socket() as one:
            if one.connect_ex(("127.0.0.1", port)):
                return port
    raise Failed("no port is free")


@contextmanager
def postgres(number):
    """So many PostgreSQL servers, each with a database of its own: their URLs and their processes."""
    programs = Path(os.environ["TONNAGE_TEST_POSTGRES_PROGRAMS"])
    started, urls, processes = [], [], []
    with directory("postgres") as place:
        try:
            for one in range(number):
                cluster, port = place / str(one), free_port()
                made = [programs / "initdb", "-D", cluster, "-U", "tonnage", "--auth=trust", "--no-sync"]
                data.run(as_user("postgres", *made, "--encoding=UTF8", "--locale=C.UTF-8"), cwd="/")
                options = f"-p {port} -c listen_addresses=127.0.0.1 -c unix_socket_directories="
                log = cluster / "server.log"
                # Without a pipe of ours, which the server would hold open.
                start = [programs / "pg_ctl", "-D", cluster, "-l", log, "-o", options, "-w", "start", "-s"]
                # It may go on starting when nobody waits for it any more.
                started.append(cluster)
                detached(as_user("postgres", *start, "-t", START_SECONDS_MAX), log)
                urls.append(f"postgresql://tonnage@127.0.0.1:{port}/postgres?sslmode=disable")
                processes.append((cluster / "postmaster.pid").read_text().split()[0])
            yield urls, processes
        finally:
            for cluster in started:
                stop = [programs / "pg_ctl", "-D", cluster, "-m", "immediate", "-w", "stop", "-s"]
                try:
                    data.run(as_user("postgres", *stop), cwd="/")
                except Failed as problem:
                    print(f"{cluster}: {problem}", flush=True)


def detached(words, log):
    quiet = {name: subprocess.DEVNULL for name in ("stdin", "stdout", "stderr")}
    if subprocess.run(words, cwd="/", **quiet).returncode:
        raise Failed(f"PostgreSQL did not start: {log.read_text() if log.exists() else words}")


@contextmanager
def mariadb(page_bytes):
    """A MariaDB server with pages of that size, which is fixed once its files are made: its URL."""
    with directory("mysql") as place:
        # What it starts by removing from a directory for temporary files must be its own.
        temporary = place / "tmp"
        temporary.mkdir()
        if getpass.getuser() == "root":
            shutil.chown(temporary, "mysql", "mysql")
        options = ["--no-defaults", f"--datadir={place / 'data'}", f"--innodb-page-size={page_bytes}"]
        made = ["mariadb-install-db", *options, "--skip-test-db", "--auth-root-authentication-method=normal"]
        data.run(as_user("mysql", *made), cwd=place, env=os.environ | {"TMPDIR": str(temporary)})
        password, port = secrets.token_hex(12), free_port()
        first = place / "first.sql"
        first.write_text(
            f"CREATE USER 'tonnage'@'%' IDENTIFIED BY '{password}';\n"
            "GRANT ALL PRIVILEGES ON *.* TO 'tonnage'@'%' WITH GRANT OPTION;\nCREATE DATABASE tonnage;\n"
        )
        options += [
            f"--socket={place / 'socket'}", "--bind-address=127.0.0.1", f"--port={port}", f"--tmpdir={temporary}",
            "--character-set-server=utf8mb4", "--local-infile=ON", f"--init-file={first}",
        ]
        url = f"mariadb://tonnage:{password}@127.0.0.1:{port}/tonnage?sslmode=disable"
        log = place / "server.log"
        with open(log, "w") as file:
            words = as_user("mysql", "mariadbd", *options)
            server = subprocess.Popen(words, cwd=place, stdin=subprocess.DEVNULL, stdout=file, stderr=file)
        try:
            until_up(server, url, log)
            yield url
        finally:
            server.kill()
            server.wait()


def until_up(server, url, log):
    """Waits until a MariaDB server lets its user in."""
    end = time.monotonic() + START_SECONDS_MAX
    while server.poll() is None and time.monotonic() < end:
        try:
            client.statements("select 1", parts=urlsplit(url))
            return
        except Failed:
            time.sleep(0.2)
    raise Failed(f"MariaDB did not start: {log.read_text()}")
