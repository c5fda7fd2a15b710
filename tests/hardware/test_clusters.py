"""Words for cores: shares on any machine, clusters by name on boards that have them."""

import pytest

from trainload.errors import SettingError
from trainload.hardware import read_machine, resolve_setting
from trainload.hardware.clusters import read_clusters

TX2 = {0: 0x411FD073, 1: 0x4E0F0030, 2: 0x4E0F0030, 3: 0x411FD073, 4: 0x411FD073, 5: 0x411FD073}
"""The Jetson TX2's cores: Denver2 are cores 1 and 2."""


def board(root, *, midr=None, capacity=None):
    folder = root / "devices" / "system" / "cpu"
    for core in {**(midr or {}), **(capacity or {})}:
        (folder / f"cpu{core}" / "regs" / "identification").mkdir(parents=True)
        if midr is not None:
            register = folder / f"cpu{core}" / "regs" / "identification" / "midr_el1"
            register.write_text(f"0x{midr[core]:016x}\n")
        if capacity is not None:
            (folder / f"cpu{core}" / "cpu_capacity").write_text(f"{capacity[core]}\n")
    (folder / "cpufreq").mkdir()
    return root


def test_clusters_of_a_board_have_names(tmp_path):
    found = read_clusters(board(tmp_path, midr=TX2))
    assert found == {"a57": (0, 3, 4, 5), "denver2": (1, 2)}


def test_big_and_little_are_as_the_kernel_rates_them(tmp_path):
    found = read_clusters(board(tmp_path, capacity={0: 400, 1: 400, 2: 1024, 3: 1024}))
    assert found == {"little": (0, 1), "big": (2, 3)}


def test_cores_that_are_all_alike_have_no_clusters(tmp_path):
    assert read_clusters(board(tmp_path, capacity={0: 1024, 1: 1024})) == {}
    assert read_clusters(tmp_path / "nothing") == {}


def test_words_mean_cores(tmp_path):
    machine = read_machine()
    cores = machine.allowed_cores
    assert resolve_setting("all", None, machine).cores == cores
    assert resolve_setting("one", None, machine).cores == cores[:1]
    assert resolve_setting("half", 3, machine).cores == cores[: max(1, len(cores) // 2)]
    root = board(tmp_path, capacity={cores[0]: 1024, 4001: 200})
    assert resolve_setting("big", None, machine, root).cores == cores[:1]
    with pytest.raises(SettingError, match="core 4001 is not available"):
        resolve_setting("little", None, machine, root)
    with pytest.raises(SettingError, match=r"no cores are called 'denver2' here; known: all, half"):
        resolve_setting("denver2+gpu0", None, machine, tmp_path)
