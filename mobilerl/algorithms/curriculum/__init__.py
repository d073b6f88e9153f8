"""Curricula: which tasks the next epoch samples."""

from mobilerl.algorithms.curriculum.failure import FailureCurriculum
from mobilerl.algorithms.curriculum.instruction_value import InstructionValueCurriculum

__all__ = ["FailureCurriculum", "InstructionValueCurriculum"]
