"""What a training step will take on a device: time and energy, inferred from calibrations.

Reads op traces, the catalogue and calibrations; runs nothing and opens no device. The room can be
called: `trainload.predict("resnet50", batch_size=64, device="t4")` is `trainload.api.predicting`.
"""

from trainload._callable_room import make_callable

make_callable(__name__, "trainload.api.predicting", "predict")
