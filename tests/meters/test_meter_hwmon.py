"""Power rails and temperatures in fake hwmon and iio trees."""

from pathlib import Path

import pytest

from trainload.meters.hwmon import open_hwmon_meter, open_hwmon_temperature_meter
from trainload.meters.meter import AbsentMeter, Meter, MeterContext, available_columns


def write_chip(root: Path, number: int, **files: object) -> Path:
    folder = root / f"class/hwmon/hwmon{number}"
    folder.mkdir(parents=True)
    for name, content in files.items():
        (folder / name).write_text(f"{content}\n")
    return folder


def read_columns(meter: Meter) -> dict[str, object]:
    return dict(zip(available_columns(meter), meter.read(0.0), strict=True))


def test_power_volt_ampere_and_energy(tmp_path):
    write_chip(tmp_path, 0, name="amdgpu", power1_average=25_000_000, power1_cap=100_000_000)
    write_chip(
        tmp_path,
        1,
        name="ina3221",
        update_interval=500,
        in1_input=5000,
        curr1_input=800,
        in1_label="VDD_IN",
        in2_input=5000,
        curr2_input=100,
        in2_label="VDD CPU/GPU.CV",
        in3_input=5000,
        curr3_input=1,
        in3_enable=0,
        in7_input=4,
    )
    write_chip(tmp_path, 10, name="acme", energy1_input=7_000_000, energy1_label="Esocket0")
    write_chip(tmp_path, 2, name="ina230", power1_input=1_500_000, power1_label="VDD_IN")
    write_chip(tmp_path, 3, name="nct6775", in1_input=1000, curr1_input=1000)
    meter = open_hwmon_meter(MeterContext(sys_root=tmp_path))
    assert read_columns(meter) == pytest.approx(
        {
            "rail_amdgpu_power1_power_w": 25.0,
            "rail_vdd_in_power_w": 4.0,
            "rail_vdd_cpu_gpu_cv_power_w": 0.5,
            "rail_vdd_in_2_power_w": 1.5,
            "rail_esocket0_energy_j": 7.0,
        }
    )
    quantities = {q.column: q for q in meter.quantities}
    assert quantities["rail_amdgpu_power1_power_w"].capacity == 100.0
    assert quantities["rail_vdd_in_power_w"].provenance == "derived"
    assert quantities["rail_vdd_in_power_w"].refresh_s == 0.5
    assert quantities["rail_esocket0_energy_j"].cumulative
    meter.close()


def test_a_chip_that_does_not_answer_is_missing(tmp_path):
    folder = write_chip(tmp_path, 0, name="ina230", power1_input=1_000_000)
    meter = open_hwmon_meter(MeterContext(sys_root=tmp_path))
    (folder / "power1_input").write_text("")
    assert meter.read(0.0) == [None]
    meter.close()
    meter.close()


def test_the_older_jetson_path(tmp_path):
    folder = tmp_path / "bus/i2c/drivers/ina3221x/0-0040/iio:device0"
    folder.mkdir(parents=True)
    (folder / "in_power0_input").write_text("2405\n")
    (folder / "rail_name_0").write_text("VDD_SYS_GPU\n")
    (folder / "in_power1_input").write_text("100\n")
    meter = open_hwmon_meter(MeterContext(sys_root=tmp_path))
    assert read_columns(meter) == pytest.approx(
        {"rail_vdd_sys_gpu_power_w": 2.405, "rail_iio_device0_power1_power_w": 0.1}
    )
    meter.close()


def test_temperatures_are_read_once_a_second(tmp_path):
    write_chip(
        tmp_path,
        0,
        name="coretemp",
        temp1_input=51_500,
        temp1_label="Package id 0",
        temp2_input=50_000,
    )
    meter = open_hwmon_temperature_meter(MeterContext(sys_root=tmp_path))
    assert meter.period_s == 1.0
    assert read_columns(meter) == pytest.approx(
        {"temp_coretemp_package_id_0_celsius": 51.5, "temp_coretemp_temp2_celsius": 50.0}
    )
    meter.close()


@pytest.mark.parametrize("opener", [open_hwmon_meter, open_hwmon_temperature_meter])
def test_absent(tmp_path, opener):
    meter = opener(MeterContext(sys_root=tmp_path))
    assert isinstance(meter, AbsentMeter)
    assert "hwmon" in meter.reason
