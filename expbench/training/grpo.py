"""GRPO on text through TRL; the one module that knows TRL (1.16).

TRL computes advantages, log-probs, the clipped loss, its normaliser and the KL estimate, and drives
optimizer and processes. This module gives it the project's own rollouts, rewards, question order,
log and checkpoints, and mends what would go wrong otherwise:

- TRL's reference is what its own constructor makes of the model; here it is the adapters switched
  off, or for a full training the weights before the first step, with `Hooks.reference` entered.
- exp(reference - policy) and exp(policy - old) overflow in float32; the log-ratios are bounded.
- Rollouts cut at the limit are trained on like all others (`mask_truncated_completions` is off):
  with it a policy that rambles would learn nothing from rambling.
- No autocast (`bf16` is off): the module computes in its own dtype, and rollouts do the same.

- Rows without an advantage are not read again where they cannot teach: `dapo` without a penalty.
  The logged entropy is then that of the rows that were read.

With `loss="dapo"` (the default), `"grpo"` and `"dr_grpo"` the loss does not depend on micro-batches
or processes; `"bnpo"` divides by the active tokens of each micro-batch, so there it does.
"""

import copy
import logging
import os
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from accelerate.utils import gather_object  # type: ignore[import-untyped]
from datasets import Dataset
from transformers import logging as hf_logging
from trl.trainer.grpo_config import GRPOConfig
from trl.trainer.grpo_trainer import GRPOTrainer

from expbench.core import Reward, Sample
from expbench.errors import ConfigError
from expbench.models.hf import HFModel
from expbench.training.audit import MaskAudit
from expbench.training.log import StepLog
from expbench.training.loop import (
    Ask,
    Hooks,
    ParameterGroup,
    Sampling,
    TrainingResult,
    Window,
)
from expbench.training.lora import merged, peft_of
from expbench.training.questions import plan_windows
from expbench.training.rollouts import Actor, Rollout, asks_of, reward_numbers
from expbench.training.settings import GRPOSettings
from expbench.training.state import Account, States, is_due, new_optimizer

LOOP = "grpo"
LOG_RATIO_BOUND = 20.0
"""exp of it is far beyond every sensible ratio and far below float32's limit."""
SHOWN = {
    "kl": "kl",
    "entropy": "entropy",
    "clip_ratio/region_mean": "clipped",
}
"""TRL's metrics that are logged, and their names here."""


def train_grpo(
    *,
    model: HFModel,
    samples: Sequence[Sample],
    reward: Reward,
    settings: GRPOSettings,
    seed: int,
    folder: Path,
    groups: Sequence[ParameterGroup],
    hooks: Hooks | None = None,
    advance: Callable[[int], None] = lambda count: None,
) -> TrainingResult:
    """Train the groups' parameters with GRPO, or go on where a killed training stopped.

    Under `accelerate launch` every process calls this with the same arguments.

    Args:
        model: A fork of the backbone, with its adapter if `settings.lora_rank` is not 0.
        samples: Train samples of one task or several.
        reward: The tasks' graders; where one raises `GradingError` the rollout teaches nothing.
        settings: Budget and objective.
        seed: Decides the order of the questions and the rollouts.
        folder: Gets `train.jsonl` and `state/grpo/`; nothing is written elsewhere.
        groups: What is trained; all else in the module is frozen meanwhile.
        hooks: What the method adds.
        advance: Told about finished steps.

    Raises:
        ConfigError: rollouts that do not divide among the processes, parameters in half precision,
            or a loss that is not a number.
        DataError: a damaged checkpoint, or one of other parameters.
    """
    hooks = hooks or Hooks()
    if not samples:
        raise ConfigError("There are no train samples to learn from; give at least one.")
    _check_dtypes(groups)
    optimizer = new_optimizer(groups)
    states = States(folder, LOOP, groups=groups, hooks=hooks)
    log = StepLog(folder, LOOP)
    reference = _reference(model, settings, groups, hooks)
    newest = states.newest()
    account = Account() if newest is None else states.read(newest, optimizer)
    advance(account.step)
    if account.step < settings.steps:
        start = account.step
        windows = -(-settings.steps // settings.window)
        plan = plan_windows(samples, windows=windows, questions=settings.prompts, seed=seed)
        actor = Actor(
            model=model,
            reward=reward,
            sampling=Sampling(
                limit=settings.max_completion, temperature=settings.temperature, seed=seed
            ),
            prompt=hooks.prompt,
            rollout=hooks.rollout,
        )
        with _training(model, groups):
            trainer = _Trainer(
                job=_Job(
                    model=model,
                    settings=settings,
                    seed=seed,
                    plan=plan,
                    actor=actor,
                    hooks=hooks,
                    reference=reference,
                    states=states,
                    log=log,
                    account=account,
                    advance=advance,
                ),
                optimizer=optimizer,
                folder=folder,
            )
            if trainer.accelerator.is_main_process:
                log.rewind(start)
            trainer.train()
    return TrainingResult(
        steps=account.step,
        seconds=account.seconds,
        prompt_tokens=account.prompt_tokens,
        generated_tokens=account.generated_tokens,
        external_tokens=account.external_tokens,
    )


@dataclass(frozen=True, kw_only=True)
class _Job:
    """What the trainer is given."""

    model: HFModel
    settings: GRPOSettings
    seed: int
    plan: Sequence[Sequence[Sample]]
    actor: Actor
    hooks: Hooks
    reference: Callable[[], Any]
    states: States
    log: StepLog
    account: Account
    advance: Callable[[int], None]


class _Trainer(GRPOTrainer):
    """TRL's trainer with this project's rollouts, reference, log and checkpoints."""

    def __init__(self, *, job: _Job, optimizer: Any, folder: Path) -> None:
        self._job = job
        self._start = job.account.step
        self._window: list[Rollout] = []
        self._asked: list[Ask] = []
        self._saved = job.account.step
        self._bounded: dict[str, Any] | None = None
        self._audit = MaskAudit()
        self._external = 0
        self._bare_forward = vars(job.model.module).get("forward")
        rows = job.settings.prompts * (len(job.plan) - self._start // job.settings.window)
        super().__init__(
            model=peft_of(job.model) or job.model.module,
            reward_funcs=_rewards,
            args=_arguments(job, folder),
            train_dataset=Dataset.from_dict({"prompt": [str(row) for row in range(rows)]}),
            processing_class=_own_tokenizer(job.model),
            optimizers=(optimizer, None),
            rollout_func=lambda prompts, trainer: self._play(len(prompts)),
        )
        self._clock = time.perf_counter()

    def _play(self, rows: int) -> dict[str, Any]:
        """Make this process's share of a window's rollouts."""
        job = self._job
        step = self._start + self.state.global_step
        questions = job.plan[step // job.settings.window]
        self._asked = asks_of(questions, group=job.settings.group, step=step)
        first = self.accelerator.process_index * rows
        with merged(job.model.module), self._unpatched():
            mine = job.actor.play(self._asked[first : first + rows])
        self._window = gather_object(mine)
        self._external = sum(len(rollout.external) for rollout in mine)
        # TRL shuffles rows with torch's global stream; a resumed training must shuffle alike.
        torch.manual_seed(hash((job.seed, step, first)) % 2**31)
        return {
            "prompt_ids": [rollout.prompt_ids for rollout in mine],
            "completion_ids": [rollout.ids for rollout in mine],
            "logprobs": None,
            "env_mask": [rollout.mask() for rollout in mine],
            "reward": [rollout.reward for rollout in mine],
        }

    @contextmanager
    def _unpatched(self) -> Iterator[None]:
        """Take TRL's patch off the forward, so that the faster decoding session sees a Llama."""
        parts = vars(self._job.model.module)
        patched = parts.pop("forward", None)
        if self._bare_forward is not None:
            parts["forward"] = self._bare_forward
        try:
            yield
        finally:
            parts.pop("forward", None)
            if patched is not None:
                parts["forward"] = patched

    def _generate_and_score_completions(self, inputs: Any) -> Any:
        """Let TRL do it without a reference, then add the log-probs of ours."""
        self.beta = 0.0
        try:
            batch = super()._generate_and_score_completions(inputs)
        finally:
            self.beta = self._job.settings.beta
        if self.beta:
            ids = torch.cat((batch["prompt_ids"], batch["completion_ids"]), dim=1)
            mask = torch.cat((batch["prompt_mask"], batch["completion_mask"]), dim=1)
            with torch.no_grad(), self._job.reference():
                batch["ref_per_token_logps"], _, _ = self._get_per_token_logps_and_entropies(
                    self.model,
                    ids,
                    mask,
                    batch["completion_ids"].shape[1],
                    batch_size=self.args.per_device_train_batch_size,
                )
        return batch

    def _compute_loss(self, model: Any, inputs: dict[str, Any]) -> Any:
        self._audit.count(_external(inputs))
        if self._job.settings.loss == "dapo" and not self.beta:
            inputs = _teaching(inputs)
        self._bounded = inputs = dict(inputs)
        try:
            return super()._compute_loss(model, inputs)  # type: ignore[no-untyped-call]
        finally:
            self._bounded = None

    def _get_per_token_logps_and_entropies(
        self, model: Any, ids_BT: Any, mask_BT: Any, kept: int, **options: Any
    ) -> Any:
        """Bound what the loss will exponentiate, without cutting the policy's gradient."""
        with self._job.hooks.scoring(ids_BT, mask_BT, kept):
            found = super()._get_per_token_logps_and_entropies(
                model, ids_BT, mask_BT, kept, **options
            )
        if self._bounded is not None:
            now = found[0].detach()
            self._audit.watch(found[0], _external(self._bounded))
            for name in ("ref_per_token_logps", "old_per_token_logps"):
                if name in self._bounded:
                    gap = (self._bounded[name] - now).clamp(-LOG_RATIO_BOUND, LOG_RATIO_BOUND)
                    # Where nothing is cut the value stays as it is, to the last bit.
                    cut = gap.abs() >= LOG_RATIO_BOUND
                    self._bounded[name] = torch.where(cut, now + gap, self._bounded[name])
        return found

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        """End a step: tell the method, write the row, keep a checkpoint."""
        if "loss" not in logs:
            return
        job, step = self._job, self._start + self.state.global_step
        loss = float(logs["loss"])
        if loss != loss or abs(loss) == float("inf"):
            raise ConfigError(
                f"The loss is {loss} at step {step}; lower learning_rate, or load the model with "
                "dtype float32."
            )
        row: dict[str, Any] = {"loss": loss, "grad_norm": float(logs.get("grad_norm", 0.0))}
        row.update(_shown(self._metrics["train"]))
        self._metrics["train"].clear()
        row.update(self._rollout_numbers())
        row["external_gradient"] = max(gather_object([self._audit.check(step, self._external)]))
        has_ended = step % job.settings.window == 0 or step == job.settings.steps
        if has_ended:
            pairs = zip(self._asked, self._window, strict=True)
            attempts = [rollout.attempt(ask.sample) for ask, rollout in pairs]
            row.update(job.hooks.after_window(Window(step=step, attempts=attempts)))
        self._end_step(step, row, has_ended)

    def _rollout_numbers(self) -> dict[str, Any]:
        """Describe the window's rollouts in its first step's row, and only there count tokens."""
        group = self._job.settings.group
        if (self._start + self.state.global_step - 1) % self._job.settings.window:
            return {}
        rollouts, account = self._window, self._job.account
        prompt = sum(len(rollout.prompt_ids) for rollout in rollouts)
        external = sum(len(rollout.external) for rollout in rollouts)
        generated = sum(len(rollout.ids) for rollout in rollouts) - external
        account.prompt_tokens += prompt
        account.generated_tokens += generated
        account.external_tokens += external
        return {
            **reward_numbers([rollout.reward for rollout in rollouts], group),
            "prompt_tokens": prompt,
            "generated_tokens": generated,
            "external_tokens": external,
            "length": generated / len(rollouts),
            "cut": sum(rollout.stop_reason == "length" for rollout in rollouts) / len(rollouts),
        }

    def _end_step(self, step: int, row: dict[str, Any], has_ended: bool) -> None:
        job = self._job
        row["seconds"] = -self._clock + (now := time.perf_counter())
        self._clock = now
        job.account.step = step
        job.account.seconds += row["seconds"]
        is_last = step == job.settings.steps
        keeps = has_ended and (is_last or is_due(step, self._saved, job.settings.save_every))
        if self.accelerator.is_main_process:
            job.log.write(step, row)
            if keeps:
                job.states.write(job.account, self.optimizer)
        if keeps:
            self._saved = step
            self.accelerator.wait_for_everyone()
        job.advance(1)


def _external(inputs: Mapping[str, Any]) -> Any:
    """Return 1 for every token of the completions that the policy did not write, (B, T)."""
    mask_BT = inputs["completion_mask"]
    return mask_BT * (1 - inputs.get("tool_mask", mask_BT))


def _teaching(inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Leave out rows without an advantage: they add zeros to the sum that `dapo` divides.

    Most groups of a weak policy are silent, and reading them again costs as much as any other. One
    row always stays, because every process has to take part in the backward pass.
    """
    advantages_B = inputs["advantages"]
    keeps_B = advantages_B != 0
    keeps_B[0] |= not bool(keeps_B.any())
    rows_N = keeps_B.nonzero().squeeze(1)
    return {
        name: value[rows_N]
        if isinstance(value, torch.Tensor) and value.dim() and len(value) == len(advantages_B)
        else value
        for name, value in inputs.items()
    }


def _rewards(reward: list[float | None], **columns: Any) -> list[float | None]:
    return reward


def _shown(metrics: Mapping[str, list[float]]) -> dict[str, float]:
    found = {}
    for theirs, ours in SHOWN.items():
        known = [value for value in metrics.get(theirs, []) if value == value]
        if known:
            found[ours] = sum(known) / len(known)
    return found


def _arguments(job: _Job, folder: Path) -> GRPOConfig:
    settings = job.settings
    world = int(os.environ.get("WORLD_SIZE", "1"))
    rows, rest = divmod(settings.prompts * settings.group, world)
    if rest:
        raise ConfigError(
            f"{settings.prompts} prompts x {settings.group} rollouts do not divide among {world} "
            "processes; change prompts or group."
        )
    micro = next(n for n in range(min(settings.micro_batch, rows), 0, -1) if rows % n == 0)
    on_cpu = job.model.module.device.type == "cpu"
    return GRPOConfig(
        output_dir=str(folder),
        max_steps=settings.steps - job.account.step,
        per_device_train_batch_size=micro,
        gradient_accumulation_steps=rows // micro,
        steps_per_generation=rows // micro,
        num_iterations=settings.window,
        num_generations=settings.group,
        max_completion_length=settings.max_completion,
        temperature=settings.temperature,
        # The reference is ours: TRL would load or copy one where beta is not 0.
        beta=0.0,
        loss_type=settings.loss,
        scale_rewards=settings.scale_rewards,
        epsilon=0.2,
        mask_truncated_completions=False,
        shuffle_dataset=False,
        disable_dropout=True,
        lr_scheduler_type="constant",
        max_grad_norm=settings.max_grad_norm,
        bf16=False,
        gradient_checkpointing=False,
        use_cpu=on_cpu,
        dataloader_pin_memory=not on_cpu,
        remove_unused_columns=False,
        ddp_find_unused_parameters=True,
        seed=job.seed,
        save_strategy="no",
        logging_strategy="steps",
        logging_steps=1,
        logging_nan_inf_filter=False,
        report_to="none",
        disable_tqdm=True,
    )


def _own_tokenizer(model: HFModel) -> Any:
    """Copy the tokenizer: TRL sets its pad token where there is none."""
    return copy.deepcopy(model.tokenizer)


def _check_dtypes(groups: Sequence[ParameterGroup]) -> None:
    for group in groups:
        for parameter in group.parameters:
            if parameter.dtype != torch.float32:
                raise ConfigError(
                    f"The parameters of group {group.name!r} are {parameter.dtype}, in which small "
                    "steps round to nothing; train with --dtype float32 or with LoRA."
                )


def _reference(
    model: HFModel, settings: GRPOSettings, groups: Sequence[ParameterGroup], hooks: Hooks
) -> Callable[[], Any]:
    """Return what to enter for the untouched backbone; called before anything is trained."""
    if not settings.beta:
        return nullcontext
    peft = peft_of(model)
    trained = [] if peft is not None else [p for group in groups for p in group.parameters]
    frozen = [parameter.detach().clone() for parameter in trained]

    @contextmanager
    def entered() -> Iterator[None]:
        # Only the tensors are exchanged: optimizer and DDP keep their hold on the parameters.
        current = [parameter.data for parameter in trained]
        with ExitStack() as stack:
            stack.enter_context(hooks.reference())
            if peft is not None:
                stack.enter_context(peft.disable_adapter())
            try:
                for parameter, data in zip(trained, frozen, strict=True):
                    parameter.data = data.to(parameter.device)
                yield
            finally:
                for parameter, data in zip(trained, current, strict=True):
                    parameter.data = data

    return entered


@contextmanager
def _training(model: HFModel, groups: Sequence[ParameterGroup]) -> Iterator[None]:
    """Freeze what is not trained, keep the libraries quiet, and leave no trace of TRL behind."""
    module = model.module
    forward = vars(module).get("forward")
    flags = [(parameter, parameter.requires_grad) for parameter in module.parameters()]
    trained = {id(p) for group in groups for p in group.parameters}
    try:
        with _quiet(), torch.random.fork_rng(devices=[]):
            for parameter, _ in flags:
                parameter.requires_grad_(id(parameter) in trained)
            yield
    finally:
        vars(module).pop("forward", None)
        if forward is not None:
            module.forward = forward
        for parameter, flag in flags:
            parameter.requires_grad_(flag)
            parameter.grad = None
        module.eval()


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep the libraries' remarks off the user's screen."""
    before = hf_logging.get_verbosity()
    loggers = [logging.getLogger(name) for name in ("trl", "accelerate", "datasets")]
    levels = [logger.level for logger in loggers]
    silence = os.environ.get("TRL_EXPERIMENTAL_SILENCE")
    try:
        os.environ["TRL_EXPERIMENTAL_SILENCE"] = "1"
        hf_logging.set_verbosity_error()  # type: ignore[no-untyped-call]
        for logger in loggers:
            logger.setLevel(logging.ERROR)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", module="transformers")
            yield
    finally:
        hf_logging.set_verbosity(before)
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
        if silence is None:
            os.environ.pop("TRL_EXPERIMENTAL_SILENCE", None)
        else:
            os.environ["TRL_EXPERIMENTAL_SILENCE"] = silence
