"""The figures of a subset: zones, classes and balance before and after; computes, never prints."""

from typing import Any

from trainload.workload.subset.choose import Subset
from trainload.workload.subset.draw import ZONES

FORMAT = 1
OUTSIDE = "outside"


def summarise_subset(subset: Subset) -> dict[str, Any]:
    """What `subset.json` holds. A balance is the sum of size − mean, in bytes.

    Before: all images of the chosen classes. Over all of them the balance is 0 by what a mean
    is; it says something zone by zone.
    """
    request, statistics = subset.request, subset.statistics
    held = len(subset.held_out)
    by_split = [0, 0]
    running = largest = 0
    for number, draw in enumerate(subset.draws):
        by_split[number in subset.held_out] += draw.deviation
        running += draw.deviation
        largest = max(largest, abs(running))
    return {
        "format": FORMAT,
        "folder": str(request.folder.absolute()),
        "seed": request.seed,
        "validation_fraction": request.validation_fraction,
        "class_count": len(subset.classes),
        "per_class": subset.per_class,
        "train_per_class": subset.per_class - held,
        "validation_per_class": held,
        "images_before": statistics.count,
        "images": subset.per_class * len(subset.classes),
        "mean_bytes": statistics.mean_bytes,
        "deviation_bytes": statistics.deviation_bytes,
        "balance_bytes": running / statistics.count,
        "train_balance_bytes": by_split[0] / statistics.count,
        "validation_balance_bytes": by_split[1] / statistics.count,
        "largest_balance_bytes": largest / statistics.count,
        "zones": _zone_rows(subset),
        "classes": _class_rows(subset),
        "files_seen": subset.seen,
        "skipped": dict(subset.skipped.counts),
        "skipped_files": [
            {"path": path, "reason": reason} for path, reason in subset.skipped.listed
        ],
        "notes": list(subset.notes),
    }


def _zone_rows(subset: Subset) -> list[dict[str, Any]]:
    statistics = subset.statistics
    mean, sigma = statistics.mean_bytes, statistics.deviation_bytes
    lows = {"A": mean + sigma, "B": mean, "C": mean - sigma, "D": mean - 2 * sigma}
    rows: list[dict[str, Any]] = []
    for zone in ZONES:
        before = sum(
            statistics.deviation(one.sizes[number])
            for one, pools in zip(subset.classes, subset.zoned, strict=True)
            for number in pools[zone]
        )
        draws = [draw for draw in subset.draws if draw.zone == zone]
        rows.append(
            {
                "zone": zone,
                "low_bytes": lows[zone],
                "high_bytes": lows[zone] + sigma,
                "images_before": sum(len(pools[zone]) for pools in subset.zoned),
                "least_in_a_class": min(len(pools[zone]) for pools in subset.zoned),
                "per_class": len(draws),
                "images": len(draws) * len(subset.classes),
                "balance_before_bytes": before / statistics.count,
                "balance_bytes": sum(draw.deviation for draw in draws) / statistics.count,
            }
        )
    outside = statistics.count - sum(row["images_before"] for row in rows)
    rows.append(
        {
            "zone": OUTSIDE,
            "low_bytes": None,
            "high_bytes": None,
            "images_before": outside,
            "least_in_a_class": None,
            "per_class": 0,
            "images": 0,
            # The whole is 0, so what lies outside is the rest.
            "balance_before_bytes": -sum(row["balance_before_bytes"] for row in rows)
            if outside
            else 0.0,
            "balance_bytes": 0.0,
        }
    )
    return rows


def _class_rows(subset: Subset) -> list[dict[str, Any]]:
    rows = []
    for label, one in enumerate(subset.classes):
        chosen = sum(one.sizes[draw.images[label]] for draw in subset.draws)
        rows.append(
            {
                "class": one.name,
                "label": label,
                "images_before": len(one.sizes),
                "images": subset.per_class,
                "mean_before_bytes": sum(one.sizes) / len(one.sizes),
                "mean_bytes": chosen / subset.per_class,
            }
        )
    return rows
