"""Prompt and response formats: mobilerl's own and those of published models."""

from __future__ import annotations

from mobilerl.config import FormatName
from mobilerl.policy.formats.autoglm import AutoGLM
from mobilerl.policy.formats.base import Format
from mobilerl.policy.formats.glm import GLM, GLM45
from mobilerl.policy.formats.gui_owl import GUIOwl, GUIOwl15
from mobilerl.policy.formats.mai_ui import MAIUI
from mobilerl.policy.formats.mobilerl import MobileRLFormat
from mobilerl.policy.formats.mobilerl_9b import MobileRL9B
from mobilerl.policy.formats.qwen import Qwen3, Qwen25
from mobilerl.policy.formats.ui_tars import UITars, UITars15
from mobilerl.policy.formats.ui_venus import UIVenus, UIVenus15

FORMATS: dict[FormatName, Format] = {
    "mobilerl": MobileRLFormat(),
    "mobilerl-9b": MobileRL9B(),
    "qwen2.5-vl": Qwen25(),
    "qwen3-vl": Qwen3(),
    "ui-tars": UITars(),
    "ui-tars-1.5": UITars15(),
    "autoglm": AutoGLM(),
    "glm-v": GLM(),
    "glm-4.5v": GLM45(),
    "gui-owl": GUIOwl(),
    "gui-owl-1.5": GUIOwl15(),
    "mai-ui": MAIUI(),
    "ui-venus": UIVenus(),
    "ui-venus-1.5": UIVenus15(),
}
