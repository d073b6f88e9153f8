"""Which tasks the next epoch is collected from."""

from mobilerl.algorithms.curriculum.failure import FailureCurriculum
from mobilerl.algorithms.curriculum.instruction_value import InstructionValueCurriculum

__all__ = ["FailureCurriculum", "InstructionValueCurriculum"]
