"""What the framework for tests offers."""

from trainload_worker.protocol.offers import Offer

OFFER = Offer(name="fake", trains=False, precisions=("float32", "bf16"), scripts=True, hidden=True)
