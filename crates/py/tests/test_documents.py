"""The code of the tutorial, of the book's page on Python and of the README runs as printed, and the stubs are true."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
NO_CACHE = {**os.environ, "MYPY_CACHE_DIR": os.devnull}


def code_blocks(page):
    text = (ROOT / page).read_text()
    return re.findall(r"^```python\n(.*?)^```", text, re.S | re.M)


@pytest.mark.parametrize("page", ["book/src/course.md", "book/src/python.md", "crates/py/README.md"])
def test_the_code_of_a_page_runs_from_top_to_bottom(page, tmp_path):
    pytest.importorskip("pettingzoo")
    pytest.importorskip("pandas")
    blocks = code_blocks(page)
    assert blocks, f"{page} shows no code"
    script = tmp_path / "page.py"
    script.write_text("\n".join(blocks))
    environment = {**os.environ, "PYTHONWARNINGS": "error::DeprecationWarning:__main__"}
    ended = subprocess.run([sys.executable, script], cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr


def test_the_stubs_say_what_is_there():
    pytest.importorskip("mypy")
    command = [sys.executable, "-m", "mypy.stubtest", "homeostat._native", "--ignore-disjoint-bases"]
    ended = subprocess.run(command, capture_output=True, text=True, env=NO_CACHE)
    assert ended.returncode == 0, ended.stdout


def test_the_package_is_typed():
    pytest.importorskip("mypy")
    command = [sys.executable, "-m", "mypy", "--config-file", ROOT / "crates/py/pyproject.toml"]
    ended = subprocess.run(command, capture_output=True, text=True, cwd=ROOT / "crates/py/python", env=NO_CACHE)
    assert ended.returncode == 0, ended.stdout
