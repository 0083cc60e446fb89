"""Files, folders and patterns of run.outputs, as a shell would read them."""

import glob

import pytest

from launcher.agent.checkpoint.output_paths import OutputPath, find_outputs

FILES = (
    "results/a.json",
    "results/b.json",
    "results/deep/er/c.json",
    "results/.hidden.json",
    "results/log.txt",
    "x[1].md",
)


@pytest.fixture
def folder(tmp_path):
    for name in FILES:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    (tmp_path / "empty").mkdir()
    (tmp_path / "results" / "up").symlink_to("..")
    return tmp_path


def find(folder, *written, optional=False):
    return find_outputs(OutputPath(written=path, place=folder / path, optional=optional) for path in written)


@pytest.mark.parametrize(
    "pattern, names",
    [
        ("results/*.json", {"results/a.json", "results/b.json"}),
        ("results/**/*.json", {"results/a.json", "results/b.json", "results/deep/er/c.json"}),
        ("**/c.json", {"results/deep/er/c.json"}),
        ("results/[ab].json", {"results/a.json", "results/b.json"}),
        ("results/?og.txt", {"results/log.txt"}),
        ("*/log.txt", {"results/log.txt"}),
        ("results/.h*", {"results/.hidden.json"}),
        ("x[1].md", {"x[1].md"}),
        ("res*/deep", {"results/deep/er/c.json"}),
    ],
)
def test_pattern_finds_the_files_of_the_shell_under_the_same_names(folder, pattern, names):
    files, missing = find(folder, pattern)
    assert (set(files), missing) == (names, ())
    if "/deep" not in pattern and pattern != "x[1].md":
        matches = glob.glob(pattern, root_dir=folder, recursive=True)  # noqa: PTH207 - Path.glob finds hidden names
        shell = {name for name in matches if "up/" not in name}
        assert set(files) == shell


@pytest.mark.parametrize(
    "pattern, names",
    [
        ("results/{a,log}.{json,txt}", {"results/a.json", "results/log.txt"}),
        ("{results/*.txt,nothing}", {"results/log.txt"}),
        ("results/{deep,up}/er/*", {"results/deep/er/c.json"}),
    ],
)
def test_each_brace_alternative_is_searched(folder, pattern, names):
    assert (set(find(folder, pattern)[0]), find(folder, pattern)[1]) == (names, ())


def test_words_in_braces_that_match_nothing_are_missing(folder):
    (reason,) = find(folder, "results/{x,y}.json")[1]
    assert "matches no file" in reason


def test_link_to_a_folder_above_ends(folder):
    assert "results/up/results/a.json" not in find(folder, "**/*.json")[0]


def test_absolute_pattern_is_named_from_the_last_plain_folder(folder):
    files, _ = find_outputs([OutputPath(written=f"{folder}/results/*.txt", place=folder / "results" / "*.txt")])
    assert set(files) == {"results/log.txt"}
    written = "${SLIPWAY_CHECKPOINT_DIR}/*.txt"
    files, _ = find_outputs([OutputPath(written=written, place=folder / "results" / "*.txt")])
    assert set(files) == {"log.txt"}


@pytest.mark.parametrize(
    "path, reason",
    [("results/*.csv", "matches no file"), ("nothing", "No such file"), ("empty", "contains no file")],
)
def test_output_without_matches_is_missing_unless_optional(folder, path, reason):
    assert reason in find(folder, path)[1][0]
    assert find(folder, path, optional=True)[1] == ()
    assert set(find(folder, path, "results/a.json")[0]) == {"results/a.json"}


def test_two_files_with_one_name_are_reported(folder):
    (folder / "other").mkdir()
    (folder / "other" / "a.json").write_text("other")
    outputs = [
        OutputPath(written="${SLIPWAY_CHECKPOINT_DIR}/*.json", place=folder / name / "*.json")
        for name in ("results", "other")
    ]
    _, missing = find_outputs(outputs)
    assert missing == ("${SLIPWAY_CHECKPOINT_DIR}/*.json: another output is stored as a.json",)
