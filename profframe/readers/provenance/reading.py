"""Read files of Inductor's provenance: single ones, those of a debug folder or of tlparse, logs."""

from __future__ import annotations

import re
import zipfile
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from profframe.errors import NotATraceError, SourceError
from profframe.readers.bytes import ByteSource
from profframe.readers.provenance import CompiledGraph
from profframe.readers.provenance.artifacts import (
    Artifact,
    NotProvenanceError,
    Odd,
    by_content,
    of_cache,
    of_code,
    of_information,
    of_mappings,
    of_stacks,
    parsed,
)
from profframe.readers.provenance.sequence import graphs_of
from profframe.readers.provenance.torch_trace import compilation_name, graphs_of_log, knows
from profframe.readers.ranks import rank_in

_NUMBER: Final = r"(?:_(?P<number>\d{1,9}))?"
_ENDING: Final = r"(?:\.gz|\.zst)?"
_LOG: Final = re.compile(rf"dedicated_log_torch_trace.*\.log{_ENDING}")
_PACKAGE: Final = re.compile(r".*\.pt2")
_INFORMATION: Final = "kernel_information.json"
_KINDS: Final[Sequence[tuple[re.Pattern[str], Callable[[str], Artifact]]]] = (
    (
        re.compile(
            rf"(?:output_code\.(?:py|cpp)|inductor_output_code.*?{_NUMBER}\.(?:html|txt|py))"
        ),
        of_code,
    ),
    (
        re.compile(rf"inductor_provenance_tracking_node_mappings{_NUMBER}\.json{_ENDING}"),
        lambda text: of_mappings(parsed(text)),
    ),
    (
        re.compile(rf"inductor_provenance_tracking_kernel_stack_traces{_NUMBER}\.json{_ENDING}"),
        lambda text: of_stacks(parsed(text)),
    ),
    (
        re.compile(rf"kernel_information\.json{_ENDING}"),
        lambda text: of_information(parsed(text)),
    ),
    (
        re.compile(rf"fx_graph_cache_(?:hit|miss|bypass){_NUMBER}\.json{_ENDING}"),
        lambda text: of_cache(parsed(text)),
    ),
)
"""Names of files, and what reads their text, in the order in which torch writes them."""
_INFORMATION_KIND: Final = 3
_COMPILATION: Final = re.compile(r"(-|\d{1,9})_(-|\d{1,9})_(-|\d{1,9})_(-|\d{1,9})")
"""Folder of a compilation in the output of tlparse."""
_LARGEST: Final = 1 << 30
"""Bytes of a file in a package: more would not be what torch writes."""


def is_named_so(name: str) -> bool:
    """Whether torch or tlparse names files like this that are about compiled graphs.

    Examples
    --------
    >>> is_named_so("inductor_provenance_tracking_node_mappings_15.json"), is_named_so("a.json")
    (True, False)
    """
    patterns = [pattern for pattern, _ in _KINDS] + [_LOG, _PACKAGE]
    return any(pattern.fullmatch(name) for pattern in patterns)


@dataclass(slots=True)
class ReadProvenance:
    """What files say.

    Attributes
    ----------
    graphs
        The compiled graphs.
    skipped
        Why optional files were not read.
    odd
        Number of values that break the format in a file, and where the first of them is.
    """

    graphs: list[CompiledGraph] = field(default_factory=list)
    skipped: list[SourceError] = field(default_factory=list)
    odd: list[tuple[int, str]] = field(default_factory=list)


def read(paths: Iterable[Path], optional: frozenset[Path] = frozenset()) -> ReadProvenance:
    """Read files; those of one folder are about the graphs of one compilation.

    Raises
    ------
    NotATraceError
        A file that is not optional is none of these; the message names file and place.
    SourceError
        It cannot be read.
    """
    result = ReadProvenance()
    folders: dict[Path, list[_Part]] = {}
    for path in paths:
        odd = Odd()
        try:
            _read_file(path, result, folders, odd)
        except SourceError as error:
            if path not in optional:
                raise
            result.skipped.append(error)
        _note(result, path, odd)
    for folder, parts in folders.items():
        result.graphs += _graphs_in(folder, parts)
    return result


@dataclass(frozen=True, slots=True)
class _Part:
    kind: int
    number: int | None
    path: Path
    artifact: Artifact


def _read_file(
    path: Path, result: ReadProvenance, folders: dict[Path, list[_Part]], odd: Odd
) -> None:
    if _PACKAGE.fullmatch(path.name):
        result.graphs += _graphs_in_package(path, result)
        return
    with closing(ByteSource(path)) as source:
        if _LOG.fullmatch(path.name) or knows(source.beginning().plain):
            rank = _rank_of(path)
            result.graphs += graphs_of_log(source.blocks(), str(path), rank, odd)
            damage = source.damage
            text = None
        else:
            text = b"".join(source.blocks()).decode(errors="replace").removeprefix("\ufeff")
            damage = source.damage
    if damage:
        raise SourceError(f"{path}: {damage}")
    if text is not None:
        part = _part(path, text)
        odd.include(part.artifact.odd)
        folders.setdefault(path.parent, []).append(part)


def _part(path: Path, text: str) -> _Part:
    for kind, (pattern, read_text) in enumerate(_KINDS):
        if match := pattern.fullmatch(path.name):
            number = match.groupdict().get("number")
            artifact = _checked(path, read_text, text)
            return _Part(kind, None if number is None else int(number), path, artifact)
    artifact = _checked(path, lambda text: by_content(parsed(text)), text)
    return _Part(_kind_of(artifact), None, path, artifact)


def _kind_of(artifact: Artifact) -> int:
    """Place among the kinds of a file with a name of its own."""
    if artifact.post_to_pre is not None:
        return 1
    return 3 if artifact.post_grad is not None or artifact.pre_grad is not None else 2


def _checked(path: Path, read_text: Callable[[str], Artifact], text: str) -> Artifact:
    try:
        return read_text(text)
    except NotProvenanceError as error:
        raise NotATraceError(f"{path}: not provenance of Inductor: {error}") from None


def _note(result: ReadProvenance, path: Path, odd: Odd) -> None:
    if odd.count:
        result.odd.append((odd.count, f"{path}: {odd.first}"))


def _graphs_in(folder: Path, parts: Sequence[_Part]) -> list[CompiledGraph]:
    """The graphs of the files in one folder.

    Without numbers in their names, nothing says which of several files of a kind belong together:
    then each is about a graph of its own.
    """
    information = [part for part in parts if part.kind == _INFORMATION_KIND]
    others = [part for part in parts if part.kind != _INFORMATION_KIND]
    name, rank = _name_of(folder), _rank_of(folder)
    groups = [[part] for part in information]
    kinds = [part.kind for part in others if part.number is None]
    if len(set(kinds)) < len(kinds):
        groups += [[part] for part in others if part.number is None]
        others = [part for part in others if part.number is not None]
    order = sorted(others, key=lambda part: (part.number is not None, part.number or 0, part.kind))
    groups += [order] if order else []
    graphs = []
    for group in groups:
        source = str(group[0].path if len(group) == 1 else folder)
        graphs += graphs_of([part.artifact for part in group], name, rank, source)
    return graphs


def _graphs_in_package(path: Path, result: ReadProvenance) -> list[CompiledGraph]:
    """The graphs of a package that torch's ``aoti_compile_and_package`` wrote."""
    graphs = []
    try:
        with zipfile.ZipFile(path) as package:
            for member in package.infolist():
                name = member.filename
                if Path(name).name != _INFORMATION:
                    continue
                if member.file_size > _LARGEST:
                    raise SourceError(f"{path}: {name} has {member.file_size} bytes")
                text = package.read(name).decode(errors="replace")
                artifact = _checked(path / name, lambda text: of_information(parsed(text)), text)
                _note(result, path / name, artifact.odd)
                graphs += graphs_of([artifact], Path(name).parent.name, None, str(path / name))
    except (OSError, zipfile.BadZipFile, RuntimeError, NotImplementedError, EOFError) as error:
        raise SourceError(f"{path}: cannot be read: {error}") from error
    if not graphs:
        raise NotATraceError(
            f"{path}: not provenance of Inductor: the package has no {_INFORMATION} with kernels "
            "(compile it with INDUCTOR_PROVENANCE=1)"
        )
    return graphs


def _name_of(folder: Path) -> str:
    """What torch calls the compilation whose files are in a folder."""
    name = folder.absolute().name
    if match := _COMPILATION.fullmatch(name):
        return compilation_name(*(None if part == "-" else int(part) for part in match.groups()))
    return name


def _rank_of(path: Path) -> int | None:
    """The rank that a file or its folders are named after."""
    ranks = (rank_in(part) for part in reversed(path.absolute().parts[-3:]))
    return next((rank for rank in ranks if rank is not None), None)
