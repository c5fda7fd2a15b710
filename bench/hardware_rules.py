"""Study R's rules with their verdicts on the machines whose figures are kept, as a Markdown table.

    trainload reproduce hardware-recommendations --out cpu.json
    python bench/raw.py hardware_rules cpu --keep cpu.json
    python bench/hardware_rules.py                    every machine kept
    python bench/hardware_rules.py cpu h200           these

Judges what `bench/raw.py` keeps in the table `hardware_rules`, a row a machine; measures nothing.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path

from raw import load_rows, table_path
from trainload.analyse.rules import JudgedRule, judge_rules, load_rules
from trainload.hardware.limits import load_limits
from trainload.report.rules.wording import render_checked, render_counts, render_machine

TABLE = "hardware_rules"


def judge_row(figures: object) -> tuple[str, list[JudgedRule]]:
    """The machine in words and every rule's verdict, by the product's own reading of the file."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "figures.json"
        path.write_text(json.dumps(figures))
        limits = load_limits(path)
    words = render_machine(limits)
    return "; ".join([words, *limits.notes]), judge_rules(load_rules(), limits)


def render_cell(one: JudgedRule) -> str:
    """The verdict, the figures, and why it cannot be told."""
    figures = "; ".join(render_checked(check) for check in one.checked)
    why = one.reason if one.verdict == "cannot tell" else ""
    return f"**{one.verdict}**" + "".join(f"<br>{part}" for part in (figures, why) if part)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("rows", nargs="*")
    wanted = parser.parse_args().rows
    kept = {row["name"]: row["figures"] for row in load_rows(table_path(TABLE))}
    machines = {name: judge_row(kept[name]) for name in wanted or kept}
    for name, (words, judged) in machines.items():
        print(f"`{name}`: {words}. {render_counts(judged)}.\n")
    print("| rule | " + " | ".join(f"`{name}`" for name in machines) + " |")
    print("|---" * (1 + len(machines)) + "|")
    for rules in zip(*(judged for _, judged in machines.values()), strict=True):
        cells = " | ".join(map(render_cell, rules))
        print(f"| {rules[0].rule.says} ({rules[0].rule.place}) | {cells} |")


if __name__ == "__main__":
    main()
