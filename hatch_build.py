"""Compile the scanner into a wheel; where no compiler works, the wheel is pure Python."""

from __future__ import annotations

import os
import shlex
import subprocess
import sysconfig
import tempfile
from pathlib import Path
from typing import Any, Final

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

NATIVE: Final = Path("profframe", "native")
COMPILERS: Final = ("cc", "gcc", "clang")
FLAGS: Final = ("-std=c11", "-O3", "-shared", "-fvisibility=hidden")
LIMIT_S: Final = 600
"""Seconds that a compiler may take: it takes one, but Zig first compiles what Windows lacks."""


class NativeHook(BuildHookInterface[Any]):
    """Adds the library to a wheel.

    Variables of the environment: ``CC``, the compiler; ``PROFFRAME_PLATFORM``, the platform of the
    wheel, as in its name, if that is another; ``PROFFRAME_NATIVE=0`` for pure Python.
    """

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile, and say what the wheel is for."""
        platform = os.environ.get("PROFFRAME_PLATFORM") or sysconfig.get_platform()
        is_editable = version == "editable"
        self._folder = tempfile.TemporaryDirectory()  # `finalize` ends it
        library = Path(self.root, NATIVE) if is_editable else Path(self._folder.name)
        library /= file_name(platform)
        library.unlink(missing_ok=True)
        if os.environ.get("PROFFRAME_NATIVE") == "0":
            return
        error = compiled(Path(self.root, NATIVE, "scan.c"), library, platform)
        if error:
            self.app.display_warning(f"profframe without its native scanner: {error}")
            return
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{platform.replace('-', '_').replace('.', '_')}"
        if not is_editable:
            build_data["force_include"][str(library)] = str(NATIVE / library.name)

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Leave nothing behind."""
        del version, build_data, artifact_path
        self._folder.cleanup()


def file_name(platform: str) -> str:
    """Name of the library, as in ``profframe/native/library.py``."""
    if platform.startswith("win"):
        return "scan.dll"
    return "libscan.dylib" if platform.startswith("macos") else "libscan.so"


def flags(platform: str) -> tuple[str, ...]:
    """Flags of GCC and Clang; the linker of macOS knows no ``-s``."""
    if platform.startswith("win"):
        return (*FLAGS, "-s")
    return (*FLAGS, "-fPIC") if platform.startswith("macos") else (*FLAGS, "-fPIC", "-s")


def compiled(source: Path, library: Path, platform: str) -> str | None:
    """Compile with the first compiler that is there; what went wrong, or None."""
    given = os.environ.get("CC")
    commands = [given.split() if os.name == "nt" else shlex.split(given)] if given else []
    commands = commands or [[name] for name in COMPILERS]
    for command in commands:
        try:
            subprocess.run(  # noqa: S603 - the builder's own compiler
                [*command, *flags(platform), "-o", str(library), str(source)],
                check=True,
                capture_output=True,
                text=True,
                timeout=LIMIT_S,
            )
        except FileNotFoundError:
            continue
        except (OSError, subprocess.SubprocessError) as error:
            output = str(getattr(error, "stderr", None) or "").strip() or str(error)
            return f"{shlex.join(command)} failed: {output.splitlines()[-1]}"
        return None if library.is_file() else f"{shlex.join(command)} wrote no library"
    return f"no compiler ({', '.join(map(shlex.join, commands))})"
