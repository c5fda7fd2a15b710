# Puts functions of its own in the place of json's.
import json


def fail(*_args, **_kwargs):
    raise RuntimeError("not for you")


json.dumps = json.loads = json.dump = json.load = fail
json.JSONEncoder.encode = json.JSONEncoder.default = fail
print("done")
