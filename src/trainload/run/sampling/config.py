"""What the driver tells the sampler, apart from the sampler itself so that both may import it."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class SamplerConfig:
    """The first line on the sampler's standard input."""

    samples_path: str
    rate_hz: float = 10.0
    target_pid: int | None = None
    accelerator_uuids: tuple[str, ...] | None = None
    accelerator_indices: tuple[int, ...] | None = None
    run_cores: tuple[int, ...] | None = None
    own_cores: tuple[int, ...] | None = None
    """Cores for the sampler itself, outside the setting where there are any."""
    meter_names: tuple[str, ...] | None = None
    replay_path: str | None = None
    tegrastats_path: str | None = None
