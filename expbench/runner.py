"""One run: collect pool -> fit -> answer -> grade -> record, and resume at any point.

Test questions are answered in fixed chunks in a fixed order. A chunk that a kill left incomplete is
answered again as a whole and only its missing samples are kept, so that a resumed run has the
records of an undisturbed one even where the batch's composition moves the last bit of a float.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from expbench import sandbox
from expbench.core import Method, Model, Output, Record, RunSpec, Sample, Score, Task
from expbench.courses import Course, Lesson, Progress, Study, describe, prepare
from expbench.errors import PluginError, RecordError
from expbench.fitting import learn, pool_cost, training_account
from expbench.grading import grade_all
from expbench.provenance import now, provenance
from expbench.records import RunFolder, spec_values
from expbench.registry import MethodInfo
from expbench.suites import TaskData

CHUNK = 64
"""Questions handed to a method at once: memory follows the chunk, not the test set."""


@dataclass(frozen=True, kw_only=True)
class Job:
    """One method on one task with one seed."""

    task: Task
    method: MethodInfo
    config: Any
    """An instance of the method's Config."""
    seed: int
    data: TaskData
    preset: str
    limits: Mapping[str, int]
    """`train`, `test`, `pool`: samples at most, 0 for all."""
    out: Path
    lessons: tuple[Lesson, ...] = ()
    """The tasks that it learns from; empty for this task alone."""
    checkpoint: Path | None = None
    """A checkpoint to answer with instead of learning."""

    @property
    def course(self) -> Course:
        """What is learnt for this job."""
        return Course(
            method=self.method,
            config=self.config,
            seed=self.seed,
            lessons=self.lessons or (Lesson(task=self.task, data=self.data),),
            limits=self.limits,
            out=self.out,
            checkpoint=self.checkpoint,
        )


@dataclass(kw_only=True)
class Phases:
    """Seconds by phase of one session; generation time is in the records."""

    seconds: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def timed(self, name: str) -> Iterator[None]:
        """Add the block's wall time to a phase."""
        start = time.perf_counter()
        try:
            yield
        finally:
            spent = time.perf_counter() - start
            self.seconds[name] = self.seconds.get(name, 0.0) + spent


def execute(
    job: Job, model: Callable[[], Model], progress: Progress, *, force: bool = False
) -> RunFolder:
    """Run a job to the end, or go on where an earlier process stopped.

    Args:
        job: What to run.
        model: Gives the backbone, loading it at the first call.
        progress: Told about stages and samples.
        force: Set an existing run aside and compute it afresh.

    Returns:
        The complete run folder.

    Raises:
        ExpBenchError: a leak, a broken method, an unusable folder. Finished samples are kept.
    """
    study, backbone, phases = _study(job, model, progress)
    spec = _spec(job, backbone, study)
    folder = RunFolder(job.out, spec.run_id)
    if force:
        with folder.lock():
            folder.set_aside()
    if not folder.is_complete():
        if folder.is_locked():
            progress.stage(_label(job, "waiting for another process that computes this run"), 0)
        with folder.lock(wait_s=-1):
            if not folder.is_complete():
                _resume(job, spec, folder, backbone, study, phases, progress)
    return folder


def _label(job: Job, verb: str) -> str:
    return f"{job.task.name} / {job.method.name} / seed {job.seed}: {verb}"


def _study(
    job: Job, model: Callable[[], Model], progress: Progress
) -> tuple[Study, Model | None, Phases]:
    """Collect what the job's method learns from; no test sample of the job may be in it."""
    course, phases = job.course, Phases()
    if job.checkpoint is None:
        for lesson in course.lessons:
            course.refuse_leaks(lesson.data.train, where="train split")
    backbone = model() if job.method.uses_model else None
    with phases.timed("collect") if job.method.uses_experience else nullcontext():
        study = prepare(course, backbone, progress)
    if job.checkpoint is not None and study.checkpoint is not None:
        study.checkpoint.refuse_seen(job.data.test)
    return study, backbone, phases


def _spec(job: Job, backbone: Model | None, study: Study) -> RunSpec:
    isolation = "none"
    if job.task.kind == "code":
        isolation = "unsafe" if sandbox.is_unsafe() else "bubblewrap"
    pool = study.pools.get(job.task.name) if not study.training else None
    return RunSpec(
        task=job.task.name,
        task_version=job.task.version,
        method=job.method.name,
        method_version=job.method.version,
        method_config=asdict(job.config),
        backbone=describe(backbone) if backbone else {},
        preset=job.preset,
        suite=job.data.suite,
        seed=job.seed,
        limits={**job.limits, "max_tokens": job.task.max_tokens, "chunk": CHUNK},
        data=job.data.spec(),
        pool=pool.checksum if pool else None,
        sandbox=isolation,
        training=study.training,
    )


def _resume(
    job: Job,
    spec: RunSpec,
    folder: RunFolder,
    backbone: Model | None,
    study: Study,
    phases: Phases,
    progress: Progress,
) -> None:
    removed = folder.prepare(spec)
    info = folder.info or _new_info(job, spec)
    session: dict[str, Any] = {"started": now(), "repaired_lines": removed}
    info["sessions"].append(session)
    if study.pools and study.checkpoint is None:
        info["pool"] = pool_cost(study.pools[job.task.name])

    def save(status: str) -> None:
        session.update(ended=now(), seconds=dict(phases.seconds))
        info["status"] = status
        folder.write_info(info)

    save("running")
    method = _method(job, backbone, study, phases, progress, info)
    save("running")
    progress.stage(_label(job, "answering"), len(job.data.test))
    recorded = {record.sample_id for record in folder.records()}
    for start in range(0, len(job.data.test), CHUNK):
        chunk = job.data.test[start : start + CHUNK]
        if any(sample.id not in recorded for sample in chunk):
            _chunk(job, folder, method, chunk, recorded, phases)
            save("running")
        progress.advance(len(chunk))
    save("complete")


def _new_info(job: Job, spec: RunSpec) -> dict[str, Any]:
    """Begin a `run.json` that a report can be made from without the task's code."""
    task = job.task
    return {
        "status": "running",
        "spec": spec_values(spec),
        "task": {
            "title": task.title,
            "scenario": task.scenario,
            "group": task.group,
            "kind": task.kind,
            "metric": task.metric,
            "macro_over": task.macro_over,
            "graded_version": task.version,
        },
        "method": {"reference": job.method.reference, "origin": job.method.origin},
        "samples": len(job.data.test),
        "provenance": provenance(),
        "notes": [],
        "sessions": [],
    }


def _method(
    job: Job,
    backbone: Model | None,
    study: Study,
    phases: Phases,
    progress: Progress,
    info: dict[str, Any],
) -> Method:
    """Give the method as it answers, and write into `run.json` what it learnt from."""
    notes = [*job.data.notes]
    if study.checkpoint is None:
        with phases.timed("fit"):
            method = learn(job.course, backbone, study, progress)
    else:
        # Training is accounted for in the checkpoint, once for all runs that share it.
        method = learn(job.course, backbone, study, progress)
        info["training"] = training_account(study.checkpoint)
        notes += study.checkpoint.info["notes"]
    info["notes"] = list(dict.fromkeys([*notes, *getattr(method, "notes", ())]))
    if hasattr(method, "refuse_leaks"):
        method.refuse_leaks([sample.question() for sample in job.data.test])
    return method


def _chunk(
    job: Job,
    folder: RunFolder,
    method: Method,
    samples: Sequence[Sample],
    recorded: set[str],
    phases: Phases,
) -> None:
    """Answer and grade what is missing of one chunk."""
    missing = [s for s in samples if s.id not in recorded]
    answers = folder.answers()
    if any(s.id not in answers for s in missing):
        with phases.timed("answer"):
            fresh = _answer(job, method, samples)
        fresh = {s.id: fresh[s.id] for s in missing if s.id not in answers}
        folder.append_answers(fresh)
        answers |= fresh
    with phases.timed("grade"):
        results = grade_all(job.task.grade, [(s, answers[s.id][0]) for s in missing])
    folder.append_records(
        _record(folder.run_id, job.task, sample, *answers[sample.id], result)
        for sample, result in zip(missing, results, strict=True)
    )
    folder.drop_answers()


def _answer(job: Job, method: Method, samples: Sequence[Sample]) -> dict[str, tuple[Output, float]]:
    """Ask the method, which gets questions only.

    Raises:
        PluginError: anything but exactly one output a question.
    """
    start = time.perf_counter()
    outputs = method.answer([sample.question() for sample in samples])
    seconds = (time.perf_counter() - start) / len(samples)
    if len(outputs) != len(samples):
        raise PluginError(
            f"Method {job.method.name!r} gave {len(outputs)} outputs for {len(samples)} questions "
            f"of {job.task.name}; `answer` must give exactly one each, in order."
        )
    for output in outputs:
        if not isinstance(output, Output):
            raise PluginError(
                f"Method {job.method.name!r} answered {output!r}; `answer` must give Outputs."
            )
    return {s.id: (o, seconds) for s, o in zip(samples, outputs, strict=True)}


def _record(
    run_id: str, task: Task, sample: Sample, output: Output, seconds: float, result: Score | str
) -> Record:
    return Record(
        run_id=run_id,
        sample_id=sample.id,
        output=output,
        score=result if isinstance(result, Score) else None,
        error=None if isinstance(result, Score) else result,
        seconds=seconds,
        target="" if task.kind == "code" else sample.target[0],
        tags=sample.tags,
    )


@dataclass(frozen=True, kw_only=True)
class Regrade:
    """What a second grading changed."""

    run_id: str
    samples: int
    changed: tuple[str, ...]
    """Ids of samples whose score or error is another now."""
    errors: int
    """Errors that are left."""


def regrade(folder: RunFolder, task: Task, data: TaskData) -> Regrade:
    """Grade a run's stored outputs again, without any model.

    Raises:
        RecordError: the run is unfinished or in use, or the data is not what it was answered on.
    """
    info = folder.info
    if info["spec"]["data"]["checksums"]["test"] != data.checksums["test"]:
        raise RecordError(
            f"Run {folder.run_id} was answered on other test samples of {task.name}; "
            "give the suite or --data-dir that it was made with."
        )
    samples = {sample.id: sample for sample in data.test}
    with folder.lock():
        old = list(folder.records())
        if len(old) != len(samples):
            raise RecordError(f"Run {folder.run_id} is unfinished; run its command again first.")
        pairs = [(samples[record.sample_id], record.output) for record in old]
        results = grade_all(task.grade, pairs)
        new = [
            _record(folder.run_id, task, sample, record.output, record.seconds, result)
            for record, (sample, _), result in zip(old, pairs, results, strict=True)
        ]
        changed = tuple(
            b.sample_id for a, b in zip(old, new, strict=True) if _grade(a) != _grade(b)
        )
        folder.replace_records(new)
        info["task"]["graded_version"] = task.version
        info.setdefault("regraded", []).append({"at": now(), "changed": list(changed)})
        folder.write_info(info)
    return Regrade(
        run_id=folder.run_id,
        samples=len(new),
        changed=changed,
        errors=sum(record.error is not None for record in new),
    )


def _grade(record: Record) -> tuple[Any, ...]:
    score = record.score
    return (score.value, score.answer, score.metrics) if score else (record.error,)
