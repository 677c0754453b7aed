"""Devices: which model each is, the peaks of that, and a user's own."""

from __future__ import annotations

import json
import re
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from profframe import load, schema
from profframe.errors import ParameterError
from profframe.facts.device_catalogue import fitting, models
from profframe.facts.device_models import devices, match_models
from profframe.readers.build.header_devices import devices as read
from profframe.trace.trace import Trace
from scripts.pages.devices import sources
from tests.builders import table

Device = dict[str, Any]

PRO = "NVIDIA RTX PRO 6000 Blackwell"
MAX = "Intel Data Center GPU Max 1550 (one of two stacks)"
FULL_MAX = "Intel Data Center GPU Max 1550 (one of two stacks, 512 engines)"
DIES = ["Huawei Ascend 910C (one of two dies)", "Huawei Ascend 910C (one of two dies, 20 cores)"]
KNOWN = models()
SOURCES = sources()
FILE: dict[str, Device] = json.loads(
    (Path(schema.__file__).parent / "facts/devices.json").read_text(encoding="utf-8")
)


def model_of(
    name: str | None,
    memory_gb: float | None = None,
    multiprocessors: int | None = None,
    compute_capability: str | None = None,
) -> str | None:
    device = {
        "name": name,
        "memory_bytes": None if memory_gb is None else int(memory_gb * 1e9),
        "multiprocessors": multiprocessors,
        "compute_capability": compute_capability,
    }
    return next(iter(fitting(device, KNOWN)), None)


def fits(*device: Any) -> list[str]:
    """All models that a device may be of, without who made it."""
    columns = ("name", "memory_bytes", "multiprocessors", "compute_capability")
    row = dict(zip(columns, (*device, *([None] * (4 - len(device)))), strict=True))
    row["memory_bytes"] = row["memory_bytes"] and int(row["memory_bytes"] * 1e9)
    return [
        name.removeprefix("NVIDIA ").removeprefix("AMD Instinct ") for name in fitting(row, KNOWN)
    ]


# What drivers call them


@pytest.mark.parametrize(
    ("name", "model"),
    [
        ("NVIDIA A100-SXM4-80GB", "NVIDIA A100 SXM 80GB"),
        ("NVIDIA A100-SXM4-40GB", "NVIDIA A100 SXM 40GB"),
        ("A100-SXM-80GB", "NVIDIA A100 SXM 80GB"),
        ("NVIDIA A100-PCIE-40GB", "NVIDIA A100 PCIe 40GB"),
        ("NVIDIA A100 80GB PCIe", "NVIDIA A100 PCIe 80GB"),
        ("NVIDIA H100 80GB HBM3", "NVIDIA H100 SXM"),
        ("NVIDIA H100 PCIe", "NVIDIA H100 PCIe"),
        ("NVIDIA H100 NVL", "NVIDIA H100 NVL"),
        ("NVIDIA H200", "NVIDIA H200 SXM"),
        ("NVIDIA H200 NVL", "NVIDIA H200 NVL"),
        ("NVIDIA GH200 480GB", "NVIDIA GH200 96GB"),
        ("NVIDIA GH200 144G HBM3e", "NVIDIA GH200 144GB"),
        ("NVIDIA B200", "NVIDIA B200"),
        ("NVIDIA GB200", "NVIDIA GB200"),
        ("NVIDIA B300 SXM6 AC", "NVIDIA B300"),
        ("NVIDIA GB300", "NVIDIA GB300"),
        ("NVIDIA L4", "NVIDIA L4"),
        ("NVIDIA L40S", "NVIDIA L40S"),
        ("NVIDIA A10G", "NVIDIA A10G"),
        ("Tesla T4", "NVIDIA T4"),
        ("Tesla V100-SXM2-16GB", "NVIDIA V100 SXM2 16GB"),
        ("Tesla V100-SXM2-32GB", "NVIDIA V100 SXM2 32GB"),
        ("Tesla V100-DGXS-32GB", "NVIDIA V100 SXM2 32GB"),
        ("Tesla V100-PCIE-16GB", "NVIDIA V100 PCIe 16GB"),
        ("Tesla V100S-PCIE-32GB", "NVIDIA V100S PCIe"),
        ("NVIDIA GeForce RTX 3090", "NVIDIA GeForce RTX 3090"),
        ("GeForce RTX 4090", "NVIDIA GeForce RTX 4090"),
        ("NVIDIA GeForce RTX 3060", "NVIDIA GeForce RTX 3060 12GB"),
        ("AMD Instinct MI210", "AMD Instinct MI210"),
        ("AMD Instinct MI250X", "AMD Instinct MI250X (one of two dies)"),
        ("AMD Instinct MI300A", "AMD Instinct MI300A"),
        ("AMD Instinct MI300X", "AMD Instinct MI300X"),
        ("AMD Instinct MI300X VF", "AMD Instinct MI300X"),
        ("AMD Instinct MI325X", "AMD Instinct MI325X"),
        ("AMD Instinct MI350X", "AMD Instinct MI350X"),
        ("AMD Instinct MI355X", "AMD Instinct MI355X"),
        ("NVIDIA A800-SXM4-80GB", "NVIDIA A800 SXM 80GB"),
        ("NVIDIA A800 80GB PCIe", "NVIDIA A800 PCIe 80GB"),
        ("NVIDIA A800 40GB Active", "NVIDIA A800 40GB Active"),
        ("NVIDIA H800", "NVIDIA H800 SXM"),
        ("NVIDIA H20", "NVIDIA H20"),
        ("NVIDIA H20-3e", "NVIDIA H20 141GB"),
        ("NVIDIA GB10", "NVIDIA GB10"),
        ("NVIDIA L20", "NVIDIA L20"),
        ("NVIDIA L40", "NVIDIA L40"),
        ("NVIDIA A10", "NVIDIA A10"),
        ("NVIDIA A40", "NVIDIA A40"),
        ("NVIDIA RTX A6000", "NVIDIA RTX A6000"),
        ("RTX A6000", "NVIDIA RTX A6000"),
        ("NVIDIA GeForce RTX 4090", "NVIDIA GeForce RTX 4090"),
        ("NVIDIA GeForce RTX 5090", "NVIDIA GeForce RTX 5090"),
        (f"{PRO} Workstation Edition", f"{PRO} Workstation Edition"),
        (f"{PRO} Max-Q Workstation Edition", f"{PRO} Max-Q Workstation Edition"),
        (f"{PRO} Server Edition", f"{PRO} Server Edition"),
        ("AMD Instinct MI308X", "AMD Instinct MI308X"),
        ("Intel(R) Arc(TM) B580 Graphics", "Intel Arc B580"),
        ("GAUDI3", "Intel Gaudi 3"),
        ("Ascend910B2", "Huawei Ascend 910B2"),
        ("Ascend910B2C", "Huawei Ascend 910B2"),
        ("Ascend910B3", "Huawei Ascend 910B3"),
        # What is nearly one of them, and is not.
        ("NVIDIA A100-SXM4-40GB MIG 1g.5gb", "NVIDIA MIG slice"),
        (f"{PRO} Server Edition MIG 1g.24gb", "NVIDIA MIG slice"),
        ("NVIDIA A10M", None),
        ("NVIDIA A10-24Q", None),
        ("NVIDIA A40-48Q", None),
        ("NVIDIA A16", None),
        ("NVIDIA A30", None),
        ("NVIDIA L2", None),
        ("NVIDIA L20-24Q", None),
        ("NVIDIA L40-48Q", None),
        ("NVIDIA L40G", None),
        ("NVIDIA H800 PCIe", None),
        ("NVIDIA H800 NVL", None),
        ("NVIDIA H20-96C", None),
        ("NVIDIA RTX A6000-48Q", None),
        ("NVIDIA RTX A5000", None),
        ("NVIDIA RTX 6000 Ada Generation", None),
        ("Quadro RTX 6000", None),
        ("NVIDIA GeForce RTX 5090 D", None),
        ("NVIDIA GeForce RTX 5090 D v2", None),
        ("NVIDIA GeForce RTX 5090 Laptop GPU", None),
        ("NVIDIA RTX PRO 5000 Blackwell", None),
        ("NVIDIA RTX PRO 6000D", None),
        ("Intel(R) Arc(TM) B570 Graphics", None),
        ("Intel(R) Arc(TM) A770 Graphics", None),
        ("Intel(R) Data Center GPU Max 1100", None),
        ("GAUDI2", None),
        ("Ascend910A", None),
        ("Ascend910B1", None),
        ("Ascend910B4", None),
        ("Ascend910B4-1", None),
        ("Ascend310P3", None),
        ("Ascend950PR_957b", None),
        ("NVIDIA GeForce RTX 3090 Ti", None),
        ("NVIDIA GeForce RTX 4090 D", None),
        ("NVIDIA GeForce RTX 4090 Laptop GPU", None),
        ("Quadro GP100", None),
        ("ARTEMIS", None),
        ("A100'; DROP TABLE devices; --", None),
        ("", None),
        (None, None),
    ],
)
def test_a_name_says_the_model(name: str | None, model: str | None) -> None:
    assert model_of(name) == model


@pytest.mark.parametrize(
    ("device", "model"),
    [
        (("NVIDIA A100-PG509-200", 42.3), "NVIDIA A100 SXM 40GB"),
        (("NVIDIA A100-PG509-200", 85.1), "NVIDIA A100 SXM 80GB"),
        (("NVIDIA H100", 102.1, 132, "9.0"), "NVIDIA H100 SXM 96GB"),
        (("NVIDIA GeForce RTX 3060", 8.5), "NVIDIA GeForce RTX 3060 8GB"),
        ((None, 206.1, 304, "9.4"), "AMD Instinct MI300X"),
        (("AMD Radeon Graphics", 206.1, 304, "9.4"), "AMD Instinct MI300X"),
        ((None, 274.9, 304, "9.4"), "AMD Instinct MI325X"),
        ((None, 137.4, 228, "9.4"), "AMD Instinct MI300A"),
        (("AMD Radeon Graphics", 68.7, 104, "9.0"), "AMD Instinct MI250 (one of two dies)"),
        (("AMD Instinct MI250X/MI250", 68.7, 110, "9.0"), "AMD Instinct MI250X (one of two dies)"),
        (("AMD Instinct MI250X/MI250", 68.7, 104, "9.0"), "AMD Instinct MI250 (one of two dies)"),
        (("AMD Instinct MI300X", 25.8, 38, "9.4"), "AMD Instinct MI300 partition"),
        (("AMD Instinct MI308X", 48.0, 20, "9.4"), "AMD Instinct MI300 partition"),
        (("AMD Instinct MI308X", 206.1, 80, "9.4"), "AMD Instinct MI308X"),
        (("AMD Radeon Graphics", 206.1, 80, "9.4"), "AMD Instinct MI308X"),
        (
            ("Intel(R) Data Center GPU Max 1550", 68.7, 512),
            FULL_MAX,
        ),
        (("Intel(R) Data Center GPU Max 1550", 137.4, 1024), None),
        (("Ascend910_9391", None, 24), "Huawei Ascend 910C (one of two dies)"),
        (("Ascend910_9362", None, 20), "Huawei Ascend 910C (one of two dies, 20 cores)"),
        ((None, 206.1, 304, "11.0"), None),
        (("AMD Radeon Graphics", 17.2, 60, "10.3"), None),
    ],
)
def test_what_has_no_name_of_its_own_is_known_by_the_rest(
    device: tuple[Any, ...], model: str | None
) -> None:
    assert model_of(*device) == model


@pytest.mark.parametrize(
    "name",
    [
        "NVIDIA H100", "NVIDIA A100", "NVIDIA L4", "AMD MI350X", "AMD MI300A", "AMD MI300X",
        "AMD MI210X", "AMD INSTINCT MI350X", "AMD INSTINCT MI300X", "AMD INSTINCT MI210X",
        "A100-SXM4-40GB", "A100-PCIE-40GB", "NVIDIA A100-SXM-80GB", "NVIDIA A100-PG506-232",
        "NVIDIA H100 80GB HBM2e", "NVIDIA H100 SXM5 80GB", "NVIDIA H100 96GB HBM3",
        "NVIDIA H100 SXM5 94GB", "NVIDIA GH200 120GB", "NVIDIA H200 141GB HBM3e",
        "NVIDIA B200 SXM6", "NVIDIA HGX B200", "NVIDIA GB200 NVL72", "NVIDIA GB300 NVL72",
        "Tesla V100-SXM3-32GB", "Tesla V100-PCIE-32GB", "NVIDIA T4", "A10G",
        "AMD Instinct MI250", "AMD Instinct MI250X/MI250", "AMD Instinct MI300X HF",
        "AMD Instinct MI325X VF", "AMD Instinct MI350X VF", "AMD Instinct MI355X VF",
    ],
)  # fmt: skip
def test_every_name_finds_a_peak(name: str) -> None:
    """Those of drivers, and those that torch looks up."""
    (row,) = rows([{"name": name}])
    assert row["fp16_flop_per_s"] > 60e12


@pytest.mark.parametrize(
    ("device", "models"),
    [
        (("NVIDIA H100",), ["H100 SXM", "H100 PCIe", "H100 SXM 96GB", "H100 NVL"]),
        (("NVIDIA H100", 85.0), ["H100 SXM", "H100 PCIe"]),
        (("NVIDIA H100", 85.0, 132, "9.0"), ["H100 SXM"]),
        (("NVIDIA H100", 85.0, 114, "9.0"), ["H100 PCIe"]),
        (("NVIDIA H100", 80.0, 132, "9.0"), ["H100 SXM"]),
        (("NVIDIA H100", 100.9, 132, "9.0"), ["H100 SXM 96GB", "H100 NVL"]),
        (("NVIDIA H100", 102.0, 132, "9.0"), ["H100 SXM 96GB"]),
        (("NVIDIA H100", 103.1, 132, "9.0"), ["H100 SXM 96GB"]),
        (("NVIDIA H100 80GB",), ["H100 SXM", "H100 PCIe"]),
        (("NVIDIA H100 80GB HBM3",), ["H100 SXM"]),
        (("NVIDIA H100 96GB HBM3",), ["H100 SXM 96GB"]),
        (("NVIDIA H100 NVL",), ["H100 NVL"]),
        (("NVIDIA H100 64GB HBM2",), []),
        (("NVIDIA A100",), ["A100 SXM 80GB", "A100 SXM 40GB", "A100 PCIe 80GB", "A100 PCIe 40GB"]),
        (("NVIDIA A100", 42.3), ["A100 SXM 40GB", "A100 PCIe 40GB"]),
        (("NVIDIA A100", 85.1), ["A100 SXM 80GB", "A100 PCIe 80GB"]),
        (("NVIDIA A100-SXM4-80GB", 42.3), ["A100 SXM 80GB"]),
        (("Tesla V100-SXM2-32GB",), ["V100 SXM2 32GB"]),
        (("NVIDIA GeForce RTX 3060",), ["GeForce RTX 3060 12GB", "GeForce RTX 3060 8GB"]),
        (("NVIDIA GeForce RTX 3060", 12.9), ["GeForce RTX 3060 12GB"]),
        (("NVIDIA GeForce RTX 3060", 8.5), ["GeForce RTX 3060 8GB"]),
        (("AMD Instinct MI250X/MI250",), ["MI250X (one of two dies)", "MI250 (one of two dies)"]),
        (("AMD Instinct MI250",), ["MI250 (one of two dies)"]),
        (("AMD Radeon Graphics", 68.7, 104, "9.0"), ["MI250 (one of two dies)", "MI210"]),
        (("AMD Radeon Graphics", 309.2, 256, "9.5"), ["MI350X", "MI355X"]),
        (("", 206.1, 304, "9.4"), ["MI300X"]),
        (
            ("Intel(R) Data Center GPU Max 1550",),
            [MAX, FULL_MAX],
        ),
        (("Intel(R) Data Center GPU Max 1550", 68.7, 448), [MAX]),
        (
            ("Ascend910_9392",),
            [
                "Huawei Ascend 910C (one of two dies)",
                "Huawei Ascend 910C (one of two dies, 20 cores)",
            ],
        ),
        (("AMD Radeon Graphics",), []),
        (("NVIDIA A100-SXM4-40GB MIG 1g.5gb", 5.0, 14, "8.0"), ["MIG slice"]),
    ],
)
def test_a_device_that_fits_several_models_fits_them_all(
    device: tuple[Any, ...], models: list[str]
) -> None:
    """The first is what it is taken for."""
    assert fits(*device) == models


# The file


@pytest.mark.parametrize("name", FILE)
def test_every_number_has_its_source(name: str) -> None:
    entry = FILE[name]
    listed = [field for fields in entry.get("sources", {}).values() for field in fields]
    assert len(set(listed)) == len(listed)
    for field in ("memory_bytes", "cache_bytes", "bandwidth_bytes_per_s"):
        assert (field in entry) == (field in listed), field
    for rates in ("dense_flop_per_s", "sparse_flop_per_s"):
        apart = {f"{rates}.{dtype}" for dtype in entry.get(rates, {})} & {*listed}
        assert rates in listed or len(apart) == len(entry.get(rates, {}))
    assert all(link.startswith("https://") for link in entry.get("sources", {}))


def test_every_source_has_a_title_and_a_date_and_a_page_shows_them(root: Path) -> None:
    links = {link for entry in FILE.values() for link in entry.get("sources", {})}
    assert links == SOURCES.keys()
    page = (root / "docs" / "devices.md").read_text(encoding="utf-8")
    for link, source in SOURCES.items():
        assert source.keys() - {"edition"} == {"title", "read"}
        assert date(2026, 11, 21) <= source["read"] <= date.today()  # noqa: DTZ011
        assert f"]({link})" in page
        assert f"{source['read']}" in page


def test_every_model_is_on_the_page_with_its_sources(root: Path) -> None:
    page = (root / "docs" / "devices.md").read_text(encoding="utf-8")
    order = list(SOURCES)
    for name, entry in FILE.items():
        (row,) = [line for line in page.splitlines() if line.startswith(f"| {name} |")]
        numbers = sorted(order.index(link) + 1 for link in entry.get("sources", {}))
        assert row.split(" | ")[-1].removesuffix(" |") == ", ".join(map(str, numbers))


@pytest.mark.parametrize("name", FILE)
def test_rates_are_plausible(name: str) -> None:
    """With sparsity twice as much, but for FP4 of B300; halves of a type are twice as fast."""
    entry = FILE[name]
    dense, sparse = (entry.get(f"{kind}_flop_per_s", {}) for kind in ("dense", "sparse"))
    for dtype, rate in sparse.items():
        least = 1.3 if (dtype, "300" in name) == ("fp4", True) else 1.98
        assert least < rate / dense[dtype] < 2.03, dtype
    if "bf16" in dense:
        assert dense["bf16"] == dense.get("fp16", dense["bf16"]) > dense.get("fp32", 0)
    for slow, fast in (("tf32", "fp16"), ("fp16", "fp8"), ("fp8", "fp4")):
        if {slow, fast} <= dense.keys():
            assert dense[fast] >= 1.9 * dense[slow], (slow, fast)
    assert 0.1e12 < entry.get("bandwidth_bytes_per_s", 1e12) < 10e12


@pytest.mark.parametrize(
    ("name", "column", "value"),
    [
        ("NVIDIA A100 SXM 80GB", "bf16_flop_per_s", 312e12),
        ("NVIDIA A100 SXM 80GB", "fp64_tensor_flop_per_s", 19.5e12),
        ("NVIDIA A100 SXM 80GB", "bandwidth_bytes_per_s", 2039e9),
        ("NVIDIA A100 PCIe 80GB", "bandwidth_bytes_per_s", 1935e9),
        ("NVIDIA H100 SXM", "bf16_flop_per_s", 989.4e12),
        ("NVIDIA H100 SXM", "fp8_flop_per_s", 1978.9e12),
        ("NVIDIA H100 SXM", "tf32_flop_per_s", 494.7e12),
        ("NVIDIA H100 PCIe", "bf16_flop_per_s", 756e12),
        ("NVIDIA L4", "bandwidth_bytes_per_s", 300e9),
        ("NVIDIA L4", "bf16_flop_per_s", 121e12),
        ("NVIDIA GeForce RTX 3090", "tf32_flop_per_s", 35.6e12),
        ("NVIDIA B300", "fp64_flop_per_s", 1.25e12),
        ("AMD Instinct MI250X (one of two dies)", "bf16_flop_per_s", 191.5e12),
        ("AMD Instinct MI250X (one of two dies)", "bandwidth_bytes_per_s", 1638.4e9),
        ("AMD Instinct MI300X", "bf16_flop_per_s", 1307.4e12),
        ("AMD Instinct MI300X", "bandwidth_bytes_per_s", 5300e9),
        ("AMD Instinct MI300X", "cache_bytes", 256 << 20),
        ("NVIDIA H20", "bf16_flop_per_s", 148e12),
        ("NVIDIA L40", "fp8_flop_per_s", 362e12),
        ("NVIDIA A40", "int8_flop_per_s", 299.3e12),
        ("NVIDIA GB10", "fp4_flop_per_s", 500e12),
        ("NVIDIA GeForce RTX 5090", "bf16_flop_per_s", 209.5e12),
        (f"{PRO} Workstation Edition", "fp4_flop_per_s", 2015.2e12),
        ("AMD Instinct MI308X", "fp8_flop_per_s", 465e12),
        ("Huawei Ascend 910C (one of two dies)", "bf16_flop_per_s", 353.9e12),
    ],
)
def test_peaks_are_dense_and_of_one_device(name: str, column: str, value: float) -> None:
    assert KNOWN[name].columns[column] == value


def test_the_pages_example_can_be_used(root: Path) -> None:
    page = (root / "docs" / "devices.md").read_text()
    (example,) = re.findall(r"```json\n(.*?)```", page, re.DOTALL)
    assert next(iter(models(json.loads(example)))) == "My GPU"


# The table


def rows(properties: object, used: tuple[int, ...] = ()) -> list[Device]:
    text = properties if isinstance(properties, str) else json.dumps(properties)
    found = devices({"devices": read(text, used)})["devices"]
    declared = schema.DEVICES.arrow.remove(0).remove(0)
    assert sorted(found.column_names) == sorted(declared.names)
    found = found.select(declared.names)
    assert found.schema.equals(declared)
    listed: list[Device] = found.to_pylist()
    return listed


def test_a_device_has_what_the_source_says_and_what_its_model_says() -> None:
    said = {"id": 3, "name": "Tesla T4", "totalGlobalMem": 15_800_000_000, "numSms": 40}
    (device,) = rows([said | {"computeMajor": 7, "computeMinor": 5}])

    known = {name: value for name, value in device.items() if value is not None}
    assert known == {
        "device": 3,
        "name": "Tesla T4",
        "model": "NVIDIA T4",
        "memory_bytes": 15_800_000_000,
        "multiprocessors": 40,
        "compute_capability": "7.5",
        "cache_bytes": 4 << 20,
        "bandwidth_bytes_per_s": 320e9,
        "fp32_flop_per_s": 8.1e12,
        "fp16_flop_per_s": 65e12,
        "int8_flop_per_s": 130e12,
    }


def test_memory_is_the_models_where_the_source_does_not_say() -> None:
    assert rows([{"name": "Tesla T4"}])[0]["memory_bytes"] == 16 << 30


def test_databases_say_how_fast_the_memory_of_any_device_is() -> None:
    nsys = {"name": "Quadro X", "memoryBandwidth": 672_096_000_000, "l2CacheSize": 6291456}
    nvprof = {"name": "Quadro Y", "globalMemoryBandwidth": 898_048_000}
    first, second = rows([nsys | {"id": 0}, nvprof | {"id": 1}])
    assert (first["model"], first["bandwidth_bytes_per_s"]) == (None, 672.096e9)
    assert (first["cache_bytes"], second["bandwidth_bytes_per_s"]) == (6291456, 898.048e9)


@pytest.mark.parametrize(
    "properties",
    [
        "null", "{}", "[]", "3", '"text"', "[1, null, []]", "not JSON",
        '[{"id": -1}]', '[{"id": "zero"}]', '[{"id": 4294967296}]', '[{"id": true}]',
    ],
)  # fmt: skip
def test_odd_properties_are_no_devices(properties: str) -> None:
    assert rows(properties) == []


def test_odd_values_of_a_device_are_not_known() -> None:
    odd = {
        "name": 7,
        "totalGlobalMem": -5,
        "numSms": "many",
        "computeMajor": 1.5,
        "l2CacheSize": [],
    }
    (device,) = rows([odd])
    assert {value for key, value in device.items() if key != "device"} == {None}


def test_devices_without_a_number_are_counted_and_the_first_of_a_number_counts() -> None:
    named = [{"name": "a"}, {"name": "b"}, {"id": 1, "name": "c"}]
    assert [(d["device"], d["name"]) for d in rows(named)] == [(0, "a"), (1, "b")]


def test_a_device_that_is_not_listed_is_like_the_listed_ones_if_they_are_alike() -> None:
    alike = [{"id": i, "name": "Tesla T4", "totalGlobalMem": 16_000_000_000 + i} for i in (0, 1)]
    assert [(d["device"], d["model"]) for d in rows(alike, (5,))] == [
        (0, "NVIDIA T4"), (1, "NVIDIA T4"), (5, "NVIDIA T4")
    ]  # fmt: skip
    two_kinds = [{"id": 0, "name": "Tesla T4"}, {"id": 1, "name": "NVIDIA L4"}]
    assert rows(two_kinds, (5,))[2]["model"] is None
    assert rows([], (5,))[0]["name"] is None


# A user's own


def test_an_own_model_comes_first_and_others_stay() -> None:
    own = {"Mine": {"match": [{"name": "T4"}], "bandwidth_bytes_per_s": 1e12}}
    known = models(own)
    (device,) = devices({"devices": read('[{"name": "Tesla T4"}]', ())}, models=known)[
        "devices"
    ].to_pylist()
    assert (device["model"], device["bandwidth_bytes_per_s"]) == ("Mine", 1e12)
    assert device["fp16_flop_per_s"] is None
    assert "NVIDIA L4" in known


def test_numbers_of_a_known_model_can_be_replaced_one_by_one() -> None:
    dense = {"fp16": 60e12, "int8": None}
    columns = models({"NVIDIA T4": {"dense_flop_per_s": dense, "cache_bytes": None}})
    said = columns["NVIDIA T4"].columns
    assert (said["fp16_flop_per_s"], said["fp32_flop_per_s"]) == (60e12, 8.1e12)
    assert "int8_flop_per_s" not in said
    assert "cache_bytes" not in said
    assert said["bandwidth_bytes_per_s"] == 320e9


def test_rates_may_be_whole_numbers() -> None:
    own = {"Mine": {"match": [{"name": ""}], "dense_flop_per_s": {"fp8": 2**53 + 1}}}
    (device,) = devices({"devices": read("[{}]", ())}, models=models(own))["devices"].to_pylist()
    assert device["fp8_flop_per_s"] == 2.0**53


def test_a_file_has_the_same_form(tmp_path: Path) -> None:
    path = tmp_path / "mine.json"
    path.write_text(json.dumps({"Mine": {"match": [{"name": ""}]}}))
    assert next(iter(models(path))) == next(iter(models(str(path)))) == "Mine"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"Mine": {}}, "devices: no model named 'Mine'"),
        ({"NVIDIA T5": {"cache_bytes": 1}}, "did you mean 'NVIDIA T4'"),
        ({"NVIDIA T4": {"bandwith": 1}}, "'NVIDIA T4': no field named 'bandwith'; did you mean"),
        ({"NVIDIA T4": {"cache_bytes": "4 MB"}}, "cache_bytes must be a whole number of bytes"),
        ({"NVIDIA T4": {"bandwidth_bytes_per_s": 0}}, "must be a number above 0, got 0"),
        ({"NVIDIA T4": {"bandwidth_bytes_per_s": True}}, "must be a number above 0"),
        ({"NVIDIA T4": {"bandwidth_bytes_per_s": float("nan")}}, "must be a number above 0"),
        ({"NVIDIA T4": {"dense_flop_per_s": {"fp17": 1}}}, "rates in FLOP/s by data type, out of"),
        ({"NVIDIA T4": {"dense_flop_per_s": 65e12}}, "rates in FLOP/s by data type"),
        ({"NVIDIA T4": {"match": [{"name": "("}]}}, "match: name must be a regular expression"),
        ({"NVIDIA T4": {"match": []}}, "match must be a list of descriptions"),
        ({"NVIDIA T4": {"match": ["T4"]}}, "match: needs an object of fields, got 'T4'"),
        ({"NVIDIA T4": {"match": [{"nam": "T4"}]}}, "match: no field named 'nam'"),
        ({"NVIDIA T4": 5}, "needs an object of fields, got 5"),
        ([], "devices: needs an object of entries by model"),
        (7, "devices: needs an object of entries by model"),
    ],
)
def test_bad_entries_are_one_clear_error(given: Any, message: str) -> None:
    with pytest.raises(ParameterError) as error:
        models(given)
    assert message in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [("{", "not a JSON file of devices"), ("[]", "needs an object"), ("null", "needs an object")],
)
def test_bad_files_are_one_clear_error(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "mine.json"
    path.write_text(text)
    with pytest.raises(ParameterError, match=message):
        models(path)
    with pytest.raises(ParameterError, match="cannot be read: No such file"):
        models(tmp_path / "none.json")
    with pytest.raises(ParameterError, match="cannot be read: Is a directory"):
        models(tmp_path)


# Traces

PROPERTIES = [{"id": 0, "name": "My GPU"}]
MINE = {"Mine": {"match": [{"name": "^My GPU$"}], "bandwidth_bytes_per_s": 1e9}}


@pytest.fixture
def source(tmp_path: Path) -> Path:
    kernel = {"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": 1.0, "dur": 1.0}
    events = [kernel | {"args": {"device": 0, "stream": 7, "kernel_num_gb": 5e-7}}]
    path = tmp_path / "trace.json"
    path.write_text(
        json.dumps({"schemaVersion": 1, "deviceProperties": PROPERTIES, "traceEvents": events})
    )
    return path


def shares(trace: Trace, **options: Any) -> list[tuple[object, ...]]:
    columns = ("bytes_per_s", "bandwidth_share", "note")
    return trace.roofline(**options).select(columns).rows()


def test_an_unknown_device_has_rates_without_shares_and_says_so(source: Path) -> None:
    trace = load(source)
    assert shares(trace) == [(500e6, None, "unknown_device")]
    (note,) = trace.quality.rows(named=True)
    assert (note["issue"], note["events"]) == ("unknown_device", 1)
    assert note["detail"].endswith(": devices 'My GPU'")


def test_a_name_that_fits_two_models_is_in_quality(tmp_path: Path) -> None:
    kernel = {"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": 1, "dur": 1}
    events = [kernel | {"args": {"device": device}} for device in (1, 0, 0)]
    properties = [
        {"id": 0, "name": "NVIDIA A100", "totalGlobalMem": 85_100_000_000},
        {"id": 1, "name": "Tesla T4"},
        {"id": 2, "name": "NVIDIA H100"},
    ]
    path = tmp_path / "trace.json"
    path.write_text(
        json.dumps({"schemaVersion": 1, "deviceProperties": properties, "traceEvents": events})
    )
    trace = load(path)
    assert trace.devices["model"].to_list() == [
        "NVIDIA A100 SXM 80GB", "NVIDIA T4", "NVIDIA H100 SXM"
    ]  # fmt: skip
    (note,) = trace.quality.rows(named=True)
    assert (note["issue"], note["events"], note["example_event_id"]) == ("several_models", 2, 1)
    assert note["detail"].endswith(
        "'NVIDIA A100' is taken for NVIDIA A100 SXM 80GB, may be NVIDIA A100 PCIe 80GB; "
        "'NVIDIA H100' is taken for NVIDIA H100 SXM, may be NVIDIA H100 PCIe or "
        "NVIDIA H100 SXM 96GB or NVIDIA H100 NVL"
    )
    own = {"NVIDIA A100 PCIe 80GB": {}, "NVIDIA H100 PCIe": {"cache_bytes": 5}}
    assert load(path, devices=own).quality.height == 0
    assert load(path, devices=own).devices["model"][0] == "NVIDIA A100 PCIe 80GB"


def test_own_models_are_the_only_ones_that_a_device_may_be_of() -> None:
    h100 = dict.fromkeys(("memory_bytes", "multiprocessors", "compute_capability"))
    h100 |= {"name": "NVIDIA H100"}
    assert fitting(h100, models({"NVIDIA H100 PCIe": {}})) == ["NVIDIA H100 PCIe"]
    assert fitting(h100, models({"Mine": {"match": [{"name": "H100"}]}})) == ["Mine"]
    sizes = {f"{n} GB": {"match": [{"name": "H100", "memory_gb": [n, n]}]} for n in (20, 40)}
    assert fitting(h100, models(sizes)) == ["20 GB", "40 GB"]
    assert fitting(h100 | {"memory_bytes": 40 * 10**9}, models(sizes)) == ["40 GB"]
    assert fitting(h100 | {"memory_bytes": 85 * 10**9}, models(sizes)) == [
        "NVIDIA H100 SXM", "NVIDIA H100 PCIe"
    ]  # fmt: skip


def test_rates_of_own_devices_may_have_names_of_torch() -> None:
    own = {"match": [{"name": "X"}], "dense_flop_per_s": {"bfloat16": 2e12, "float8_e5m2": 4e12}}
    columns = models({"Mine": own})["Mine"].columns
    assert (columns["bf16_flop_per_s"], columns["fp8_flop_per_s"]) == (2e12, 4e12)
    with pytest.raises(ParameterError, match="rates in FLOP/s by data type"):
        models({"Mine": own | {"dense_flop_per_s": {"half": 1e12, "fp16": 2e12}}})


def test_own_devices_at_load_and_at_the_question(source: Path, tmp_path: Path) -> None:
    known = [(500e6, 0.5, "bytes_only")]
    trace = load(source)
    assert shares(load(source, devices=MINE)) == known
    assert load(source, devices=MINE).quality.height == 0
    assert shares(trace, devices=MINE) == known
    trace.to_parquet(tmp_path / "store")
    stored = load(tmp_path / "store")
    assert shares(stored, devices=MINE) == shares(stored.with_devices(MINE)) == known
    assert shares(stored.filter(ranks=0).with_devices(MINE).filter(kinds="kernel")) == known
    assert shares(stored) == [(500e6, None, "unknown_device")]
    again = stored.with_devices(MINE)
    again.to_parquet(tmp_path / "other")
    assert shares(load(tmp_path / "other")) == known
    with pytest.raises(ParameterError, match=r"for a store, use \.roofline\(devices=\)"):
        load(tmp_path / "store", devices=MINE)
    with pytest.raises(ParameterError, match="no model named 'Mine'"):
        load(source, devices={"Mine": {}})


def test_a_cache_tells_devices_apart(source: Path, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    assert shares(load(source, cache=cache)) == [(500e6, None, "unknown_device")]
    assert shares(load(source, cache=cache, devices=MINE)) == [(500e6, 0.5, "bytes_only")]


def test_a_new_match_forgets_what_the_old_model_said() -> None:
    held = table("devices", [{"name": "Tesla T4", "model": "NVIDIA T4", "cache_bytes": 4 << 20}])
    (row,) = match_models(held, {}).to_pylist()
    assert {key for key, value in row.items() if value is not None} == {
        "run", "rank", "device", "name"
    }  # fmt: skip


def test_no_devices_are_no_rows() -> None:
    empty = schema.DEVICES.arrow.empty_table()
    assert match_models(empty, KNOWN).schema.equals(empty.schema)
    assert isinstance(read(None, ()), pa.Table)


def test_a_file_nested_without_end_is_one_error(tmp_path: Path) -> None:
    path = tmp_path / "devices.json"
    path.write_text("[" * 100_000)
    with pytest.raises(ParameterError, match="not a JSON file of devices"):
        models(path)
