"""Core clocks from fake cpufreq and cpuinfo files."""

from trainload.meters.host_clock import open_host_clock_meter
from trainload.meters.meter import AbsentMeter, MeterContext


def test_cpufreq(tmp_path):
    for core, khz in ((0, 2_100_000), (10, 800_000), (2, 900_000)):
        folder = tmp_path / f"devices/system/cpu/cpu{core}/cpufreq"
        folder.mkdir(parents=True)
        (folder / "scaling_cur_freq").write_text(f"{khz}\n")
        (folder / "cpuinfo_max_freq").write_text("3000000\n")
    meter = open_host_clock_meter(MeterContext(sys_root=tmp_path, proc_root=tmp_path))
    assert [q.column for q in meter.quantities] == [f"host_cpu{i}_clock_hz" for i in (0, 2, 10)]
    assert meter.quantities[0].capacity == 3e9
    assert meter.period_s == 1.0
    assert meter.read(0.0) == [2_100_000_000, 900_000_000, 800_000_000]
    (tmp_path / "devices/system/cpu/cpu2/cpufreq/scaling_cur_freq").write_text("<unknown>\n")
    assert meter.read(1.0) == [2_100_000_000, None, 800_000_000]
    meter.close()


def test_cpuinfo_is_the_second_choice(tmp_path):
    text = "processor\t: 0\ncpu MHz\t\t: 2596.128\n\nprocessor\t: 1\ncpu MHz\t\t: 1000.000\n"
    (tmp_path / "cpuinfo").write_text(text)
    meter = open_host_clock_meter(MeterContext(sys_root=tmp_path, proc_root=tmp_path))
    assert meter.read(0.0) == [2_596_128_000.0, 1e9]
    assert meter.quantities[0].provenance == "derived"
    assert "hypervisor" in (meter.quantities[0].reason or "")
    meter.close()


def test_cpuinfo_longer_than_one_piece(tmp_path):
    core = "processor\t: {}\nflags\t\t: " + "avx " * 500 + "\ncpu MHz\t\t: 1000.000\n\n"
    (tmp_path / "cpuinfo").write_text("".join(core.format(i) for i in range(64)))
    meter = open_host_clock_meter(MeterContext(sys_root=tmp_path, proc_root=tmp_path))
    assert meter.read(0.0) == [1e9] * 64
    meter.close()


def test_absent_without_a_clock(tmp_path):
    context = MeterContext(sys_root=tmp_path, proc_root=tmp_path)
    assert isinstance(open_host_clock_meter(context), AbsentMeter)
    (tmp_path / "cpuinfo").write_text("processor : 0\nBogoMIPS : 50.00\n")
    assert isinstance(open_host_clock_meter(context), AbsentMeter)


def test_this_machine():
    meter = open_host_clock_meter(MeterContext())
    assert all(value > 1e6 for value in meter.read(0.0))
    meter.close()
