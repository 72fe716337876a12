"""The command line. Verbs parse and print; the work is done by the modules they import.

Heavy modules are imported inside the verbs, so that `--help` needs none of them.
"""

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from expbench.errors import ConfigError, ExpBenchError

app = typer.Typer(
    help="Does learning from experience help a language model: on which tasks, at what cost?",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
data_app = typer.Typer(
    help="Where the data of each task is, and fetching it.", no_args_is_help=True
)
app.add_typer(data_app, name="data")

RUNS = Path("results/runs")

Json = Annotated[bool, typer.Option("--json", help="Print JSON for machines to standard output.")]
Out = Annotated[Path, typer.Option("--out", help="Folder of the run folders.")]
Suite = Annotated[
    str | None, typer.Option("--suite", help="mini (bundled) or full (official data).")
]
DataDir = Annotated[
    Path | None,
    typer.Option("--data-dir", help="Folder with DIR/<task>/<split>.jsonl in the Hub's fields."),
]
TaskArgument = Annotated[str, typer.Option("--task", "-t", help="all, a scenario, or names: a,b.")]
Unsafe = Annotated[
    bool,
    typer.Option(
        "--unsafe-code", help="Run model-written code WITHOUT isolation; recorded in the run."
    ),
]


def main() -> None:
    """Run the command line; a user's mistake prints its message and exits with 2."""
    try:
        app()
    except ExpBenchError as error:
        print(f"Error: {error}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        print("Interrupted. The same command goes on where it stopped.", file=sys.stderr)
        sys.exit(130)
    except BrokenPipeError:
        # The reader went away (`expbench tasks | head`): nothing is left to say, to anybody.
        sys.stderr.close()
        sys.exit(141)


def _print_json(value: Any) -> None:
    import json

    print(json.dumps(value, ensure_ascii=False, allow_nan=False, indent=1))


def _version(value: bool) -> None:
    if value:
        import expbench

        print(f"expbench {expbench.__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    pass


Methods = Annotated[str, typer.Option("--method", "-m", help="Names joined by commas, or all.")]
PresetName = Annotated[str, typer.Option("--preset", help="smoke, laptop or paper.")]
ModelName = Annotated[
    str | None, typer.Option("--model", help="Backbone: Hub name, local folder, fake or tiny.")
]
Seeds = Annotated[str | None, typer.Option("--seed", help="Seeds joined by commas.")]
Settings = Annotated[
    list[str] | None,
    typer.Option("--set", help="A method's setting, key=value or METHOD.key=value."),
]
TrainLimit = Annotated[
    int | None,
    typer.Option("--train-limit", min=0, help="Train samples a task at most; 0 for all."),
]
TestLimit = Annotated[
    int | None, typer.Option("--test-limit", min=0, help="Test samples a task at most; 0 for all.")
]
PoolLimit = Annotated[
    int | None,
    typer.Option("--pool-limit", min=0, help="Train samples a task tried for the pool; 0 for all."),
]
Device = Annotated[str, typer.Option("--device", help="auto, cpu, cuda, cuda:1, ...")]
ForceRuns = Annotated[
    bool,
    typer.Option(
        "--force", help="Set finished runs aside and compute them again; checkpoints stay."
    ),
]
Dtype = Annotated[
    str | None,
    typer.Option(
        "--dtype", help="auto, float32, bfloat16, float16; default: the preset's for its model."
    ),
]


def _request(values: dict[str, Any]) -> Any:
    """Build what `run`, `train` and `ablate` share from a verb's own parameters."""
    from expbench.commands.run import Request

    return Request(
        **{
            name: values[name]
            for name in (
                "method", "task", "preset", "model", "suite", "data_dir", "device", "dtype", "out",
                "force", "unsafe_code",
            )
        },
        seeds=_seeds(values["seed"]),
        settings=tuple(values["settings"] or ()),
        limits={name: values[f"{name}_limit"] for name in ("train", "test", "pool")},
        as_json=values["json"],
        checkpoint=values.get("checkpoint"),
    )  # fmt: skip


@app.command()
def run(
    method: Methods,
    task: TaskArgument,
    preset: PresetName = "laptop",
    model: ModelName = None,
    suite: Suite = None,
    data_dir: DataDir = None,
    seed: Seeds = None,
    settings: Settings = None,
    checkpoint: Annotated[
        Path | None,
        typer.Option("--checkpoint", help="Answer with this checkpoint instead of learning."),
    ] = None,
    train_limit: TrainLimit = None,
    test_limit: TestLimit = None,
    pool_limit: PoolLimit = None,
    device: Device = "auto",
    dtype: Dtype = None,
    out: Out = RUNS,
    force: ForceRuns = False,
    unsafe_code: Unsafe = False,
    json: Json = False,
) -> None:
    """Run methods on tasks, resume what was interrupted, and print the leaderboard."""
    values = locals()
    from expbench.commands.run import run_jobs

    run_jobs(_request(values))


@app.command()
def train(
    method: Methods,
    task: TaskArgument,
    preset: PresetName = "laptop",
    model: ModelName = None,
    suite: Suite = None,
    data_dir: DataDir = None,
    seed: Seeds = None,
    settings: Settings = None,
    train_limit: TrainLimit = None,
    test_limit: TestLimit = None,
    pool_limit: PoolLimit = None,
    device: Device = "auto",
    dtype: Dtype = None,
    out: Out = RUNS,
    force: Annotated[
        bool, typer.Option("--force", help="Set finished checkpoints aside and train again.")
    ] = False,
    unsafe_code: Unsafe = False,
    json: Json = False,
) -> None:
    """Collect experience and train, without answering; say where the checkpoint is."""
    values = locals()
    from expbench.commands.train import train_methods

    train_methods(_request(values))


@app.command()
def ablate(
    method: Annotated[str, typer.Option("--method", "-m", help="One method that has ABLATIONS.")],
    task: TaskArgument = "all",
    set_name: Annotated[
        str | None, typer.Option("--set-name", help="Which set of rows; default: its first.")
    ] = None,
    preset: PresetName = "laptop",
    model: ModelName = None,
    suite: Suite = None,
    data_dir: DataDir = None,
    seed: Seeds = None,
    settings: Settings = None,
    train_limit: TrainLimit = None,
    test_limit: TestLimit = None,
    pool_limit: PoolLimit = None,
    device: Device = "auto",
    dtype: Dtype = None,
    out: Out = RUNS,
    force: ForceRuns = False,
    unsafe_code: Unsafe = False,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print Markdown.")] = False,
    json: Json = False,
) -> None:
    """Run every row of a set with and without its bank, and print the gain of each."""
    values = locals()
    from expbench.commands.ablate import ablate_method

    ablate_method(_request(values), set_name=set_name, as_markdown=markdown)


def _seeds(text: str | None) -> tuple[int, ...] | None:
    if text is None:
        return None
    try:
        seeds = tuple(dict.fromkeys(int(word) for word in text.split(",")))
    except ValueError:
        raise ConfigError(f"--seed is {text!r}; give whole numbers joined by commas.") from None
    if min(seeds) < 0:
        raise ConfigError(f"--seed is {text!r}; a seed must be 0 or more.")
    return seeds


@app.command()
def report(
    paths: Annotated[
        list[Path] | None, typer.Argument(help="Folders of runs; default results/runs.")
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write Markdown (.md) or JSON (.json).")
    ] = None,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print Markdown.")] = False,
    json: Json = False,
) -> None:
    """Make the accuracy and cost tables from run folders."""
    from expbench.commands.report import make_report

    make_report(paths or [RUNS], output=output, as_markdown=markdown, as_json=json)


@app.command()
def show(
    run_id: Annotated[
        str, typer.Argument(metavar="RUN", help="A run's folder or start of its id.")
    ],
    wrong: Annotated[
        bool, typer.Option("--wrong", help="Only samples that scored below 1.")
    ] = False,
    sample: Annotated[str | None, typer.Option(help="Only the sample with this id.")] = None,
    limit: Annotated[
        int | None,
        typer.Option(min=0, help="Samples at most; 0 for all. Default 10, with --html all."),
    ] = None,
    trace: Annotated[
        bool, typer.Option("--trace", help="Which experiences touched which token.")
    ] = False,
    html: Annotated[
        Path | None, typer.Option("--html", help="Write the trace as one page to this file.")
    ] = None,
    data_dir: DataDir = None,
    out: Out = RUNS,
    json: Json = False,
) -> None:
    """Show questions, outputs and grades of a run, or its traces."""
    from expbench.commands.show import Request, show_run

    show_run(
        Request(
            run=run_id,
            root=out,
            wrong=wrong,
            sample=sample,
            limit=limit,
            data_dir=data_dir,
            trace=trace,
            html=html,
            as_json=json,
        )
    )


@app.command()
def regrade(
    runs: Annotated[
        list[str] | None, typer.Argument(metavar="[RUN]...", help="Default: all.")
    ] = None,
    data_dir: DataDir = None,
    out: Out = RUNS,
    unsafe_code: Unsafe = False,
    json: Json = False,
) -> None:
    """Grade stored outputs again, without any model."""
    from expbench.commands.regrade import regrade_runs

    regrade_runs(runs, root=out, data_dir=data_dir, unsafe_code=unsafe_code, as_json=json)


@app.command()
def tasks(json: Json = False) -> None:
    """List the tasks."""
    from expbench.commands.listing import list_tasks

    list_tasks(as_json=json)


@app.command()
def methods(json: Json = False) -> None:
    """List the methods, broken plugins with the reason."""
    from expbench.commands.listing import list_methods

    list_methods(as_json=json)


@data_app.command("status")
def data_status(task: TaskArgument = "all", data_dir: DataDir = None, json: Json = False) -> None:
    """Show which data of each task is here, from which revision, with which checksum."""
    from expbench.commands.data import show_status

    show_status(task, data_dir=data_dir, as_json=json)


@data_app.command("pull")
def data_pull(task: TaskArgument = "all", json: Json = False) -> None:
    """Fetch the official data of tasks into the cache and record its checksums."""
    from expbench.commands.data import pull_data

    pull_data(task, as_json=json)


@app.command()
def diagnose(
    method: Annotated[str, typer.Argument(metavar="METHOD", help="A method that uses experience.")],
    model: Annotated[
        str | None,
        typer.Option("--model", help="Backbone of a method that reads experience as text."),
    ] = None,
    seed: Seeds = None,
    mode: Annotated[
        str | None,
        typer.Option("--mode", help="How a latent method learns: supervised or grpo."),
    ] = None,
    settings: Settings = None,
    json: Json = False,
) -> None:
    """Does a method read its experience? Key-value worlds with controls, in under a minute."""
    from expbench.commands.diagnose import run_diagnosis

    run_diagnosis(
        method,
        model=model,
        seeds=_seeds(seed),
        mode=mode,
        settings=tuple(settings or ()),
        as_json=json,
    )


@app.command()
def doctor(json: Json = False) -> None:
    """Check this machine: packages, sandbox, backbone, data, disk."""
    from expbench.commands.doctor import examine

    examine(as_json=json)


if __name__ == "__main__":
    main()
