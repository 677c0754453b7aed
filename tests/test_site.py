"""The pages of the site say what is so, and nothing in them is markup that is not meant to be."""

from __future__ import annotations

import ast
import doctest
import html
import re
import shlex
import shutil
import subprocess
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from types import ModuleType

import polars as pl
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

import profframe
from profframe import cli, schema
from profframe.cli.verbs import verbs
from profframe.query import macros
from profframe.query.catalogue import catalogue, find
from profframe.query.header import Answer, AnswerColumn, Coarser, Division, Parameter
from profframe.show.units import visible
from profframe.trace.plots import Plots
from scripts.pages import answers as answer_list
from scripts.pages.answers import REST, grouped
from scripts.site import answer_pages, checking, markup, staging, tutorials
from scripts.site import macros as macro_pages
from tests import hostile, needs

ROOT = Path(__file__).parent.parent
ANSWERS = catalogue()
HOMES = staging.homes()
HAND_WRITTEN = sorted(
    path
    for path in HOMES
    if path not in ("CHANGELOG.md", "docs/rules.md", "docs/tables.md", "sql/README.md")
)
MARKDOWN = MarkdownIt("commonmark").enable("table")
NOTEBOOKS = ("IPython", "altair", "jupytext", "vl_convert")
ANY_TEXT = st.text(max_size=40) | st.sampled_from(hostile.NAMES)


class Shown(HTMLParser):
    """The text of a page and its tags."""

    def __init__(self, markdown: str) -> None:
        super().__init__()
        self.text = ""
        self.tags: set[str] = set()
        self.feed(MARKDOWN.render(markdown))
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag == "code" or not attrs or tag in ("td", "th", "div"), (tag, attrs)
        self.tags.add(tag)

    def handle_data(self, data: str) -> None:
        self.text += data


def squeezed(text: str) -> str:
    return " ".join(text.split())


class TestMarkup:
    @given(ANY_TEXT)
    @example("1. a\n- b\n# c\n    d")
    def test_plain_text_is_shown_as_it_is(self, text: str) -> None:
        shown = Shown(f"x {markup.plain(text)} x")
        assert shown.tags <= {"p"}
        assert squeezed(shown.text) == squeezed(f"x {visible(text.replace(chr(10), ' '))} x")

    @given(st.lists(ANY_TEXT, min_size=1, max_size=4))
    def test_cells_stay_in_their_table(self, texts: list[str]) -> None:
        lines = markup.table(["a"] * len(texts), [[*map(markup.plain, texts)]])
        rendered = MARKDOWN.render("\n".join(lines))
        assert rendered.count("<td") == len(texts)
        cells = [html.unescape(cell) for cell in re.findall(r"<td>(.*?)</td>", rendered, re.DOTALL)]
        said = [squeezed(visible(text.replace("\n", " "))) for text in texts]
        assert [squeezed(cell) for cell in cells] == said

    @given(ANY_TEXT)
    def test_code_is_one_span_or_nothing(self, text: str) -> None:
        shown = Shown(f"x {markup.code(text)} x")
        assert shown.tags <= {"p", "code"}
        assert squeezed(shown.text) == squeezed(f"x {visible(text.replace(chr(10), ' '))} x")

    @given(ANY_TEXT)
    def test_prose_has_no_tags_but_code(self, text: str) -> None:
        assert Shown(markup.prose(text)).tags <= {"p", "code"}

    @given(ANY_TEXT)
    def test_a_code_block_ends_where_it_should(self, text: str) -> None:
        block = "\n".join(["before", "", *markup.fence(visible(text), "sql"), "", "after"])
        rendered = MARKDOWN.render(block)
        assert rendered.startswith("<p>before</p>")
        assert rendered.endswith("</pre>\n<p>after</p>\n")


@pytest.mark.parametrize("module", [answer_list, markup, staging], ids=lambda m: m.__name__)
def test_examples_of_the_generators_run(module: ModuleType) -> None:
    done = doctest.testmod(module)
    assert done.attempted > 0
    assert done.failed == 0


def hostile_answer(text: str) -> Answer:
    one_line = text.replace("\n", " ")
    return Answer(
        name="self_times",
        sql=find("self_times").sql + f"\n-- {one_line}",
        sentence=one_line,
        grain=f"One row per {one_line}",
        notes=(one_line, f"`{one_line}`"),
        needs=("events",),
        parameters=(Parameter("p", "VARCHAR", one_line, one_line, ("a", "b")),),
        columns=(AnswerColumn("run", "VARCHAR", one_line, one_line),),
    )


class TestPagesOfAnswers:
    @pytest.mark.parametrize("text", hostile.NAMES, ids=range(len(hostile.NAMES)))
    def test_a_hostile_header_is_text(self, text: str) -> None:
        answer = hostile_answer(text)
        lines = [answer.sentence, answer.grain, *answer.notes]
        shown = Shown("\n\n".join(map(markup.prose, lines)))
        assert shown.tags <= {"p", "code"}
        page = "\n".join(answer_pages.reference(answer))
        assert "<script" not in MARKDOWN.render(page)

    def test_every_answer_is_listed_once_under_a_heading(self) -> None:
        names = [answer.name for answer in ANSWERS]
        groups = grouped(names)
        assert sorted(name for group in groups.values() for name in group) == names
        assert REST not in groups
        text = staging.linked(answer_list.page(has_files=False), "sql/README.md", HOMES)
        index = answer_pages.index(text, names)
        assert "Other folders" not in index
        assert all(f"[`{name}`](answers/{name}.md)" in index for name in names)
        tree = index.partition("```{toctree}")[2].splitlines()
        assert sorted(line for line in tree if "/" in line) == [f"answers/{n}" for n in names]

    @pytest.mark.parametrize("answer", ANSWERS, ids=lambda answer: answer.name)
    def test_links_of_a_page_lead_somewhere(self, answer: Answer) -> None:
        tables = (ROOT / "docs" / "tables.md").read_text(encoding="utf-8")
        links = re.findall(r"\]\((.*?)\)", "\n".join(answer_pages.reference(answer)))
        assert links
        for link in links:
            page, _, place = link.removeprefix("../").partition("#")
            assert page in HOMES.values(), link
            assert not place or f"\n## {place}\n" in tables, link

    def test_a_page_has_all_that_the_header_says(self, example: Path) -> None:
        trace = profframe.load(example)
        source = answer_pages.Source("examples/cpu_training.json.gz", "it", trace)
        answer = find("memory_timeline")
        page = answer_pages.page(answer, [source])
        columns = [f"| `{column.name}` | {column.type} |" for column in answer.columns]
        assert all(column in page for column in columns)
        assert "| `points` | BIGINT | `1000` |" in page
        assert "trace.memory_timeline(points=20)" in page
        assert "-p points=20" in page
        assert "SET VARIABLE points = 20;" in page
        assert ".read sql/lib/memory.sql" in page
        assert "(the first 5 of 20 rows)" in page
        assert page.rstrip().endswith("```")

    def test_a_page_says_when_there_are_no_rows_and_what_divides(self) -> None:
        """Typed from the headers by hand."""
        queue = "\n".join(answer_pages.reference(find("queue_depth")))
        assert queue.startswith(
            "# queue\\_depth\n\nFor people who want to know: **how much work was waiting for"
        )
        ending = "has no device work whose launch is known. [Divides](../dividing.md) by rank.\n"
        assert queue.count(ending) == 2, "of the answer, and of its form"
        assert "\nReads [`events`](../tables.md#events).\n" in queue
        assert "| `points` | BIGINT | `0` | maximum rows per stream\\, from 2\\; 0 for" in queue
        assert "## With per\\=stream\n\nHow full the queue of each stream was" in queue
        assert "| `mean_depth` | DOUBLE |  | mean depth over the span |" in queue
        overview = "\n".join(answer_pages.reference(find("overview")))
        assert "\nNo rows if there are no traces. [Divides](../dividing.md) by rank.\n" in overview
        advice = "\n".join(answer_pages.reference(find("advice")))
        assert "Its parameters are the thresholds of the [rules](../rules.md)." in advice
        assert "## Parameters" not in advice

    @pytest.mark.parametrize(
        ("division", "said"),
        [
            (None, []),
            (
                Division("rank", (Coarser("run", (("per", ("size",)),)),)),
                ["[Divides](../dividing.md) by rank\\; run with per\\=size."],
            ),
            (
                Division("no", instead="it compares runs; ask `runs` of each"),
                ["Does [not divide](../dividing.md): it compares runs\\; ask `runs` of each."],
            ),
        ],
    )
    def test_what_it_divides_by_is_a_sentence(
        self, division: Division | None, said: list[str]
    ) -> None:
        assert answer_pages.divided(replace(find("overview"), division=division)) == said

    @pytest.mark.parametrize("answer", ANSWERS, ids=lambda answer: answer.name)
    def test_calls_can_be_made(self, answer: Answer) -> None:
        python, command, _ = answer_pages.calls(answer, "trace.json")
        called = ast.parse(python).body[-1]
        assert isinstance(called, ast.Expr)
        assert isinstance(called.value, ast.Call)
        function = called.value.func
        assert isinstance(function, ast.Attribute)
        assert hasattr(profframe.Trace, function.attr)
        assert shlex.split(command)[:4] == ["profframe", "answer", answer.name, "trace.json"]
        known = {parameter.name for parameter in answer.parameters}
        assert {*answer_pages.ASKED.get(answer.name, {})} <= known

    @pytest.mark.parametrize("which", ["some", pytest.param("all", marks=pytest.mark.long)])
    def test_shell_examples_run(
        self, which: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """Some: those with parameters, and each eighth; `test_duckdb_shell` runs each file."""
        asked = [
            answer
            for number, answer in enumerate(ANSWERS)
            if which == "all" or answer.name in answer_pages.ASKED or number % 8 == 0
        ]
        shell = needs.duckdb_shell()
        trace = ROOT / "examples" / "gpu_training.json.gz"
        with_a_row_of_each(profframe.load(trace)).to_parquet(tmp_path / "store")
        (tmp_path / "sql").symlink_to(ROOT / "sql")
        assert cli.run(["answer", "advice", "--sql"]) == 0
        (tmp_path / "advice.sql").write_text(capsys.readouterr().out)
        done = subprocess.run(
            [str(shell), "-bail", "-csv"],
            input="\n".join(line for answer in asked for line in in_a_session(answer)),
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
        assert (done.returncode, done.stderr) == (0, "")
        for answer in asked:
            rows = pl.read_csv(
                tmp_path / f"{answer.name}.csv", infer_schema=False, raise_if_empty=False
            )
            assert rows.columns in ([column.name for column in answer.columns], []), answer.name


class TestPageOfMacros:
    PAGE = macro_pages.page()

    def test_it_has_every_macro_once(self) -> None:
        names = re.findall(r"^### (.*)$", self.PAGE, re.MULTILINE)
        assert sorted(names) == sorted(macros.names())

    def test_a_macro_has_what_its_comment_says(self) -> None:
        """Typed from the comment by hand."""
        text = self.PAGE.partition("### short_name\n\n")[2].partition("\n### ")[0]
        assert text.startswith("For a kernel its function, without return type, template arguments")
        assert text.endswith(
            "| parameter | type | what it is |\n"
            "|---|---|---|\n"
            "| `kind` | VARCHAR | kind of a slice |\n"
            "| `name` | VARCHAR | its name |\n\n"
            "Returns VARCHAR: the short name.\n\n"
            "```sql\nSELECT short_name('kernel', 'void mm<float>(int)')\n```\n"
        )


@pytest.mark.parametrize(
    "text", [macro_pages.page(), staging.TUTORIALS], ids=["macros", "tutorials"]
)
def test_a_page_that_the_site_makes_says_who_it_is_for(text: str) -> None:
    """As tests/test_docs.py has it for those of the repository."""
    assert re.match(r"# .+\n\nFor [^.]+\.\n\n", text)


def test_the_repository_has_no_page_that_the_site_makes() -> None:
    made = {*staging.MADE.values(), "macros.md"} - {*HOMES.values()}
    assert made == {"macros.md", "tutorials.md"}
    kept = {str(path.relative_to(ROOT / "docs")) for path in (ROOT / "docs").rglob("*.md")}
    assert not kept & (made | {"answers.md"})


def with_a_row_of_each(trace: profframe.Trace) -> profframe.Trace:
    """The trace with a row in each optional table, of which a store has no file without rows."""
    defaults = {"int64": 0, "int32": 0, "bool": False, "double": 0.0}
    rows = {
        name: [
            {
                field.name: defaults.get(str(field.type), "")
                for field in schema.TABLES[name].arrow
                if not field.nullable
            }
        ]
        for name in schema.OPTIONAL_TABLES
    }
    run = trace.traces["run"].item()
    own = {
        name: pa.Table.from_pylist(
            [row | {"run": run} for row in lacking], schema.TABLES[name].arrow
        )
        for name, lacking in rows.items()
    }
    return profframe.Trace.from_tables({**trace.tables, **own})


def in_a_session(answer: Answer) -> list[str]:
    """Lines of the shell that write an answer into a file, and leave nothing of it behind."""
    shown = answer_pages.calls(answer, "x")[2].replace("CREATE VIEW", "CREATE OR REPLACE VIEW")
    asked = answer_pages.ASKED.get(answer.name, {})
    after = [f'RESET VARIABLE "{name}";' for name in asked]
    return [f".output {answer.name}.csv", shown, ".output", *after]


SCRIPT = """\
# %% [markdown]
# # A title
#
# Text with `code`.

# %%
import altair as alt
import polars as pl

rows = pl.DataFrame({"x": [1, 2], "name": ["</div><b>", "```"]})
print("said")
rows

# %%
alt.Chart(rows, title="Points <1>").mark_point().encode(x="x")

# %%
silent = 1
"""


class TestTutorials:
    def test_every_notebook_is_one_in_reading_order(self) -> None:
        names = [tutorial.name for tutorial in tutorials.tutorials(ROOT / "examples")]
        assert names[:2] == ["first_look", "self_times"]
        assert names[-1] == "thousand_runs"
        notebooks = [p.stem for p in (ROOT / "examples").glob("*.py") if "# %%" in p.read_text()]
        assert sorted(names) == sorted(notebooks)

    def test_a_script_is_run_and_shown(self, tmp_path: Path) -> None:
        needs.modules(*NOTEBOOKS)
        (tmp_path / "made.py").write_text(SCRIPT)
        (tutorial,) = tutorials.tutorials(tmp_path)
        with tutorials.shell(tmp_path / "ipython") as shell:
            page = tutorials.page(tutorial, tmp_path / "pictures", shell)
        first = "For people who learn from code: `examples/made.py`, with what it gives."
        assert page.startswith(f"# A title\n\n{first}\n\nText with")
        assert "```text\nsaid\n```" in page
        assert "&lt;/div&gt;&lt;b&gt;" in page
        assert page.rstrip().endswith("```python\nsilent = 1\n```")
        assert "![Points \\<1\\>](made-2.svg)" in page
        assert "<svg" in (tmp_path / "pictures" / "made-2.svg").read_text()
        assert tutorials.index({"made": page}, "# All").startswith(
            "# All\n\n1. [A title](tutorials/made.md)"
        )

    def test_a_cell_that_fails_is_named(self, tmp_path: Path) -> None:
        needs.modules(*NOTEBOOKS)
        (tmp_path / "made.py").write_text("# %%\n1 / 0\n")
        (tutorial,) = tutorials.tutorials(tmp_path)
        failed = pytest.raises(RuntimeError, match=r"made\.py: ZeroDivisionError")
        with tutorials.shell(tmp_path / "ipython") as shell, failed:
            tutorials.page(tutorial, tmp_path, shell)
        assert needs.module("IPython").get_ipython() is None


class TestLinks:
    def test_targets_follow_their_pages(self) -> None:
        pages = {"docs/a/b.md": "a/b.md", "docs/c.md": "c.md", "examples/d.md": "d.md"}
        text = "[c](../c.md) [d](../../examples/d.md#x) [e](#e) [f](../../f.py) [g](https://g/)"
        assert staging.linked(text, "docs/a/b.md", pages) == (
            "[c](../c.md) [d](../d.md#x) [e](#e) f [g](https://g/)"
        )

    @pytest.mark.parametrize(
        ("target", "page"),
        [
            ("../../sql/answers/idle.sql", "../answers/idle.md"),
            ("../../sql/answers/idle.owner.sql", "../answers/idle.md"),
            ("../../sql/answers", "../answers.md"),
            ("../../sql/lib/busy.sql", "../macros.md"),
            ("../../sql/rules/straggler.sql", "../rules.md"),
        ],
    )
    def test_files_of_sql_have_pages(self, target: str, page: str) -> None:
        pages = {"docs/a/b.md": "a/b.md"}
        assert staging.linked(f"[x]({target})", "docs/a/b.md", pages) == f"[x]({page})"

    def test_code_is_left_alone(self) -> None:
        text = "```md\n[a](b.md)\n```\n[a](b.md)\n"
        assert staging.linked(text, "docs/x.md", {"docs/x.md": "x.md"}).endswith("```\na\n")
        assert "[a](b.md)\n```" in staging.linked(text, "docs/x.md", {"docs/x.md": "x.md"})


class TestFaults:
    """What the built site is held against finds what is wrong."""

    def site(self, folder: Path, body: str, **more: str) -> list[str]:
        (folder / "index.html").write_text(f"<html><body id='top'>{body}</body></html>")
        (folder / "other.html").write_text("<h1 id='here'>other</h1>")
        for name, text in more.items():
            (folder / name.replace("_", ".")).write_text(text)
        return checking.faults(folder.resolve(), ["index.html"])

    @pytest.mark.parametrize(
        "body",
        [
            "<a href='other.html#here'>a</a> <a href='#top'>b</a> <a href='https://x.org'>c</a>",
            "<img src='data:image/png;base64,AA=='> <a href='mailto:a@b'>d</a>",
            "<link rel='canonical' href='https://x.org'><p style='background: url(#g)'></p>",
        ],
    )
    def test_sound(self, body: str, tmp_path: Path) -> None:
        assert self.site(tmp_path, body) == []

    @pytest.mark.parametrize(
        "body",
        [
            "<a href='missing.html'>a</a>",
            "<a href='other.html#nowhere'>a</a>",
            "<a href='#nowhere'>a</a>",
            "<img src='missing.png'>",
            "<img src='https://x.org/a.png'>",
            "<script src='//x.org/a.js'></script>",
            "<link rel='stylesheet' href='https://fonts.x.org/css'>",
            "<style>@import 'https://x.org/a.css';</style>",
            "<p style='background: url(http://x.org/a.png)'></p>",
            "<iframe src='https://x.org'></iframe>",
            "<svg><image href='https://x.org/a.png'/></svg>",
        ],
    )
    def test_wrong(self, body: str, tmp_path: Path) -> None:
        assert len(self.site(tmp_path, body)) == 1

    def test_style_sheets_ask_nobody(self, tmp_path: Path) -> None:
        found = self.site(tmp_path, "", a_css="@font-face { src: url('https://x.org/f.woff2'); }")
        assert found == ["a.css: asks another host for https://x.org/f.woff2"]

    def test_a_page_that_is_missing(self, tmp_path: Path) -> None:
        assert checking.faults(tmp_path, ["answers/gaps.html"]) == [
            "answers/gaps.html: is not there"
        ]


def python_blocks(page: str) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```", (ROOT / page).read_text(), re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize(
    "page",
    [page for page in HAND_WRITTEN if page.startswith("docs/") and page != "docs/recipes.md"],
)
def test_python_on_a_page_runs(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, example: Path
) -> None:
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    (tmp_path / "jobs" / "night").mkdir(parents=True)
    shutil.copy(example, tmp_path / "jobs" / "night" / "rank0.json.gz")
    shutil.copy(example, tmp_path / "trace.json")
    (tmp_path / "fx_metadata.json").write_text("{}")
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, object] = {}
    for block in python_blocks(page):
        exec(compile(block, page, "exec"), namespace)  # noqa: S102


SPAN = re.compile(r"`([^`\n]+)`")
MEMBER = re.compile(r"(\w+)\.(\w+)(?:\.\w+)?(?:\(.*)?")


@pytest.mark.parametrize("page", [page for page in HAND_WRITTEN if "coming_from" in page])
def test_names_on_pages_about_other_tools_are_ours(page: str) -> None:
    columns = {table.name: {*table.names} for table in schema.TABLES.values()}
    columns |= {answer.name: {column.name for column in answer.columns} for answer in ANSWERS}
    text = re.sub(r"^```.*?^```", "", (ROOT / page).read_text(), flags=re.DOTALL | re.MULTILINE)
    checked = 0
    for span in SPAN.findall(text):
        match = MEMBER.fullmatch(span)
        owner, member = match.groups() if match else ("", "")
        if owner in ("trace", "profframe"):
            home = profframe.Trace if owner == "trace" else profframe
            assert hasattr(home, member), span
            if span.startswith("trace.plot."):
                assert hasattr(Plots, span.split(".")[2]), span
        elif owner in columns:
            assert member in columns[owner], span
        elif span.startswith("profframe "):
            assert span.split()[1] in verbs.commands, span
        checked += bool(owner)
    assert checked or page == "docs/coming_from.md"


@pytest.mark.parametrize("page", [page for page in HAND_WRITTEN if "coming_from/" in page])
def test_columns_beside_an_answer_are_its_own(page: str) -> None:
    """In a table, what stands in code behind a link to an answer and is a word is a column."""
    for line in (ROOT / page).read_text().splitlines():
        named = re.findall(r"sql/answers/(\w+)\.sql", line)
        cells = re.split(r"(?<!\\)\|", line)
        if named and len(cells) == 5:
            selects = [select for name in named for select in find(name).selects]
            known = {column.name for select in selects for column in select.columns}
            own = {parameter.name for select in selects for parameter in select.parameters}
            said = re.findall(r"(?<=is )`([a-z_]+)`", cells[3])
            assert {*said} <= known | own, line


def test_an_answer_of_ones_own_needs_no_place_in_the_list() -> None:
    assert grouped(["mine"]) == {REST: ["mine"]}
