import subprocess
import sys
from pathlib import Path

from big_trace import write_big_trace

READ = """
import resource, sys
from pathlib import Path
from trainload.analyse.attribution import collect_trace
import polars

polars.DataFrame({"a": [1]})
peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
before = peak()
layers = collect_trace(Path(sys.argv[1]))
assert layers.explained_fraction > 0.9
print(peak() - before)
"""


def test_a_trace_is_read_in_less_memory_than_its_own_size(tmp_path: Path) -> None:
    path = tmp_path / "big.json"
    write_big_trace(path, 40)
    done = subprocess.run(
        [sys.executable, "-c", READ, str(path)], capture_output=True, text=True, check=True
    )
    assert int(done.stdout) < path.stat().st_size
