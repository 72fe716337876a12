"""The graders by kind, imported on first use, so that listing tasks loads no grader's libraries."""

from expbench.core import Output, Sample, Score


def grade_math(sample: Sample, output: Output) -> Score:
    """Grade a value or a LaTeX answer."""
    from expbench.graders.math import grade_math as grade

    return grade(sample, output)


def grade_choice(sample: Sample, output: Output) -> Score:
    """Grade a label."""
    from expbench.graders.choice import grade_choice as grade

    return grade(sample, output)


def grade_chem(sample: Sample, output: Output) -> Score:
    """Grade a Yes or No."""
    from expbench.graders.chem import grade_chem as grade

    return grade(sample, output)


def grade_code(sample: Sample, output: Output) -> Score:
    """Run the tests in the sandbox."""
    from expbench.graders.code import grade_code as grade

    return grade(sample, output)


def grade_ranking(sample: Sample, output: Output) -> Score:
    """Grade a ranking by NDCG@10."""
    from expbench.graders.ranking import grade_ranking as grade

    return grade(sample, output)
