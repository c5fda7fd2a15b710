"""What `pip install trainload` brings: the wheel, what comes with it, whether `show` then works.

    python bench/fresh_install.py

Builds the wheel, installs it without extras into an environment of its own, and shows a kept run
with it. Prints sizes in MB; needs a package index.
"""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
KEPT = ROOT / "docs" / "measurements" / "runs" / "h200-torch-loop"


def size_mb(folder: Path) -> float:
    """Of all files below it."""
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file()) / 1e6


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        venv, source = place / "venv", place / "source"
        shutil.copytree(ROOT / "src", source / "src", ignore=shutil.ignore_patterns("*.egg-info"))
        for file in ("pyproject.toml", "README.md", "LICENSE"):
            shutil.copy(ROOT / file, source / file)
        subprocess.run([sys.executable, "-m", "venv", venv], check=True)
        pip = [venv / "bin" / "pip", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, "wheel", "--no-deps", "-w", place, source], check=True)
        (wheel,) = place.glob("*.whl")
        packages = next((venv / "lib").glob("python*")) / "site-packages"
        before = size_mb(venv)
        subprocess.run([*pip, "install", wheel], check=True)
        print(
            f"wheel {wheel.stat().st_size / 1e6:.1f} MB; installed {size_mb(venv) - before:.0f} MB"
        )
        sizes = {one.name: size_mb(one) for one in packages.iterdir() if one.is_dir()}
        for folder in sorted(sizes, key=lambda one: -sizes[one])[:5]:
            print(f"  {folder} {sizes[folder]:.0f} MB")
        run = shutil.copytree(KEPT, place / "run")
        command = [venv / "bin" / "trainload", "show", run]
        shown = subprocess.run(command, check=True, capture_output=True, text=True, cwd=place)
        print(f"trainload show: {len(shown.stdout.splitlines())} lines\n{shown.stdout}", end="")


if __name__ == "__main__":
    main()
