"""Money and emissions by hand: whole instances, ranges carried over, gaps with their reason."""

from dataclasses import dataclass
from pathlib import Path

import pytest

from trainload.hardware.carbon import CarbonPlace, find_place
from trainload.hardware.prices import Electricity, Instance, Origin, Prices, Purchase, load_prices
from trainload.predict.money import Cost, Emission, Lacking, buy, emit, list_offers, rent

ORIGIN = Origin(source="a list", date="2025-03", licence="MIT")


@dataclass(frozen=True)
class Span:
    value: float
    low: float
    high: float


HOURS = Span(10.0, 8.0, 15.0)
ENERGY = Span(3.6e7, 1.8e7, 7.2e7)  # 10 kWh, 5 to 20


def instance(name: str, count: int, usd: float | None, **more: object) -> Instance:
    values: dict[str, object] = {
        "provider": "Cloud", "name": name, "devices": ("a100-sxm4-80gb",), "count": count,
        "on_demand_usd_per_h": usd, "spot_usd_per_h": None, "origin": ORIGIN,
    }  # fmt: skip
    return Instance(**{**values, **more})  # type: ignore[arg-type]


PRICES = Prices(
    instances=(
        instance("eight", 8, 40.0, spot_usd_per_h=12.0),
        instance("two", 2, 11.0, provider="Other"),
        instance("one", 1, 6.0, region="north"),
        instance("free of price", 1, None),
        instance("else", 1, 0.1, devices=("t4",)),
    ),
    purchases=(
        Purchase(device="a100-sxm4-80gb", usd=20_000, date="2021-01", origin=ORIGIN),
        Purchase(device="a100-sxm4-80gb", usd=8_766, date="2024-01", origin=ORIGIN),
    ),
)


def test_the_cheapest_instance_that_has_so_many_is_paid_whole():
    one = rent("a100-sxm4-80gb", 1, HOURS, PRICES)
    assert isinstance(one, Cost) and (one.usd, one.low_usd, one.high_usd) == (60, 48, 90)
    four = rent("a100-sxm4-80gb", 4, HOURS, PRICES)
    assert isinstance(four, Cost)
    assert (four.usd, four.low_usd, four.high_usd) == (400, 320, 600)  # all eight are paid for
    assert four.offer is not None and four.offer.instance.name == "eight"
    assert "eight with 8 devices, on demand, 40 USD/h" in four.basis
    assert "a list, 2025-03, MIT" in four.basis
    assert "one of 3 known with a median of 11 USD/h" in one.basis


def test_several_machines_only_where_no_instance_has_enough():
    many = rent("a100-sxm4-80gb", 12, HOURS, PRICES)
    assert isinstance(many, Cost) and many.offer is not None
    # 12 of one at 6, 6 of two at 11, 2 of eight at 40: 72, 66, 80 USD an hour
    assert (many.offer.machines, many.usd) == (6, 660)
    assert "6 × Other two" in many.basis


def test_spot_provider_and_region_narrow_the_offers():
    spot = rent("a100-sxm4-80gb", 1, HOURS, PRICES, market="spot")
    assert isinstance(spot, Cost) and spot.usd == 120
    names = [offer.instance.name for offer in list_offers("a100-sxm4-80gb", 1, PRICES)]
    assert names == ["one", "two", "eight"]
    other = list_offers("a100-sxm4-80gb", 1, PRICES, provider="other")
    assert [offer.instance.name for offer in other] == ["two"]
    north = list_offers("a100-sxm4-80gb", 1, PRICES, region="north")
    assert [offer.instance.name for offer in north] == ["one"]


def test_without_a_price_money_is_missing_with_the_reason():
    for found in (
        rent("jetson-tx2", 1, HOURS, PRICES),
        rent("t4", 1, HOURS, PRICES, market="spot"),
        rent("t4", 1, HOURS, PRICES, region="south"),
        rent("t4", 1, HOURS, Prices()),
    ):
        assert isinstance(found, Lacking) and "--prices FILE" in found.reason


def test_a_device_bought_serves_its_lifetime_and_draws_electricity():
    paid = buy(
        "a100-sxm4-80gb", 2, HOURS, ENERGY, PRICES, lifetime_years=1, usd_per_kwh=0.3, pue=1.5
    )
    # 8,766 USD over 8,766 hours: a dollar an hour each; 10 kWh × 1.5 × 0.3
    assert isinstance(paid, Cost)
    assert paid.usd == pytest.approx(2 * 10 + 4.5)
    assert paid.low_usd == pytest.approx(2 * 8 + 2.25)
    assert paid.high_usd == pytest.approx(2 * 15 + 9.0)
    assert paid.offer is None and "2024-01" in paid.basis and "PUE 1.5" in paid.basis


def test_what_a_purchase_lacks_is_named():
    given = {"lifetime_years": 3.0, "usd_per_kwh": 0.3}
    cases = [
        (buy("t4", 1, HOURS, ENERGY, PRICES, **given), "no purchase price of t4"),
        (buy("a100-sxm4-80gb", 1, HOURS, ENERGY, PRICES, usd_per_kwh=0.3), "years"),
        (buy("a100-sxm4-80gb", 1, HOURS, None, PRICES, **given), "energy"),
        (buy("a100-sxm4-80gb", 1, HOURS, ENERGY, PRICES, lifetime_years=3.0), "electricity"),
    ]
    for found, words in cases:
        assert isinstance(found, Lacking) and words in found.reason
    rate = Electricity(usd_per_kwh=0.2, origin=ORIGIN)
    listed = Prices(purchases=PRICES.purchases, electricity=rate)
    paid = buy("a100-sxm4-80gb", 1, HOURS, ENERGY, listed, lifetime_years=1)
    assert isinstance(paid, Cost) and paid.usd == pytest.approx(10 + 2)


PLACE = CarbonPlace(
    name="XXX", title="Nowhere", gco2e_per_kwh=400, year=2023, basis="location-based",
    source="a table", licence="CC-BY",
)  # fmt: skip


def test_emissions_have_their_basis_and_pue():
    found = emit(ENERGY, PLACE)
    assert isinstance(found, Emission) and found.pue is None
    assert (found.kgco2e, found.low_kgco2e, found.high_kgco2e) == pytest.approx((4, 2, 8))
    assert "location-based" in found.basis and "PUE not counted" in found.basis
    cooled = emit(ENERGY, PLACE, pue=1.2)
    assert isinstance(cooled, Emission) and cooled.kgco2e == pytest.approx(4.8)
    for missing in (emit(None, PLACE), emit(ENERGY, None)):
        assert isinstance(missing, Lacking)


def test_shipped_prices_and_places_by_hand(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for kind in ("PRICES", "CARBON"):
        monkeypatch.setenv(f"TRAINLOAD_{kind}", str(tmp_path / "none"))
    prices = load_prices()
    aws = rent("a100-sxm4-40gb", 1, HOURS, prices, provider="AWS")
    assert isinstance(aws, Cost) and aws.usd == pytest.approx(327.7)  # p4d.24xlarge, all eight
    assert aws.offer is not None and aws.offer.instance.count == 8
    assert isinstance(rent("jetson-tx2", 1, HOURS, prices), Lacking)
    assert isinstance(rent("h200", 1, HOURS, prices), Lacking)
    france = emit(ENERGY, find_place("France"))
    assert isinstance(france, Emission) and france.kgco2e == pytest.approx(0.56039)
