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


@app.command()
def run(
    method: Annotated[str, typer.Option("--method", "-m", help="Names joined by commas, or all.")],
    task: TaskArgument,
    preset: Annotated[str, typer.Option(help="smoke, laptop or paper.")] = "laptop",
    model: Annotated[
        str | None, typer.Option(help="Backbone: Hub name, local folder, fake or tiny.")
    ] = None,
    suite: Suite = None,
    data_dir: DataDir = None,
    seed: Annotated[str | None, typer.Option(help="Seeds joined by commas.")] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", help="A method's setting, key=value or METHOD.key=value."),
    ] = None,
    train_limit: Annotated[
        int | None, typer.Option(min=0, help="Train samples a task at most; 0 for all.")
    ] = None,
    test_limit: Annotated[
        int | None, typer.Option(min=0, help="Test samples a task at most; 0 for all.")
    ] = None,
    pool_limit: Annotated[
        int | None, typer.Option(min=0, help="Train samples a task tried for the pool; 0 for all.")
    ] = None,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda, cuda:1, ...")] = "auto",
    dtype: Annotated[str, typer.Option(help="auto, float32, bfloat16 or float16.")] = "auto",
    out: Out = RUNS,
    force: Annotated[
        bool, typer.Option("--force", help="Set finished runs aside and compute them again.")
    ] = False,
    unsafe_code: Unsafe = False,
    json: Json = False,
) -> None:
    """Run methods on tasks, resume what was interrupted, and print the leaderboard."""
    from expbench.commands.run import Request, run_jobs

    run_jobs(
        Request(
            method=method,
            task=task,
            preset=preset,
            model=model,
            suite=suite,
            data_dir=data_dir,
            seeds=_seeds(seed),
            settings=tuple(settings or ()),
            limits={"train": train_limit, "test": test_limit, "pool": pool_limit},
            device=device,
            dtype=dtype,
            out=out,
            force=force,
            unsafe_code=unsafe_code,
            as_json=json,
        )
    )


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
    limit: Annotated[int, typer.Option(min=0, help="Samples at most; 0 for all.")] = 10,
    data_dir: DataDir = None,
    out: Out = RUNS,
    json: Json = False,
) -> None:
    """Show questions, outputs and grades of a run."""
    from expbench.commands.show import show_run

    show_run(run_id, root=out, wrong=wrong, limit=limit, data_dir=data_dir, as_json=json)


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
def doctor(json: Json = False) -> None:
    """Check this machine: packages, sandbox, backbone, data, disk."""
    from expbench.commands.doctor import examine

    examine(as_json=json)


if __name__ == "__main__":
    main()
