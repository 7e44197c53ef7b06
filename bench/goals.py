"""What is to be reached, and whether it is."""

from dataclasses import dataclass

from measure import interval, ratios


@dataclass
class Line:
    """A goal beside what was measured."""

    text: str
    measured: str
    # None where the other tool could not run, so that it stays open.
    reached: bool | None


def figures(values, digits=2):
    middle, least, greatest = values
    return f"{middle:.{digits}f} [{least:.{digits}f} .. {greatest:.{digits}f}]"


def missing(text, wanted, taken, failed):
    """The goal's line where none of the contenders wanted has run and one of them has failed; else None."""
    if any(name in taken for name in wanted):
        return None
    name = next((name for name in wanted if name in failed), None)
    if name is None:
        return None
    return Line(text, f"{name} could not run", False if name.startswith("tonnage") else None)


def quickest(names, taken):
    there = [name for name in names if name in taken]
    return min(there, key=lambda name: interval([once.wall for once in taken[name]])[0], default=None)


def compared(goal, taken, failed, verdict):
    """A goal's line by the quickest of its `of` and the quickest of its `against`; None where one of them is absent."""
    for names in (goal.of, goal.against):
        if line := missing(goal.text, names, taken, failed):
            return line
    of, against = quickest(goal.of, taken), quickest(goal.against, taken)
    return None if of is None or against is None else verdict(taken[of], taken[against])


@dataclass
class Faster:
    """The quickest of `of` is at least `times` as fast as the quickest of `against`."""

    of: list
    against: list
    times: float
    text: str

    def line(self, taken, failed, rows):
        return compared(self, taken, failed, self.verdict)

    def verdict(self, of, against):
        measured = ratios(against, of)
        return Line(self.text, f"{figures(measured)} times as fast", measured[0] >= self.times)


@dataclass
class Within:
    """The quickest of `of` takes at most `most` times what the quickest of `against` takes."""

    of: list
    against: list
    most: float
    text: str

    def line(self, taken, failed, rows):
        return compared(self, taken, failed, self.verdict)

    def verdict(self, of, against):
        measured = ratios(of, against)
        return Line(self.text, f"{figures(measured)} of its time", measured[0] <= self.most)


@dataclass
class ProcessorSeconds:
    """`of` takes at most `most` client processor seconds a million rows."""

    of: str
    most: float

    def line(self, taken, failed, rows):
        text = f"{self.of}: at most {self.most} client processor seconds a million rows"
        if line := missing(text, [self.of], taken, failed):
            return line
        if self.of not in taken:
            return None
        measured = interval([once.client * 1e6 / rows for once in taken[self.of]])
        return Line(text, figures(measured), measured[0] <= self.most)


@dataclass
class ProcessorWithin:
    """`of` takes at most `most` times the processor time of `against`, client and server together."""

    of: str
    against: str
    most: float
    text: str

    def line(self, taken, failed, rows):
        for name in (self.of, self.against):
            if line := missing(self.text, [name], taken, failed):
                return line
        if self.of not in taken or self.against not in taken:
            return None
        measured = ratios(taken[self.of], taken[self.against], lambda once: once.client + once.server)
        return Line(self.text, f"{figures(measured, 3)} of its processor time", measured[0] <= self.most)
