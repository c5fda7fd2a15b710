"""tegrastats lines of every generation, and the meter on a file and on a program."""

import os
import stat
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainload.errors import MeterError
from trainload.meters.meter import AbsentMeter, Meter, MeterContext, available_columns
from trainload.meters.tegrastats import open_tegrastats_meter, parse_tegrastats_line

MIB = 1024**2
STUDY = (
    "RAM 573/7860MB (lfb 1067x4MB) SWAP 0/2048MB (cached 0MB) CPU 48%@2035, "
    "off,off,34%@2035,30%@2035,38%@2035 EMCFREQ 0% GR3DFREQ 0% PLL@36.5C MCPU@36.5C PMIC@100C "
    "Tboard@32C GPU@35C BCPU@36.5C thermal@36.5C Tdiode@33.75C VDDSYSGPU 229/229 "
    "VDDSYSSOC 611/611 VDD4V0WIFI 19/19 VDDIN 3824/3824 VDDSYSCPU 1146/1146 VDDSYSDDR 713/713"
)
TX1 = (
    "RAM 3468/3983MB (lfb 48x4MB) SWAP 873/8192MB (cached 295MB) cpu [17%,13%,off,5%]@408 "
    "EMC 1%@408 APE 25 GR3D 3%@76"
)
TX2 = (
    "RAM 2136/7850MB (lfb 1016x4MB) SWAP 0/3925MB (cached 0MB) CPU "
    "[2%@345,off,off,1%@345,1%@345,1%@345] EMC_FREQ 0% GR3D_FREQ 12% PLL@36C MCPU@36C PMIC@100C "
    "Tboard@32C GPU@34.5C BCPU@36C thermal@35.2C Tdiode@33.75C VDD_SYS_GPU 152/152 "
    "VDD_SYS_SOC 458/458 VDD_4V0_WIFI 0/0 VDD_IN 2215/2215 VDD_SYS_CPU 152/152 VDD_SYS_DDR 211/211"
)
NANO = (
    "RAM 1655/3956MB (lfb 311x4MB) SWAP 0/1978MB (cached 0MB) IRAM 0/252kB(lfb 252kB) CPU "
    "[12%@102,10%@102,11%@102,12%@102] EMC_FREQ 3%@1600 GR3D_FREQ 16%@76 APE 25 PLL@36.5C "
    "CPU@39C iwlwifi@44C PMIC@50C GPU@37C AO@47.5C thermal@38C POM_5V_IN 2132/2100 "
    "POM_5V_GPU 78/78 POM_5V_CPU 275/275"
)
XAVIER = (
    "RAM 2770/7764MB (lfb 2x4MB) SWAP 0/3882MB (cached 0MB) CPU [10%@1190,4%@1190,off,off] "
    "EMC_FREQ 0%@1600 GR3D_FREQ 0%@318 VIC_FREQ 0%@115 APE 150 AO@34C GPU@34.5C PMIC@50C "
    "AUX@34C CPU@35.5C thermal@34.55C VDD_IN 4018mW/4018mW VDD_CPU_GPU_CV 492mW/492mW "
    "VDD_SOC 943mW/943mW"
)
XAVIER_AGX = (
    "RAM 5059/30623MB (lfb 5843x4MB) CPU [15%@735,8%@853] EMC_FREQ @2133 GR3D_FREQ 5%@1109 "
    "AUX@30C tj@41C GPU 0/0 CPU 311/311 SOC 933/933 CV 0/0 VDDRQ 155/155 SYS5V 1492/1492"
)
ORIN = (
    "11-15-2026 03:54:50 RAM 4722/30536MB (lfb 1x4MB) SWAP 149/15268MB (cached 11MB) CPU "
    "[0%@729,3%@729,0%@729,off] EMC_FREQ 2%@665 GR3D_FREQ 7%@[611,0] NVENC off NVDEC off "
    "NVJPG off VIC off OFA off NVDLA0 off PVA0_FREQ off APE 174 CV0@-256C CPU@48.5C Tboard@36C "
    "SOC2@44.343C tj@49C VDD_GPU_SOC 2405mW/2405mW VDD_CPU_CV 400mW/400mW "
    "VIN_SYS_5V0 3726mW/3726mW NC 0mW/0mW VDDQ_VDD2_1V8AO 301mW/301mW NC 0mW/0mW"
)
LINES = [STUDY, TX1, TX2, NANO, XAVIER, XAVIER_AGX, ORIN]


def test_the_studys_line_exactly():
    reading = parse_tegrastats_line(STUDY)
    assert reading.ram_used_bytes == 573 * MIB
    assert reading.ram_total_bytes == 7860 * MIB
    assert (reading.swap_used_bytes, reading.swap_total_bytes) == (0, 2048 * MIB)
    assert reading.cpu_load_fractions == (0.48, None, None, 0.34, 0.3, 0.38)
    assert reading.cpu_clocks_hz == (2035e6, None, None, 2035e6, 2035e6, 2035e6)
    assert (reading.gpu_load_fraction, reading.emc_load_fraction) == (0.0, 0.0)
    assert (reading.gpu_clock_hz, reading.emc_clock_hz) == (None, None)
    assert dict(reading.rails_w) == {
        "VDDSYSGPU": 0.229,
        "VDDSYSSOC": 0.611,
        "VDD4V0WIFI": 0.019,
        "VDDIN": 3.824,
        "VDDSYSCPU": 1.146,
        "VDDSYSDDR": 0.713,
    }
    assert reading.sum_of_rails_w == pytest.approx(6.542)
    assert reading.board_power_w == 3.824
    assert dict(reading.temperatures_celsius)["Tdiode"] == 33.75
    assert len(reading.temperatures_celsius) == 8


def test_tx1():
    reading = parse_tegrastats_line(TX1)
    assert reading.cpu_load_fractions == (0.17, 0.13, None, 0.05)
    assert reading.cpu_clocks_hz == (408e6, 408e6, None, 408e6)
    assert (reading.emc_load_fraction, reading.emc_clock_hz) == (0.01, 408e6)
    assert (reading.gpu_load_fraction, reading.gpu_clock_hz) == (0.03, 76e6)
    assert reading.rails_w == ()
    assert reading.board_power_w is reading.sum_of_rails_w is None


def test_tx2():
    reading = parse_tegrastats_line(TX2)
    assert reading.cpu_load_fractions == (0.02, None, None, 0.01, 0.01, 0.01)
    assert reading.gpu_load_fraction == 0.12
    assert dict(reading.rails_w)["VDD_SYS_GPU"] == 0.152
    assert reading.board_power_w == 2.215
    assert reading.sum_of_rails_w == pytest.approx(3.188)


def test_nano():
    reading = parse_tegrastats_line(NANO)
    assert reading.ram_used_bytes == 1655 * MIB  # not that of IRAM
    assert reading.board_power_w == 2.132  # now, not on average
    assert [name for name, _ in reading.rails_w] == ["POM_5V_IN", "POM_5V_GPU", "POM_5V_CPU"]


def test_xavier():
    reading = parse_tegrastats_line(XAVIER)
    assert (reading.emc_load_fraction, reading.emc_clock_hz) == (0.0, 1600e6)
    assert (reading.gpu_load_fraction, reading.gpu_clock_hz) == (0.0, 318e6)
    assert dict(reading.rails_w) == {"VDD_IN": 4.018, "VDD_CPU_GPU_CV": 0.492, "VDD_SOC": 0.943}
    assert reading.board_power_w == 4.018


def test_xavier_agx_has_no_input_rail_and_needs_no_swap():
    reading = parse_tegrastats_line(XAVIER_AGX)
    assert reading.swap_used_bytes is None
    assert (reading.emc_load_fraction, reading.emc_clock_hz) == (None, 2133e6)
    assert reading.board_power_w == pytest.approx(2.891)
    assert dict(reading.rails_w)["CPU"] == 0.311
    assert reading.cpu_load_fractions == (0.15, 0.08)


def test_orin():
    reading = parse_tegrastats_line(ORIN)
    assert reading.swap_used_bytes == 149 * MIB
    assert reading.cpu_load_fractions == (0.0, 0.03, 0.0, None)
    assert (reading.gpu_load_fraction, reading.gpu_clock_hz) == (0.07, 611e6)
    assert dict(reading.temperatures_celsius) == {
        "CV0": None,
        "CPU": 48.5,
        "Tboard": 36.0,
        "SOC2": 44.343,
        "tj": 49.0,
    }
    assert [name for name, _ in reading.rails_w] == [
        "VDD_GPU_SOC",
        "VDD_CPU_CV",
        "VIN_SYS_5V0",
        "VDDQ_VDD2_1V8AO",
    ]
    assert reading.board_power_w == pytest.approx(6.832)


@pytest.mark.parametrize("line", ["", "tegrastats: not found", "IRAM 0/252kB", "RAM x/yMB"])
def test_other_lines_are_a_meter_error(line):
    with pytest.raises(MeterError):
        parse_tegrastats_line(line)


def check_only_meter_errors(line: str) -> None:
    try:
        reading = parse_tegrastats_line(line)
    except MeterError:
        return
    assert reading.board_power_w is None or reading.board_power_w >= 0
    assert len(reading.cpu_clocks_hz) == len(reading.cpu_load_fractions)


@given(st.text())
def test_any_text_gives_a_reading_or_a_meter_error(line):
    check_only_meter_errors(line)
    check_only_meter_errors("RAM 1/2MB CPU [" + line)


@given(st.sampled_from(LINES), st.integers(0, 600), st.integers(0, 40), st.text(max_size=20))
def test_a_damaged_line_gives_a_reading_or_a_meter_error(line, start, length, junk):
    check_only_meter_errors(line[:start] + junk + line[start + length :])


@given(st.sampled_from(LINES), st.text("0123456789", min_size=1, max_size=9000))
def test_absurd_numbers_give_a_reading_or_a_meter_error(line, digits):
    for word in ("573", "34", "4", "0"):
        check_only_meter_errors(line.replace(word, digits))


def read_columns(meter: Meter, t_s: float = 0.0) -> dict[str, object]:
    return dict(zip(available_columns(meter), meter.read(t_s), strict=True))


def test_a_file_gives_a_line_a_read(tmp_path):
    path = tmp_path / "tegra.log"
    path.write_text(TX2 + "\n" + TX2.replace("RAM 2136", "RAM 2200").replace("off,off", "5%@1,off"))
    meter = open_tegrastats_meter(MeterContext(tegrastats_path=path))
    first = read_columns(meter)
    assert first["tegra_ram_used_bytes"] == 2136 * MIB
    assert first["tegra_swap_used_bytes"] == 0
    assert first["tegra_cpu0_load_fraction"] == 0.02
    assert first["tegra_cpu1_load_fraction"] is first["tegra_cpu1_clock_hz"] is None
    assert first["tegra_cpu5_clock_hz"] == 345e6
    assert first["tegra_gpu_load_fraction"] == 0.12
    assert first["tegra_emc_load_fraction"] == 0.0
    assert first["tegra_rail_vdd_sys_gpu_power_w"] == 0.152
    assert first["tegra_power_w"] == 2.215
    assert first["tegra_temp_tdiode_celsius"] == 33.75
    second = read_columns(meter)
    assert second["tegra_ram_used_bytes"] == 2200 * MIB
    assert second["tegra_cpu1_load_fraction"] == 0.05
    assert set(read_columns(meter).values()) == {None}
    quantities = {q.column: q for q in meter.quantities}
    assert quantities["tegra_ram_used_bytes"].capacity == 7850 * MIB
    assert quantities["tegra_power_w"].provenance == "derived"
    meter.close()


@pytest.mark.parametrize(
    ("line", "clocks_hz"),
    [
        (STUDY, {}),
        (TX2, {}),
        (NANO, {"tegra_gpu_clock_hz": 76e6, "tegra_emc_clock_hz": 1600e6}),
        (XAVIER_AGX, {"tegra_gpu_clock_hz": 1109e6, "tegra_emc_clock_hz": 2133e6}),
        (ORIN, {"tegra_gpu_clock_hz": 611e6, "tegra_emc_clock_hz": 665e6}),
        (TX2.replace("GR3D_FREQ 12%", "GR3D_FREQ 12%@114"), {"tegra_gpu_clock_hz": 114e6}),
    ],
)
def test_gpu_and_memory_clocks_where_the_line_states_them(tmp_path, line, clocks_hz):
    path = tmp_path / "tegra.log"
    path.write_text(line)
    meter = open_tegrastats_meter(MeterContext(tegrastats_path=path))
    row = read_columns(meter)
    names = ("tegra_gpu_clock_hz", "tegra_emc_clock_hz")
    assert {name: row[name] for name in names if name in row} == clocks_hz
    meter.close()


def test_a_clock_that_a_later_line_leaves_out_is_missing(tmp_path):
    path = tmp_path / "tegra.log"
    path.write_text(NANO + "\n" + NANO.replace("16%@76", "16%"))
    meter = open_tegrastats_meter(MeterContext(tegrastats_path=path))
    assert read_columns(meter)["tegra_gpu_clock_hz"] == 76e6
    second = read_columns(meter)
    assert second["tegra_gpu_clock_hz"] is None
    assert second["tegra_gpu_load_fraction"] == 0.16
    assert second["tegra_emc_clock_hz"] == 1600e6
    meter.close()


def write_program(folder: Path, body: str) -> Path:
    path = folder / "tegrastats"
    path.write_text("#!/bin/sh\n" + body)
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def test_a_program_is_started_once_and_ended(tmp_path):
    line = XAVIER.replace("RAM 2770", "RAM $n")
    body = (
        f'echo $$ $@ > "{tmp_path}/started"\nn=1\n'
        f'while true; do echo "{line}"; n=$((n+1)); sleep 0.02; done\n'
    )
    path = write_program(tmp_path, body)
    meter = open_tegrastats_meter(MeterContext(tegrastats_path=path, interval_s=0.02))
    seen = []
    end_s = time.monotonic() + 20
    while len(seen) < 3 and time.monotonic() < end_s:
        value = read_columns(meter)["tegra_ram_used_bytes"]
        if value is not None:
            seen.append(value)
        time.sleep(0.01)
    assert len(seen) == 3
    assert seen == sorted(set(seen))
    pid, *arguments = (tmp_path / "started").read_text().split()
    assert arguments == ["--interval", "20"]
    meter.close()
    meter.close()
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid), 0)


def test_a_program_that_ends_is_a_meter_error(tmp_path):
    path = write_program(tmp_path, f'echo "{TX2}"\n')
    meter = open_tegrastats_meter(MeterContext(tegrastats_path=path))
    assert read_columns(meter)["tegra_power_w"] == 2.215
    time.sleep(0.1)
    with pytest.raises(MeterError, match="ended"):
        meter.read(0.1)
    meter.close()


@pytest.mark.parametrize("body", ["exit 1\n", "echo hello\n"])
def test_a_program_that_says_nothing_useful_is_absent(tmp_path, body):
    meter = open_tegrastats_meter(MeterContext(tegrastats_path=write_program(tmp_path, body)))
    assert isinstance(meter, AbsentMeter)
    assert meter.reason


def test_absent_without_program_or_file(tmp_path):
    meter = open_tegrastats_meter(MeterContext(tegrastats_path=tmp_path / "none"))
    assert isinstance(meter, AbsentMeter)
    (tmp_path / "empty").write_text("")
    meter = open_tegrastats_meter(MeterContext(tegrastats_path=tmp_path / "empty"))
    assert isinstance(meter, AbsentMeter)
