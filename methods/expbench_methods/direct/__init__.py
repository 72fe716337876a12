"""Zero-shot answers of the untouched backbone: the floor that every method starts from."""

from expbench_methods.direct.method import Direct

METHOD = Direct
