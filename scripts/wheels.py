"""Build the wheels of a release into ``dist/``, for all platforms, and check them: two minutes.

Zig has the headers and libraries of each platform, so that one machine compiles for all. The wheel
of this machine's platform is installed and run; the others are only read.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import lief
from packaging.tags import platform_tags

ROOT: Final = Path(__file__).resolve().parent.parent
EXPORTS: Final = {"profframe_scan", "profframe_version", "profframe_words"}
LINKERS: Final = {"__dso_handle", "_mh_dylib_header"}
"""What each library of macOS exports besides."""
GLIBC: Final = (2, 17)


class Platform(NamedTuple):
    """A platform by its name in wheels, Zig's name for it, and what its library has to be."""

    name: str
    target: str
    library: str
    format: lief.Binary.FORMATS
    machine: str


PLATFORMS: Final = tuple(
    Platform(name, target, library, getattr(lief.Binary.FORMATS, format_), machine)
    for name, target, library, format_, machine in (
        ("manylinux_2_17_x86_64", "x86_64-linux-gnu.2.17", "libscan.so", "ELF", "X86_64"),
        ("manylinux_2_17_aarch64", "aarch64-linux-gnu.2.17", "libscan.so", "ELF", "AARCH64"),
        ("macosx_11_0_arm64", "aarch64-macos.11.0", "libscan.dylib", "MACHO", "ARM64"),
        ("macosx_10_13_x86_64", "x86_64-macos.10.13", "libscan.dylib", "MACHO", "X86_64"),
        ("win_amd64", "x86_64-windows-gnu", "scan.dll", "PE", "AMD64"),
    )
)


def built(folder: Path, **environment: str) -> Path:
    """The wheel that the build makes with some variables of the environment."""
    before = {*folder.glob("*.whl")}
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "-d", str(folder)]
    done = subprocess.run(
        command, cwd=ROOT, env=os.environ | environment, capture_output=True, text=True, check=False
    )
    if done.returncode or "without its native scanner" in done.stdout + done.stderr:
        sys.exit(f"{environment}: {done.stdout}{done.stderr}")
    (wheel,) = {*folder.glob("*.whl")} - before
    return wheel


def libraries(wheel: Path) -> dict[str, bytes]:
    """The compiled files of a wheel."""
    with zipfile.ZipFile(wheel) as archive:
        names = [name for name in archive.namelist() if name.endswith((".so", ".dylib", ".dll"))]
        return {name: archive.read(name) for name in names}


def wrong(wheel: Path, platform: Platform) -> Iterator[str]:
    """What is not as it should be in the wheel of a platform."""
    if not wheel.name.endswith(f"-py3-none-{platform.name}.whl"):
        yield f"is called {wheel.name}"
    found = libraries(wheel)
    if [*found] != [f"profframe/native/{platform.library}"]:
        yield f"has {[*found]}"
        return
    (content,) = found.values()
    library: Any = lief.parse([*content])
    if library is None or library.format is not platform.format:
        yield f"its library begins with {content[:4]!r}"
        return
    machine = machine_of(library)
    if machine != platform.machine:
        yield f"its library is for {machine}"
    names = {function.name.removeprefix("_") for function in library.exported_functions}
    exports = names - LINKERS
    if exports != EXPORTS:
        yield f"its library exports {sorted(exports)}"
    if machine == "ARM64" and not library.has_code_signature:
        yield "its library is not signed, and macOS will not load it"
    if isinstance(library, lief.ELF.Binary):
        needed = [
            version.name
            for requirement in library.symbols_version_requirement
            for version in requirement.get_auxiliary_symbols()
        ]
        yield from (
            f"its library needs {name}"
            for name in needed
            if not name.startswith("GLIBC_") or numbers(name.removeprefix("GLIBC_")) > GLIBC
        )


def machine_of(library: Any) -> str:
    """What its code is for."""
    if isinstance(library, lief.ELF.Binary):
        return str(library.header.machine_type.name)
    if isinstance(library, lief.PE.Binary):
        return str(library.header.machine.name)
    return str(library.header.cpu_type.name)


def numbers(version: str) -> tuple[int, ...]:
    """A version that can be compared."""
    return tuple(map(int, version.split(".")))


def version_of(wheel: Path) -> str:
    """What the wheel says of itself in a fresh environment, after it has loaded a trace."""
    with tempfile.TemporaryDirectory() as name:
        environment = Path(name, "venv")
        subprocess.run([sys.executable, "-m", "venv", str(environment)], check=True)
        python = str(environment / ("Scripts" if os.name == "nt" else "bin") / "python")
        subprocess.run([python, "-m", "pip", "install", "--quiet", str(wheel)], check=True)
        own = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}

        def output(*words: str) -> str:
            command = [python, "-m", "profframe", *words]
            return subprocess.run(
                command, cwd=name, env=own, capture_output=True, text=True, check=True
            ).stdout.strip()

        trace = ROOT / "examples" / "cpu_training.json.gz"
        output("answer", "self_times", str(trace), "--format", "csv")
        return output("--version")


def main() -> None:
    """Build and check all wheels; say which ran."""
    lief.logging.disable()
    folder = ROOT / "dist"
    folder.mkdir(exist_ok=True)
    for wheel in folder.glob("*.whl"):
        wheel.unlink()
    here, failed = {*platform_tags()}, False
    for platform in PLATFORMS:
        compiler = f"{sys.executable} -m ziglang cc -target {platform.target}"
        wheel = built(folder, CC=compiler, PROFFRAME_PLATFORM=platform.name)
        faults = [*wrong(wheel, platform)]
        said = "not run here"
        if platform.name in here and not faults:
            said = version_of(wheel)
            faults = [] if said.endswith("(native scanner)") else [said]
        failed |= bool(faults)
        print(f"{platform.name:24} {wheel.stat().st_size:9,} bytes  {', '.join(faults) or said}")
    wheel = built(folder, PROFFRAME_NATIVE="0")
    said = version_of(wheel)
    is_pure = wheel.name.endswith("-py3-none-any.whl") and not libraries(wheel)
    failed |= not is_pure or "pure Python" not in said
    print(f"{'any':24} {wheel.stat().st_size:9,} bytes  {said}")
    sys.exit(failed)


if __name__ == "__main__":
    main()
