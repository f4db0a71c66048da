"""The training loop, one for every task and for any number of processes.

A run reads a recipe, tokenises its data in the background, builds the model and then, step by step: computes
the losses of a batch in pieces, divides the gradient by the true number of targets over all pieces and
processes, clips, moves the weights, logs, scores, saves. Each step draws its random numbers from the run's
seed and its own number, so that a run that was cut off goes on to the same bits.
"""

import copy
import json
import math
import time
from collections.abc import Generator, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn
from torch.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_model_state_dict,
    set_model_state_dict,
)
from torch.nn.parallel import DistributedDataParallel

from longspan.tasks.models import head_parameters
from longspan.tasks.registry import TASKS
from longspan.tasks.task import Loss, Task
from longspan.tasks.trainable import train_only
from longspan.training.batches import feature_seed, plan_epoch, share_of
from longspan.training.checkpoints import Checkpoints, check_there
from longspan.training.evaluation import predict
from longspan.training.metrics_log import MetricsLog
from longspan.training.optimizer import make_optimizer
from longspan.training.pace import Pace
from longspan.training.processes import Parallel, Processes
from longspan.training.recipe import Recipe
from longspan.training.report import Report
from longspan.training.resuming import check_same
from longspan.training.run_data import RunData, check_parts, training_examples
from longspan.training.run_folder import RunFolder, write_whole
from longspan.training.schedules import factor, warmup_steps
from longspan.training.stages import Stage, stage_at, stages_of
from longspan.training.task_module import TaskModule
from longspan.training.tokenising import DataError


def train(
    recipe: Recipe, out: Path, *, resume: bool | Path = False, parallel: Parallel = "ddp"
) -> dict[str, float]:
    """Trains a model and writes it, with all that tells how it was made, into ``out``.

    Args:
        recipe: what to do.
        out: the run's folder.
        resume: go on from the newest checkpoint in ``out``, or from the one at a path. Where there is none
            yet, begin.
        parallel: how several processes, started by torchrun, share the work.

    Returns:
        The last scores on the dev data, or of the best checkpoint on the test data; empty without both.

    Raises:
        ValueError: the recipe, the data or a checkpoint is wrong.
        FloatingPointError: the loss is not a number; the inputs of that step are saved.
        OSError: a file cannot be written; the checkpoints before stay usable.
    """
    with prepared(recipe, out, resume=resume, parallel=parallel) as run:
        return run.train()


@contextmanager
def prepared(
    recipe: Recipe, out: Path, *, resume: bool | Path = False, parallel: Parallel = "ddp"
) -> Generator["Run"]:
    """A run that is ready to train: its recipe, model, training data and checkpoint were found right.

    Arguments and errors are those of `train`. Later only data that are still being read can turn out to be
    wrong (`DataError`); any other ValueError is no mistake of the user's.
    """
    with ExitStack() as stack:
        processes = Processes(parallel)
        stack.callback(processes.close)
        yield Run(recipe, RunFolder(out), processes, resume, stack)


class Run:
    """A run in progress.

    Args:
        recipe: what to do.
        folder: where to write.
        processes: that work on it.
        resume: see `train`.
        stack: closes, in the end, what the run opens.
    """

    def __init__(
        self, recipe: Recipe, folder: RunFolder, processes: Processes, resume: bool | Path, stack: ExitStack
    ) -> None:
        self.folder, self.processes = folder, processes
        self.report = Report(is_main=processes.is_main)
        self._is_begun = False
        if folder.is_new:
            stack.push(self._clear_up)
        elif not resume:
            folder.check_new()
        if isinstance(resume, Path):
            check_there(resume)
        processes.wait()
        task_class = TASKS[recipe.task]
        check_parts(recipe)
        resolved = task_class.resolved(recipe.settings, training_examples(recipe, folder))
        self.recipe = replace(recipe, settings=resolved)
        # Another recipe is taken only by those who name the checkpoint that they go back to.
        if resume is True and folder.has_begun:
            check_same(self.recipe, folder.recipe(), folder.path)
        tokenizer = task_class.load_tokenizer(recipe.model.source)
        if tokenizer is None:
            source = recipe.model.source
            looked = f": there is no folder {Path(source).absolute()}, and the Hub did not give one"
            where = "" if Path(source).is_dir() else looked
            raise ValueError(f"model.source is {source!r}, which has no tokenizer{where}")
        self.task: Task[Any, Any] = task_class(self.recipe.settings, tokenizer)
        if processes.is_main:
            folder.open(self.task.tokenizer)
        processes.wait()
        self.stages = stages_of(self.recipe)
        self.data = RunData(self.recipe, self.stages, self.task, folder, processes, stack, self.report.say)
        stack.callback(self._let_go)
        self._build()
        self._enter(self.stages[0])
        self.total_steps = self._count_steps()
        for stage in self.stages:  # raises now rather than at the first step
            warmup_steps(recipe.schedule, self._steps_of(stage))
        self.step, self.epoch, self.step_in_epoch, self.steps_of_epoch = 0, 0, 0, 0
        self.seconds, self.processor_seconds, self.best = 0.0, 0.0, math.nan
        self.checkpoints = Checkpoints(
            folder.checkpoints, keep=recipe.run.keep_checkpoints, processes=processes
        )
        if resume:
            self._resume(resume)
        if processes.is_main:  # only now: a checkpoint that does not fit leaves the folder as it was
            folder.begin(self.recipe, self.step)
        self._keep_up()
        self.log = MetricsLog(folder.path, resume_step=self.step) if processes.is_main else None
        if self.log:
            stack.callback(self.log.close)

    def train(self) -> dict[str, float]:
        """Runs to the end of the recipe."""
        run = self.recipe.run
        finished = self.folder.result()
        if finished and finished["step"] == self.step == self.total_steps:
            self.report.say("The run is finished.")
            return finished["scores"]
        self.data.check()
        self._is_begun = True
        self.report.say(
            f"{self.recipe.task}: {len(self.features):,} inputs, {int(self.lengths.sum()):,} tokens, "
            f"{self.total_steps:,} steps"
        )
        begun = time.monotonic() - self.seconds
        processor_begun = time.process_time() - self.processor_seconds
        self.pace = Pace(
            self.stages,
            self.total_steps,
            epoch_tokens=int(self.lengths.sum()),
            evaluate_every=run.evaluate_every,
            evaluates=self.recipe.data.dev is not None,
            seconds=math.inf if run.minutes is None else 60 * run.minutes - self.seconds,
        )
        # Without a step to make, the model is scored as it is.
        scores = {} if self.step < self.total_steps else self._evaluate()
        with self.report.shown(self.step, self.total_steps, self.pace):
            for indices in self._steps():
                step_begun = time.monotonic()
                values = self._train_step(indices)
                self.step += 1
                self.seconds = time.monotonic() - begun
                self.processor_seconds = time.process_time() - processor_begun
                tokens = int(self.lengths[indices].sum())
                took = time.monotonic() - step_begun
                self.pace.step(self.step - 1, took)
                speed = tokens / took
                self.report.step(self.step, values["loss"], speed)
                if self.step % run.log_every == 0 or self.step == self.total_steps:
                    self.data.check()
                    self._log("train", values | {"tokens_per_second": speed, "tokens": tokens})
                is_last = self.step == self.total_steps or self._is_out_of_time()
                if self._is_due(is_last):
                    scores = self._evaluate()
                if self.step % run.checkpoint_every == 0 or is_last:
                    self._checkpoint()
                if is_last:
                    break
        return self._finish(scores)

    def _train_step(self, indices: list[int]) -> dict[str, float]:
        """One step: the gradient of the mean loss over all targets of all pieces and processes."""
        recipe, processes = self.stage.recipe, self.processes
        self.module.train()
        self.optimizer.zero_grad(set_to_none=True)
        pieces = share_of(
            indices,
            self.lengths,
            rank=processes.rank,
            processes=processes.count,
            micro_tokens=recipe.batch.micro_tokens or recipe.batch.tokens,
        )
        sums: dict[str, Tensor] = {}
        for number, piece in enumerate(pieces):
            torch.manual_seed(_seed(recipe.run.seed, self.step, number, processes.rank))
            seeds = [feature_seed(recipe.run.seed, self.epoch, at) for at in piece.indices]
            batch = self.task.collate([self.features[at] for at in piece.indices], seeds)
            batch = {name: x.to(processes.device) for name, x in batch.items()}
            with self._in_step(is_last=number == len(pieces) - 1):
                with self._precision():
                    loss = cast(Loss, self.module(batch))
                (loss.total if piece.counts else loss.total * 0).backward()
            if piece.counts:
                found = {"loss": loss.total.detach(), "targets": loss.targets, **loss.parts}
                for name, x in found.items():
                    sums[name] = sums.get(name, 0) + x.double()
        totals = self._summed(sums)
        targets = max(totals.pop("targets"), 1.0)
        values = {name: total / targets for name, total in totals.items()}
        for parameter in self.model.parameters():
            if parameter.grad is not None:  # processes average; the mean is over targets, not processes
                parameter.grad.mul_(processes.count / targets)
        most = math.inf if recipe.optimizer.clip is None else recipe.optimizer.clip
        norm: Any = nn.utils.clip_grad_norm_(self.model.parameters(), most)
        values["gradient_norm"] = float(norm.full_tensor() if hasattr(norm, "full_tensor") else norm)
        if not (math.isfinite(values["loss"]) and math.isfinite(values["gradient_norm"])):
            self._stop_at_nan(indices, values)
        scale = factor(recipe.schedule, self.step - self.stage.begin, self._steps_of(self.stage))
        # The groups have the rates of the recipe as it is without phases.
        of_phase = recipe.optimizer.lr / self.recipe.optimizer.lr if self.recipe.phases else 1.0
        for group in self.optimizer.param_groups:
            group["lr"] = group["base_lr"] * of_phase * scale
        self.optimizer.step()
        return values | {"lr": recipe.optimizer.lr * scale}

    def _summed(self, sums: dict[str, Tensor]) -> dict[str, float]:
        """Summed over the processes; one that computed nothing that counts knows no names."""
        names = max(self.processes.gather(sorted(sums)), key=len)
        values = torch.stack([sums.get(name, torch.zeros((), dtype=torch.double)).cpu() for name in names])
        return dict(zip(names, self.processes.sum(values).tolist(), strict=True))

    def _evaluate(self) -> dict[str, float]:
        """Scores the dev data; the best model so far is written."""
        if not self.recipe.data.dev:
            return {}
        begun = time.monotonic()
        scores = self._score("dev")
        self.pace.evaluation(time.monotonic() - begun)
        self.report.scores(self.step, scores)
        self._log("dev", scores)
        score = scores[self.task.best_score]
        better = score > self.best if self.task.higher_is_better else score < self.best
        if better or math.isnan(self.best):
            self.best = score
            self._save_model(self.folder.best, scores)
        return scores

    def _score(self, part: str) -> dict[str, float]:
        examples = self.data.examples(part)
        predictions = predict(
            self.task,
            self.module,
            examples,
            self.data.features(part),
            processes=self.processes,
            tokens=self.recipe.batch.micro_tokens or self.recipe.batch.tokens,
            precision=self._precision,
        )
        try:
            return self.task.score(examples, predictions)
        except ValueError as error:  # examples without the answers that scores need
            raise DataError(str(error)) from error

    def _finish(self, scores: dict[str, float]) -> dict[str, float]:
        self._save_model(self.folder.last, scores)
        if self.recipe.data.test:
            if self.folder.best.exists():
                self._widen(stage_at(self.stages, max(self.folder.step_of(self.folder.best) - 1, 0)))
                whole = self.task.load(self.folder.best).state_dict()
                options = StateDictOptions(full_state_dict=True)  # fsdp's processes take their parts of it
                set_model_state_dict(self.model, whole, options=options)
            scores = self._score("test")
            self.report.scores(self.step, {f"test {name}": value for name, value in scores.items()})
            self._log("test", scores)
        if self.processes.is_main:
            best = None if math.isnan(self.best) else self.best
            took = {"seconds": self.seconds, "processor_seconds": self.processor_seconds}
            self.folder.finish({"step": self.step, **took, "best": best, "scores": scores})
        self.processes.wait()  # nobody ends the talk while another still needs it
        return scores

    def _steps(self) -> Iterator[list[int]]:
        """What is left of the run, from where it stands."""
        while self.step < self.total_steps:
            self._keep_up()
            plan = self._plan(self.epoch)
            self.steps_of_epoch = len(plan)
            end = min(self.stage.end, self.total_steps)
            while self.step_in_epoch < len(plan) and self.step < end:
                at = self.step_in_epoch
                self.step_in_epoch += 1  # a checkpoint after the step begins with the next one
                yield plan[at]
            self.epoch, self.step_in_epoch = self.epoch + 1, 0  # a stage begins with an epoch of its own

    def _enter(self, stage: Stage) -> None:
        """Goes on as a phase wants it: with its inputs, its batch, its rate and its windows."""
        self.stage = stage
        self.features = self.data.features("train", stage)
        self.lengths = self.features.lengths
        self._widen(stage)

    def _keep_up(self) -> None:
        """Enters the next stage when its first step has come."""
        stage = stage_at(self.stages, self.step)
        if stage is not self.stage:
            self._enter(stage)
            length = stage.recipe.settings.max_length
            self.report.say(f"Phase {self.stages.index(stage) + 1}: inputs of {length:,} tokens")

    def _widen(self, stage: Stage) -> None:
        for model in (self.model, self._whole):
            if stage.windows and model is not None:
                self.task.widen(model, stage.windows)

    def _steps_of(self, stage: Stage) -> int:
        return self.total_steps if stage.steps is None else stage.steps

    def _plan(self, epoch: int) -> list[list[int]]:
        batch = self.stage.recipe.batch
        return plan_epoch(
            self.lengths, tokens=batch.tokens, examples=batch.examples, seed=self.recipe.run.seed, epoch=epoch
        )

    def _count_steps(self) -> int:
        run = self.recipe.run
        last = self.stages[-1]
        if last.steps is not None:
            return last.begin + last.steps
        epochs = cast(float, run.epochs)
        whole = sum(len(self._plan(epoch)) for epoch in range(int(epochs)))
        rest = epochs - int(epochs)
        return whole + (math.ceil(rest * len(self._plan(int(epochs)))) if rest else 0)

    def _is_due(self, is_last: bool) -> bool:
        every = self.recipe.run.evaluate_every
        if is_last:
            return True
        if every:
            return self.step % every == 0
        return self.step_in_epoch == self.steps_of_epoch or self.step == self.stage.end

    def _build(self) -> None:
        """The model on its device, wrapped for the processes, and its optimizer."""
        recipe, processes = self.recipe, self.processes
        torch.manual_seed(recipe.run.seed)
        self.model = self.task.build(recipe.model)
        if processes.parallel == "fsdp" and recipe.optimizer.train_only == "new_positions":
            raise ValueError(
                "optimizer.train_only is new_positions, which fsdp cannot do; use --parallel ddp"
            )
        no_decay = train_only(self.model, recipe.optimizer.train_only)
        heads = head_parameters(self.model)
        # Shared-out weights cannot be saved as they are; a whole model takes them in.
        is_shared = processes.parallel == "fsdp"
        self._whole = copy.deepcopy(self.model) if is_shared and processes.is_main else None
        self.model.to(processes.device)
        layers = {
            name for part in self.model.modules() for name in getattr(part, "_no_split_modules", None) or ()
        }
        self.module = processes.wrap(
            TaskModule(self.task, self.model), layers, trains_everything=self.task.trains_everything
        )
        self.optimizer = make_optimizer(self.model, recipe.optimizer, heads=heads, no_decay=no_decay)
        for stage in self.stages:  # raises now rather than when the phase begins
            self._widen(stage)

    def _resume(self, resume: bool | Path) -> None:
        found = self.checkpoints.complete()
        path = resume if isinstance(resume, Path) else found[-1] if found else None
        if path is None:
            return
        progress = self.checkpoints.load(path, self.model, self.optimizer)
        self.step, self.seconds = progress["step"], progress["seconds"]
        # What was cut off before this was counted has lost it.
        self.processor_seconds = progress.get("processor_seconds", 0.0)
        self.epoch, self.step_in_epoch = progress["epoch"], progress["step_in_epoch"]
        if 0 < self.step == stage_at(self.stages, self.step).begin:  # the checkpoint ended a phase
            self.epoch, self.step_in_epoch = self.epoch + 1, 0
        self.checkpoints.forget_after(path)
        # A best model of a branch that was left, or that was lost, is written anew.
        best: float | None = progress["best"]
        is_of_this_branch = 0 <= self.folder.step_of(self.folder.best) <= self.step
        self.best = best if best is not None and is_of_this_branch else math.nan
        self.report.say(f"Going on from {path.name}.")

    def _checkpoint(self) -> None:
        progress = {
            "step": self.step,
            "epoch": self.epoch,
            "step_in_epoch": self.step_in_epoch,
            "seconds": self.seconds,
            "processor_seconds": self.processor_seconds,
            "best": None if math.isnan(self.best) else self.best,
        }
        self.checkpoints.save(self.step, self.model, self.optimizer, progress)

    def _save_model(self, folder: Path, scores: dict[str, float]) -> None:
        model = self.model
        if self.processes.parallel == "fsdp":
            options = StateDictOptions(full_state_dict=True, cpu_offload=True)
            whole = get_model_state_dict(self.model, options=options)
            if self._whole is not None:
                self._whole.load_state_dict(whole)
                model = self._whole
        if self.processes.is_main:
            self.folder.save_model(folder, self.task, model, self.recipe, self.step, scores)
        self.processes.wait()

    def _stop_at_nan(self, indices: list[int], values: dict[str, float]) -> None:
        path = self.folder.path / "not-a-number.json"
        if self.processes.is_main:
            ids = self.data.names(set(self.features.example[indices].tolist()))
            said = {"step": self.step, "epoch": self.epoch, "features": indices, "examples": ids}
            said |= {name: str(value) for name, value in values.items()}
            write_whole(path, json.dumps(said, indent=2) + "\n")
        self.processes.wait()
        raise FloatingPointError(
            f"the loss of step {self.step} is {values['loss']} and its gradient's norm is "
            f"{values['gradient_norm']}; {path} names its inputs. Try a lower optimizer.lr, a longer "
            "schedule.warmup, or run.precision fp32"
        )

    def _let_go(self) -> None:
        """Modules that train together hold the processes' group, whose threads would outlive its end."""
        for name in ("module", "model", "optimizer", "_whole"):
            self.__dict__.pop(name, None)

    def _clear_up(self, _: object, error: BaseException | None, __: object) -> None:
        """A run that fails before it has anything leaves its folder to the command that is right."""
        came_to_nothing = not self._is_begun or (
            isinstance(error, DataError) and not self.folder.has_begun and not self.folder.best.exists()
        )
        if error is not None and came_to_nothing and self.processes.is_main:
            self.folder.clear()

    def _is_out_of_time(self) -> bool:
        minutes = self.recipe.run.minutes
        return minutes is not None and any(self.processes.gather(self.seconds > 60 * minutes))

    def _in_step(self, *, is_last: bool) -> AbstractContextManager[Any]:
        """Gradients travel between processes once a step, with its last piece."""
        if isinstance(self.module, DistributedDataParallel) and not is_last:
            return self.module.no_sync()
        return nullcontext()

    def _precision(self) -> AbstractContextManager[Any]:
        bf16 = self.recipe.run.precision == "bf16"
        return torch.autocast(self.processes.device.type, torch.bfloat16, enabled=bf16)

    def _log(self, kind: str, values: dict[str, float]) -> None:
        if self.log:
            self.log.write(self.step, self.seconds, kind, values)


def _seed(*numbers: int) -> int:
    return int(np.random.SeedSequence(numbers).generate_state(1, np.uint64)[0] >> np.uint64(1))
