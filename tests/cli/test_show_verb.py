"""`trainload show`: its first screen, its fuller parts, plain lines, colours and kept real runs."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from trainload.cli.app import run_app
from trainload.report.screen.content import MORE

KEPT = Path(__file__).parents[2] / "docs" / "measurements" / "runs"
GOLDEN = Path(__file__).parents[1] / "golden"
DRAWN = re.compile(r"[\u2500-\u259f]")


@pytest.fixture(autouse=True)
def plain_surroundings(monkeypatch):
    for name in ("COLUMNS", "NO_COLOR", "FORCE_COLOR", "TRAINLOAD_PLAIN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TRAINLOAD_CONFIG", "")


def shown(capsys, *arguments, status=0):
    assert run_app(["show", *map(str, arguments)]) == status
    return capsys.readouterr().out


@pytest.fixture(scope="module")
def resnet(tmp_path_factory):
    """A ResNet-50 script on an H200, kept with the measurements; read as a copy."""
    place = tmp_path_factory.mktemp("kept") / "h200-torch-loop"
    shutil.copytree(KEPT / "h200-torch-loop", place)
    return place


@pytest.mark.parametrize("width", [80, 100, 120])
def test_a_script_on_an_h200_fits_one_screen(resnet, capsys, monkeypatch, width):
    monkeypatch.setenv("COLUMNS", str(width))
    text = shown(capsys, resnet)
    lines = text.splitlines()
    assert len(lines) <= 24 and lines[-1] == MORE
    assert max(map(len, lines)) <= width
    assert (
        "where each step goes (44.6 ms on average)" in text and "idle, host preparing 42 %" in text
    )
    assert text.count("layer") >= 3 and "1. saves about 29 % of a step (12–39 %): larger" in text
    assert "the GPU idles for 41 % of" in " ".join(text.split())


def test_golden_runs_fit_one_screen(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    for place in sorted(GOLDEN.iterdir()):
        copy = shutil.copytree(place, tmp_path / place.name)
        lines = shown(capsys, copy).splitlines()
        assert len(lines) <= 24 and lines[-1] == MORE


def test_the_fuller_parts_hold_what_the_first_screen_leaves_out(resnet, capsys):
    loads = shown(capsys, resnet, "--loads")
    assert "GPU 0 load" in loads and "own overhead" in loads and "sampler:" in loads
    assert "where each step" not in loads
    layers = shown(capsys, resnet, "--layers", "--top", "4")
    assert "what to do next" in layers and "expected gain" in layers and "total" in layers
    energy = shown(capsys, resnet, "--energy")
    assert "energy of a step by layer" in energy and "GPU 0" in energy and "money: not" in energy
    everything = shown(capsys, resnet, "--all")
    for words in ("gpu0_load_fraction", "how known", "measured", "step time", "own overhead"):
        assert words in everything
    assert "what to do next" in everything and "money: " in everything
    both = shown(capsys, resnet, "--loads", "--energy")
    assert "GPU 0 load" in both and "energy of a step by layer" in both


def test_containers_of_the_tree_carry_totals(resnet, capsys):
    text = shown(capsys, resnet, "--layers")
    (root,) = [line for line in text.splitlines() if line.startswith("ResNet ")]
    share = float(re.search(r"([\d.]+) %", root)[1])
    assert share > 40 and " 0 s" not in root
    assert "figures of a layer are with all below it" in text


def test_json_is_as_before(resnet, capsys):
    values = json.loads(shown(capsys, resnet, "--json"))
    assert values["outcome"] == "completed" and values["layers"]["ranks"][0]["layers"]
    assert {"step_time", "energy", "columns", "warnings", "peaks"} <= set(values)


def test_money_by_prices_of_ones_own(resnet, tmp_path, capsys):
    prices = tmp_path / "prices.json"
    instance = {"provider": "Ours", "name": "node", "devices": ["h200"], "count": 1}
    instance |= {"on_demand_usd_per_h": 36.0}
    document = {"kind": "trainload prices", "format": 1, "source": "our contract"}
    document |= {"date": "2026-11", "licence": "own", "instances": [instance]}
    prices.write_text(json.dumps(document))
    text = shown(capsys, resnet, "--prices", prices)
    assert "money        0.4 USD to rent at 36 USD/h (Ours node, prices of 2026-11)" in text
    assert "our contract" in shown(capsys, resnet, "--energy", "--prices", prices)


def test_a_device_of_a_stranger_is_never_a_file(make_run, tmp_path, capsys):
    run = make_run(gpu=True)
    document = json.loads((run / "run.json").read_text())
    device = tmp_path / "device.json"
    device.write_text("{")
    for place in (document["setting"]["resolved"], document["machine"]):
        place["accelerators"][0]["name"] = str(device)
    (run / "run.json").write_text(json.dumps(document))
    assert "money: not known: its GPU is none of the catalogue" in shown(capsys, run, "--energy")


def test_electricity_is_counted_where_nothing_is_rented(make_run, tmp_path, capsys):
    prices = tmp_path / "prices.json"
    document = {"kind": "trainload prices", "format": 1, "source": "bill", "date": "2026"}
    document |= {"licence": "own", "electricity_usd_per_kwh": 0.5}
    prices.write_text(json.dumps(document))
    text = shown(capsys, make_run(gpu=True), "--prices", prices)
    assert "0.00068 USD of electricity at 0.5 USD/kWh" in text  # 4.88 kJ


@pytest.mark.parametrize("arguments", [(), ("--loads",), ("--layers",), ("--energy",), ("--all",)])
def test_plain_lines_have_no_bars_and_no_boxes(resnet, capsys, arguments):
    text = shown(capsys, resnet, *arguments, "--plain")
    assert not DRAWN.search(text) and "\x1b" not in text
    assert re.search(r"^outcome: completed$|^completed ", text, re.MULTILINE)
    named = [line for line in text.splitlines() if re.match(r"[^:]+: \S", line)]
    assert len(named) > 0.6 * len([line for line in text.splitlines() if line])


def test_the_variable_asks_for_plain_lines_too(resnet, capsys, monkeypatch):
    monkeypatch.setenv("TRAINLOAD_PLAIN", "1")
    assert shown(capsys, resnet).startswith("outcome: completed\n")
    monkeypatch.setenv("TRAINLOAD_PLAIN", "0")
    assert shown(capsys, resnet).startswith("completed  ")
    assert run_app(["--plain", "show", str(resnet)]) == 0
    assert capsys.readouterr().out.startswith("outcome: completed\n")
    assert shown(capsys, resnet).startswith("completed  ")  # asked for once, not for ever


def on_terminal(run, **environment):
    """What `show` writes to a terminal, colours and all."""
    import pty

    main, side = pty.openpty()
    kept = {k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "COLUMNS", "TERM")}
    command = [sys.executable, "-m", "trainload", "show", str(run)]
    process = subprocess.Popen(
        command, stdout=side, stderr=side, stdin=subprocess.DEVNULL, env={**kept, **environment}
    )
    os.close(side)
    data = b""
    while True:
        try:
            chunk = os.read(main, 65536)
        except OSError:
            break
        if not chunk:
            break
        data += chunk
    os.close(main)
    assert process.wait(60) == 0
    return data.decode()


def test_colours_only_where_they_are_wished(make_run):
    run = make_run()
    coloured = re.compile(r"\x1b\[[\d;]*3[0-9]")
    assert coloured.search(on_terminal(run, TERM="xterm-256color"))
    assert not coloured.search(on_terminal(run, TERM="xterm-256color", NO_COLOR="1"))
    assert "\x1b" not in on_terminal(run, TERM="dumb")


def test_layers_that_were_not_traced_are_told(make_run, capsys):
    assert "no layers were traced" in shown(capsys, make_run(), "--layers")


def test_an_imported_run_shows_what_its_source_states(tmp_path, capsys, monkeypatch):
    import trainload

    source = tmp_path / "emissions.csv"
    source.write_text(
        "timestamp,project_name,run_id,duration,emissions,emissions_rate,cpu_power,gpu_power,"
        "ram_power,cpu_energy,gpu_energy,ram_energy,energy_consumed,country_name,cpu_model,"
        "ram_total_size,pue\n2024-07-19T15:57:43,bert,9adda612,3600,0.01,2.7e-06,42.5,100.0,10,"
        "0.0425,0.1,0.01,0.1525,Canada,Xeon,31.3,1.0\n"
    )
    (run,) = trainload.import_runs("codecarbon", source, out=tmp_path / "runs")
    monkeypatch.setenv("COLUMNS", "80")
    lines = shown(capsys, run.path).splitlines()
    assert lines[0].startswith("imported  ") and len(lines) <= 24 and lines[-1] == MORE
    assert any("kJ" in line for line in lines)


def test_show_needs_no_extra(resnet):
    """What stands in `dependencies` is enough: nothing of report, torch or nvidia is imported."""
    blocked = ("plotly", "scipy", "numpy", "torch", "pynvml")
    code = f"""
import sys
sys.modules.update(dict.fromkeys({blocked}))
from trainload.cli.app import run_app
for words in ([], ["--all"], ["--energy", "--loads", "--layers"]):
    assert run_app(["show", sys.argv[1], *words]) == 0
"""
    command = [sys.executable, "-c", code, str(resnet)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert MORE in done.stdout and "how known" in done.stdout
