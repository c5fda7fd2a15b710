"""The user's own defaults, from one TOML file; what stands on the command line wins over them.

Gives typer a map of defaults and prints nothing; docs/habits.md lists the keys.
"""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import typer

from trainload.errors import UsageError

if TYPE_CHECKING:
    from trainload.api.costing import Currency

FILE_VARIABLE = "TRAINLOAD_CONFIG"
FILE_NAME = "trainload.toml"

SHARED: Mapping[str, tuple[tuple[str, str], ...]] = {
    "out": (("run", "out"), ("validate", "out"), ("estimate", "out"), ("import", "out")),
    "studies": (("study run", "out"), ("study plan", "out"), ("reproduce", "out")),
    "prices": (("predict", "prices"), ("show", "prices"), ("recommend", "prices")),
    "candidates": (("predict", "device"), ("recommend", "candidates"), ("recommend", "device")),
    "place": (("predict", "place"), ("recommend", "place")),
    "pue": (("predict", "pue"), ("recommend", "pue")),
    "setting": (("run", "setting"), ("validate", "setting")),
    "cache": (("run", "cache"), ("validate", "cache")),
}
"""Keys that several verbs understand: of which verb they are which option."""
OWN = ("currency", "per_usd", "plain")
"""Keys that are no option of a verb."""


@dataclass(frozen=True, kw_only=True)
class Defaults:
    """What the file says; nothing where there is none."""

    path: Path | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    """By verb, as typer takes them."""
    currency: Currency | None = None
    plain: bool = False


def defaults_of(context: typer.Context) -> Defaults:
    """Those that this command was started with."""
    found = context.find_root().obj
    return found if isinstance(found, Defaults) else Defaults()


def defaults_path() -> Path | None:
    """$TRAINLOAD_CONFIG, else `trainload.toml` in the user's configuration folder.

    None where that variable is empty or no home folder is known; the file need not exist.
    """
    named = os.environ.get(FILE_VARIABLE)
    if named is not None:
        return Path(named).expanduser() if named else None
    folder = os.environ.get("XDG_CONFIG_HOME") or "~/.config"
    try:
        return Path(folder).expanduser() / FILE_NAME
    except RuntimeError:
        return None


def load_defaults(app: typer.Typer) -> Defaults:
    """The user's defaults, checked against the verbs; UsageError names file, line and key."""
    path = defaults_path()
    if path is None or (FILE_VARIABLE not in os.environ and not path.exists()):
        return Defaults()
    import tomllib

    try:
        text = path.read_text(encoding="utf-8")
        values = tomllib.loads(text)
    except OSError as error:
        raise UsageError(f"cannot read the defaults in {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise UsageError(f"{path} is no text in UTF-8") from None
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise UsageError(f"{path} is no TOML: {error}") from None
    return _File(path, text, typer.main.get_command(app)).read(values)


class _File:
    """One file of defaults and the verbs it is held against."""

    def __init__(self, path: Path, text: str, root: Any) -> None:
        self._path = path
        self._text = text
        self._root = root

    def read(self, values: Mapping[str, Any]) -> Defaults:
        options: dict[str, Any] = {}
        for key, value in values.items():
            if key in SHARED:
                self._share(key, value, options)
        # A verb's own table comes behind what it shares with others, and wins.
        for key, value in values.items():
            if key in self._verbs(self._root) and isinstance(value, dict):
                self._take_table((key,), self._verbs(self._root)[key], value, options)
            elif key not in SHARED and key not in OWN:
                self._refuse_unknown((), key, [*SHARED, *OWN, *self._verbs(self._root)])
        plain = values.get("plain", False)
        if not isinstance(plain, bool):
            self._refuse((), "plain", "must be true or false")
        return Defaults(
            path=self._path, options=options, currency=self._currency(values), plain=plain
        )

    def _share(self, key: str, value: Any, options: dict[str, Any]) -> None:
        if key == "candidates":
            if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
                self._refuse((), key, 'must be a list of devices, such as ["h200", "t4"]')
            value = ",".join(value)
        for words, name in SHARED[key]:
            verbs = words.split(" ")
            command = self._find(verbs)
            for parameter in [] if command is None else command.params:
                if parameter.name == name:
                    checked = self._checked((), key, command, parameter, value)
                    _place(options, verbs, name, checked)

    def _take_table(
        self,
        verbs: tuple[str, ...],
        command: Any,
        table: Mapping[str, Any],
        options: dict[str, Any],
    ) -> None:
        below = self._verbs(command)
        by_name = dict(_options_of(command))
        for key, value in table.items():
            if key in below and isinstance(value, dict):
                self._take_table((*verbs, key), below[key], value, options)
                continue
            parameter = by_name.get(key.replace("-", "_"))
            if parameter is None:
                self._refuse_unknown(verbs, key, [*by_name, *below])
            checked = self._checked(verbs, key, command, parameter, value)
            _place(options, verbs, parameter.name, checked)

    def _checked(
        self, verbs: tuple[str, ...], key: str, command: Any, parameter: Any, value: Any
    ) -> Any:
        """The value as the verb would take it; a `~` is the home folder, as in a shell."""
        if isinstance(value, str) and value.startswith("~"):
            value = os.path.expanduser(value)  # noqa: PTH111 - no path is made of other words
        flag = bool(getattr(parameter, "is_flag", False))
        if flag != isinstance(value, bool):
            self._refuse(verbs, key, "must be true or false" if flag else "is not true or false")
        several = parameter.multiple or parameter.nargs != 1
        if several != isinstance(value, list) or isinstance(value, dict):
            self._refuse(verbs, key, "must be a list" if several else "must be one value")
        given = [str(one) for one in value] if isinstance(value, list) else value
        given = given if isinstance(given, bool | list) else str(given)
        try:
            parameter.process_value(typer.Context(command), given)
        except Exception as error:
            # typer brings its own copy of click or uses the installed one: known by their shape.
            message = getattr(error, "message", None)
            if message is None:
                raise
            self._refuse(verbs, f"{key}:", str(message).rstrip("."))
        return given

    def _currency(self, values: Mapping[str, Any]) -> Currency | None:
        from trainload.api.costing import Currency

        code, rate = values.get("currency"), values.get("per_usd")
        if code is None and rate is None:
            return None
        if not isinstance(code, str) or not re.fullmatch(r"[A-Z]{3}", code):
            key = "per_usd" if code is None else "currency"
            self._refuse((), key, 'needs a currency of three letters, such as currency = "EUR"')
        if code == "USD" and rate is None:
            return Currency()
        if isinstance(rate, bool) or not isinstance(rate, int | float) or not 0 < rate < 1e9:
            key = "currency" if rate is None else "per_usd"
            self._refuse((), key, f"needs per_usd, how many {code} one US dollar is")
        return Currency(code=code, per_usd=float(rate))

    def _find(self, verbs: list[str]) -> Any:
        command = self._root
        for verb in verbs:
            command = self._verbs(command).get(verb) if command is not None else None
        return command

    def _verbs(self, command: Any) -> dict[str, Any]:
        found: dict[str, Any] = getattr(command, "commands", {})
        return found

    def _refuse_unknown(self, verbs: tuple[str, ...], key: str, known: list[str]) -> NoReturn:
        near = difflib.get_close_matches(key, known, n=1)
        listed = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(known)}"
        self._refuse(verbs, key, f"is no key here; {listed}")

    def _refuse(self, verbs: tuple[str, ...], key: str, why: str) -> NoReturn:
        line = _line_of(self._text, ".".join(verbs), key.rstrip(":"))
        place = f"{self._path}, line {line}" if line is not None else str(self._path)
        raise UsageError(f"{place}: {'.'.join((*verbs, key))} {why}")


def _options_of(command: Any) -> Iterator[tuple[str, Any]]:
    """The options of a verb by every name they have, those hidden or of --help left out."""
    for parameter in command.params:
        if getattr(parameter, "hidden", True) or parameter.name in (None, "help"):
            continue
        yield parameter.name, parameter
        for word in parameter.opts:
            yield word.lstrip("-").replace("-", "_"), parameter


def _place(options: dict[str, Any], verbs: Any, name: str, value: Any) -> None:
    for verb in verbs:
        options = options.setdefault(verb, {})
    options[name] = value


def _line_of(text: str, table: str, key: str) -> int | None:
    """The line on which a table gives a key its value; None where it is written another way."""
    current = ""
    for number, line in enumerate(text.splitlines(), start=1):
        if header := re.match(r"\s*\[+\s*([^\]]+?)\s*\]+", line):
            current = header[1].replace(" ", "").replace('"', "")
            if (table and f"{table}.{key}" == current) or (not table and key == current):
                return number
        elif current == table and re.match(rf"""\s*["']?{re.escape(key)}["']?\s*[=.]""", line):
            return number
    return None
