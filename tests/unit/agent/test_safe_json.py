import json

import pytest

from launcher.agent.safe_json import MAX_DEPTH, JsonError, load, loads, value_at


@pytest.mark.parametrize("text", ['{"a": [1, -2.5, true, null, "ü\\ud83d"]}', "7", '""', "[]", "1e308", '{"a": {}}'])
def test_valid_json_is_read_as_by_the_json_module(text):
    assert loads(text) == loads(text.encode()) == json.loads(text)
    assert loads(text, figures=True) == json.loads(text)


BAD = (
    "",
    "[",
    "{'a': 1}",
    "[1,]",
    "NaN",
    "-Infinity",
    "1e999",
    "9" * 41,
    "[" * 10**6,
    '{"a":' * 10**6,
    "\ud800[",
    "nul",
)


@pytest.mark.parametrize("text", BAD, ids=range(len(BAD)))
def test_invalid_json_is_a_json_error(text, tmp_path):
    data = text.encode(errors="surrogatepass")
    for given in (text, data):
        with pytest.raises(JsonError):
            loads(given)
    (tmp_path / "file").write_bytes(data)
    with pytest.raises(JsonError):
        load(tmp_path / "file")
    with pytest.raises(JsonError):
        value_at(text, 0)


@pytest.mark.parametrize("level", ["[{}]", '{{"a": {}}}', '[1, "[", {}]'])
def test_json_depth_is_limited(level):
    """Of the deepest value, whatever lies beside it; brackets in texts count for nothing."""
    text = "0"
    for _ in range(MAX_DEPTH):
        text = level.format(text)
    deeper = level.format(text)
    assert loads(text)
    with pytest.raises(JsonError, match="more than 100 nested lists"):
        loads(deeper)
    with pytest.raises(JsonError, match="more than 100 nested lists"):
        value_at(f"  {deeper}", 2)
    assert loads(json.dumps(["["] * 10**5))


def test_size_is_bounded_before_a_file_is_read_whole(tmp_path):
    path = tmp_path / "endless"
    with path.open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(JsonError, match="longer than 1,000 bytes"):
        load(path, most_bytes=1000)
    assert loads("[1]", most_bytes=3) == [1]


def test_figures_may_be_no_numbers():
    document = loads(f"[NaN, Infinity, 1e999, -{'9' * 400}, {'9' * 400}, 12]", figures=True)
    assert [str(figure) for figure in document] == ["nan", "inf", "inf", "-inf", "inf", "12"]
    with pytest.raises(JsonError):
        loads("[" * 10**5, figures=True)


def test_the_message_is_short():
    for text in ("9" * 10**6, f"1{'0' * 400}.5", "x" * 10**6):
        with pytest.raises(JsonError) as refused:
            loads(text)
        assert len(str(refused.value)) < 120
