"""`dumpsys input`, `display`, `power` and `SurfaceFlinger`: the screen and whether it is lit."""

from __future__ import annotations

from envs.phone.phone import Phone

DISPLAY_ID = "4619827259835644672"


def input(phone: Phone, words: list[str]) -> str:
    width, height = phone.display.size(0)
    frame = f"logicalFrame=[0, 0, {phone.width}, {phone.height}], physicalFrame=[0, 0, {phone.width}, {phone.height}]"
    return (
        f"INPUT MANAGER (dumpsys input)\nInput Reader State:\n  Device 1: virtio_input_multi_touch_1\n"
        f"    Touch Input Mapper (mode - DIRECT):\n      Parameters:\n        OrientationAware: true\n"
        f"      Viewport INTERNAL: displayId=0, uniqueId=local:{DISPLAY_ID}, port=0, "
        f"orientation={phone.rotation}, {frame}, deviceSize=[{width}, {height}], isActive=[1]\n"
        f"      PhysicalWidth: {width}px\n      PhysicalHeight: {height}px\n"
        f"      InputDeviceOrientation: {phone.rotation}\n      SurfaceOrientation: {phone.rotation}\n"
    )


def display(phone: Phone, words: list[str]) -> str:
    frame = f"Rect(0, 0 - {phone.width}, {phone.height})"
    width, height = phone.display.size(0)
    state = "ON" if phone.awake else "OFF"
    return (
        f"DISPLAY MANAGER (dumpsys display)\n  mViewports=[DisplayViewport{{type=INTERNAL, valid=true, "
        f"isActive=true, displayId=0, uniqueId='local:{DISPLAY_ID}', physicalPort=0, "
        f"orientation={phone.rotation}, logicalFrame={frame}, physicalFrame={frame}, deviceWidth={width}, "
        f"deviceHeight={height}}}]\n  mScreenState={state}\n  Display State={state}\n"
    )


def surface_flinger(phone: Phone, words: list[str]) -> str:
    if words != ["--display-id"]:
        return "SurfaceFlinger: nothing to show\n"
    return f'Display {DISPLAY_ID} (HWC display 0): port=0 pnpId=GGL displayName="EMU_display_0"\n'


def power(phone: Phone, words: list[str]) -> str:
    awake = str(phone.awake).lower()
    return (
        f"POWER MANAGER (dumpsys power)\n\nPower Manager State:\n"
        f"  mWakefulness={'Awake' if phone.awake else 'Asleep'}\n  mIsPowered=true\n  mPlugType=2\n"
        f"  mBatteryLevel=85\n  mHoldingWakeLockSuspendBlocker={awake}\n  mHoldingDisplaySuspendBlocker={awake}\n\n"
        f"Display Power: state={'ON' if phone.awake else 'OFF'}\n"
    )
