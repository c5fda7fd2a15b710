"""Start-up: `trainload --help` and `import trainload` beside a bare Python, alternating."""

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path

COMMANDS = {
    "bare_python": ["-c", "pass"],
    "import_trainload": ["-c", "import trainload"],
    "trainload_help": ["-m", "trainload", "--help"],
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    times_s: dict[str, list[float]] = {name: [] for name in COMMANDS}
    for _ in range(options.rounds):
        for name, arguments in COMMANDS.items():
            start_s = time.perf_counter()
            subprocess.run([sys.executable, *arguments], stdout=subprocess.DEVNULL, check=True)
            times_s[name].append(time.perf_counter() - start_s)
    medians = {name: sorted(values)[len(values) // 2] for name, values in times_s.items()}
    bare_s = medians["bare_python"]
    for name, value in medians.items():
        print(f"  {name:18} {value * 1e3:6.1f} ms   {value / bare_s:5.1f} × bare Python")
    added_s = medians["import_trainload"] - bare_s
    print(f"  import trainload adds {added_s * 1e3:.1f} ms (median of {options.rounds})")
    if options.json:
        options.json.write_text(json.dumps({"median_s": medians, "times_s": times_s}) + "\n")


if __name__ == "__main__":
    main()
