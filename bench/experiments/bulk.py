"""E5: bulk put and bulk get beside single ones, on Cassandra."""

import cluster
import measure
import ran
from measure import Failed, interval, ratios
from ran import Found, Point

WHY = {
    "put": "",
    "get": "each replica looks every key up by itself, however many come in one request; where a majority is asked the nodes "
           "send each other a message a key",
}


def goals(rows):
    """What bulk gained over single: rows a second of puts, seconds of gets."""
    of = lambda **wanted: next(
        row["value"] for row in rows if all(row[name] == value for name, value in wanted.items())
    )
    seconds = lambda variant: of(operation="get", variant=variant, unit="seconds")
    put = of(operation="put", variant="bulk over single put", acks="majority")
    return {"put": put, "get": seconds("single") / seconds("bulk with 72 concurrent requests")}


def run(quick):
    if not cluster.PRESENT:
        raise Failed("E5 needs Cassandra, which scripts/with-servers brings up")
    rounds, rows = (1, 40_000) if quick else (5, 1_000_000)
    there, about = ran.published("bulk_put_get.csv")
    goal_of = goals(there)
    found = Found("bulk put and bulk get")
    found.lines += [
        f"{about}.", "",
        "Here: rows of 1 KB, three nodes with every row on all of them, beside nine tasks of the same driver that await "
        "single puts and gets. Keys are uniform, not Zipfian. The published acknowledgement by none is one replica's here: "
        "without any, nobody waits for anything that could be measured.", "",
    ]
    puts, gets = (cluster.CSV, cluster.PUTS), ([cluster.GET_ONE, cluster.GET_TWO], cluster.GETS)
    # Made when their turn comes: those of gets fill the table.
    cases = [
        ("put, one acknowledgement", "put", lambda: cluster.loads("put-relaxed", rows, "relaxed"), puts),
        ("put, a majority", "put", lambda: cluster.loads("put-majority", rows, "majority"), puts),
        ("get, one replica", "get", lambda: cluster.gets("get-one", rows, "one"), gets),
        ("get, a majority", "get", lambda: cluster.gets("get-majority", rows, "majority"), gets),
    ]
    for title, kind, make, (bulk, single) in cases:
        case = make()
        case.contenders.pop(cluster.PYTHON, None)
        taken, failed = measure.measure(case, rounds)
        found.lines += [f"## {title}", ""]
        lines = []
        for name, values in taken.items():
            middle, least, greatest = interval([once.wall for once in values])
            lines.append([name, f"{middle:.2f} [{least:.2f} .. {greatest:.2f}]", f"{case.rows / middle:,.0f}"])
        lines += [[name, problem, "-"] for name, problem in failed.items()]
        found.lines += ran.table(["", "seconds", "rows/s"], lines)
        able = [name for name in bulk if name in taken]
        if not able or single not in taken:
            found.points.append(Point(title, f"{goal_of[kind]:.1f}x", "could not run", None))
            continue
        best = min(able, key=lambda name: interval([once.wall for once in taken[name]])[0])
        ratio = ratios(taken[single], taken[best])[0]
        found.points.append(Point(
            f"{title}: bulk over single", f"{goal_of[kind]:.1f}x", f"{ratio:.1f}x", ratio >= goal_of[kind],
            WHY[kind],
        ))
    return found
