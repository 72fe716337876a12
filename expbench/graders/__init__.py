"""Graders, one module a kind of answer: each takes a sample and an output and gives a `Score`.

They are pure and know no task, no method and no file. A wrong or unreadable reply scores 0; a
grader that could not decide raises `GradingError`, which is never a zero.
"""
