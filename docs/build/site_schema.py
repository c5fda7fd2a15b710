"""The reference of files that people write, from the JSON schemas under docs/schema."""

import json
from pathlib import Path
from typing import Any

HEAD = """# Files you write

Made from the JSON schemas that editors check by: [study.json](../schema/study.json) and
[run.json](../schema/run.json), which `trainload study schema` and `trainload study schema --run`
print. [Studies](../studies.md) explains the keys. Prices and carbon of your own:
[prices](../prices.md#your-own); [calibrations](../calibration.md) of devices. Files that trainload
writes: [the run directory](../run-directory.md), [the op trace](../op-trace.md).
"""
_LIMITS = {
    "minimum": "≥ {}", "exclusiveMinimum": "> {}", "maximum": "≤ {}", "exclusiveMaximum": "< {}",
}  # fmt: skip


def schema_page(folder: Path) -> dict[str, str]:
    """The page by its address."""
    parts = [HEAD]
    for name in ("study", "run"):
        document = json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))
        needed = ", ".join(f"`{key}`" for key in document.get("required", ()))
        parts += [f"## {document['title']}", f"Required: {needed}." if needed else ""]
        rows = (
            f"| `{key}` | {_kind(value)} | {_cell(value.get('description', ''))} |"
            for key, value in sorted(document["properties"].items())
        )
        parts.append("| key | value | meaning |\n|---|---|---|\n" + "\n".join(rows))
    return {"reference/schema.md": "\n\n".join(part for part in parts if part) + "\n"}


def _kind(value: dict[str, Any]) -> str:
    """What a value may be, in words."""
    if "enum" in value:
        return _cell(", ".join(f"`{one}`" for one in value["enum"]))
    choices = value.get("oneOf") or value.get("anyOf")
    if choices:
        return " or ".join(dict.fromkeys(_kind(one) for one in choices))
    said = value.get("type", "anything")
    words = [" or ".join(said) if isinstance(said, list) else said]
    words += [form.format(f"{value[name]:,}") for name, form in _LIMITS.items() if name in value]
    return ", ".join(words)


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
