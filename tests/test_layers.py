"""Imports run one way, heavy ones come late, and a format's words stay in its reader."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path
from typing import TypeAlias

import pytest

from tests import needs
from tests.members import in_one

Nodes: TypeAlias = list[ast.AST]
PACKAGE = Path(__file__).parent.parent / "profframe"

ROOMS = (
    "errors",
    "system",
    "remote",
    "schema",
    "intervals",
    "native",
    "readers",
    "facts",
    "query",
    "store",
    "analysis",
    "show",
    "pages",
    "export",
    "workers",
    "trace",
    "loaders",
    "comparisons",
    "server",
    "conversion",
    "cli",
    "pytest_plugin",
)
"""In reading order: a room imports from itself and from those before it."""

HEAVY = ("duckdb", "numpy", "polars", "pyarrow", "scipy", "torch")

FORMAT_WORDS = re.compile(
    r"\b(ph|traceEvents|baseTimeNanoseconds|Ev Idx|External id|Input Dims"
    r"|cpu_op|user_annotation|gpu_user_annotation|python_function|cpu_instant_event|cuda_runtime"
    r"|cuda_driver|gpu_memcpy|gpu_memset|ac2g|CUPTI_ACTIVITY_KIND_\w+|NVTX_EVENTS|StringIds"
    r"|StringTable|globalTid|cbid)\b"
)
"""Words of source formats."""

MAY_NAME_FORMAT_WORDS = {
    "readers/chrome/reading.py": "the reader of this format",
    "readers/chrome/__init__.py": "the same",
    "readers/chrome/added_args.py": "the same",
    "readers/chrome/columns.py": "the same",
    "readers/chrome/device_args.py": "the same",
    "readers/chrome/scanned.py": "the same",
    "readers/chrome/parsing.py": "the same",
    "export/chrome.py": "its writer",
    "export/lines/chrome_events.py": "the lines that it writes",
    "export/lines/highlight.py": "the same",
    "export/lines/forms.py": "the same",
    "export/lines/merged_ranks.py": "the same",
    "export/lines/event_list.py": "those of its older form",
    "readers/sqlite/nsys.py": "the reader of Nsight Systems' databases",
    "readers/sqlite/nvprof.py": "the reader of nvprof's databases",
    "readers/torch/kineto.py": "live objects have the words of their export",
    "readers/torch/function_events.py": "the same",
    "readers/torch/flows.py": "the same",
    "readers/memory_snapshot/reading.py": "its annotations are those of the profiler",
    "readers/perfetto/annotations.py": "what torch writes there are Kineto's words",
    "readers/perfetto/events.py": "the same",
    "readers/perfetto/exported.py": "what profframe writes there is Kineto's",
    "readers/perfetto/gpu.py": "the same",
    "readers/perfetto/older_writers.py": "older writers use words of Chrome's JSON",
    "facts/kinds.py": "the classifier: a table from the source's words to ours",
}

GIVEN_DATA = ("export", "pages", "show")
"""Rooms that show and write what others compute."""
COMPUTES = "export/lines/"
"""The lines of files for other tools are rows of questions."""

SQL_TEXT = re.compile(r"\s*(ALTER|ATTACH|COPY|CREATE|FROM|INSERT|SELECT|SET VARIABLE|WITH)\b")


def modules(*rooms: str) -> list[Path]:
    """Those of some rooms, or all."""
    return [path for path in sorted(PACKAGE.rglob("*.py")) if not rooms or room(path) in rooms]


def module_id(path: Path) -> str:
    return path.relative_to(PACKAGE).as_posix()


def dotted(path: Path) -> str:
    """The name by which a module is imported."""
    return ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts).removesuffix(
        ".__init__"
    )


def room(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imported(nodes: Nodes) -> Iterator[str]:
    """Full names of what a module imports from the package, also inside functions."""
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def texts(nodes: Nodes) -> Iterator[str]:
    """String constants that are no docstrings."""
    prose = {
        id(node.value)
        for node in nodes
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
    for node in nodes:
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in prose:
            yield node.value


def names(nodes: Nodes) -> Iterator[str]:
    """Names of variables, parameters and attributes."""
    for node in nodes:
        match node:
            case ast.Name(id=name) | ast.arg(arg=name) | ast.Attribute(attr=name):
                yield name


def prints(nodes: Nodes) -> Iterator[int]:
    """Lines in which something is printed."""
    for node in nodes:
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name)
            and node.func.id == "print"
        ):
            yield node.lineno


@dataclass(frozen=True)
class Said:
    """What a module imports, its texts and names, and the lines in which it prints."""

    imported: tuple[str, ...]
    texts: tuple[str, ...]
    names: frozenset[str]
    prints: tuple[int, ...]


@cache
def said(path: Path) -> Said:
    """Each module is parsed once for all tests; trees of all would be large."""
    nodes = [*ast.walk(ast.parse(path.read_text(encoding="utf-8")))]
    return Said((*imported(nodes),), (*texts(nodes),), frozenset(names(nodes)), (*prints(nodes),))


@in_one(modules(), ids=module_id)
def test_imports_run_one_way(path: Path) -> None:
    if room(path) in ("__init__", "__main__"):
        return
    allowed = ROOMS[: ROOMS.index(room(path)) + 1]
    imports = [name.split(".") for name in said(path).imported]
    ours = {parts[1] for parts in imports if parts[0] == "profframe" and len(parts) > 1}
    assert ours - {*allowed, "__version__"} == set()


def test_modules_import_one_another_in_no_circle() -> None:
    """Inside a room too, with imports for types and in functions: what a name leads to ends."""
    known = {dotted(path): path for path in modules()}
    del known["profframe"]  # it names what users import

    def home(name: str) -> str:
        return name if name in known else name.rpartition(".")[0]

    graph = {
        module: {home(name) for name in said(path).imported} & known.keys() - {module}
        for module, path in known.items()
    }
    TopologicalSorter(graph).prepare()  # its error names a circle


def test_every_room_is_in_the_order() -> None:
    assert {room(path) for path in modules()} - {"__init__", "__main__"} <= set(ROOMS)


@in_one(modules(), ids=module_id)
def test_words_of_a_format_stay_in_its_reader(path: Path) -> None:
    if module_id(path) in MAY_NAME_FORMAT_WORDS:
        return
    found = {word for text in said(path).texts for word in FORMAT_WORDS.findall(text)}
    assert found == set()


@in_one([p for p in modules(*GIVEN_DATA) if COMPUTES not in p.as_posix()], ids=module_id)
def test_what_shows_or_writes_asks_no_database(path: Path) -> None:
    assert "duckdb" not in {name.split(".")[0] for name in said(path).imported}
    assert "connection" not in said(path).names
    assert [text for text in said(path).texts if SQL_TEXT.match(text)] == []


def test_sql_names_no_words_of_a_format() -> None:
    files = sorted((PACKAGE.parent / "sql").rglob("*.sql"))
    found = {(file.name, word) for file in files for word in FORMAT_WORDS.findall(file.read_text())}
    assert files
    assert found == set()


def run_fresh(code: str) -> str:
    """What ``code`` prints in an interpreter of its own."""
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    return done.stdout


@pytest.mark.parametrize(
    "statement",
    [
        "import profframe",
        "from profframe import ProfframeError",
        "dir(__import__('profframe'))",
        "import profframe.errors",
    ],
)
def test_import_is_light(statement: str) -> None:
    code = f"import sys\n{statement}\nprint(sorted({set(HEAVY)!r} & set(sys.modules)))"
    assert run_fresh(code).strip() == "[]"


def test_nothing_imports_torch() -> None:
    needs.modules("altair", "jinja2", "mcp")
    names = [name for name in map(dotted, modules()) if not name.endswith("__main__")]
    imports = "\n".join(f"import {name}" for name in names)
    code = f"import sys\n{imports}\nprint('torch' in sys.modules)"
    assert run_fresh(code).strip() == "False"


def test_a_first_screen_imports_no_other_reader_and_no_pandas(example: Path) -> None:
    """PyArrow imports pandas where it is installed, to see whether a list is one of its series.

    Nor does it import what reads Parquet, which brings file systems and `ssl`, or what draws.
    """
    command = [sys.executable, "-X", "importtime", "-m", "profframe", str(example)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    imports = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert "profframe.readers.chrome.parsing" in imports
    readers = {name for name in imports if ".readers." in name and name.endswith(".reading")}
    assert readers == {"profframe.readers.reading", "profframe.readers.chrome.reading"}
    others = ("pandas.", "torch.", "pyarrow.fs", "pyarrow.parquet", "ssl", "profframe.pages.")
    assert [name for name in imports if name.startswith(others)] == []


def test_what_asks_for_pandas_by_name_gets_it_though_it_was_not_found() -> None:
    needs.module("pandas")
    code = (
        "import sys\n"
        "from profframe.system.imports import look_for_no_pandas\n"
        "look_for_no_pandas()\n"
        "import pyarrow\n"
        "print('pandas' in sys.modules, len(pyarrow.table({'a': [1, 2]}).to_pandas()))"
    )
    assert run_fresh(code) == "False 2\n"


@in_one(modules(), ids=module_id)
def test_nothing_prints_below_the_command_line(path: Path) -> None:
    if room(path) == "cli":
        return
    assert said(path).prints == ()
