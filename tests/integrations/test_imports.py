"""Files of other tools as runs: figures, samples, epochs, steps; nothing guessed, nothing lost."""

import gzip
import hashlib
import json
import os

import pytest

import trainload
from trainload.cli.app import run_app
from trainload.errors import TrainloadError, UsageError
from trainload.record.figures import load_figures

TEGRA = (
    "RAM {ram}/7860MB (lfb 1067x4MB) SWAP 0/2048MB (cached 0MB) CPU 48%@2035, off,off,34%@2035,"
    "30%@2035,38%@2035 EMCFREQ 0% GR3DFREQ 50% PLL@36.5C GPU@35C VDDSYSGPU 229/229 "
    "VDDSYSSOC 611/611 VDD4V0WIFI 19/19 VDDIN 3824/3824 VDDSYSCPU 1146/1146 VDDSYSDDR 713/713\n"
)
EDGE = (
    "Epoch {n}. Loss: {loss}, Train acc 0.21, Test acc 0.3{n}\n"
    "Epoch {n} training: err-top1=0.86 err-top5=0.43\n"
    "Epoch {n} time cost: 10.5\n"
)
SMI = (
    "timestamp, index, name, utilization.gpu [%], memory.used [MiB], power.draw [W], "
    "temperature.gpu, fan.speed [%], odd.figure\n"
)
CARBON = (
    "timestamp,project_name,run_id,duration,emissions,emissions_rate,cpu_power,gpu_power,ram_power,"
    "cpu_energy,gpu_energy,ram_energy,energy_consumed,country_name,cpu_model,ram_total_size,pue\n"
    "2024-07-19T15:57:43,bert,9adda612,3600,0.01,2.7e-06,42.5,100.0,10,0.0425,0.1,0.01,0.1525,"
    "Canada,Xeon,31.3,1.0\n"
)


@pytest.fixture
def write(tmp_path):
    """Writes a file and answers its path."""

    def make(name, text):
        path = tmp_path / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return make


def one(kind, files, tmp_path, **options):
    runs = trainload.import_runs(kind, files, out=tmp_path / "runs", **options)
    assert len(runs) == 1
    return runs[0]


def test_tegrastats_lines_become_samples_of_every_rail(write, tmp_path):
    path = write("board.log", "".join(TEGRA.format(ram=500 + n) for n in range(11)) + "noise\n")
    with pytest.raises(UsageError, match="tell no time; say how far apart they are: --interval"):
        one("tegrastats", path, tmp_path)
    run = one("tegrastats", path, tmp_path, interval_s=2.0, config={"model": "lenet"})
    samples = run.samples
    assert samples.height == 11 and samples["t_s"].to_list() == [2.0 * n for n in range(11)]
    assert samples["tegra_ram_used_bytes"][1] == 501 * 2**20
    assert (
        samples["tegra_cpu0_load_fraction"][0] == 0.48
        and samples["tegra_cpu1_load_fraction"][0] is None
    )
    assert samples["tegra_power_w"][0] == 3.824
    assert samples["tegra_sum_of_rails_power_w"][0] == pytest.approx(6.542)
    energy = {source.source: source.energy_j for source in run.summary.energy}
    assert energy["tegra"] == pytest.approx(3.824 * 20)
    figures = load_figures(run.path)
    assert figures.imported == "tegrastats" and figures.facts["model"] == "lenet"
    assert figures.metrics["duration_s"] == 20.0 and "training_s" not in figures.metrics
    assert "1 of 12 lines are none of tegrastats; left out" in run.summary.warnings
    origin = run.manifest.imported
    assert origin.files == {"board.log": hashlib.sha256(path.read_bytes()).hexdigest()}
    assert run.manifest.sealed and run.manifest.created is None


def test_newer_tegrastats_tells_its_own_time(write, tmp_path):
    lines = [f"11-15-2026 10:00:{s:02d} {TEGRA.format(ram=5)}" for s in (58, 59)]
    lines.append(f"11-15-2026 10:01:03 {TEGRA.format(ram=5)}")
    run = one("tegrastats", write("a.log", "".join(lines)), tmp_path)
    assert run.samples["t_s"].to_list() == [0.0, 1.0, 5.0]


def test_edge_training_log_with_its_board_log(write, tmp_path):
    log = write("train.log", "".join(EDGE.format(n=n, loss=2 - n / 10) for n in range(3)))
    board = write("tegra.log", "".join(TEGRA.format(ram=5) for _ in range(30)))
    run = one(
        "edge-training-log", [log, board], tmp_path, interval_s=1.0,
        config={"model": "lenet", "framework": "pytorch", "setting": "GPU-CFG1"},
    )  # fmt: skip
    assert run.manifest.framework == "torch"
    assert run.epochs["train_loss"].to_list() == pytest.approx([2.0, 1.9, 1.8])
    assert run.epochs["validation_accuracy"].to_list() == pytest.approx([0.30, 0.31, 0.32])
    assert run.epochs["end_s"].to_list() == [10.5, 21.0, 31.5] and run.steps.is_empty()
    metrics = load_figures(run.path).metrics
    assert metrics["epoch_s"] == 10.5 and metrics["duration_s"] == 31.5 and metrics["epochs"] == 3
    assert metrics["train_top5_error"] == 0.43 and metrics["energy_j"] == pytest.approx(3.824 * 29)
    assert "step_s" not in metrics and "steps" not in metrics
    assert any("taken to begin at the same moment" in text for text in run.summary.warnings)


def test_a_log_that_ends_early_is_no_whole_training(write, tmp_path):
    log = write("train.log", "".join(EDGE.format(n=n, loss=1) for n in range(3)))
    run = one("edge-training-log", log, tmp_path, config={"epochs": "10"})
    assert (run.outcome, run.manifest.outcome_reason) == (
        "failed", "the log ends after 3 of 10 epochs",
    )  # fmt: skip
    with pytest.raises(UsageError, match="takes one training log"):
        one("edge-training-log", [log, write("b.log", log.read_text())], tmp_path)


def test_json_of_lists_asks_for_units_and_keeps_the_rest_raw(write, tmp_path):
    lists = {
        "gpu": [0.1, 0.2, 0.3],
        "ram": [10, None, 30],
        "odd": [1, 2],
        "time": "late",
        "f1": 0.9,
    }
    path = write("loads.json", json.dumps(lists))
    with pytest.raises(UsageError, match="tells no times"):
        one("load-lists", path, tmp_path)
    run = one("load-lists", path, tmp_path, interval_s=0.5, units={"gpu": "fraction", "ram": "%"})
    samples = run.samples
    assert samples["gpu_fraction"].to_list() == [0.1, 0.2, 0.3]
    assert samples["ram_fraction"].to_list() == [0.1, None, 0.3]
    assert samples["odd"].to_list() == [1, 2, None] and samples["t_s"].to_list() == [0, 0.5, 1]
    origin = run.manifest.imported
    assert set(origin.raw) == {"odd", "f1"} and origin.labels == {"time": "late"}
    quantity = {q.column: q for m in run.manifest.meters for q in m.quantities}["odd"]
    assert quantity.unit is None and "kept raw" in quantity.reason
    assert load_figures(run.path).metrics["f1"] == 0.9


def test_groups_of_lists_are_runs_of_their_own(write, tmp_path):
    groups = {str(size): {"gpu_load_fraction": [0.1] * 3, "t_s": [0, 1, 2]} for size in (64, 128)}
    path = write("batch.json", json.dumps(groups))
    runs = trainload.import_runs("load-lists", path, out=tmp_path / "runs")
    assert [run.manifest.imported.place for run in runs] == ["64", "128"]
    assert [run.manifest.imported.raw for run in runs] == [(), ()]
    assert runs[0].samples["gpu_load_fraction"].mean() == pytest.approx(0.1)


def test_nvidia_smi_joins_the_gpus_of_a_moment(write, tmp_path):
    form = (
        "2026/01/02 03:04:0{s}.500, {gpu}, H200, {s}0 %, 1000 MiB, 50{gpu}.00 W, 40, [N/A], {s}\n"
    )
    rows = [form.format(s=s, gpu=gpu) for s in range(3) for gpu in (0, 1)]
    run = one("nvidia-smi", write("gpu.csv", SMI + "".join(rows)), tmp_path)
    samples = run.samples
    assert samples["t_s"].to_list() == [0.0, 1.0, 2.0]
    assert samples["gpu0_load_fraction"].to_list() == pytest.approx([0.0, 0.1, 0.2])
    assert samples["gpu1_power_w"][0] == 501.0 and samples["gpu1_temperature_celsius"][0] == 40
    assert samples["gpu0_memory_used_bytes"][0] == 1000 * 2**20
    assert samples["gpu0_fan_speed_fraction"].null_count() == 3
    assert run.manifest.imported.raw == ("odd.figure",)
    assert run.manifest.imported.labels["gpu0 name"] == "H200"
    assert load_figures(run.path).metrics["energy_j"] == pytest.approx(1000.0)


def test_codecarbon_totals_are_figures_without_samples(write, tmp_path):
    run = one(
        "codecarbon", write("emissions.csv", CARBON), tmp_path, units={"ram_total_size": "GB"}
    )
    figures = load_figures(run.path)
    assert figures.metrics["energy_j"] == pytest.approx(0.1525 * 3.6e6)
    assert figures.metrics["mean_power_w"] == pytest.approx(152.5)
    assert figures.metrics["ram_total_size_bytes"] == 31.3e9
    assert "mean_power_w" not in figures.given and "energy_j" in figures.given
    assert run.manifest.model_name == "bert" and run.manifest.imported.raw == ("pue",)
    assert run.manifest.imported.labels["country_name"] == "Canada"
    assert run.samples.is_empty() and run.steps.is_empty() and "steps" not in figures.metrics


def test_mlflow_history_keeps_its_own_metrics_raw(write, tmp_path):
    rows = [
        f"r1,{key},{value},{1_700_000_000_000 + 10_000 * at},{at}"
        for at in range(3)
        for key, value in (
            ("system/gpu_0_utilization_percentage", 50),
            ("system/gpu_0_power_usage_watts", 200),
            ("system/system_memory_usage_megabytes", 4000),
            ("system/disk_available_megabytes", 7),
            ("loss", 1.5),
        )
    ]
    path = write("metrics.csv", "run_id,key,value,timestamp,step\n" + "\n".join(rows))
    run = one("mlflow", path, tmp_path)
    samples = run.samples
    assert samples["t_s"].to_list() == [0, 10, 20] and samples["gpu0_load_fraction"][0] == 0.5
    assert samples["host_ram_used_bytes"][0] == 4e9 and samples["disk_available_bytes"][0] == 7e6
    assert samples["loss"][0] == 1.5 and run.manifest.imported.raw == ("loss",)
    assert load_figures(run.path).metrics["energy_j"] == pytest.approx(4000)


@pytest.mark.parametrize("packed", [False, True])
def test_kineto_traces_give_steps_and_layers(write, tmp_path, packed):
    events = [
        {"ph": "X", "cat": "user_annotation", "name": f"ProfilerStep#{n}", "pid": 1, "tid": 1,
         "ts": 1000.0 * n, "dur": 1000.0}
        for n in range(3)
    ] + [
        {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1,
         "ts": 1000.0 * n + 100, "dur": 500.0}
        for n in range(3)
    ]  # fmt: skip
    data = json.dumps({"schemaVersion": 1, "traceEvents": events}).encode()
    path = write("t.json.gz" if packed else "t.json", gzip.compress(data) if packed else data)
    run = one("kineto", path, tmp_path, config={"model": "mine"})
    assert run.steps["step_s"].to_list() == pytest.approx([1e-3] * 3)
    assert run.attribution is not None and run.attribution.ranks[0].step_s == pytest.approx(1e-3)
    assert (run.path / "trace.json.gz").read_bytes()[:2] == b"\x1f\x8b"
    assert any("as traced" in text for text in run.summary.warnings)


def test_the_verb_says_what_was_kept_and_show_says_imported(write, tmp_path, capsys):
    path, out = write("emissions.csv", CARBON), tmp_path / "runs"
    assert run_app(["import", "codecarbon", str(path), "--out", str(out)]) == 0
    printed = capsys.readouterr().out
    assert "note: no unit is known of pue: kept raw" in printed
    place = printed.splitlines()[0]
    assert run_app(["show", place]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("imported  bert") and "energy_j" in shown and "0 steps" not in shown
    assert run_app(["ls", str(out)]) == 0
    assert "imported (codecarbon)" in capsys.readouterr().out
    page = tmp_path / "page.html"
    assert run_app(["report", place, "--html", str(page)]) == 0
    assert "imported from emissions.csv, not measured by trainload" in page.read_text().lower()
    capsys.readouterr()
    words = ["import", "codecarbon", str(path), "--out", str(out), "--json", "--unit", "pue=count"]
    assert run_app(words) == 0
    assert json.loads(capsys.readouterr().out)[0]["raw"] == ["ram_total_size"]


HOSTILE = (
    ("edge-results", b""),
    ("edge-results", b"a,b\n1,2\n"),
    ("edge-results", b"hardware_config,framework,model,power_w\nx,y,z,many\n"),
    ("edge-results", b"hardware_config,framework,model,model\nx,y,z,1\n"),
    ("edge-results", b"hardware_config,framework,model\nx,y,z,1,2,3\n"),
    ("edge-results", b"hardware_config,framework,model\nx,y,z\nx,y,z\n"),
    ("edge-results", b'"' + b"x" * 300_000),
    ("load-lists", b"[" * 100_000),
    ("load-lists", b"{}"),
    ("load-lists", b'{"a": "b"}'),
    ("load-lists", b"\xff\xfe\x00"),
    ("tegrastats", b"nothing\n"),
    ("tegrastats", b"\x00" * 5000),
    ("edge-training-log", b"nothing\n"),
    ("nvidia-smi", b"1, 2, 3\n4, 5, 6\n"),
    ("nvidia-smi", b"timestamp, utilization.gpu [%]\nlate, 1 %\n"),
    ("nvidia-smi", b"timestamp, index, utilization.gpu [%]\n2026/13/45 00:00:00, 0, 1 %\n"),
    ("codecarbon", b"a\n1\n"),
    ("mlflow", b"key,value,timestamp\nx,1,late\n"),
    ("mlflow", b"key,value,timestamp\nx,1,-5\n"),
    ("kineto", b"{}"),
    ("kineto", b'{"traceEvents": [1, 2'),
    ("nonsense", b""),
)


@pytest.mark.parametrize(("kind", "data"), HOSTILE)
def test_hostile_files_get_one_line_and_leave_nothing(kind, data, write, tmp_path, capsys):
    out = tmp_path / "runs"
    assert run_app(["import", kind, str(write("file", data)), "--out", str(out)]) == 2
    error = capsys.readouterr().err
    assert error.startswith("error: ") and error.count("\n") == 1 and len(error) < 500
    assert not out.exists() or not any(out.iterdir())


def test_what_is_no_plain_file_and_what_cannot_be_meant(write, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for place in (tmp_path / "pipe", tmp_path, tmp_path / "none", "/dev/zero", "/proc/self/mem"):
        with pytest.raises(TrainloadError):
            trainload.import_runs("edge-results", place, out=tmp_path / "runs")
    table = write("t.csv", "hardware_config,framework,model,odd\ns,f,m,3\n")
    os.symlink(table, tmp_path / "link.csv")
    run = one("edge-results", tmp_path / "link.csv", tmp_path)  # the user named it
    assert run.manifest.imported.raw == ("odd",)
    with pytest.raises(UsageError, match="an interval of 0 s"):
        trainload.import_runs("tegrastats", table, interval_s=0)
    assert run_app(["import", "edge-results", str(table), "--unit", "odd=parsec"]) == 2
    assert run_app(["import", "edge-results", str(table), "--unit", "odd"]) == 2
    assert run_app(["import", "edge-results", str(table), "--config", "odd"]) == 2


def test_names_from_strangers_do_not_leave_the_folder(write, tmp_path):
    text = (
        'hardware_config,framework,model,total_time_s\n../../x,"<b>","../../../etc/\x1b[31mm",3\n'
    )
    run = one("edge-results", write("t.csv", text), tmp_path)
    assert run.path.parent == tmp_path / "runs" and run.manifest.model_name.startswith("../")
