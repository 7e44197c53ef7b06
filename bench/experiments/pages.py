"""Pages of what was found, one an experiment, and one of all points."""

import json
from dataclasses import asdict
from datetime import date

import data
import page
from ran import Found, Point, table

PLACE = data.ROOT / "docs" / "experiments"
# Where the pages of quick runs go, whose figures do not count.
TRIED = data.ROOT / "target" / "experiments"
WORDS = {True: "as there", False: "otherwise", None: "open"}
TEMPLATE = data.ROOT / "bench" / "experiments" / "overview.md"


def keep(place, name, found, quick, minutes):
    """Keeps what was measured beside its page, so that the overview has all experiments whichever ran last."""
    kept_in(place).mkdir(parents=True, exist_ok=True)
    day, machine = date.today().isoformat(), page.machine()
    kept = asdict(found) | {"quick": quick, "minutes": minutes, "day": day, "machine": machine}
    (kept_in(place) / f"{name}.json").write_text(json.dumps(kept, indent=1) + "\n")


def kept_in(place):
    return place / "measured"


def points_of(points):
    """All points, with the reason beside those that differ."""
    why = lambda p: (p.note or "not known") if p.same is False else ""
    head = ["", "published", "here", "", "where they differ: why"]
    return table(head, [[p.text, p.published, p.measured, WORDS[p.same], why(p)] for p in points])


def summary(points):
    """How many points hold, in words: `14 of 20 as there, 5 otherwise, 1 open`."""
    counts = {word: sum(WORDS[p.same] == word for p in points) for word in WORDS.values()}
    first, *others = counts.items()
    told = [f"{first[1]} of {len(points)} {first[0]}"]
    return ", ".join(told + [f"{count} {word}" for word, count in others if count])


def when(kept):
    said = f"{kept['day']}, {kept['machine']}, {kept['minutes']:.0f} minutes"
    return f"{said}; a quick run: it shows that this works, and no figure counts" if kept["quick"] else said


def write(place, order):
    """Writes the pages of all experiments that are kept."""
    place.mkdir(parents=True, exist_ok=True)
    overview = []
    for name in order:
        path = kept_in(place) / f"{name}.json"
        if not path.exists():
            overview += [f"## {name}", "", f"Not run yet: `make experiments ARGS='--only {name}'`.", ""]
            continue
        kept = json.loads(path.read_text())
        points = [Point(**point) for point in kept["points"]]
        found = Found(kept["title"], kept["lines"], points, kept["charts"])
        lines = [f"# {name}: {found.title}", "", f"`make experiments ARGS='--only {name}'`; {when(kept)}.", ""]
        lines += [*points_of(points), *found.lines]
        for file, svg in found.charts.items():
            # Nothing was measured that it could show.
            if svg is None:
                continue
            (place / file).write_text(svg)
            lines += [f"![{file.removesuffix('.svg')}]({file})", ""]
        (place / f"{name}.md").write_text("\n".join(lines).rstrip() + "\n")
        overview += [f"## [{name}: {found.title}]({name}.md)", "", f"{summary(points)}; {when(kept)}.", ""]
        overview += points_of(points)
    text = TEMPLATE.read_text().replace("{points}", "\n".join(overview).rstrip())
    (place / "README.md").write_text(text.rstrip() + "\n")
