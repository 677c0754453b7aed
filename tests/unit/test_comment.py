"""Markdown for a pull request: what a reader of GitHub's Markdown makes of it, and its size."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from profframe.show import units
from profframe.show.comment import MOST, code, escaped
from tests.builders import stored
from tests.conftest import Run
from tests.unit.test_limits import kernel, op, steps, trace

HOSTILE: Final = (
    "a|b",
    "`tick`",
    "``",
    "a\\|b`",
    "end\\",
    "<b>bold</b><!-- -->",
    "line\nbreak\r\n| x |",
    "*x* _y_ ~z~ [l](http://e.org) ![i](x)",
    "\x1b[31m&lt;",
    "&#124;",
    " lead",
    "trail ",
    "",
    "# head",
    "@someone #1 www.e.org :smile:",
    "名前 \u202e",
)
KERNEL: Final = "void at::native::vectorized<4, at::Add<float> | x>(int, float*)"


def tables(text: str) -> list[list[list[str]]]:
    """The rows of each table, as they are read: the text of every cell."""
    found: list[list[list[str]]] = []
    for token in MarkdownIt("commonmark", {"html": True}).enable("table").parse(text):
        if token.type == "table_open":
            found.append([])
        elif token.type == "tr_open":
            found[-1].append([])
        elif token.type == "inline" and found and token.level >= 3:
            parts = token.children or []
            kinds = {part.type for part in parts}
            assert kinds <= {"text", "code_inline", "html_inline", "strong_open", "strong_close",
                             "text_special"}  # fmt: skip
            marks = [part.content for part in parts if part.type == "html_inline"]
            assert marks in ([], ["<code>", "</code>"])
            found[-1][-1].append(
                "".join(part.content for part in parts if part.type != "html_inline")
            )
    return found


def read_back(cell: str) -> str:
    ((_, (text, last)),) = [
        (rows[0], rows[1]) for rows in tables(f"| a | b |\n|---|---|\n| {cell} | last |\n")
    ]
    assert last == "last"
    return text


@pytest.mark.parametrize("name", HOSTILE)
def test_a_name_is_read_as_it_is(name: str) -> None:
    expected = units.visible(name)
    assert read_back(code(name)).replace("\u200b", "") == expected
    assert read_back(escaped(name)).replace("\u200b", "") == expected.strip()


@given(name=st.text(max_size=30) | st.text(alphabet="|`\\<&;#* \n", max_size=12))
def test_any_name_is_read_as_it_is(name: str) -> None:
    assert read_back(code(name)).replace("\u200b", "") == units.visible(name).replace("\u200b", "")


def test_references_and_links_are_none() -> None:
    """In text something follows what GitHub makes a mention of, and no address begins."""
    text = escaped("@someone org/repo#1 www.e.org http://e.org")
    assert text == (
        "&#64;&#8203;someone org&#47;repo&#35;&#8203;1 www&#46;e.org http&#58;&#47;&#47;e.org"
    )


def test_a_comment(run: Run, tmp_path: Path) -> None:
    for name, ns, calls in (("a", 100, 1), ("b", 120, 3)):
        rows = [*steps(ns, ns + 1, ns - 1, ns, None), op("aten::mm|x", 5 * ns, 1)]
        rows += [kernel(KERNEL, ns, 1) for _ in range(calls)]
        trace(rows).to_parquet(tmp_path / name)
    limits = ("step=5%", "op:aten::mm|x=50%", "kernel:*vectorized*=5%", "40%")
    options = [word for limit in limits for word in ("--fail-on", limit)]
    file = tmp_path / "comment.md"
    names = ("--names", "main,my|`<branch>")
    code, out, _ = run("diff", tmp_path / "a", tmp_path / "b", *names, *options, "-o", file)
    assert (code, out) == (3, "")
    text = file.read_text()
    printed = run("diff", tmp_path / "a", tmp_path / "b", *names, *options, "--format", "markdown")
    assert printed[:2] == (3, text)

    assert text.splitlines()[0] == "### profframe diff: **3 of 4 limits are broken**"
    held, ops, kernels, _ = tables(text)
    assert [row[:5] for row in held[1:]] == [
        ["5 %", "step", "0.100 us → 0.120 us", "+20.0 %", "broken"],
        ["5 %", "kernel *vectorized*", "0.100 us → 0.360 us", "+260.0 %", "broken"],
        ["40 %", "all kernels", "0.100 us → 0.360 us", "+260.0 %", "broken"],
        ["50 %", "op aten::mm|x", "0.500 us → 0.600 us", "+20.0 %", "holds"],
    ]
    assert ops[0] == ["ops, self time", "change", "main", "my|`<branch>", "%", "calls"]
    assert ops[1] == ["aten::mm|x", "0.100 us", "0.500 us", "0.600 us", "+20.0", "1"]
    assert kernels[0][5:] == ["calls", "per call"]
    assert kernels[1][0] == "at::native::vectorized"
    assert kernels[1][5:] == ["1 → 3", "0.100 us → 0.120 us"]
    assert "calls differ in number" in text

    whole = run("diff", tmp_path / "a", tmp_path / "a", "--fail-on", "step=5%", "-o", file)
    assert whole[0] == 0
    assert file.read_text().startswith("### profframe diff: the limit holds\n")


def test_what_is_left_out_is_said(run: Run, tmp_path: Path) -> None:
    rows = [*steps(900, 100, 100, 100), *(op("x", 5, n) for n in range(4))]
    trace(rows).to_parquet(tmp_path / "a")
    _, text, _ = run(
        *("diff", tmp_path / "a", tmp_path / "a", "--per", "step", "--format", "markdown")
    )
    assert "left out as warm-up or cut off on some rank: 1 of 4 steps of base, 1 of 4" in (
        text.replace("&#58;", ":")
    )
    assert "no limit was given" in text


def test_it_fits_whatever_the_names(run: Run, tmp_path: Path) -> None:
    names = [f"{n}" + "|`<>&" * 200 for n in range(52)]
    for side, ns in (("a", 10), ("b", 30)):
        rows = [op(name, ns + n) for n, name in enumerate(names)]
        rows += [kernel(f"{name}x", ns + n) for n, name in enumerate(names)]
        trace(rows).to_parquet(tmp_path / side)
    limits = [word for name in names for word in ("--fail-on", f"op:{name}=5%")]
    code, text, _ = run(
        *("diff", tmp_path / "a", tmp_path / "b", *limits),
        *("--top", "500", "--format", "markdown", "--names", f"{'|' * 3000},{'`' * 3000}"),
    )
    assert code == 3
    assert len(text.encode()) <= MOST + 1 < 65_536
    assert "**52 of 52 limits are broken**" in text
    assert "more limits" in text
    assert "more ops changed by less" in text


def test_nothing_at_all(run: Run, tmp_path: Path) -> None:
    stored(traces=[{"run": "r"}]).to_parquet(tmp_path / "a")
    code, text, _ = run("diff", tmp_path / "a", tmp_path / "a", "--format", "markdown")
    assert code == 0
    assert "Neither side has an op, a kernel or an annotation." in text


def test_rows_of_other_verbs_are_a_table(root: Path, run: Run) -> None:
    query = "SELECT 'a|b <i>' AS name, 1500 AS self_ns, NULL AS step"
    trace = str(root / "examples" / "cpu_training.json.gz")
    code, out, _ = run("sql", trace, query, "--format", "markdown")
    assert code == 0
    assert out == (
        "| name | self |\n|---|---:|\n| <code>a&#124;b &#60;i&#62;</code> | 1.500 us |\n"
    )
