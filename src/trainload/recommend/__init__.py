"""Which hardware for a training, and why: predictions, catalogue and prices as ranked choices.

Pure: takes plans that others predicted; traces nothing and opens no file. The room can be called:
`trainload.recommend("resnet50", examples=50000, epochs=10)` is `trainload.api.recommending`.
"""

from trainload._callable_room import make_callable

make_callable(__name__, "trainload.api.recommending", "recommend")
