"""Options that decide facts are said once: what else has a list of them has the same."""

from __future__ import annotations

import inspect
import pickle
from importlib import import_module
from pathlib import Path
from typing import Any

import click
import pytest

import profframe
from profframe.cli.next_commands import _options
from profframe.cli.verbs import verbs, with_facts
from profframe.errors import ParameterError
from profframe.facts.pipeline import OPTIONS
from profframe.loaders.companion_files import GivenFiles
from profframe.loaders.execution_trace_files import ExecutionTraces
from profframe.loaders.graph_capture_files import Captures
from profframe.loaders.load import open_store
from profframe.loaders.memory_snapshot_files import MemorySnapshots
from profframe.loaders.options import FACT_OPTIONS, FLAGS, FactOptions, LoadOptions, fact_options

OF_LOADING = {
    "source", "run", "rank", "cache", "runs", "ranks", "steps", "memory_limit", "progress",
}  # fmt: skip
OF_BATCHES = {
    "sources", "store", "executor", "run", "rank", "pattern", "threads", "progress", "workers",
    "keep",
}  # fmt: skip


def test_load_takes_all_of_them_and_convert_those_with_a_flag() -> None:
    load = inspect.signature(profframe.load).parameters.keys()
    convert = inspect.signature(profframe.convert).parameters.keys()
    assert load - OF_LOADING == FACT_OPTIONS.keys()
    assert convert - OF_BATCHES == FLAGS.keys()


def test_both_describe_them() -> None:
    described = inspect.getdoc(profframe.load) or ""
    assert [name for name in FACT_OPTIONS if f"\n{name}\n    " not in described] == []
    assert f"\n{', '.join(FLAGS)}\n    As for `load`." in (inspect.getdoc(profframe.convert) or "")


@pytest.mark.parametrize("name", FACT_OPTIONS)
def test_a_store_takes_none_and_says_why(name: str) -> None:
    given: dict[str, Any] = {name: "anything"}
    options = LoadOptions(facts=FactOptions(**given))
    with pytest.raises(ParameterError, match=f"{name} [a-z ]+ when a trace is loaded;"):
        open_store(Path("store"), options)


@pytest.mark.parametrize("name", FACT_OPTIONS)
def test_each_reaches_a_fact_or_is_files(name: str) -> None:
    option = FACT_OPTIONS[name]
    if option.check is not None:
        module, _, function = option.check.partition(":")
        owner = getattr(import_module(f"profframe.{module}"), function.partition(".")[0])
        assert callable(owner)
        if isinstance(owner, type) and issubclass(owner, GivenFiles):
            return
    assert (option.parameter or name) in {*OPTIONS, "compat"}


def test_every_verb_that_takes_one_takes_all() -> None:
    flags = {flag.name for flag in FLAGS.values()}
    for verb in verbs.commands.values():
        own = {word for parameter in verb.params for word in parameter.opts} & flags
        assert own in (set(), flags), verb.name


def test_flags_become_arguments_of_load_and_words_of_a_command() -> None:
    given: list[dict[str, object]] = []

    def keep(facts: dict[str, object]) -> None:
        given.append(facts)

    verb = click.command()(with_facts(keep))
    words = [
        "--compat", "torch", "--captures", "a.json", "--captures", "b.json",
        "--execution-trace", "et.json", "--memory-snapshot", "m.pickle",
        "--kernel-categories", "mine.json",
    ]  # fmt: skip
    verb.main(words, standalone_mode=False)
    verb.main([], standalone_mode=False)
    assert given[0] == dict.fromkeys(FLAGS) | {
        "compat": "torch",
        "captures": ["a.json", "b.json"],
        "execution_trace": ["et.json"],
        "memory": ["m.pickle"],
        "kernel_categories": Path("mine.json"),
    }
    assert given[1] == dict.fromkeys(FLAGS)
    assert [*_options(given[0])] == words


def test_a_copy_of_another_process_is_equal_until_a_file_changes(tmp_path: Path) -> None:
    files = [tmp_path / name for name in ("a.json", "b.json", "c.pickle")]
    for file in files:
        file.write_text(file.name)
    arguments = {
        "captures": files[:1],
        "execution_trace": iter(files[1:2]),
        "memory": files[2],
        "kernel_categories": {"^mine": "copy"},
        "compat": "torch",
        "source": "is none of them",
    }
    options = fact_options(arguments)
    assert options.captures == Captures((files[0],))
    assert options.execution_trace == ExecutionTraces((files[1],))
    assert options.memory == MemorySnapshots((files[2],))
    assert options.captures != ExecutionTraces((files[0],))
    copy = pickle.loads(pickle.dumps(options))  # noqa: S301 - our own
    assert copy == options
    assert hash(copy) == hash(options)
    assert copy.key() == options.key()
    files[0].write_text("changed")
    changed = fact_options(arguments | {"execution_trace": files[1]})
    assert changed != copy
    assert changed.contents() | {"captures": ""} == copy.contents() | {"captures": ""}
    assert changed.key() != copy.key()
