"""What of a command line is a secret, and how it stands in a record: by *** in its place.

Decides by names and shapes alone; the training itself is given the true words.
"""

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from trainload.errors import UsageError

MASK = "***"
OWN_WORDS = "TRAINLOAD_MASK"
"""Environment variable with a regular expression of what is secret beside."""

_NAMES = (
    r"(?:pass(?:word|wd|phrase|code)?|pwd|secrets?|credentials?|auth|bearer|cookie"
    r"|(?<!pad.)(?<!eos.)(?<!bos.)(?<!unk.)(?<!sep.)(?<!cls.)(?<!max.)(?<!num.)(?<!mask.)token"
    r"|(?:api|access|private|secret|account|auth|encryption|signing|ssh|wandb)[-_.]?key"
    r"|(?:^|[-_.])key)"
)
_SECRET_NAME = re.compile(rf"(?i){_NAMES}$")
_NAMED = re.compile(r"(?s)^([-+~]{0,2}[A-Za-z_][\w.\-/]*)=(.*)$")
_OPTION = re.compile(r"^--?[A-Za-z_][\w.\-]*$")
_PARTS = (
    # Credentials in an address, a value in its query, a field of JSON or YAML, a header, and the
    # tokens that say by their beginning what they are.
    re.compile(r"(?<=://)[^/\s@]+(?=@)"),
    re.compile(rf"(?i)(?<=[?&;])([\w.\-]*{_NAMES})=([^&\s#;]+)"),
    re.compile(rf"""(?i)(["'][\w.\-]*{_NAMES}["']\s*:\s*)("[^"]*"|'[^']*'|[^\s,}}]+)"""),
    re.compile(r"(?i)\b(bearer\s+)(\S+)"),
    re.compile(r"\b(?:hf_|sk-|ghp_|gho_|github_pat_|glpat-|xox[abp]-|AKIA)[\w\-]{12,}"),
)
_SHORTEST = 4
"""Values below this length are not looked for elsewhere: they stand in many innocent words."""


@dataclass
class Masking:
    """Masks words and remembers what it masked, so that it is found in other words too."""

    own: re.Pattern[str] | None = None
    values: set[str] = field(default_factory=set)
    count: int = 0

    def arguments(self, words: Sequence[str]) -> tuple[str, ...]:
        """A script's arguments as they may be kept."""
        kept: list[str] = []
        awaited = False
        for word in words:
            if awaited and not _OPTION.match(word):
                kept.append(self._hide(word))
            else:
                kept.append(self._word(word))
            awaited = bool(_OPTION.match(word)) and self._is_secret(word)
        return tuple(kept)

    def config(self, value: Any, name: str = "") -> Any:
        """A value of JSON as it may be kept: what stands under a name that says so is masked."""
        if isinstance(value, Mapping):
            return {key: self.config(item, str(key)) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [self.config(item, name) for item in value]
        if isinstance(value, str):
            return self._hide(value) if value and self._is_secret(name) else self.text(value)
        return value

    def text(self, text: str) -> str:
        """Any words with what is secret in them masked."""
        for pattern in _PARTS:
            text = pattern.sub(self._replace, text)
        return text if self.own is None else self.own.sub(lambda m: self._hide(m[0]), text)

    def scrubbed(self, text: str | None) -> str | None:
        """Words that came later, without the values that were masked before."""
        for value in sorted(self.values, key=len, reverse=True):
            text = None if text is None else text.replace(value, MASK)
        return text

    def _word(self, word: str) -> str:
        named = _NAMED.match(word)
        if named is None or not named[2] or not self._is_secret(named[1]):
            return self.text(word)
        return f"{named[1]}={self._hide(named[2])}"

    def _replace(self, found: re.Match[str]) -> str:
        if found.re.groups < 2:
            return self._hide(found[0])
        joint = "=" if found[0][len(found[1])] == "=" else ""
        return f"{found[1]}{joint}{self._hide(found[2])}"

    def _is_secret(self, name: str) -> bool:
        bare = name.lstrip("-+~")
        return bool(_SECRET_NAME.search(bare)) or bool(self.own and self.own.search(bare))

    def _hide(self, value: str) -> str:
        if value == MASK:
            return value
        self.count += 1
        if len(value) >= _SHORTEST:
            self.values.add(value)
        return MASK


def open_masking() -> Masking:
    """With the user's own expression from the environment; UsageError where it is none."""
    words = os.environ.get(OWN_WORDS)
    try:
        return Masking(own=re.compile(words) if words else None)
    except re.error as error:
        raise UsageError(f"{OWN_WORDS}={words!r} is no regular expression: {error}") from None
