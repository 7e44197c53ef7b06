"""The examples of the book's page run, in their order."""

import contextlib
import io
import re
from pathlib import Path

PAGE = Path(__file__).resolve().parents[3] / "docs/python.md"


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
