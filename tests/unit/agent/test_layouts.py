"""Checkpoint layouts: what each framework writes, in the order of its own source, and how the agent recognizes it."""

import re
from typing import Any

import pytest

from launcher.agent.checkpoint.entries import Layouts, layouts_of
from launcher.agent.checkpoint.layouts import parse_layout, preset_names, table
from launcher.agent.checkpoint.watch import CheckpointWatch
from launcher.agent.checkpoint.write_back import links_to, write_back, write_links
from launcher.agent.errors import JobSpecError
from launcher.agent.job import CheckpointSpec
from launcher.agent.manifest import HERE
from launcher.model.enums import CheckpointLayout


def write(folder, path, content="x"):
    target = folder / path
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(content)


NEMO = "model--val_loss=1.25-step=99-consumed_samples=800.0"
# What each writes for one step, its marker or tracker last. The file and line of its source stand in layouts.csv.
PLAYERS: dict[str, tuple[int, list[Any]]] = {
    "hf": (50, ["checkpoint-50/model.safetensors", "checkpoint-50/optimizer.pt", "checkpoint-50/trainer_state.json"]),
    "dcp": (75, ["step-75/__0_0.distcp", "step-75/__1_0.distcp", "step-75/.metadata"]),
    "slipway": (7, ["step-7/weights"]),
    "megatron": (
        100,
        [
            "iter_0000100/mp_rank_00/model_optim_rng.pt",
            "iter_0000100/train_state.pt",
            ("latest_checkpointed_iteration.txt", "100"),
        ],
    ),
    "deepspeed": (25, ["global_step25/mp_rank_00_model_states.pt", ("latest", "global_step25")]),
    "openrlhf": (
        20,
        [
            "_actor/global_step20/mp_rank_00_model_states.pt",
            ("_actor/latest", "global_step20"),
            "_critic/global_step20/mp_rank_00_model_states.pt",
            ("_critic/latest", "global_step20"),
        ],
    ),
    "verl": (10, ["global_step_10/actor/model.pt", ("latest_checkpointed_iteration.txt", "10")]),
    "aws-fsdp": (50, ["llama_v3-50steps/__0_0.distcp", "llama_v3-50steps/.metadata"]),
    "nxd": (30, ["step_30/model/dp_rank_00.pt", "step_30/done"]),
    "nanotron": (40, ["40/model/weights.safetensors", ("latest.txt", "40")]),
    "torchtune": (2, ["epoch_2/adapter_0.pt", "recipe_state/recipe_state.pt"]),
    "nemo": (99, [f"{NEMO}/weights/common.pt"]),
    "lightning": (50, ["epoch=0-step=50.ckpt"]),
    "composer": (100, ["ep0-ba100-rank0.pt", "ep0-ba100-rank1.pt"]),
    "accelerate": (25, ["step_25/model.safetensors"]),
}


UNMARKED = ("slipway", "torchtune", "nemo", "lightning", "composer", "accelerate")


def play(folder, layout):
    for entry in PLAYERS[layout][1]:
        write(folder, *(entry if isinstance(entry, tuple) else (entry,)))


def take(folder, **options):
    """What a watch finds in 10 quiet seconds."""
    watch = CheckpointWatch(folder, **options)
    assert watch.poll(0) + watch.poll(9.9) == []
    return watch.poll(10)


@pytest.mark.parametrize("layout", PLAYERS)
def test_auto_layout_recognises_every_framework(tmp_path, layout):
    layouts_seen = []
    play(tmp_path, layout)
    (checkpoint,) = take(tmp_path, on_layout=lambda row: layouts_seen.append(row.layout))
    assert (checkpoint.layout, checkpoint.step) == (layout, PLAYERS[layout][0])
    assert layouts_seen == [layout]


@pytest.mark.parametrize("layout", [name for name in PLAYERS if name != "slipway"])
def test_named_layout_finds_the_same_step_as_auto(tmp_path, layout):
    play(tmp_path, layout)
    layouts = layouts_of(CheckpointSpec(uri="s3://bucket/x", layout=layout))
    assert [checkpoint.step for checkpoint in take(tmp_path, layouts=layouts)] == [PLAYERS[layout][0]]


@pytest.mark.parametrize("layout", ["megatron", "deepspeed", "verl", "aws-fsdp", "nxd", "nanotron", "openrlhf", "nemo"])
def test_checkpoint_without_marker_or_tracker_is_not_finished(tmp_path, layout):
    layouts = layouts_of(CheckpointSpec(uri="s3://bucket/x", layout=layout))
    watch = CheckpointWatch(tmp_path, layouts=layouts)
    if layout == "nemo":
        write(tmp_path, f"{NEMO}-unfinished")
        play(tmp_path, layout)
    else:
        for entry in PLAYERS[layout][1][:-1]:
            write(tmp_path, *(entry if isinstance(entry, tuple) else (entry,)))
    assert watch.poll(0) + watch.poll(100) + watch.settle(101, clean=False) == []
    (reason,) = watch.unfinished_reasons().values()
    assert reason.startswith("it was unfinished when the command ended: ")


def test_tracker_of_an_earlier_step_does_not_finish_a_later_checkpoint(tmp_path):
    play(tmp_path, "deepspeed")
    write(tmp_path, "global_step50/mp_rank_00_model_states.pt")
    watch = CheckpointWatch(tmp_path)
    assert [checkpoint.step for checkpoint in watch.poll(0)] == [25]
    assert watch.poll(60) == []


def test_tracker_naming_the_best_checkpoint_finishes_the_regular_one_of_the_step(tmp_path):
    """OpenRLHF 0.9.9, trainer/ppo_trainer.py:536-544: it saves the step, evaluates, and saves it again as the best."""
    for name in ("global_step20", "best_global_step20"):
        write(tmp_path, f"_actor/{name}/mp_rank_00_model_states.pt")
    write(tmp_path, "_actor/latest", "best_global_step20")
    (checkpoint,) = take(tmp_path)
    assert (checkpoint.layout, checkpoint.step, checkpoint.mains) == ("openrlhf", 20, ("_actor/global_step20",))
    assert checkpoint.others == ("_actor/best_global_step20",)


class TestBestModelInItsOwnTree:
    """OpenRLHF of 2026-08-13: the best model of actor and critic has its own tag, and no state names it."""

    @staticmethod
    def save(folder, tag, *, trees=("_actor", "_critic"), done=True):
        for tree in trees:
            write(folder, f"{tree}/{tag}/mp_rank_00_model_states.pt", tag)
        for tree in trees if done else ():
            write(folder, f"{tree}/latest", tag)

    def test_newest_is_one_set_with_the_earlier_best_model(self, tmp_path):
        for tag in ("global_step20", "best_global_step20", "global_step40"):
            self.save(tmp_path, tag)
        watch = CheckpointWatch(tmp_path)
        checkpoint = (watch.poll(0) + watch.poll(10))[-1]
        assert (checkpoint.step, checkpoint.mains) == (40, ("_actor/global_step40", "_critic/global_step40"))
        assert checkpoint.others == ("_actor/best_global_step20", "_critic/best_global_step20")

    def test_best_model_saved_after_its_checkpoint_makes_a_new_version(self, tmp_path):
        watch = CheckpointWatch(tmp_path)
        self.save(tmp_path, "global_step20")
        (first,) = watch.poll(0) + watch.poll(10)
        assert first.others == ()
        self.save(tmp_path, "best_global_step20", done=False)
        assert watch.poll(20) == []
        self.save(tmp_path, "best_global_step20")
        assert watch.poll(30) == []
        (second,) = watch.poll(41)
        assert (second.step, second.mains) == (20, first.names)
        assert second.others == ("_actor/best_global_step20", "_critic/best_global_step20")
        assert "best_global_step20" in str(watch.changes())
        assert watch.poll(60) + watch.poll(90) + watch.settle(100, clean=True) == []

    def test_best_model_alone_is_the_newest_checkpoint(self, tmp_path):
        """It evaluates more often than it saves; without a critic there is one tree."""
        watch = CheckpointWatch(tmp_path)
        self.save(tmp_path, "global_step20", trees=["_actor"])
        assert [checkpoint.step for checkpoint in watch.poll(0) + watch.poll(10)] == [20]
        self.save(tmp_path, "best_global_step30", trees=["_actor"])
        (best,) = watch.poll(20) + watch.poll(31)
        assert (best.step, best.names) == (30, ("_actor/best_global_step30",))
        self.save(tmp_path, "global_step40", trees=["_actor"])
        (newest,) = watch.poll(40) + watch.poll(51)
        assert (newest.step, newest.leading) == (40, ("_actor/global_step40",))
        assert newest.others == ("_actor/best_global_step30",)

    def test_best_model_of_an_earlier_step_begins_no_new_count(self, tmp_path):
        """The asynchronous trainer evaluates an earlier step than it has saved (trainer/ppo_trainer_async.py:222)."""
        watch = CheckpointWatch(tmp_path)
        self.save(tmp_path, "global_step20")
        assert [checkpoint.step for checkpoint in watch.poll(0) + watch.poll(10)] == [20]
        self.save(tmp_path, "best_global_step18")
        (again,) = watch.poll(20) + watch.poll(31)
        assert (again.step, again.mains) == (20, ("_actor/global_step20", "_critic/global_step20"))
        assert watch.restarts() == []

    def test_tracker_names_the_best_model_of_the_same_step_after_a_restore(self, tmp_path):
        row = next(row for row in table() if row.layout == "openrlhf")
        names = ("_actor/global_step20", "_critic/global_step20")
        for name in (*names, "_actor/best_global_step20", "_critic/best_global_step10"):
            write(tmp_path, f"{name}/model.pt")
        write_back(row, tmp_path, names, ("_actor/best_global_step20", "_critic/best_global_step10"))
        assert (tmp_path / "_actor" / "latest").read_text() == "best_global_step20"
        assert (tmp_path / "_critic" / "latest").read_text() == "global_step20"


@pytest.mark.parametrize("name", ["epoch_1", "step_40"])
def test_torchtune_of_2026_has_recipe_state_inside_the_checkpoint(tmp_path, name):
    write(tmp_path, f"{name}/model-00001-of-00001.safetensors")
    write(tmp_path, f"{name}/recipe_state.pt")
    assert [checkpoint.layout for checkpoint in take(tmp_path)] == ["torchtune"]


def test_stored_checkpoint_is_not_unfinished_by_another_row_of_the_layout(tmp_path):
    watch = CheckpointWatch(tmp_path)
    play(tmp_path, "torchtune")
    assert [checkpoint.layout for checkpoint in watch.poll(0) + watch.poll(10)] == ["torchtune"]
    assert watch.settle(11, clean=False) == []
    assert watch.wrote
    assert watch.unfinished_reasons() == {}


def test_shared_state_file_belongs_to_the_newest_checkpoint_only(tmp_path):
    """torchtune 0.6.1 writes one recipe_state.pt for all epochs: an earlier epoch would be resumed as the later one."""
    watch = CheckpointWatch(tmp_path)
    for name in ("epoch_0/model.pt", "epoch_1/model.pt", "recipe_state/recipe_state.pt"):
        write(tmp_path, name)
    assert [checkpoint.step for checkpoint in watch.poll(0) + watch.poll(10)] == [1]
    assert [*watch.unfinished_reasons()] == ["epoch_0"]


def test_a_marker_says_finished_only_together_with_quiet(tmp_path):
    play(tmp_path, "hf")
    watch = CheckpointWatch(tmp_path)
    assert watch.poll(0) == []
    write(tmp_path, "checkpoint-50/rng_state_1.pth")  # another rank is not done
    assert watch.poll(9) + watch.poll(18) == []
    assert [checkpoint.step for checkpoint in watch.poll(19)] == [50]


@pytest.mark.parametrize("quiet_s,whole", [(1, False), (2, True)])
def test_checkpoint_with_a_marker_needs_two_quiet_seconds_before_a_crash(tmp_path, quiet_s, whole):
    play(tmp_path, "hf")
    watch = CheckpointWatch(tmp_path)
    watch.poll(0)
    assert bool(watch.settle(quiet_s, clean=False)) == whole


@pytest.mark.parametrize("layout", [name for name in PLAYERS if name not in UNMARKED])
@pytest.mark.parametrize("lead", [False, True], ids=["first node", "another node"])
def test_the_one_before_is_whole_when_a_later_one_was_begun(tmp_path, layout, lead):
    """The command failed a moment after it had saved, or saves again within the quiet seconds."""
    step, (first, *_) = PLAYERS[layout]
    play(tmp_path, layout)
    watch = CheckpointWatch(tmp_path, lead=(lambda: f"{layout}/step") if lead else None)
    newer = tmp_path / first.replace(str(step), str(step + 5))
    newer.parent.mkdir(parents=True)
    assert watch.poll(0) == []
    newer.write_text("x")
    assert [checkpoint.step for checkpoint in watch.settle(0.2, clean=False)] == [step]


def test_later_checkpoint_of_an_earlier_attempt_does_not_finish_a_new_one(tmp_path):
    write(tmp_path, "checkpoint-60/model.safetensors")
    play(tmp_path, "hf")
    watch = CheckpointWatch(tmp_path)
    assert watch.poll(0) + watch.settle(1, clean=False) == []


def test_later_checkpoint_without_markers_does_not_finish_the_earlier_one(tmp_path):
    play(tmp_path, "accelerate")
    watch = CheckpointWatch(tmp_path)
    watch.poll(0)
    write(tmp_path, "step_50/model.safetensors")
    assert watch.poll(5) + watch.settle(6, clean=False) == []


@pytest.mark.parametrize(
    "layout,before",
    [
        ("hf", ["checkpoint-50/model.safetensors", "checkpoint-50/training_args.bin"]),
        ("hf", ["checkpoint-50/adapter_model.safetensors", "checkpoint-50/rng_state_0.pth"]),
        ("dcp", ["step-75/__0_0.distcp"]),
    ],
)
def test_pause_of_a_framework_before_the_marker_is_waited_for(tmp_path, layout, before):
    layouts_seen = []
    for path in before:
        write(tmp_path, path)
    watch = CheckpointWatch(tmp_path, on_layout=lambda row: layouts_seen.append(row.layout))
    assert watch.poll(0) + watch.poll(60) == []
    play(tmp_path, layout)
    assert watch.poll(61) == []
    assert [checkpoint.layout for checkpoint in watch.poll(71)] == layouts_seen == [layout]


def test_late_marker_corrects_the_layout(tmp_path):
    layouts_seen = []
    write(tmp_path, "checkpoint-50/model.safetensors")
    watch = CheckpointWatch(tmp_path, on_layout=lambda row: layouts_seen.append(row.layout))
    assert [checkpoint.layout for checkpoint in watch.poll(0) + watch.poll(10)] == ["slipway"]
    write(tmp_path, "checkpoint-50/trainer_state.json")
    assert watch.poll(11) == []
    assert [(checkpoint.layout, checkpoint.step) for checkpoint in watch.poll(21)] == [("hf", 50)]
    assert layouts_seen == ["slipway", "hf"]
    write(tmp_path, "checkpoint-60/model.safetensors")
    assert watch.poll(22) + watch.poll(60) == []


def test_another_node_follows_the_correction(tmp_path):
    lead = ["slipway/step"]
    write(tmp_path, "step-5/__8_0.distcp")
    watch = CheckpointWatch(tmp_path, lead=lambda: lead[0])
    assert [checkpoint.layout for checkpoint in watch.poll(0) + watch.poll(10)] == ["slipway"]
    lead[0] = "dcp/step"
    write(tmp_path, "step-7/__8_0.distcp")
    assert [checkpoint.layout for checkpoint in watch.poll(11) + watch.poll(21)] == ["dcp"]


def test_own_trainer_with_files_named_as_in_hf_has_the_slipway_layout(tmp_path):
    for path in ("config.json", "model.safetensors", "optimizer.pt"):
        write(tmp_path, f"checkpoint-50/{path}")
    assert [checkpoint.layout for checkpoint in take(tmp_path)] == ["slipway"]


def test_a_bare_number_counts_after_a_rename(tmp_path):
    watch = CheckpointWatch(tmp_path)
    write(tmp_path, "300/model")
    assert watch.poll(0) + watch.poll(100) == []
    write(tmp_path, "400.orbax-checkpoint-tmp/model")
    (tmp_path / "400.orbax-checkpoint-tmp").rename(tmp_path / "400")
    assert [(checkpoint.step, checkpoint.layout) for checkpoint in watch.poll(101)] == [(400, "orbax")]


def test_file_renamed_into_place_is_finished_at_once(tmp_path):
    watch = CheckpointWatch(tmp_path)
    write(tmp_path, "partial")
    (tmp_path / "partial").rename(tmp_path / "epoch=1-step=75.ckpt")
    (checkpoint,) = watch.poll(0)
    assert (checkpoint.folder, checkpoint.entries, [file.path for file in checkpoint.files]) == (
        HERE,
        ("epoch=1-step=75.ckpt",),
        ["epoch=1-step=75.ckpt"],
    )


@pytest.mark.parametrize("saved", ["", "-last"])
def test_nemo_finds_the_restored_checkpoint_as_the_last(tmp_path, saved):
    """NeMo 2 lightning/resume.py:209: AutoResume looks at the folders that match `*last`, and at no others."""
    name = f"{NEMO}{saved}"
    write(tmp_path, f"{name}/weights/common.pt")
    (checkpoint,) = take(tmp_path)
    (row,) = Layouts().only("nemo/step").rows
    write_back(row, tmp_path, checkpoint.names)
    (last,) = [path for path in tmp_path.iterdir() if path.match("*last")]
    assert (last / "weights" / "common.pt").read_text() == "x"
    write_back(row, tmp_path, checkpoint.names)
    assert take(tmp_path, layouts=Layouts([row]))[0].names == (name,)


def test_copy_or_link_of_another_checkpoint_is_no_checkpoint(tmp_path):
    play(tmp_path, "lightning")
    write(tmp_path, "last.ckpt")
    (tmp_path / "step=60-link.ckpt").symlink_to("epoch=0-step=50.ckpt")
    assert [checkpoint.step for checkpoint in take(tmp_path)] == [50]


def test_the_files_of_one_step_are_one_checkpoint(tmp_path):
    play(tmp_path, "composer")
    (checkpoint,) = take(tmp_path)
    assert [file.path for file in checkpoint.files] == ["ep0-ba100-rank0.pt", "ep0-ba100-rank1.pt"]


def test_the_layout_stays_for_the_run_and_the_rest_is_reported(tmp_path):
    play(tmp_path, "megatron")
    watch = CheckpointWatch(tmp_path)
    watch.poll(0)
    assert [checkpoint.layout for checkpoint in watch.poll(10)] == ["megatron"]
    write(tmp_path, "checkpoint-500/trainer_state.json")
    assert watch.poll(11) + watch.poll(30) + watch.settle(40, clean=True) == []


def test_second_node_uses_the_layout_found_by_the_first(tmp_path):
    lead = [""]
    write(tmp_path, "global_step25/zero_pp_rank_8_mp_rank_00_optim_states.pt")
    watch = CheckpointWatch(tmp_path, lead=lambda: lead[0])
    assert watch.poll(0) + watch.poll(50) == []
    lead[0] = "deepspeed/step"
    assert watch.poll(51) == []
    assert [checkpoint.step for checkpoint in watch.poll(61)] == [25]


def test_second_node_without_a_known_layout_offers_checkpoints_at_the_end(tmp_path):
    write(tmp_path, "global_step25/zero_pp_rank_8_mp_rank_00_optim_states.pt")
    watch = CheckpointWatch(tmp_path, lead=str)
    assert watch.poll(0) == []
    assert [checkpoint.step for checkpoint in watch.settle(1, clean=True)] == [25]


@pytest.mark.parametrize("layout", [name for name in PLAYERS if name not in ("slipway", "torchtune")])
def test_framework_finds_the_checkpoint_after_a_restore(tmp_path, layout):
    """Trackers and links come back as the framework writes them; the evidence holds again."""
    play(tmp_path, layout)
    (row,) = {checkpoint.layout for checkpoint in Layouts().only(f"{layout}/step").entries_in(tmp_path)}
    (checkpoint,) = Layouts([row]).entries_in(tmp_path)
    for name in Layouts([row]).belongings(tmp_path):
        if name not in checkpoint.names:
            (tmp_path / name).unlink()
    write_back(row, tmp_path, checkpoint.names)
    assert [row.missing(tmp_path, name, renamed=False) for name in checkpoint.names] == [""] * len(checkpoint.names)
    for entry in PLAYERS[layout][1]:
        if isinstance(entry, tuple):
            assert (tmp_path / entry[0]).read_text() == entry[1]
    links = {path.name: str(path.readlink()) for path in tmp_path.iterdir() if path.is_symlink()}
    assert links == {
        "megatron": {"latest_train_state.pt": "iter_0000100/train_state.pt"},
        "nemo": {f"{NEMO}-last": NEMO},
        "composer": {"latest-rank0.pt": "ep0-ba100-rank0.pt", "latest-rank1.pt": "ep0-ba100-rank1.pt"},
    }.get(layout, {})


class TestAPattern:
    def test_pattern_with_a_tracker_finishes_the_tracked_step(self, tmp_path):
        row = parse_layout(r"run7_(\d+)k", {"file": "newest", "text": "at {step}"})
        write(tmp_path, "run7_12k/weights")
        assert take(tmp_path, layouts=Layouts([row])) == []
        write(tmp_path, "newest", "at 12\n")
        (checkpoint,) = take(tmp_path, layouts=Layouts([row]))
        assert (checkpoint.layout, checkpoint.step) == ("pattern", 12)

    @pytest.mark.parametrize("pattern", ["(", r"(\d+)-(\d+)", r"(\w+)-(\d+)"])
    def test_pattern_with_two_groups_or_invalid_syntax_is_refused(self, pattern):
        with pytest.raises(JobSpecError, match=r"checkpoint\.pattern"):
            layouts_of(CheckpointSpec(uri="s3://bucket/x", pattern=pattern))

    def test_unknown_layout_is_refused(self):
        with pytest.raises(JobSpecError, match="allowed: auto, hf, dcp"):
            layouts_of(CheckpointSpec(uri="s3://bucket/x", layout="megatorn"))


def test_every_line_is_used_and_has_a_source():
    assert {row.layout for row in table()} == {*preset_names()} - {"auto"}
    for row in table():
        assert row.source
        assert row.is_nameless == bool(row.state and "step" not in re.compile(row.names).groupindex)
        assert row.kind in ("folder", "entry", "group")
        assert row.resume in ("self", "parent")


def test_a_plan_can_name_every_layout():
    assert sorted(CheckpointLayout) == sorted(preset_names())


def test_links_are_written_where_no_file_is(tmp_path):
    for name in ("model_1.pt", "model_2.pt", "copy"):
        (tmp_path / name).write_text(name)
    for link, target in (("latest", "model_1.pt"), ("old", "model_1.pt"), ("gone", "nothing"), ("away", "/model_1.pt")):
        (tmp_path / link).symlink_to(target)
    (tmp_path / "ahead").symlink_to(tmp_path / "model_2.pt")
    assert links_to(tmp_path, "model_1.pt") == ("ahead", "latest", "old")
    assert links_to(tmp_path, "model_2.pt") == ("ahead",)
    (tmp_path / "ahead").unlink()
    assert links_to(tmp_path / "no", "model_1.pt") == ()
    write_links(tmp_path, "model_2.pt", ("latest", "new", "gone", "copy", "no/latest"))
    assert {path.name: str(path.readlink()) for path in tmp_path.iterdir() if path.is_symlink()} == {
        "latest": "model_2.pt",
        "new": "model_2.pt",
        "gone": "model_2.pt",
        "old": "model_1.pt",
        "away": "/model_1.pt",
    }
    assert (tmp_path / "copy").read_text() == "copy"
