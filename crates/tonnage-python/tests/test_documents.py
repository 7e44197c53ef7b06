"""The examples of the book's page run, in their order."""

import contextlib
import inspect
import io
import json
import re
from pathlib import Path

import pytest

import tonnage
import tonnage.aio
import tonnage.dask

ROOT = Path(__file__).resolve().parents[3]
PAGE = ROOT / "docs/python.md"


def test_the_page_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = {}
    out = io.StringIO()
    blocks = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.DOTALL | re.MULTILINE)
    assert len(blocks) > 5
    with contextlib.redirect_stdout(out):
        for block in blocks:
            exec(compile(block, str(PAGE), "exec"), names)
    assert "3 read = 3 written" in out.getvalue()
    assert "2 read = 1 written + 1 rejected" in out.getvalue()
    assert "[17]" in out.getvalue()


def test_the_notebook_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    cells = json.loads((ROOT / "docs" / "notebook.ipynb").read_text())["cells"]
    names = {}
    for cell in cells:
        if cell["cell_type"] == "code":
            exec(compile("".join(cell["source"]), "notebook.ipynb", "exec"), names)
    assert names["report"].rows.rejected == 1


def public():
    """Functions and methods that a program calls, by their names."""
    for module in (tonnage, tonnage.aio, tonnage.dask):
        for name in getattr(module, "__all__", ["load", "unload", "one_state"]):
            found = getattr(module, name)
            yield f"{module.__name__}.{name}", found
            for method, of in vars(found).items() if inspect.isclass(found) else ():
                # What a class only keeps is said by the class.
                if not method.startswith("_") and (callable(of) or isinstance(of, property)):
                    yield f"{module.__name__}.{name}.{method}", of


@pytest.mark.parametrize(("name", "what"), [pytest.param(*one, id=one[0]) for one in public() if one[0] != "tonnage.__version__"])
def test_everything_public_says_what_it_is(name, what):
    said = inspect.getdoc(what)
    assert said
    if inspect.isfunction(what) and set(inspect.signature(what).parameters) - {"self"}:
        # A section of numpydoc, or a reference to where it is.
        assert re.search(r"^(Parameters|See Also)\n-+$", said, re.MULTILINE)
