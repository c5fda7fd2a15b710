"""What has glibc keep the memory that a training step frees, for the next one; a fact alone."""

from collections.abc import Mapping

KEEPING: Mapping[str, str] = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": "8589934592"}
"""Variables of the environment: no block apart from the heap, 8 GiB of which may lie free."""
KEEPING_WORDS = " ".join(f"{name}={value}" for name, value in KEEPING.items())
"""As they stand before a command."""
