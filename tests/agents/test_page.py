"""The page for prompts is short, and what it says is so."""

from __future__ import annotations

import ast
import re

import pytest

from profframe import load, schema
from profframe.server import tools
from profframe.server.paging import tokens
from profframe.server.service import Service
from profframe.server.tools import Subject
from tests import needs
from tests.conftest import ROOT
from tests.event_loop import awaited

PAGE = (ROOT / "docs" / "agents.md").read_text(encoding="utf-8")
QUESTIONS = PAGE.partition("## Ten questions")[2].partition("## ")[0]
CALLS = [
    call
    for call in re.findall(r"`(\w+\([^`]*\))`", QUESTIONS)
    if not call.startswith(("diff", "event"))
]


@pytest.fixture(scope="module")
def service() -> Service:
    return Service(load(ROOT / "examples" / "cuda.json.gz"))


def test_it_fits_into_a_prompt() -> None:
    assert tokens(PAGE) < 3000


def test_there_are_ten_questions_first() -> None:
    assert re.findall(r"^(\d+)\. ", QUESTIONS, re.MULTILINE) == [str(n) for n in range(1, 11)]
    assert len(CALLS) > 10


@pytest.mark.parametrize("call", CALLS)
def test_their_calls_are_answered(service: Service, call: str) -> None:
    tree = ast.parse(call.replace("false", "False"), mode="eval").body
    assert isinstance(tree, ast.Call)
    assert isinstance(tree.func, ast.Name)
    name, given = tree.func.id, [ast.literal_eval(argument) for argument in tree.args]
    keywords = {str(keyword.arg): ast.literal_eval(keyword.value) for keyword in tree.keywords}
    if name == "what_if":
        given, keywords = [keywords], {}
    reply = service.reply(lambda subject: getattr(tools, name)(subject, *given, **keywords))
    if call == 'answer("blame", {"per": "rank"})':
        assert "rank" in reply.text
    else:
        assert not reply.is_error, reply.text


def test_the_reply_that_it_shows(service: Service) -> None:
    [query] = re.findall(r'`sql\("(SELECT [^`]*)"\)`', PAGE)
    [shown] = re.findall(r"^```text\n(.*?)\n```", PAGE, re.DOTALL | re.MULTILINE)
    assert service.reply(lambda subject: tools.sql(subject, query)).text == shown


def test_its_sql_runs(service: Service) -> None:
    [query] = re.findall(r"^```sql\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)

    def ask(subject: Subject) -> object:
        return tools.sql(subject, query)

    reply = service.reply(ask)  # type: ignore[arg-type]
    assert not reply.is_error, reply.text
    assert "# rows of the query: rows 1-10 of 10" in reply.text


def test_tables_and_columns_that_it_names() -> None:
    rows = re.findall(r"^\| (`[a-z_` ]+`) \|([^|]*)\|([^|]*)\|$", PAGE, re.MULTILINE)
    named = set()
    for names, _, columns in rows:
        tables = re.findall(r"\w+", names)
        named |= {*tables}
        [*wanted] = re.findall(r"\w+", " ".join(re.findall(r"`([^`]*)`", columns)))
        if len(tables) == 1 and tables[0] in schema.TABLES:
            assert set(wanted) <= set(schema.TABLES[tables[0]].names)
    assert named == {*schema.TABLES, schema.DEPENDENCIES.name}


def test_tools_that_it_names() -> None:
    needs.module("mcp")

    from mcp.client import Client

    from profframe.server.mcp import server

    async def names() -> set[str]:
        async with Client(server(Service(load(ROOT / "examples" / "cuda.json.gz")))) as client:
            return {tool.name for tool in (await client.list_tools()).tools}

    assert set(re.findall(r"^\| `(\w+)\(", PAGE, re.MULTILINE)) == awaited(names())
