"""Advice of study R as data, and what a machine's own figures say of each: pure, runs nothing.

A rule is a line of facts: what it says and where, what it predicts, how that can be measured, and
how it is decided. `derived` computes what no program measures by itself, `judge` gives verdicts.
"""

from trainload.analyse.rules.derived import derive
from trainload.analyse.rules.judge import Checked, JudgedRule, RuleVerdict, judge_rules
from trainload.analyse.rules.statements import STUDY, Check, Rule, RuleFile, load_rules

__all__ = [
    "STUDY",
    "Check",
    "Checked",
    "JudgedRule",
    "Rule",
    "RuleFile",
    "RuleVerdict",
    "derive",
    "judge_rules",
    "load_rules",
]
