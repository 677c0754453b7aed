"""Readers and rules of other distributions: entry points in a folder on ``sys.path``."""

from __future__ import annotations

import importlib
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pytest

import profframe
from profframe.cli.folder import listing
from profframe.readers import plugins as reader_plugins
from profframe.system import plugins
from tests import installed
from tests.conftest import Run
from tests.places import ROOT

READER: Final = """
import json

def knows(head):
    return head.startswith(b"acme ")

def read(source, target):
    names = source.read_text().split()[1:]
    rows = [
        {"ph": "X", "cat": "cpu_op", "name": name, "ts": 10 * n, "dur": 5, "pid": 1, "tid": 1}
        for n, name in enumerate(names)
    ]
    target.write_text(json.dumps({"schemaVersion": 1, "traceEvents": rows}))
"""
RULE: Final = """-- many_ops: there are ops.
-- One row per (run, rank).
-- suggestion: Use fewer.
-- link: https://example.org
-- needs: events
SELECT
    run, rank, 'low' AS severity, 'There are ' || count(*) || ' ops.' AS finding,
    [min(event_id)] AS evidence_events, count(*) AS events, NULL AS estimated_gain_ns,
    NULL AS gain_basis, NULL AS "where"
FROM events WHERE kind = 'host_op' GROUP BY run, rank
"""

Offer = Callable[..., None]


@pytest.fixture
def offer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Offer]:
    """Install a distribution with modules and entry points; the process forgets it afterwards."""
    site = tmp_path / "site"
    monkeypatch.syspath_prepend(str(site))

    def forget() -> None:
        plugins.plugins.cache_clear()
        reader_plugins._readers.cache_clear()
        reader_plugins.reader_of.cache_clear()

    def offer(name: str, groups: dict[str, dict[str, str]], **modules: str) -> None:
        installed.install(site, name, groups)
        for module, text in modules.items():
            (site / f"{module}.py").write_text(text)
        importlib.invalidate_caches()
        forget()

    forget()
    yield offer
    forget()
    for module in [name for name in sys.modules if name.startswith("acme_")]:
        del sys.modules[module]


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A file of a format that profframe does not read."""
    path = tmp_path / "day.acme"
    path.write_text("acme first second")
    return path


def test_a_reader_reads_what_profframe_does_not(offer: Offer, source: Path) -> None:
    with pytest.raises(profframe.NotATraceError):
        profframe.load(source)
    offer("acme", {"profframe.readers": {"acme": "acme_reader"}}, acme_reader=READER)
    trace = profframe.load(source)
    assert trace.events["name"].to_list() == ["first", "second"]
    assert trace.traces["run"].to_list() == ["day.acme"]


def test_a_reader_reads_a_member_of_an_archive(offer: Offer, source: Path) -> None:
    offer("acme", {"profframe.readers": {"acme": "acme_reader"}}, acme_reader=READER)
    archive = source.with_name("day.zip")
    with zipfile.ZipFile(archive, "w") as file:
        file.write(source, source.name)
    assert profframe.load(archive).events["name"].to_list() == ["first", "second"]


def test_a_folder_lists_files_of_other_readers(offer: Offer, source: Path) -> None:
    offer("acme", {"profframe.readers": {"acme": "acme_reader"}}, acme_reader=READER)
    source.rename(source.with_name("day.json"))
    [entry] = listing(source.parent).entries
    assert (entry.path, entry.words) == ("day.json", "another package's format")


def test_profframes_own_formats_come_first(offer: Offer, example: Path) -> None:
    greedy = "def knows(head):\n    return True\n\n\ndef read(source, target):\n    raise OSError\n"
    offer("acme", {"profframe.readers": {"acme": "acme_greedy"}}, acme_greedy=greedy)
    assert profframe.load(example).events.height > 0
    assert "acme_greedy" not in sys.modules


BROKEN: Final = {
    "import": ("import no_such_module\n", "cannot be imported: ModuleNotFoundError"),
    "shape": ("knows = 1\n", r"needs two functions, knows\(head\) and read\(source, target\)"),
    "knows": (
        "def knows(head):\n    return head.no_such\n\n\ndef read(source, target): ...\n",
        "cannot tell whether it knows a file: AttributeError",
    ),
}


@pytest.mark.parametrize("what", BROKEN)
def test_a_broken_reader_is_one_warning_and_others_read(
    offer: Offer, source: Path, example: Path, what: str
) -> None:
    text, message = BROKEN[what]
    points = {"profframe.readers": {"a_broken": "acme_broken"}}
    offer("broken", points, acme_broken=text)
    offer("acme", {"profframe.readers": {"b_acme": "acme_reader"}}, acme_reader=READER)
    with pytest.warns(
        RuntimeWarning, match=f"the reader 'a_broken' of broken 1.0 {message}"
    ) as all_:
        assert profframe.load(source).events.height == 2
    assert len(all_) == 1
    assert profframe.load(example).events.height > 0  # and no warning, which would be an error


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("raise KeyError('odd')", "failed: KeyError"),
        ("pass", "wrote no trace"),
        ("target.write_text('acme again')", "wrote is no trace: it begins like no format"),
        ("target.write_text('[]')", "wrote is no trace: "),
    ],
)
def test_a_reader_that_fails_is_an_error_that_names_it(
    offer: Offer, source: Path, run: Run, body: str, message: str
) -> None:
    text = f"{READER}\n\ndef read(source, target):\n    {body}\n"
    offer("acme", {"profframe.readers": {"acme": "acme_failing"}}, acme_failing=text)
    code, _, error = run("info", source)
    assert code == 1
    assert str(source) in error
    assert "the reader 'acme' of acme 1.0" in error
    assert message in error
    assert "Traceback" not in error


def test_rules_are_taken_by_name(offer: Offer, tmp_path: Path, example: Path, run: Run) -> None:
    (tmp_path / "rules").mkdir()
    (tmp_path / "rules/many_ops.sql").write_text(RULE)
    module = f"RULES = {str(tmp_path / 'rules')!r}\n"
    offer("acme", {"profframe.rules": {"acme": "acme_rules:RULES"}}, acme_rules=module)
    trace = profframe.load(example)
    assert "many_ops" in trace.advice(rules="acme")["rule"].to_list()
    assert "many_ops" not in trace.advice()["rule"].to_list()
    code, output, _ = run("advice", example, "--rules", "acme", "--format", "json")
    assert (code, '"many_ops"' in output) == (0, True)


@pytest.mark.parametrize(
    ("module", "message"),
    [
        ("import no_such_module\n", "cannot be imported: ModuleNotFoundError"),
        ("RULES = 3\n", "needs the path of a file or folder of rules, not 3"),
        ("RULES = '/no/such/folder'\n", "needs the path of a file or folder of rules"),
    ],
)
def test_broken_rules_are_an_error_that_names_them(
    offer: Offer, example: Path, run: Run, module: str, message: str
) -> None:
    offer("broken", {"profframe.rules": {"odd": "acme_odd:RULES"}}, acme_odd=module)
    code, _, error = run("advice", example, "--rules", "odd")
    assert code != 0
    assert f"the rules 'odd' of broken 1.0{':' if 'needs' in message else ''} {message}" in error
    assert "Traceback" not in error
    assert run("advice", example)[0] == 0


def test_nothing_is_looked_up_by_an_import_or_a_trace_of_profframes_own(example: Path) -> None:
    code = (
        "import importlib.metadata as metadata\n"
        "def refused(**_): raise AssertionError\n"
        "metadata.entry_points = refused\n"
        "import profframe\n"
        f"trace = profframe.load({str(example)!r})\n"
        "print(trace.events.height > 0, trace.advice().height > 0)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout == "True True\n"


def test_a_group_is_looked_up_once(monkeypatch: pytest.MonkeyPatch, offer: Offer) -> None:
    offer("acme", {"profframe.rules": {"acme": "acme_rules:RULES"}})
    assert plugins.plugins("profframe.rules")["acme"].value == "acme_rules:RULES"
    monkeypatch.setattr(plugins, "entry_points", None)
    assert [*plugins.plugins("profframe.rules")] == ["acme"]
