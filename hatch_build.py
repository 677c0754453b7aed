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
FLAGS: Final = ("-std=c11", "-O3", "-fPIC", "-shared", "-fvisibility=hidden", "-Wall", "-Wextra")


class NativeHook(BuildHookInterface[Any]):
    """Adds the library to a wheel.

    Variables of the environment: ``CC``, the compiler; ``PROFFRAME_PLATFORM``, the platform of the
    wheel, as in its name, if that is another; ``PROFFRAME_NATIVE=0`` for pure Python.
    """

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile, and say what the wheel is for."""
        if os.environ.get("PROFFRAME_NATIVE") == "0":
            return
        platform = os.environ.get("PROFFRAME_PLATFORM") or sysconfig.get_platform()
        name = file_name(platform)
        is_editable = version == "editable"
        folder = Path(self.root, NATIVE) if is_editable else Path(tempfile.mkdtemp())
        library = folder / name
        library.unlink(missing_ok=True)
        error = compiled(Path(self.root, NATIVE, "scan.c"), library)
        if error:
            self.app.display_warning(f"profframe without its native scanner: {error}")
            return
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{platform.replace('-', '_').replace('.', '_')}"
        if not is_editable:
            build_data["force_include"][str(library)] = str(NATIVE / name)


def file_name(platform: str) -> str:
    """Name of the library, as in ``profframe/native/library.py``."""
    if platform.startswith("win"):
        return "scan.dll"
    return "libscan.dylib" if platform.startswith("macos") else "libscan.so"


def compiled(source: Path, library: Path) -> str | None:
    """Compile with the first compiler that is there; what went wrong, or None."""
    given = os.environ.get("CC")
    commands = [shlex.split(given)] if given else [[name] for name in COMPILERS]
    for command in commands:
        try:
            subprocess.run(  # noqa: S603 - the builder's own compiler
                [*command, *FLAGS, "-o", str(library), str(source)],
                check=True,
                capture_output=True,
                text=True,
            )
        except FileNotFoundError:
            continue
        except (OSError, subprocess.CalledProcessError) as error:
            output = getattr(error, "stderr", "") or str(error)
            return f"{shlex.join(command)} failed: {output.strip().splitlines()[-1]}"
        return None
    return f"no compiler ({', '.join(map(shlex.join, commands))})"
