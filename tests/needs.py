"""What a test needs that not every machine has: the reasons of all skips, and how to get it.

A function gives what it is named after, or skips, also while a module is imported. With
``PROFFRAME_NO_SKIPS=1`` a run fails if a test was skipped, unless the reason begins like one of
`ALLOWED` (`tests.skips`).
"""

from __future__ import annotations

import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, NoReturn

import pytest

from profframe.errors import MissingExtraError
from profframe.native import library
from tests.places import CASES, TRACES

PACKAGES: Final = MappingProxyType(
    {
        "IPython": "ipython",
        "aiohttp": "aiohttp",
        "anyio": "mcp>=2.3",
        "altair": "altair",
        "dask": "distributed",
        "distributed": "distributed",
        "flask": "flask",
        "flask_cors": "flask-cors",
        "fsspec": "fsspec",
        "google": "protobuf",
        "ibis": "ibis-framework[duckdb]",
        "httpx2": "mcp>=2.3",
        "ipykernel": "ipykernel",
        "jinja2": "jinja2",
        "jsonschema": "jsonschema",
        "jupytext": "jupytext",
        "loky": "loky",
        "mcp": "mcp>=2.3",
        "moto": "moto[s3]>=5.1",
        "nbclient": "nbclient",
        "orjson": "orjson",
        "pandas": "pandas",
        "perfetto": "perfetto",
        "s3fs": "s3fs>=2025.2",
        "scipy": "scipy",
        "playwright": "playwright",
        "prometheus_client": "prometheus_client",
        "torch": "torch==2.13.0",
        "vl_convert": "vl-convert-python",
        "yaml": "pyyaml",
        "ziglang": "ziglang",
    }
)
"""What pip calls the package of a module."""

_SYSTEM: Final = "needs another operating system"
_RELEASE: Final = "needs another release of torch"
_TRACES: Final = "needs real traces"
_NO_TRACES: Final = f"{_TRACES}: PROFFRAME_TRACES names a folder with index.csv, not {TRACES}"
_TRACE: Final = "needs another trace"
_NO_DEVICE: Final = "needs a machine without a CUDA device"
_POOL: Final = "needs a process that has not chosen a pool of memory"
_NATIVE: Final = "needs the native scanner"
_ENGINE: Final = "needs another engine"

ALLOWED: Final = (
    _SYSTEM, _RELEASE, _TRACES, _TRACE, _NO_DEVICE, _POOL, _ENGINE,
    f"{_NATIVE}: {library.SWITCH}=0",
)  # fmt: skip
"""How reasons begin for which nothing can be installed; the others are mistakes of a machine."""

root: Final = pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() != 0, reason=f"{_SYSTEM}: only root is another user"
)
fork: Final = pytest.mark.skipif(not hasattr(os, "fork"), reason=f"{_SYSTEM}: no fork here")
full_disk: Final = pytest.mark.skipif(
    not Path("/dev/full").exists(), reason=f"{_SYSTEM}: no /dev/full here"
)
linux: Final = pytest.mark.skipif(sys.platform != "linux", reason=f"{_SYSTEM}: Linux")


def module(name: str) -> Any:
    """A module of a package that is optional."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return importlib.import_module(name)
    except ModuleNotFoundError as error:
        absent = error.name or name
        if absent.startswith("torch."):
            another_release(f"no {absent}")
        _skip(_package(absent))


def modules(*names: str) -> None:
    """Some modules, each of which is imported where it is used."""
    for name in names:
        module(name)


def reason_of(error: BaseException) -> str | None:
    """Why a test would be skipped that has failed with this error, if a package is not here."""
    chain: BaseException | None = error
    while chain is not None:
        named = re.findall(r"\w+", str(chain)) if isinstance(chain, MissingExtraError) else ()
        names = [chain.name or ""] if isinstance(chain, ModuleNotFoundError) else named
        for package in (name.partition(".")[0] for name in names):
            if package in PACKAGES and importlib.util.find_spec(package) is None:
                return _package(package)
        chain = chain.__cause__ or chain.__context__
    return None


def _package(name: str) -> str:
    package = name.partition(".")[0]
    return f"needs {package}: pip install '{PACKAGES[package]}'"


def torch() -> Any:
    """torch of any release."""
    return module("torch")


def charts() -> None:
    """What draws a report and its charts."""
    modules("altair", "jinja2")


def another_release(lacks: str) -> NoReturn:
    """Skip: the torch that is here is compared otherwise, or not."""
    _skip(f"{_RELEASE}: {lacks} in {torch().__version__}; scripts/torch takes others")


def no_device() -> None:
    """torch without a CUDA device."""
    if torch().cuda.is_available():
        _skip(_NO_DEVICE)


def own_pool() -> NoReturn:
    """Skip: the pool of memory is not profframe's choice in this process."""
    _skip(f"{_POOL}: unset ARROW_DEFAULT_MEMORY_POOL")


def traces(name: str = "") -> Path:
    """The folder of real traces, or one of them."""
    if not (TRACES / "index.csv").is_file():
        _skip(_NO_TRACES)
    if not (TRACES / name).exists():
        _skip(f"{_TRACES}: no {name} in {TRACES}, which PROFFRAME_TRACES names")
    return TRACES / name


def case(name: str) -> Path:
    """One of the inputs of public reports."""
    if not (CASES / name).exists():
        _skip(f"{_TRACES}: no {name} in {CASES}, the folder beside the traces")
    return CASES / name


def members(traces: list[Any]) -> list[Any]:
    """Parameters of a test, one for each of some real traces; where there are none, it is skipped.

    Without a member pytest would skip it with a reason of its own.
    """
    return traces or [pytest.param(None, id="absent", marks=pytest.mark.skip(_NO_TRACES))]


def another_trace(this: str) -> NoReturn:
    """Skip: a real trace has nothing that the test is about, or too much of it."""
    _skip(f"{_TRACE}: {this}")


def chromium() -> str:
    """A Chromium, and what drives it."""
    modules("playwright.sync_api")
    names = ("chromium", "chromium-browser", "google-chrome")
    found = os.environ.get("PROFFRAME_CHROMIUM") or next(filter(None, map(shutil.which, names)), "")
    if not found:
        _skip("needs Chromium: bash scripts/browser, or PROFFRAME_CHROMIUM names one")
    return found


def native_scanner() -> None:
    """The scanner in C, where it is not switched off."""
    if reason := library.reason_without():
        _skip(f"{_NATIVE}: {reason} (with a C compiler: pip install -e .)")


def duckdb_shell() -> Path:
    """DuckDB's command line, which pip puts beside Python."""
    shell = Path(sys.executable).with_name("duckdb")
    if not shell.exists():
        _skip("needs DuckDB's shell: pip install duckdb-cli")
    return shell


def compiler(*flags: str) -> list[str]:
    """A C compiler that takes some flags; the command."""
    command = shlex.split(os.environ.get("CC", "cc"))
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "empty.c")
        source.write_text("int main(void) { return 0; }")
        built = Path(folder, "empty")
        try:
            subprocess.run(
                [*command, *flags, "-o", str(built), str(source)], check=True, capture_output=True
            )
        except FileNotFoundError:
            _skip("needs a C compiler: gcc or clang, or CC names one")
        except subprocess.CalledProcessError:
            _skip(f"needs a C compiler that takes {' '.join(flags)}: CC names one")
    return command


def program(name: str, package: str) -> str:
    """A program that a package of the system has."""
    if not (found := shutil.which(name)):
        _skip(f"needs {name}: {package} of Debian has it")
    return found


def engine(name: str) -> NoReturn:
    """An engine that no registry of Python has whole."""
    _skip(f"{_ENGINE}: {name}")


def _skip(reason: str) -> NoReturn:
    pytest.skip(reason, allow_module_level=True)
