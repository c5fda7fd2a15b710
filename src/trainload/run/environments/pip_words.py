"""What pip says, in our words; runs nothing."""

import re
from collections.abc import Sequence

_OFFLINE = (
    "NewConnectionError",
    "ConnectTimeoutError",
    "ReadTimeoutError",
    "Temporary failure in name resolution",
    "Name or service not known",
    "Network is unreachable",
    "Connection refused",
    "ProxyError",
    "Max retries exceeded",
)


def progress_words(line: str) -> str | None:
    """A line of pip's as progress; None where it is none."""
    line = line.strip()
    if found := re.match(r"Collecting (\S+)", line):
        return f"looking for {found[1]}"
    if found := re.match(r"Downloading (\S+)(?: \((.+)\))?", line):
        name = found[1].rsplit("/", 1)[-1].split("-")[0]
        return f"downloading {name}" + (f" ({found[2]})" if found[2] else "")
    if line.startswith("Building wheel"):
        return "building a package from its source"
    if line.startswith("Installing collected packages"):
        return f"installing {line.partition(':')[2].count(',') + 1} packages"
    return None


def explain_failure(framework: str, said: Sequence[str]) -> str:
    """Why pip failed and what to do, in one line and without addresses."""
    text = "".join(said)
    instead = f"or name an interpreter that has it: trainload env use {framework} PYTHON"
    if any(words in text for words in _OFFLINE):
        return (
            f"the packages of {framework} cannot be reached: this machine seems to be offline; "
            f"connect it and run trainload env create {framework} again, {instead}"
        )
    if "No space left on device" in text:
        return (
            f"the disk is full: {framework} does not fit; choose another folder with --path or "
            f"TRAINLOAD_ENVS, {instead}"
        )
    errors = [line.strip() for line in said if line.lstrip().startswith("ERROR:")]
    first = errors[0].removeprefix("ERROR:").strip() if errors else "it gave no reason"
    why = re.sub(r"https?://\S+", "…", first)
    return f"pip could not install {framework}: {why[:200]}; {instead.removeprefix('or ')}"
