"""Plans as tests want them, without a trace."""

import math

from trainload.estimate.memory.fit import Span
from trainload.hardware.catalogue import find_device
from trainload.hardware.prices import Instance, Origin
from trainload.predict.money import Cost, Lacking, Offer
from trainload.predict.types import Ranged
from trainload.recommend.types import Plan

ORIGIN = Origin(source="made", date="2026", licence="own")


def ranged(value, spread=0.05):
    factor = math.exp(1.96 * spread)
    return Ranged(value=value, low=value / factor, high=value * factor)


def made_plan(
    name="t4",
    *,
    hours=10.0,
    usd_per_h=1.0,
    kwh=1.0,
    count=1,
    spread=0.05,
    precision="bf16",
    running_out=0.0,
    tier="datasheet",
):
    time = ranged(hours, spread)
    cost = Lacking(reason=f"no price of {name} is known")
    if usd_per_h is not None:
        instance = Instance(
            provider="Made",
            name="one",
            devices=(name,),
            count=count,
            on_demand_usd_per_h=usd_per_h,
            spot_usd_per_h=None,
            origin=ORIGIN,
        )
        cost = Cost(
            usd=usd_per_h * time.value,
            low_usd=usd_per_h * time.low,
            high_usd=usd_per_h * time.high,
            basis="made",
            offer=Offer(instance=instance, machines=1, market="on demand", usd_per_h=usd_per_h),
        )
    return Plan(
        device=find_device(name),
        count=count,
        precision=precision,
        batch_size=64 * count,
        portions=1,
        checkpointed=False,
        steps=1000,
        needed_bytes=Span(value_bytes=2**30, low_bytes=2**29, high_bytes=2**31),
        capacity_bytes=2**34,
        running_out=running_out,
        step_s=ranged(hours * 3.6, spread),
        hours=time,
        power_w=ranged(100.0),
        energy_kwh=None if kwh is None else ranged(kwh, spread),
        cost=cost,
        emission=Lacking(reason="no place"),
        limit="memory",
        tier=tier,
        nearest=("t4",),
    )
