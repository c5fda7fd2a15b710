"""Files of prices and carbon: those shipped fit the catalogue; a stranger's gets one line."""

import json
from pathlib import Path

import pytest

from trainload.errors import HardwareFileError, UsageError
from trainload.hardware.carbon import find_place, load_carbon_file, load_places
from trainload.hardware.catalogue import load_catalogue
from trainload.hardware.prices import load_price_file, load_prices

PRICES = {
    "kind": "trainload prices", "format": 1, "source": "our contract", "date": "2026-11",
    "licence": "own",
    "instances": [
        {"provider": "Ours", "devices": ["h200"], "count": 8, "on_demand_usd_per_h": 20.0}
    ],
    "purchases": [{"device": "h200", "usd": 30000, "date": "2026"}],
    "electricity_usd_per_kwh": 0.21,
}  # fmt: skip
CARBON = {
    "kind": "trainload carbon", "format": 1, "source": "our contract", "date": "2026",
    "licence": "own", "basis": "market-based",
    "places": [
        {"name": "cellar", "title": "The cellar", "gco2e_per_kwh": 20, "year": 2026, "pue": 1.1}
    ],
}  # fmt: skip


@pytest.fixture(autouse=True)
def own_folders(tmp_path, monkeypatch):
    monkeypatch.setenv("TRAINLOAD_PRICES", str(tmp_path / "prices"))
    monkeypatch.setenv("TRAINLOAD_CARBON", str(tmp_path / "carbon"))
    (tmp_path / "prices").mkdir()
    (tmp_path / "carbon").mkdir()


def write(path: Path, document: object) -> Path:
    path.write_text(json.dumps(document))
    return path


def test_every_shipped_price_is_of_a_device_in_the_catalogue():
    prices = load_prices()
    known = {key for one in prices.instances for key in one.devices}
    known |= {one.device for one in prices.purchases}
    assert known - {"p4"} <= set(load_catalogue())
    assert len(prices.instances) > 200 and len(prices.purchases) > 10
    assert prices.electricity is None
    assert all(one.on_demand_usd_per_h or one.spot_usd_per_h for one in prices.instances)
    assert {one.origin.licence for one in (*prices.instances, *prices.purchases)} == {
        "MIT",
        "CC-BY",
    }


def test_a_row_that_tells_no_form_from_another_names_both():
    found = [one for one in load_prices().instances if one.name == "p4d.24xlarge"]
    assert [one.devices for one in found] == [("a100-sxm4-40gb", "a100-pcie-40gb")]
    assert (found[0].count, found[0].on_demand_usd_per_h, found[0].spot_usd_per_h) == (
        8,
        32.77,
        9.83,
    )


def test_the_users_prices_stand_in_the_place_of_the_shipped(tmp_path):
    write(tmp_path / "prices" / "ours.json", PRICES)
    ours = load_prices()
    assert [one.provider for one in ours.instances] == ["Ours"]
    assert ours.electricity is not None and ours.electricity.usd_per_kwh == 0.21
    other = {**PRICES, "instances": [], "purchases": [], "electricity_usd_per_kwh": 0.5}
    named = load_prices(write(tmp_path / "named.json", other))
    assert named.instances == () and named.electricity is not None


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"kind": "x"}, "holds no prices"),
        ({"format": 2}, "format: 2 is not one of 1"),
        ({"date": "soon"}, "no date such as"),
        ({"instances": [{"provider": "x", "devices": [], "count": 1}]}, "must name one"),
        ({"instances": [{"provider": "x", "devices": ["../x"], "count": 1}]}, "no key"),
        ({"instances": [{"provider": "x", "devices": ["t4"], "count": 0}]}, "at least 1"),
        ({"purchases": [{"device": "t4", "usd": -1, "date": "2024"}]}, "at least 0"),
        ({"source": "\x1b[2J"}, "printable"),
        ({"more": 1}, "unknown name"),
    ],
)
def test_a_wrong_file_of_prices_gets_one_line(tmp_path, change, said):
    path = write(tmp_path / "p.json", {**PRICES, **change})
    with pytest.raises(HardwareFileError, match=said) as caught:
        load_price_file(path)
    assert "\n" not in str(caught.value) and str(path) in str(caught.value)


def test_places_are_found_by_code_name_and_region():
    places = load_places()
    assert len(places) == 213 + 44
    assert find_place("DEU") is find_place("germany")
    assert find_place("us-central1").gco2e_per_kwh == 412.72
    assert all(place.pue is None for place in places.values())
    with pytest.raises(UsageError, match="did you mean Germany"):
        find_place("Germny")


def test_a_place_of_the_users_own_and_wrong_ones(tmp_path):
    write(tmp_path / "carbon" / "own.json", CARBON)
    cellar = find_place("cellar")
    assert (cellar.pue, cellar.basis) == (1.1, "market-based")
    wrong = {**CARBON, "places": [{**CARBON["places"][0], "pue": 0.5}]}
    with pytest.raises(HardwareFileError, match=r"pue: 0\.5 must be at least 1"):
        load_carbon_file(write(tmp_path / "c.json", wrong))
