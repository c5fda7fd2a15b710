"""What the loops by hand note for `bench/driver_cost.py`: a stamp and a loss a step."""

import itertools
import json
import signal
import time


class Stamps:
    """Gives out the batches, again and again until SIGTERM, and keeps when each step ended."""

    def __init__(self, folder, make_rows):
        with open(f"{folder}/batches.json") as file:
            self._batches = [make_rows(rows) for rows in json.load(file)]
        self._ended = False
        self._end_s, self._losses = [], []
        signal.signal(signal.SIGTERM, self._end)

    def _end(self, *_):
        self._ended = True

    def batches(self):
        """The rows of each step."""
        for step, rows in enumerate(itertools.cycle(self._batches)):
            if self._ended:
                return
            if step == 20:
                print("ready", flush=True)
            yield rows

    def keep(self, loss):
        """A step's loss, which is read when the step, or at least its loss, is there."""
        self._losses.append(loss)
        self._end_s.append(time.monotonic())

    def tell(self):
        """All of it, on the last line of standard output."""
        print(json.dumps({"end_s": self._end_s, "loss": self._losses[-1]}))
