"""How the devices of a fleet are divided among rollout workers, and that no other run loses its own."""

from __future__ import annotations

import pytest
from docker_stand_in import IMAGE, served
from hypothesis import given
from hypothesis import strategies as st

from mobilerl.cli import main
from mobilerl.config import Recipe
from mobilerl.envs.docker_avd import DETACHED, LABEL
from mobilerl.envs.docker_avd.engine import OWNER, PLACE
from mobilerl.envs.docker_avd.owner import this_process
from mobilerl.envs.pool import DevicePool
from mobilerl.suites.fleet import Part, container_settings, make_devices
from mobilerl.suites.phone.evaluation import SimPlan
from mobilerl.suites.phone.training import make_phones


@given(things=st.integers(0, 40), of=st.integers(1, 9))
def test_parts_hold_everything_once_and_differ_by_one_at_most(things, of):
    parts = [Part(i, of).among(range(7, 7 + things)) for i in range(of)]
    assert [n for part in parts for n in part] == list(range(7, 7 + things))
    assert max(map(len, parts)) - min(map(len, parts)) <= 1


def pools(recipe: Recipe, workers: int) -> list[DevicePool]:
    return [make_devices(recipe, part=Part(i, workers)) for i in range(workers)]


def on_serials(devices: int, spares: int, serials: int) -> Recipe:
    names = [f"emulator-{5554 + 2 * i}" for i in range(serials)]
    return Recipe(fleet={"count": devices, "type": "adb", "serials": names, "spares": spares})


@pytest.mark.parametrize("spares", [0, 1, 2, 5])
def test_two_workers_never_share_a_phone(spares):
    shared = pools(on_serials(4, spares, 7), 2)
    serials = [serial for pool in shared for serial in pool.provider.serials]
    assert len(set(serials)) == len(serials) == 4 + min(spares, 3)
    assert [pool.settings.leases for pool in shared] == [2, 2]


def test_two_workers_number_their_containers_differently_and_divide_the_spares():
    recipe = Recipe(fleet={"count": 6, "type": "docker", "spares": 3})
    shared = pools(recipe, 2)
    assert [list(pool.provider.numbers) for pool in shared] == [[0, 1, 2, 6], [3, 4, 5, 7, 8]]
    assert [pool.settings.spares for pool in shared] == [1, 2]


def test_the_screen_of_the_recipe_is_that_of_its_phones_containers_and_results():
    recipe = Recipe(phone={"width": 600, "height": 960}, fleet={"count": 1, "type": "docker"})
    (phone,) = make_phones(recipe.phone, 1)
    assert phone._transport.shell(("wm", "size")).stdout == "Physical size: 600x960\n"
    assert container_settings(recipe).command == ("--width", "600", "--height", "960")
    assert SimPlan().protocol(recipe)["screen"] == "600x960"


def test_fleet_up_takes_no_devices_of_a_run(capfd):
    pytest.importorskip("docker.errors")
    pytest.importorskip("adbutils")
    owners = {"run": this_process(), "kept": DETACHED}
    there = {name: {LABEL: "fleet", OWNER: of, PLACE: str(i)} for i, (name, of) in enumerate(owners.items())}
    flags = f"--fleet.name=fleet --fleet.image={IMAGE} --fleet.count=3".split()
    with served(there) as engine:
        engine.may_start.set()
        assert main(["fleet", "up", *flags, f'--fleet.hosts=["{engine.host}"]']) == 2
        assert engine.containers == there
    out, err = capfd.readouterr()
    assert not out and err.count("\n") == 1 and "containers of a run" in err
