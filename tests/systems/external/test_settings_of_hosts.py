"""The file and the options of an external arm: what is refused says where, what and how to mend it; no secrets."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from lab.base.errors import UnusableInput
from lab.systems.external.arm import make
from lab.systems.external.protocol import REMEDIES, TIMEOUTS, remedy
from lab.systems.external.settings import read_settings
from lab.systems.registry import BUILT_IN, parse_arms
from lab.systems.spec import ArmSpec

WORDS = ["python", "host.py"]
REFUSED: list[tuple[Any, str]] = [
    (None, "live.json: external needs a host: --arm NAME=exec:COMMAND, --arm NAME=http:URL, or --arm NAME=FILE"),
    ([], "live.json: expected an object, found a list"),
    ({}, 'live.json: expected either "exec" (a list of words) or "url"'),
    ({"exec": WORDS, "url": "http://127.0.0.1/"}, 'live.json: expected either "exec" (a list of words) or "url"'),
    ({"exec": "python host.py"}, "live.json: exec: expected a list, found a string"),
    ({"exec": []}, 'live.json: exec: expected a list of words such as ["python", "host.py"]'),
    ({"exec": ["python", 3]}, 'live.json: exec: expected a list of words such as ["python", "host.py"]'),
    ({"exec": WORDS, "command": 1}, "live.json: unknown key 'command'; known: lab, exec, url, settings, env, key_env"),
    ({"exec": WORDS, "settings": []}, "live.json: settings: expected an object, found a list"),
    ({"exec": WORDS, "env": ["A=b"]}, "live.json: env: expected the name of an environment variable, never its value"),
    ({"exec": WORDS, "key_env": 1}, "live.json: key_env: expected the name of an environment variable"),
    ({"exec": WORDS, "timeouts": {"recal": 1}}, "live.json: timeouts: unknown key 'recal'; known: hello, remember"),
    (
        {"exec": WORDS, "timeouts": {"recall": 0}},
        "live.json: timeouts: recall: expected seconds above 0, at most 86400",
    ),
    ({"exec": WORDS, "timeouts": {"recall": "5"}}, "live.json: timeouts: recall: expected seconds above 0"),
    ({"exec": WORDS, "timeouts": {"recall": float("nan")}}, "live.json: timeouts: recall: expected seconds above 0"),
    ({"exec": WORDS, "allow_remote": 1}, "live.json: allow_remote: expected true or false, found a number"),
    ({"exec": WORDS, "embedder": {"dimension": 0}}, "live.json: embedder: dimension: expected a whole number from 1"),
    ({"exec": WORDS, "embedder": {"size": 3}}, "live.json: embedder: unknown key 'size'; known: model, dimension"),
]
SECRET = "sk-proj-Zk3vT9qLmX2bR7wYcN4dHs8eAf1gJu5o"
EXPOSED: list[dict[str, Any]] = [
    {"exec": [*WORDS, "--api-key", "open-sesame"]},
    {"exec": [*WORDS, "--token=open-sesame"]},
    {"exec": [*WORDS, SECRET]},
    {"exec": [*WORDS, "postgres://me:open-sesame@db/memories"]},
    {"exec": WORDS, "settings": {"provider": {"apiKey": SECRET}}},
    {"exec": WORDS, "settings": {"provider": {"password": "Correct-horse-7"}}},
    {"exec": WORDS, "settings": {"stores": ["postgres://me:open-sesame@db/memories"]}},
]


@pytest.mark.parametrize(("config", "message"), REFUSED)
def test_unusable_settings_are_refused(config: Any, message: str) -> None:
    with pytest.raises(UnusableInput) as caught:
        read_settings(config, "live.json")
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize("config", EXPOSED)
def test_secrets_are_refused_and_not_quoted(config: dict[str, Any]) -> None:
    with pytest.raises(UnusableInput, match="looks like a password or a key") as caught:
        read_settings(config, "live.json")
    assert "environment variable" in str(caught.value)
    assert "sesame" not in str(caught.value)
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize(
    "word", ["--max-tokens=256", "--tokenizer", "--key-file", "--token-budget", "--monkey", "--cache", "token"]
)
def test_words_that_hold_no_secret_are_accepted(word: str) -> None:
    assert read_settings({"exec": [*WORDS, word, "256"]}, "live.json").command[-2:] == (word, "256")


def test_settings_make_themselves_again() -> None:
    config = {
        "lab": {"arm": "external"},
        "exec": WORDS,
        "settings": {"plugin": {"apiKey": "none", "token": "${HOST_KEY}", "topK": 5}},
        "env": ["MODEL_FOLDER"],
        "embedder": {"model": "m", "dimension": 1536},
        "timeouts": {"recall": 2, "hello": 60},
    }
    settings = read_settings(config, "live.json")
    assert settings.timeouts == {**TIMEOUTS, "recall": 2.0}
    again = json.loads(json.dumps(settings.as_json()))
    assert again["timeouts"] == {"recall": 2.0}
    assert read_settings(again, "again") == settings


def test_arm_is_named_with_its_command_or_url() -> None:
    specs = parse_arms(
        ["a=exec:python 'my host.py' --fast", "b=http://127.0.0.1:9000/x", "c=http:https://localhost/", "d@256=exec:x"]
    )
    assert [(spec.name, spec.system) for spec in specs] == [(name, "external") for name in ("a", "b", "c", "d@256")]
    configs: list[Any] = [spec.config for spec in specs]
    assert configs[0]["exec"] == ["python", "my host.py", "--fast"]
    assert [config["url"] for config in configs[1:3]] == ["http://127.0.0.1:9000/x", "https://localhost/"]
    assert configs[3]["lab"]["tokens"] == 256


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a=exec:python 'host.py", "--arm a=exec:…: is not a command line: No closing quotation"),
        ("=exec:python", "--arm =exec:…: give the arm a name of its own"),
        ("hybrid=exec:python", "--arm hybrid=exec:…: give the arm a name of its own"),
    ],
)
def test_unusable_arm_is_refused(text: str, message: str) -> None:
    with pytest.raises(UnusableInput) as caught:
        parse_arms([text])
    assert str(caught.value) == message


def test_arm_of_a_file_reads_it(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text("lab: {arm: external}\nexec: [python, host.py]\nsettings: {top: 5}\n", "utf-8")
    (spec,) = parse_arms([f"mine={file}"])
    settings = read_settings(spec.config, spec.where)
    assert (settings.command, settings.settings) == (("python", "host.py"), {"top": 5})


def test_missing_variable_is_named_before_anything_is_started(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HOST_KEY", raising=False)
    with pytest.raises(UnusableInput) as caught:
        make(ArmSpec("live", "external", {"exec": WORDS, "env": ["HOST_KEY"]}, "live.json"))
    message = "live.json: the environment variable HOST_KEY is not set; set it, or remove it there"
    assert str(caught.value) == message


def test_external_is_a_system_by_name() -> None:
    assert BUILT_IN["external"] == "lab.systems.external.arm:make"


def test_every_failure_that_the_documentation_lists_has_a_remedy() -> None:
    page = (Path(__file__).parents[3] / "docs" / "external.md").read_text("utf-8")
    table = page.partition("| kind | meaning | what to do |")[2].partition("\n\n")[0]
    rows = [line.split("|")[1] for line in table.splitlines() if line.startswith("| `")]
    kinds = {kind for row in rows for kind in re.findall(r"`(\w+)`", row)}
    assert {*REMEDIES} - kinds == {"http_403"}
    assert [kind for kind in kinds if not remedy(f"{kind} in recall at 10 s", "live")] == []
    assert remedy("timed_out in observe at 30 s", "live").endswith("raise timeouts.observe in the arm's file")
    assert remedy("ValueError in select at words:12", "live") == ""
