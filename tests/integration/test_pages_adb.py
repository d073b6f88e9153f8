"""The page graph of an app explored through a real adb server equals the one explored in-process."""

from __future__ import annotations

from envs.device import Device
from envs.phone.apps.catalogue import APPS
from envs.phone.env import APP_NAMES
from envs.phone.phone import Phone
from envs.phone.transport import InProcessTransport
from sft.pages.explore import Explorer
from sft.pages.graph import PageGraph
from sft.pages.limits import Limits
from sft.pages.states import Replay

SEED = 1


def explored(device: Device) -> PageGraph:
    states = Replay(device, APP_NAMES, lambda: device.look("sim", "reset", "--seed", str(SEED)))
    explorer = Explorer(device, states, APP_NAMES, limits=Limits(actions=40), seed=SEED)
    explorer.breadth_first("Notes")
    assert not explorer.report.faults
    return explorer.finish()


def test_the_graph_over_adb_is_the_one_in_process(adb, phones) -> None:
    phone = phones()
    transport = adb.transport(phone.serial)
    transport.connect()
    graph = explored(Device(transport, APP_NAMES))
    assert len(graph.pages) > 5
    assert graph == explored(Device(InProcessTransport(Phone(APPS)), APP_NAMES))
