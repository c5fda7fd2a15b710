"""Words that a shell offers for models, frameworks and devices; files it completes itself."""

from trainload_worker.protocol.offers import list_offers


def complete_model(begun: str) -> list[str]:
    """Names of built-in models that begin so."""
    from trainload.workload import MODELS

    return [name for name in MODELS if name.startswith(begun)]


def complete_framework(begun: str) -> list[str]:
    """Names of frameworks that begin so."""
    return [offer.name for offer in list_offers() if offer.name.startswith(begun)]


def complete_devices(begun: str) -> list[str]:
    """Devices of the catalogue, the last of a list with commas; those before it stay."""
    from trainload.hardware.catalogue import load_catalogue

    before, comma, last = begun.rpartition(",")
    return [f"{before}{comma}{name}" for name in load_catalogue() if name.startswith(last)]
