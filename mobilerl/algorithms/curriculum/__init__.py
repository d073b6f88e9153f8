"""Curricula: which tasks the next epoch samples."""

from mobilerl.algorithms.curriculum.failure import FailureCurriculum
from mobilerl.algorithms.curriculum.instruction_value import InstructionValueCurriculum
from mobilerl.algorithms.curriculum.learnable import LearnableCurriculum

Curriculum = FailureCurriculum | InstructionValueCurriculum | LearnableCurriculum

__all__ = ["Curriculum", "FailureCurriculum", "InstructionValueCurriculum", "LearnableCurriculum"]
