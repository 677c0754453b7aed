"""Names that are HTML, scripts, SQL, formulas or control bytes: names, wherever they are shown."""

from __future__ import annotations

import csv
import io
import json
import re
from collections import Counter
from html.parser import HTMLParser
from itertools import product
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import profframe
from profframe import Trace, cli, schema
from profframe.pages.flame import FlameGraph
from profframe.show import units
from tests import hostile, reports
from tests.members import few
from tests.pages import Page

FORMULA = re.compile(r"\s*[=+\-@]")
NUMBER = re.compile(r"\s*[+-]?[\d.]+(e[+-]?\d+)?\s*", re.IGNORECASE)
SECTIONS = ("overview", "operators", "memory")
"""Sections of a report with tables, facts, findings, and words about a peak."""
SOME = hostile.NAMES[::6]
"""Names for what takes longer."""


def shown(value: object) -> Page:
    """What a notebook shows; it fails at an element or attribute that is not ours."""
    return Page(value._repr_html_())  # type: ignore[attr-defined]


class TestNotebook:
    def test_trace(self, hostile_trace: Trace) -> None:
        page = shown(hostile_trace)
        assert units.visible(hostile.RUN)[:40] in page.text

    @pytest.mark.parametrize("name", few(profframe.answers().filter(kind="answer")["name"], 20))
    def test_answers(self, hostile_trace: Trace, name: str) -> None:
        page = shown(hostile_trace.answer(name))
        assert len(page.styles) == 1
        assert not hostile.ACTS.search(page.text)

    @pytest.mark.parametrize("name", schema.TABLES)
    def test_tables(self, hostile_trace: Trace, name: str) -> None:
        page = shown(getattr(hostile_trace, name))
        assert not hostile.ACTS.search("".join(page.tips))

    def test_every_name_is_there_whole(self, hostile_trace: Trace) -> None:
        rows = hostile_trace.self_times().filter(kind="annotation")
        with pl.Config(tbl_rows=-1):
            page = shown(rows)
        said = {*page.tips, *(row[0] for row in page.cells)}
        assert {units.visible(name) for name in hostile.NAMES} <= said

    def test_names_of_columns_are_texts_too(self, hostile_trace: Trace) -> None:
        rows = hostile_trace.self_times().filter(kind="annotation")
        wide = rows.pivot(on="name", index="kind", values="calls")
        named = {units.middle(units.visible(name), 64) for name in hostile.NAMES}
        assert named <= {row[0] for row in shown(wide).cells}

    def test_names_of_columns_without_values_are_texts_too(self, hostile_trace: Trace) -> None:
        for name in hostile.NAMES:
            page = shown(hostile_trace.self_times().with_columns(pl.lit(None).alias(name)))
            assert f"no values: {units.middle(units.visible(name), 64)}" in page.note
            assert not hostile.ACTS.search(page.note + "".join(page.heads))

    def test_types_of_columns_are_texts_too(self, hostile_trace: Trace) -> None:
        """Tooltips of headings name them, and an Enum names all that it can be."""
        for name in hostile.NAMES:
            page = shown(hostile_trace.overview().with_columns(x=pl.lit(name, pl.Enum([name]))))
            assert not hostile.ACTS.search("".join(page.heads))

    def test_other_objects(self, hostile_trace: Trace) -> None:
        shown(hostile_trace.tree())
        shown(profframe.diff(hostile_trace, hostile_trace, (hostile.NAMES[0], hostile.NAMES[2])))
        shown(hostile_trace.trend(["span_ns", "op:*"]))
        for name in SOME:
            page = shown(hostile_trace.critical_path(annotation=name))
            assert units.visible(repr(name)) in page.text
            assert not hostile.ACTS.search(page.text)


class Outline(HTMLParser):
    """The elements of a whole page, and the text of its title."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.elements: Counter[str] = Counter()
        self.attributes: set[str] = set()
        self.title = ""
        self._is_title = False
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements[tag] += 1
        self.attributes |= {name for name, _ in attrs}
        self._is_title = tag == "title"

    def handle_endtag(self, tag: str) -> None:
        self._is_title &= tag != "title"

    def handle_data(self, data: str) -> None:
        self.title += data if self._is_title else ""


class TestPages:
    """Pages of their own have the same elements, whatever names and runs are called."""

    def test_flame_graph(self, hostile_trace: Trace) -> None:
        rows = hostile_trace.flame()
        texts = dict.fromkeys(("run", "name"), pl.lit("r"))
        page, plain = (
            Outline(FlameGraph(some).to_html()) for some in (rows, rows.with_columns(**texts))
        )
        assert page.title == f"Flame graph of {units.visible(hostile.RUN)}"
        assert (page.elements, page.attributes) == (plain.elements, plain.attributes)

    def test_report(self, hostile_trace: Trace, tmp_path: Path) -> None:
        for number, title in enumerate((hostile.RUN, "r")):
            hostile_trace.report(tmp_path / f"{number}.html", title=title, sections=SECTIONS)
        page, plain = (Outline((tmp_path / f"{n}.html").read_text()) for n in range(2))
        texts = reports.data(tmp_path / "0.html")["texts"]
        assert [text for text in (*texts, page.title) if hostile.ACTS.search(text)] == []
        assert {units.visible(name) for name in hostile.NAMES if name != hostile.LONG} <= {*texts}
        assert page.title == f"{units.visible(hostile.RUN)} - profframe"
        assert (page.elements, page.attributes) == (plain.elements, plain.attributes)
        assert page.elements["img"] == page.elements["iframe"] == 0
        assert not any(name.startswith("on") for name in page.attributes)


@pytest.fixture(scope="module")
def stored(hostile_trace: Trace, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("hostile") / "store"
    hostile_trace.to_parquet(path)
    return path


QUERY = "SELECT name, tid, dur_ns, -dur_ns AS less_ns FROM events ORDER BY event_id"


class TestCommandLine:
    def written(self, stored: Path, tmp_path: Path, form: str) -> Path:
        output = tmp_path / f"rows.{form}"
        assert cli.run(["sql", str(stored), QUERY, "-o", str(output)]) == 0
        return output

    def test_no_cell_of_csv_is_a_formula(self, stored: Path, tmp_path: Path) -> None:
        text = self.written(stored, tmp_path, "csv").read_bytes().decode()
        cells = [cell for row in csv.reader(io.StringIO(text, newline="")) for cell in row]
        assert [c for c in cells if FORMULA.match(c) and not NUMBER.fullmatch(c)] == []
        assert "'=1+1" in cells
        assert "'-1+1" in cells
        assert "-300000" in cells

    def test_csv_without_its_apostrophes_is_the_rows(
        self, stored: Path, hostile_trace: Trace, tmp_path: Path
    ) -> None:
        text = self.written(stored, tmp_path, "csv").read_bytes().decode()
        names = [row[0] for row in csv.reader(io.StringIO(text, newline=""))][1:]
        plain = [name[1:] if re.match(r"'\s*[=+\-@]", name) else name for name in names]
        assert plain == [
            units.visible_lines(name or "") for name in hostile_trace.sql(QUERY)["name"]
        ]

    def test_json_and_parquet_are_exact(
        self, stored: Path, hostile_trace: Trace, tmp_path: Path
    ) -> None:
        rows = hostile_trace.sql(QUERY)
        text = self.written(stored, tmp_path, "json").read_text()
        assert json.loads(text) == rows.to_dicts()
        assert not hostile.ACTS.search(text)
        assert pl.read_parquet(self.written(stored, tmp_path, "parquet")).equals(rows)

    @pytest.mark.parametrize(
        "command",
        [
            ["show"],
            ["info"],
            ["tree"],
            ["critical-path"],
            ["roofline", "--per", "op"],
            ["answer", "key_averages"],
            ["answer", "collectives"],
            ["answer", "counter_series"],
        ],
        ids=" ".join,
    )
    def test_a_terminal_gets_nothing_that_acts(
        self, command: list[str], stored: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        at = 2 if command[0] == "answer" else 1
        assert cli.run([*command[:at], str(stored), *command[at:]]) == 0
        out = capsys.readouterr().out
        assert out
        assert not hostile.ACTS.search(out)

    def test_data_on_a_terminal_does_not_act_either(
        self,
        stored: Path,
        monkeypatch: pytest.MonkeyPatch,
        capsysbinary: pytest.CaptureFixture[bytes],
    ) -> None:
        monkeypatch.setattr("sys.stdout.isatty", lambda: True)
        assert cli.run(["sql", str(stored), QUERY, "--format", "csv"]) == 0
        assert not hostile.ACTS.search(capsysbinary.readouterr().out.decode())


class TestSql:
    """Names go into questions as values."""

    def test_metrics_of_ops(self, hostile_trace: Trace) -> None:
        times = hostile_trace.filter(kinds="host_op").self_times()
        spent = dict(times["name", "self_ns"].rows())
        names = [name for name in hostile.NAMES if not set(name) & set("*?[")]
        trend = hostile_trace.trend([f"op:{name}" for name in names])
        assert trend["value"].to_list() == [float(spent[name]) for name in names]

    def test_parameters(self, hostile_trace: Trace) -> None:
        for name in SOME:
            assert hostile_trace.counter_series(name=name).height in (0, len(hostile.NAMES))
            hostile_trace.sequences(name=name, min_kernels=1)
        assert hostile_trace.counter_series(name=hostile.GROUP).height == len(hostile.NAMES)
        assert hostile_trace.filter(runs=hostile.RUN).events.height == hostile_trace.events.height
        assert {*hostile.NAMES} <= {*hostile_trace.events["name"]}

    def test_what_is_not_there_is_named_in_one_visible_line(self, hostile_trace: Trace) -> None:
        for name in SOME:
            with pytest.raises(profframe.UnknownNameError) as caught:
                hostile_trace.filter(runs=f"{name}?")
            assert "\n" not in str(caught.value) or "\n" in name


FIELDS = ("sentence", "grain", "suggestion", "link", "needs", "note", "column", "file")
"""Where a file of a rule says something."""


def rule(folder: Path, field: str, text: str) -> Path:
    """A rule that finds one row for each hostile name, with a text in one place of its file."""
    said = {"sentence": "finds names", "grain": "One row per name", "suggestion": "Nothing.",
            "link": "https://example.com", "needs": "events", "note": "A note.",
            "column": "1", field: text}  # fmt: skip
    path = folder / "hostile.sql"
    if field == "file" and text.isprintable() and 0 < len(text) < 100:
        path = folder / f"{text.replace('/', '')}.sql"
    path.write_text(
        f"-- hostile: {said['sentence']}.\n-- {said['grain']}.\n-- {said['note']}\n"
        f"-- suggestion: {said['suggestion']}\n-- link: {said['link']}\n"
        f"-- needs: {said['needs']}\n"
        "SELECT run, rank, 'high' AS severity, name AS finding,\n"
        "       [event_id]::BIGINT[] AS evidence_events, 1 AS events, 7 AS estimated_gain_ns,\n"
        '       name AS gain_basis, name AS "where", '
        f"{said['column']} AS unread FROM events\nWHERE kind = 'kernel'\n",
        encoding="utf-8",
    )
    return path


class TestRules:
    """What a rule's file and rows say is text, or one line that refuses it."""

    @pytest.mark.parametrize(
        ("number", "field"),
        few(
            [*product(range(len(hostile.NAMES)), FIELDS)],
            [
                (len(hostile.NAMES) - 1 if place % 2 else 0, name)
                for place, name in enumerate(FIELDS)
            ],
            arguments=2,
        ),
    )
    def test_on_a_terminal(
        self,
        field: str,
        number: int,
        stored: Path,
        tmp_path: Path,
        capsys: pytest.CaptureFixture[str],
    ) -> None:
        path = rule(tmp_path, field, hostile.NAMES[number])
        code = cli.run(["advice", str(stored), "--rules", str(path), "--top", "100"])
        out, error = capsys.readouterr()
        assert code in {0, 1, 2}, (code, error)
        assert not hostile.ACTS.search(out)
        assert not hostile.ACTS.search(error)
        assert "internal:" not in error
        assert code == 0 or (error.startswith("error: ") and error.count("\n") == 1), error

    def test_in_a_notebook_and_a_report(self, hostile_trace: Trace, tmp_path: Path) -> None:
        path = rule(tmp_path, "suggestion", "".join(hostile.NAMES[:9]))
        rows = hostile_trace.advice(rules=path)
        assert {*hostile.NAMES} <= {*rows["finding"]}
        assert not hostile.ACTS.search(shown(rows).text)
        assert not hostile.ACTS.search(str(rows).replace("\n", ""))


class TestTimeline:
    def test_a_page_has_the_same_elements(self, hostile_trace: Trace, tmp_path: Path) -> None:
        (tmp_path / "plain").mkdir()
        path = hostile.written(tmp_path / "plain")
        for name in hostile.NAMES:
            quoted = json.dumps(name)[1:-1]
            if len(name) > 3:
                path.write_text(path.read_text().replace(quoted, "plain"))
        page = Outline(hostile_trace.plot.timeline().to_html())
        plain = Outline(profframe.load(path, run="r").plot.timeline().to_html())
        assert page.title == f"Timeline of {units.visible(hostile.RUN)}"
        assert (page.elements, page.attributes) == (plain.elements, plain.attributes)
        assert not any(name.startswith("on") for name in page.attributes)

    def test_saved_pages_hold_no_text_that_acts(self, hostile_trace: Trace, tmp_path: Path) -> None:
        hostile_trace.plot.timeline().save(tmp_path / "timeline.html")
        FlameGraph(hostile_trace.flame()).save(tmp_path / "flame.html")
        for path in tmp_path.iterdir():
            text = path.read_text(encoding="utf-8")
            assert not hostile.ACTS.search(text), path
            assert [name for name in hostile.NAMES if "<" in name and name in text] == []


def slower() -> dict[str, Any]:
    """The hostile trace with kernels that take twice as long, or almost nothing."""
    document = hostile.document()
    slices = [e for e in document["traceEvents"] if e.get("cat") == "kernel"]
    for number, event in enumerate(slices):
        event["dur"] = 2 * event["dur"] if number % 2 else 1
    return document


class TestExplanation:
    """Both sides have all names, and causes in all of them."""

    def test_what_a_notebook_shows_of_it(self, hostile_trace: Trace, tmp_path: Path) -> None:
        path = tmp_path / "other.json"
        path.write_text(json.dumps(slower()))
        other = profframe.load(path, run=f"other {hostile.RUN}")
        explained = profframe.explain(hostile_trace, other)
        assert not hostile.ACTS.search(repr(explained).replace("\n", ""))
        assert not hasattr(explained, "_repr_html_")  # so the text is what is shown
        with pl.Config(tbl_rows=-1):
            for rows in (explained.causes, explained.tree):
                page = shown(rows)
                assert not hostile.ACTS.search(page.text + "".join(page.tips))

    def test_on_the_command_line_and_as_a_page(
        self, stored: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        (tmp_path / "other.json").write_text(json.dumps(slower()))
        assert cli.run(["explain", str(stored), str(tmp_path / "other.json")]) == 0
        assert not hostile.ACTS.search(capsys.readouterr().out)
