"""Devices for a collector: a fixed set, or a pool with leases, health checks, quarantine and hot spares."""

from mobilerl.envs.pool.fixed import FixedDevices
from mobilerl.envs.pool.place import PooledDevice, Provider, State
from mobilerl.envs.pool.pool import DevicePool, PoolSettings

__all__ = ["DevicePool", "FixedDevices", "PoolSettings", "PooledDevice", "Provider", "State"]
