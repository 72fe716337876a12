"""k successful train attempts of the same task, put before the question as earlier turns.

Departs from the usual few-shot prompt: the demonstrations are the backbone's own graded attempts
from the shared experience pool, not reference solutions, so that the method learns from experience
and from nothing else.
"""

from expbench_methods.few_shot.method import FewShot

METHOD = FewShot
