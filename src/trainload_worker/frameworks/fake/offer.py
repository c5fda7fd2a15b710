"""What the framework for tests offers."""

from __future__ import annotations

from trainload_worker.protocol.offers import Offer

OFFER = Offer(name="fake", trains=False, hidden=True)
