"""The work of a request on a number of nodes: hours, checkpoints, and whether the job runs there at all."""

import math
from dataclasses import field, replace
from functools import cached_property

from launcher.agent.interval import overhead_fraction
from launcher.catalog.load import Catalog
from launcher.model.enums import CheckpointMode
from launcher.model.instance_type import Accelerator, InstanceType
from launcher.model.learned import Learned, Posterior
from launcher.model.measurement import Measurement
from launcher.model.money import Assumption, Range
from launcher.model.record import record
from launcher.model.request import PlanRequest
from launcher.model.training import PublishedBatch, TrainingFacts
from launcher.model.units import number_of
from launcher.model.work import Work
from launcher.model.workload import ModelDimensions, TrainingWorkload
from launcher.planning import duration, goodput, memory
from launcher.planning.egress_choice import EgressOptions
from launcher.planning.goodput import MINUTE_S, SECONDS_PER_HOUR, FailureLosses, FailureRates, Overhead
from launcher.planning.job_command import JobCommand
from launcher.planning.outside_command import hours_outside_command
from launcher.planning.shape import ADAPTERS, MOE_ACTIVE_FRACTION, TrainingShape, recompute_of, stack_of
from launcher.planning.utilisation import chip_traits, log_scale, rows_on_instance

CLUSTER_ONLY_H = 1.0
"""A cluster without a job and without a TTL is priced for one hour."""
TOKENS_PER_B = 1e9
LONGEST_H = 1e6
"""Hours, 114 years, above which a job counts as endless."""


def cluster_hours(request: PlanRequest) -> float:
    """Hours for which a cluster without a job is priced: its TTL, or one."""
    return request.guardrails.ttl_h or CLUSTER_ONLY_H


@record(slots=False)
class Estimator:
    """Estimates the work of one request, once for each type and number of nodes."""

    request: PlanRequest
    catalog: Catalog
    facts: TrainingFacts
    measured: tuple[Measurement, ...] = ()
    """The user's own runs, for the hours around the job; the runs that correct its rate are in the facts."""
    job_command: JobCommand = JobCommand()
    """What the job's command starts: the estimate counts the chips that it uses, where its words tell."""
    estimates: dict[tuple[str, int], Work] = field(default_factory=dict)
    _alike: dict[tuple[str, str | None, int, int], Work] = field(default_factory=dict)
    _unseen: dict[str, bool] = field(default_factory=dict)

    def work(self, instance_type: str, nodes: int) -> Work:
        """The work on `nodes` nodes of a type, independent of regions and options."""
        key = (instance_type, nodes)
        if key not in self.estimates:
            facts = self.catalog.instance_types[instance_type]
            estimate = self._estimate(facts, nodes)
            if self.request.workload.train is not None:
                estimate = replace(
                    estimate,
                    outside_command_h=hours_outside_command(self.request, facts, nodes),
                    egress_choice=self._egress_options.on_nodes(facts, nodes, estimate.hours.mid),
                )
            self.estimates[key] = estimate
        return self.estimates[key]

    def answering(self, request: PlanRequest) -> "Estimator":
        """An estimator of the same job with other keys of its plan file."""
        return Estimator(
            request=request,
            catalog=self.catalog,
            facts=self.facts,
            measured=self.measured,
            job_command=self.job_command,
        )

    @cached_property
    def _egress_options(self) -> EgressOptions:
        return EgressOptions(self.request, self.catalog)

    @cached_property
    def tokens(self) -> float | None:
        """Tokens of the job; None if the plan gives no amount in tokens."""
        train = self.request.workload.train
        if train is None or not train.by_tokens:
            return None
        needs_model = train.tokens_per_parameter is not None
        amount = train.amount_b(self._dimensions.params_b if needs_model else None)
        return None if amount is None else amount * TOKENS_PER_B

    def _amount_line(self) -> tuple[Assumption, ...]:
        """The tokens that follow from the plan's examples, or from its tokens per parameter."""
        train, tokens = self.request.workload.train, self.tokens
        if train is None or tokens is None or train.tokens_b is not None:
            return ()
        if train.tokens_per_parameter is not None:
            source = f"{train.tokens_per_parameter:g} tokens per parameter x {self._dimensions.params_b:g} B parameters"
        else:
            source = f"{train.examples:,} examples x {train.tokens_per_example:g} tokens x {train.epochs or 1:g} epochs"
        value = f"{tokens / TOKENS_PER_B:.6g}"
        return (Assumption(name="tokens of the job", value=value, unit="B tokens", source=source),)

    def learn_rate(self, instance_type: str, nodes: int) -> Posterior | None:
        """The rate on these nodes, corrected by the user's own measurements; None without applicable measurements."""
        train = self.request.workload.train
        if train is None or not train.by_tokens or train.throughput_tokens_per_s is not None:
            return None
        if not self.facts.measured:
            return None
        # Only plans with measurements need the module, and `plan` has to start fast.
        from launcher.planning.posterior import posterior

        shape = self.shape(train, self.catalog.instance_types[instance_type], nodes)
        return posterior(shape, self.facts, log_scale(shape, self.facts))

    def explain(self, work: Work) -> Work:
        """The same work with the calculation of every number, for a displayed quote."""
        train = self.request.workload.train
        tokens = self.tokens
        if train is None or tokens is None:
            return work
        facts = self.catalog.instance_types[work.instance_type]
        shape = self._fitting(train, facts, work.nodes).shape
        estimate = duration.estimate(self._at_work(shape, facts) or shape, tokens, self.facts)
        interval_lines = self._own_interval_line(work)
        return replace(
            work,
            training=estimate,
            assumptions=(
                *self._amount_line(),
                *estimate.assumptions,
                *interval_lines,
                _memory_line(memory.fits(shape)),
            ),
        )

    def _estimate(self, facts: InstanceType, nodes: int) -> Work:
        """The work, from tokens, from hours, or of a cluster without a job."""
        train, tokens = self.request.workload.train, self.tokens
        if train is None or tokens is None:
            return self._given_hours(facts, nodes, train)
        # Nothing but chips and family matters to the arithmetic: types that differ in the rest share it.
        key = (facts.name.partition(".")[0], facts.accelerator, facts.accelerators, nodes)
        if key not in self._alike:
            self._alike[key] = self._compute_work(facts, nodes, train, tokens)
        work = self._alike[key]
        if work.instance_type == facts.name and not self.measured:
            return work
        return replace(
            work,
            instance_type=facts.name,
            boot=self._own_boot(facts.name),
            restart=self._own_restart(facts.name),
        )

    def _own_boot(self, instance_type: str) -> Learned | None:
        if not self.measured:
            return None
        from launcher.planning.learned import learned_boot

        return learned_boot(instance_type, self.measured)

    def _own_restart(self, instance_type: str) -> Learned | None:
        if not self.measured:
            return None
        from launcher.planning.learned import learned_restart

        return learned_restart(instance_type, self.measured)

    def _compute_work(self, facts: InstanceType, nodes: int, train: TrainingWorkload, tokens: float) -> Work:
        """The work from tokens, without the hours around the job that the user's own runs of this type measured."""
        fitting = self._fitting(train, facts, nodes)
        at_work = self._at_work(fitting.shape, facts)
        shape = at_work or fitting.shape
        numbers = duration.numbers(shape, tokens, self.facts)
        lost = goodput.overhead(shape, self.facts)
        interval_s, overhead = self._saving(numbers.expected_hours.mid, lost)
        # The estimate has the overhead of the automatic interval: that of the plan takes its place.
        hours = _cap_hours(numbers.expected_hours.scale((1 + overhead) / (1 + lost.fraction)))
        return Work(
            instance_type=facts.name,
            nodes=nodes,
            hours=hours,
            training=numbers,
            checkpoint_write_s=numbers.checkpoint_write_s,
            checkpoint_gb=numbers.checkpoint_gb,
            checkpoint_interval_s=interval_s,
            accelerator=facts.accelerator,
            misfit=_misfit(fitting, hours.mid),
            tight=fitting.note,
            leaner_optimizer=None if fitting.shape.optimizer is train.optimizer else fitting.shape.optimizer,
            counted_chips=self._describe_counted_chips(at_work, fitting.shape, facts),
            failures_per_h=lost.failures_per_h,
            node_failures_per_h=lost.node_failures_per_h,
            failure_restart_h=self._restart_h,
            failure_overhead=overhead,
        )

    def _at_work(self, shape: TrainingShape, facts: InstanceType) -> TrainingShape | None:
        """The job on the chips that its command uses; None if these are all, unknown, or measured by the user's runs.

        A process of Trainium drives a part of a chip: the peak is this part's.
        """
        if not self.job_command.programs or shape.measured_tokens_per_s is not None:
            return None
        # A measured rate has the chips that the command leaves idle in it already.
        if self.learn_rate(facts.name, shape.nodes) is not None:
            return None
        from launcher.planning.idle_chips import working
        from launcher.planning.launchers import nodes_of

        found = working(self.job_command, self.request.run.env, nodes_of(facts, shape.nodes))
        if found is None:
            return None
        together, processes = found
        each = processes * facts.accelerators / facts.training_workers
        chips = math.ceil(each)
        peak = shape.accelerator.peak_bf16_tflops * each / chips
        chip = replace(shape.accelerator, peak_bf16_tflops=peak)
        return replace(shape, accelerator=chip, chips=together * chips, chips_per_node=chips)

    def _describe_counted_chips(
        self, at_work: TrainingShape | None, paid: TrainingShape, facts: InstanceType
    ) -> str | None:
        """The chips that the estimate counts, and whether the job fits their memory; "" if the user's runs count.

        None if the estimate counts all chips.
        """
        if at_work is None:
            return None if self.learn_rate(facts.name, paid.nodes) is None else ""
        part = at_work.accelerator.peak_bf16_tflops / paid.accelerator.peak_bf16_tflops
        text = f"the hours count {number_of(at_work.chips * part, 'chip')} of {paid.chips}"
        fit = memory.fits(at_work)
        if fit.fits:
            return text
        return f"{text}, each of which needs {fit.per_chip_gib:,.0f} GiB and has {fit.limit_gib:,.0f} free"

    def _saving(self, hours: float, lost: Overhead) -> tuple[float | None, float]:
        """Seconds between checkpoints, None for never, and the share of time that failures and checkpoints then add.

        The interval is the plan's, or that of the estimate. Without checkpoints a failure loses the whole run.
        """
        never = self.request.checkpoint.mode is CheckpointMode.NONE
        fixed = self.request.checkpoint.interval
        if not never and fixed is None:
            return lost.interval_s, lost.fraction
        bare_s = hours / (1 + lost.fraction) * SECONDS_PER_HOUR
        share = overhead_fraction(
            checkpoint_s=0.0 if never else lost.checkpoint_s,
            interval_s=bare_s if never or fixed is None else fixed,
            mtbf_s=SECONDS_PER_HOUR / lost.failures_per_h,
            restart_s=self._restart_h * SECONDS_PER_HOUR,
        )
        return (None if never else fixed), min(share, LONGEST_H)

    @cached_property
    def _restart_h(self) -> float:
        """Hours from a failure to the next step."""
        return self.facts.constants["restart_minutes"].mid * MINUTE_S / SECONDS_PER_HOUR

    def _given_hours(self, facts: InstanceType, nodes: int, train: TrainingWorkload | None) -> Work:
        """A job of given hours, or a cluster that runs for its TTL."""
        hours = None if train is None else train.progress_hours(nodes)
        if train is None or hours is None:
            return self._cluster_alone(facts, nodes)
        # A type without accelerators can run a job of given hours.
        shape = self.shape(train, facts, nodes) if train.model is not None and facts.accelerator is not None else None
        write_s = goodput.checkpoint_write_s(shape, self.facts) if shape else None
        failures = goodput.failure_rates(facts.accelerators * nodes, train.stack or stack_of(train.method), self.facts)
        lost = self._losses(hours, write_s, failures)
        middle = hours * (1 + lost.fraction)
        return Work(
            instance_type=facts.name,
            nodes=nodes,
            hours=Range(low=hours, mid=middle, high=hours * (1 + lost.high_fraction)),
            training=None,
            checkpoint_write_s=write_s,
            checkpoint_gb=goodput.checkpoint_bytes(shape, self.facts) / 1e9 if shape else None,
            checkpoint_interval_s=lost.interval_s,
            accelerator=facts.accelerator,
            misfit=_misfit_of_states(shape if train.by_samples else None, middle),
            assumptions=(
                *_progress_lines(train, hours, nodes),
                *_states_line(shape, train),
                *_failure_lines(lost, failures.per_h * middle),
            ),
            failures_per_h=failures.per_h,
            node_failures_per_h=failures.of_nodes_per_h,
            failure_restart_h=self._restart_h,
            failure_overhead=lost.fraction,
            boot=self._own_boot(facts.name),
            restart=self._own_restart(facts.name),
        )

    def _losses(self, hours: float, write_s: Range | None, failures: FailureRates) -> FailureLosses:
        """The time that failures add to hours of progress, at the plan's interval between checkpoints or Daly's."""
        least = goodput.UNKNOWN_WRITE_S
        return goodput.losses_of_hours(
            hours,
            write_s or Range(low=least, mid=least, high=least),
            failures,
            self.facts.constants["restart_minutes"].range,
            interval_s=self.request.checkpoint.interval,
            saves=self.request.checkpoint.mode is not CheckpointMode.NONE,
        )

    def _cluster_alone(self, facts: InstanceType, nodes: int) -> Work:
        hours = cluster_hours(self.request)
        source = "guardrails.ttl_h, or one hour without it"
        return Work(
            instance_type=facts.name,
            nodes=nodes,
            hours=Range(low=hours, mid=hours, high=hours),
            training=None,
            checkpoint_write_s=None,
            checkpoint_gb=None,
            checkpoint_interval_s=self.request.checkpoint.interval,
            accelerator=facts.accelerator,
            assumptions=(Assumption(name="hours the cluster runs", value=f"{hours:g}", unit="h", source=source),),
            boot=self._own_boot(facts.name),
            restart=self._own_restart(facts.name),
        )

    def _own_interval_line(self, work: Work) -> tuple[Assumption, ...]:
        """The time that the plan's own interval, or none, adds to the hours; empty for the automatic interval."""
        checkpoint = self.request.checkpoint
        never = checkpoint.mode is CheckpointMode.NONE
        if not never and checkpoint.interval is None:
            return ()
        line = Assumption(
            name="failures and checkpoints " + ("without any checkpoint" if never else "at the plan's interval"),
            value=f"{work.failure_overhead:.1%}",
            unit="of the time without them",
            source="Daly 2006"
            + ("; checkpoint.mode none" if never else f"; checkpoint.interval {checkpoint.interval:g}"),
        )
        return (line,)

    def _accelerator(self, facts: InstanceType) -> Accelerator:
        return self.catalog.accelerators[facts.accelerator or ""]

    def shape(self, train: TrainingWorkload, facts: InstanceType, nodes: int) -> TrainingShape:
        """The estimator's view of a workload on a number of nodes."""
        dimensions, largest = self._dimensions, self.largest_batch
        stack = train.stack or stack_of(train.method)
        return TrainingShape(
            params_b=dimensions.params_b,
            active_params_b=dimensions.active_params_b or dimensions.params_b,
            layers=dimensions.layers,
            attention_layers=dimensions.attention_layers,
            window=dimensions.window,
            hidden=dimensions.hidden,
            heads=dimensions.heads,
            kv_heads=dimensions.kv_heads,
            vocab=dimensions.vocab,
            sequence_length=train.sequence_length,
            global_batch_tokens=train.global_batch_tokens,
            max_batch_tokens=largest.tokens if largest is not None else None,
            precision=train.precision,
            recompute=train.recompute or recompute_of(stack),
            micro_batch=train.micro_batch,
            method=train.method,
            stack=stack,
            stack_known=train.stack is not None,
            expert_parallel=train.expert_parallel,
            tensor_parallel=train.tensor_parallel,
            top_k=dimensions.top_k,
            expert_layers=self._expert_layers,
            efa=nodes > 1,
            node_gbps=facts.network_baseline_gbps or None,
            instance_family=facts.name.partition(".")[0],
            optimizer=train.optimizer,
            accelerator=self._accelerator(facts),
            chips=facts.accelerators * nodes,
            chips_per_node=facts.accelerators,
            measured_tokens_per_s=train.throughput_tokens_per_s,
        )

    def _fitting(self, train: TrainingWorkload, facts: InstanceType, nodes: int) -> memory.Fitting:
        """The workload on a number of nodes, as it fits their memory."""
        return memory.fitting(self.shape(train, facts, nodes), recompute_open=train.recompute is None)

    def unseen(self, instance_type: str) -> bool:
        """Whether no published run of this kind of job on this family of instances is known."""
        train = self.request.workload.train
        if train is None or train.throughput_tokens_per_s is not None:
            return False
        if instance_type not in self._unseen:
            shape = self.shape(train, self.catalog.instance_types[instance_type], 1)
            self._unseen[instance_type] = rows_on_instance(shape, self.facts) == 0
        return self._unseen[instance_type]

    def adapter_report(self, instance_type: str) -> str:
        """How a published run with adapters on this chip differs from the estimate; "" if none is far from it."""
        train, facts = self.request.workload.train, self.catalog.instance_types[instance_type]
        if train is None or train.method not in ADAPTERS or facts.accelerator is None:
            return ""
        return chip_traits(self._accelerator(facts), self.facts).adapter_report

    @property
    def is_mixture(self) -> bool:
        """Whether the model is a mixture of experts."""
        sizes = self._dimensions
        return (sizes.active_params_b or sizes.params_b) < MOE_ACTIVE_FRACTION * sizes.params_b

    @cached_property
    def largest_batch(self) -> PublishedBatch | None:
        """The largest batch of published runs of the workload's model size; None if unknown."""
        return self.facts.largest_batch(self._dimensions.params_b, moe=self.is_mixture)

    @cached_property
    def at_largest_batch(self) -> "Estimator | None":
        """An estimator of the same job at `largest_batch` if the plan's batch is larger; else None."""
        train = self.request.workload.train
        tokens = None if train is None or train.model is None else train.global_batch_tokens
        largest = None if tokens is None else self.largest_batch
        if train is None or tokens is None or largest is None or tokens <= largest.tokens:
            return None
        smaller = replace(train, global_batch_tokens=int(largest.tokens))
        workload = replace(self.request.workload, train=smaller)
        request = replace(self.request, workload=workload)
        return self.answering(request)

    @property
    def _expert_layers(self) -> int | None:
        """The layers with experts of a known model; None for one that the plan describes."""
        train = self.request.workload.train
        model = train.model if train is not None else None
        spec = self.catalog.find_model(model) if isinstance(model, str) else None
        return spec.moe_layers or None if spec is not None else None

    @cached_property
    def _dimensions(self) -> ModelDimensions:
        train = self.request.workload.train
        model = train.model if train is not None else None
        if isinstance(model, ModelDimensions):
            return replace(model, active_params_b=model.active_b)
        spec = self.catalog.find_model(model or "")
        if spec is None:
            raise LookupError(model)
        return ModelDimensions(
            params_b=spec.params_b,
            active_params_b=spec.active_params_b,
            layers=spec.layers or None,
            attention_layers=spec.attention_layers,
            window=spec.window,
            hidden=spec.hidden or None,
            heads=spec.heads or None,
            kv_heads=spec.kv_heads or None,
            vocab=spec.vocab or None,
            experts=spec.experts or None,
            top_k=spec.experts_per_token or None,
        )


def _progress_lines(train: TrainingWorkload, hours: float, nodes: int) -> tuple[Assumption, ...]:
    """The hours of progress, as given or from the measured rate of examples."""
    if not train.by_samples:
        name, source = "hours of progress, ordinary checkpoints included", "workload.train.hours"
        return (Assumption(name=name, value=f"{hours:g}", unit="h", source=source),)
    rate = f"{train.throughput_samples_per_s:g} examples/s a node"
    scaled = "" if nodes == 1 else f" x {nodes} nodes, without a loss of scaling: measure on {nodes} nodes to know it"
    source = f"{train.seen_examples:,.0f} examples at {rate} (workload.train.throughput_samples_per_s){scaled}"
    name = "hours of progress at the measured rate"
    return (Assumption(name=name, value=f"{hours:.4g}", unit="h", source=source),)


def _misfit_of_states(shape: TrainingShape | None, hours: float) -> str | None:
    """Why a job of given hours or examples is impossible: it never ends, or its states alone exceed the memory."""
    if hours > LONGEST_H:
        return f"it would take more than {LONGEST_H:,.0f} hours"
    if shape is None:
        return None
    needed = memory.least_state_bytes(shape) / shape.chips / memory.GIB
    if needed <= shape.accelerator.memory_gib:
        return None
    return (
        f"weights, gradients and optimizer need {needed:.0f} GiB on each chip, {shape.accelerator.memory_gib:g} exist"
    )


def _states_line(shape: TrainingShape | None, train: TrainingWorkload) -> tuple[Assumption, ...]:
    """What is known of the memory of a job that is not given in tokens."""
    name = "memory of a chip"
    if shape is None:
        source = "not checked: the plan names no model"
        return (Assumption(name=name, value="unknown", unit="GiB", source=source),) if train.by_samples else ()
    needed = memory.state_bytes(shape) / shape.chips / memory.GIB
    source = (
        f"weights, gradients and optimizer, sharded over {shape.chips} chips of {shape.accelerator.memory_gib:g} GiB;"
        " activations are not estimated for a job that is not given in tokens"
    )
    return (Assumption(name=name, value=f"{needed:.3g}", unit="GiB", source=source),)


def _failure_lines(lost: FailureLosses, failures: float) -> tuple[Assumption, ...]:
    """What failures and checkpoints add to a job given in hours, as lines of the quote."""
    return (
        Assumption(
            name="failures and restarts",
            value=f"{lost.fraction:.1%}",
            unit=f"of the hours, up to {lost.high_fraction:.1%}",
            source=f"Daly 2006; {failures:.2g} failures expected",
        ),
    )


def _cap_hours(hours: Range) -> Range:
    """Hours whose slow estimate is capped at LONGEST_H; a middle value above it makes the job a misfit."""
    high = max(hours.mid, min(hours.high, LONGEST_H))
    return hours if high == hours.high else replace(hours, high=high)


def _misfit(fitting: memory.Fitting, hours: float) -> str | None:
    """Why a job cannot run: its memory, with the number of nodes that would suffice, or its length; None if it can."""
    if hours > LONGEST_H:
        return f"it would take more than {LONGEST_H:,.0f} hours"
    if fitting.fits:
        return None
    shape = fitting.shape
    fit = memory.fits(shape)
    least = memory.min_chips(shape)
    enough = (
        "no number of them is enough"
        if least is None
        else f"{number_of(least // shape.chips_per_node, 'node')} would be enough"
    )
    leaner = memory.fitting_optimizer(shape)
    if leaner is not None:
        enough = f"{enough}, and optimizer: {leaner.value} fits"
    return f"needs {fit.per_chip_gib:.0f} GiB on each chip, {fit.limit_gib:.0f} are free; {enough}"


def _memory_line(fit: memory.Fit) -> Assumption:
    return Assumption(
        name="memory on each chip",
        value=f"{fit.per_chip_gib:.1f}",
        unit=f"of {fit.limit_gib:.1f} GiB free",
        source="ZeRO 2020, arXiv:1910.02054; Korthikanti 2022, arXiv:2205.05198",
        steps=fit.steps,
    )
