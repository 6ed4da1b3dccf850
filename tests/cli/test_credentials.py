"""Credentials in the URIs of a configuration never appear in manifests, figures or messages."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

from lab.base.formatting import without_credentials
from lab.cli.main import app, main

ROOT = Path(__file__).resolve().parents[2]
SECRETS = ("hunter2", "sk-live", "s3cret")
CONFIG = {
    "dbPath": "s3://ada:hunter2@bucket.example/memories?access_token=s3cret",
    "docsColdLane": {"sqlitePath": "/home/ada/.openclaw/memory.sqlite?api_key=sk-live"},
    "autoRecall": {"maxItems": 4},
}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("https://me:pw@host/v1?api_key=x&n=3#top", "https://***@host/v1?api_key=***&n=3#top"),
        ("db://token@host", "db://***@host"),
        ("cannot open s3://a:b@c/d, nor s3://e:f@g", "cannot open s3://***@c/d, nor s3://***@g"),
        ("/home/ada/x?X-Amz-Signature=abc;AuthToken=y", "/home/ada/x?X-Amz-Signature=***;AuthToken=***"),
        ("https://host/#access_token=x&n=3", "https://host/#access_token=***&n=3"),
        ("openai:nomic-embed-text@http://127.0.0.1:11434/v1?batch=4", None),
        ("C:/me@work/x and run:/me@work", None),
        ("/home/ada/memories, ada@example.org, a = b, keys?no", None),
    ],
)
def test_without_credentials_keeps_everything_else(text: str, expected: str | None) -> None:
    assert without_credentials(text) == (expected or text)
    assert without_credentials(without_credentials(text)) == without_credentials(text)


@pytest.fixture
def arm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "arm.json").write_text(json.dumps(CONFIG))
    return tmp_path / "arm.json"


def test_manifest_has_no_credentials(arm: Path) -> None:
    path = "store:/ada:hunter2@host/traps"
    shutil.copytree(ROOT / "datasets/traps", path)
    words = ("replay", path, "--format", "lab", "--embedder", "hashing", "--limit", "1")
    done = CliRunner().invoke(app, [*words, "--arm", f"engine={arm.name}", "--out", "run"])
    assert done.exit_code == 0, done.output
    for file in Path("run").rglob("*"):
        if file.is_file():
            assert not [one for one in SECRETS if one.encode() in file.read_bytes()], file
    assert "store:/***@host/traps" in Path("run/manifest.json").read_text()


@pytest.mark.parametrize("words", [("config", "show"), ("config", "show", "--json"), ("config", "check")])
def test_config_commands_print_no_credentials(words: tuple[str, ...], arm: Path) -> None:
    done = CliRunner().invoke(app, [*words, arm.name])
    assert not [one for one in SECRETS if one in done.output], done.output


def test_message_with_path_has_no_credentials(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    path = "https://ada:hunter2@host/set?api_key=sk-live"
    monkeypatch.setattr("sys.argv", ["lab", "recordings", "validate", path, "--format", "lab"])
    with pytest.raises(SystemExit) as end:
        main()
    assert end.value.code == 2
    assert capfd.readouterr().err == "error: https:/***@host/set?api_key=***: no such file or folder\n"
