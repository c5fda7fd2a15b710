"""Makes the shipped files of prices and carbon from public tables; states what it leaves out.

    .venv/bin/python bench/import_prices.py FOLDER

FOLDER holds cloud_gpus_2025-03.csv, epoch_ml_hardware.csv, gcp_region_carbon_2024.csv and
country_carbon_intensity.csv, as docs/prices.md names them.
"""

import csv
import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from trainload.hardware import carbon, prices
from trainload.hardware.naming import match_device

CLOUD_GPUS = {
    "A100 (80 GB)": ("a100-sxm4-80gb", "a100-pcie-80gb"),
    "A100 (40 GB)": ("a100-sxm4-40gb", "a100-pcie-40gb"),
    "H100 (80 GB)": ("h100-sxm", "h100-pcie"),
    "H100 HGX (80GB)": ("h100-sxm",),
    "H100 PCIe (80GB)": ("h100-pcie",),
    "V100 (16 GB)": ("v100-sxm2-16gb", "v100-pcie-16gb"),
    "V100 (32 GB)": ("v100-sxm2-32gb", "v100-pcie-32gb"),
    "P100 (16 GB)": ("p100-pcie-16gb", "p100-sxm2"),
    "A10G (24 GB)": ("a10g",),
    "A10": ("a10",),
    "A10 (24 GB)": ("a10",),
    "T4 (16 GB)": ("t4",),
    "L4 (24 GB)": ("l4",),
    "P4 (8 GB)": ("p4",),
    "A40 (48 GB)": ("a40",),
    "A4000 (16 GB)": ("rtx-a4000",),
    "A5000 (24 GB)": ("rtx-a5000",),
    "A6000 (48 GB)": ("rtx-a6000",),
    "RTX A6000 (48 GB)": ("rtx-a6000",),
    "RTX4000 (8 GB)": ("quadro-rtx-4000",),
    "RTX5000 (16 GB)": ("quadro-rtx-5000",),
    "Quadro RTX 6000 (24 GB)": ("quadro-rtx-6000",),
}
"""The table's words for a GPU and the catalogue's devices that it may be. Not in it: half a K80 is
sold where sources give the board; the GH200's and the 3080 Ti's figures are not in one source."""

RELEASED = {
    "NVIDIA A100 SXM4 40 GB": "a100-sxm4-40gb",
    "NVIDIA H100 SXM5 80GB": "h100-sxm",
    "NVIDIA Tesla V100 PCIe 16 GB": "v100-pcie-16gb",
    "NVIDIA Tesla V100 PCIe 32 GB": "v100-pcie-32gb",
    "NVIDIA Tesla V100 SXM2 32 GB": "v100-sxm2-32gb",
    "NVIDIA Tesla V100 SXM2": "v100-sxm2-16gb",
    "NVIDIA A10 PCIe": "a10",
    "NVIDIA RTX 6000 Ada Generation": "rtx-6000-ada",
    "NVIDIA GeForce RTX 2080 Ti 11GB": "rtx-2080-ti",
    "AMD Radeon Instinct MI250X": "mi250x",
    "AMD Instinct MI300X": "mi300x",
}
"""Names there that the catalogue's own rules do not match."""


def main() -> None:
    given = Path(sys.argv[1])
    homes = [Path(room.__file__).parent / "files" for room in (prices, carbon)]
    _write(homes[0] / "cloud-gpus-2025-03.json", _instances(given / "cloud_gpus_2025-03.csv"))
    _write(homes[0] / "release-prices.json", _purchases(given / "epoch_ml_hardware.csv"))
    _write(homes[1] / "countries.json", _countries(given / "country_carbon_intensity.csv"))
    _write(homes[1] / "gcp-regions-2024.json", _regions(given / "gcp_region_carbon_2024.csv"))


def _instances(path: Path) -> dict[str, Any]:
    kept, left = [], Counter()
    for row in _rows(path):
        devices = CLOUD_GPUS.get(row["GPU Type"])
        prices_usd = [_number(row[column]) for column in ("On-demand", "Spot")]
        if devices is None or prices_usd == [None, None]:
            left[row["GPU Type"] if devices is None else f"{row['Cloud']}: no price"] += 1
            continue
        found = {
            "provider": row["Cloud"],
            "name": row["Name"].strip() or None,
            "devices": list(devices),
            "count": int(row["GPUs"]),
            "on_demand_usd_per_h": prices_usd[0],
            "spot_usd_per_h": prices_usd[1],
        }
        kept.append({key: value for key, value in found.items() if value is not None})
    print(f"{len(kept)} instances; left out: {dict(left)}")
    return {
        "kind": "trainload prices",
        "format": 1,
        "source": "Cloud GPU table of The Full Stack (github the-full-stack/website)",
        "date": "2025-03",
        "licence": "MIT",
        "instances": kept,
    }


def _purchases(path: Path) -> dict[str, Any]:
    kept: dict[str, dict[str, Any]] = {}
    for row in _rows(path):
        usd = _number(row["release_price_usd"])
        if usd is None or row["maker"] not in ("NVIDIA", "AMD"):
            continue
        device = match_device(RELEASED.get(row["name"], row["name"]))
        if device is not None:
            kept[device.name] = {"device": device.name, "usd": usd, "date": row["released"][:7]}
    print(f"{len(kept)} release prices: {', '.join(kept)}")
    return {
        "kind": "trainload prices",
        "format": 1,
        "source": "Epoch AI, data on machine learning hardware (epoch.ai): price at release",
        "date": "2026-03",
        "licence": "CC-BY",
        "purchases": list(kept.values()),
    }


def _countries(path: Path) -> dict[str, Any]:
    places = [
        {
            "name": row["iso3"],
            "title": row["country"],
            "gco2e_per_kwh": float(row["gco2e_per_kwh"]),
            "year": int(row["year"]),
        }
        for row in _rows(path)
    ]
    return {
        "kind": "trainload carbon",
        "format": 1,
        "source": "Our World in Data from Ember, as codecarbon (MIT) ships it",
        "date": "2023",
        "licence": "CC-BY",
        "basis": "location-based: mean of the country's generation over the year",
        "places": places,
    }


def _regions(path: Path) -> dict[str, Any]:
    intensity = "Grid carbon intensity (gCO2eq / kWh)"
    places = [
        {
            "name": row["Google Cloud Region"],
            "title": f"Google Cloud, {row['Location']}",
            "gco2e_per_kwh": float(row[intensity]),
            "year": 2024,
        }
        for row in _rows(path)
    ]
    return {
        "kind": "trainload carbon",
        "format": 1,
        "source": "Google Cloud region carbon data (github GoogleCloudPlatform/region-carbon-info)",
        "date": "2024",
        "licence": "Apache-2.0",
        "basis": "location-based: mean of the region's grid over the year, as Google states it",
        "places": places,
    }


def _rows(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8-sig", newline="") as file:
        return list(csv.DictReader(file))


def _number(text: str) -> float | None:
    return float(text) if text.strip() else None


def _write(path: Path, document: dict[str, Any]) -> None:
    """A line for each row, so that a change shows as one."""
    lines = []
    for name, value in document.items():
        if isinstance(value, list):
            rows = ",\n  ".join(json.dumps(one, ensure_ascii=False) for one in value)
            lines.append(f' "{name}": [\n  {rows}\n ]')
        else:
            lines.append(f' "{name}": {json.dumps(value, ensure_ascii=False)}')
    path.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
    print(f"{path.name}: {path.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
