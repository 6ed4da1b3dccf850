"""Tests of the recognition of secrets: families of the plugin, and what profile seed finds besides."""

from __future__ import annotations

import random
import string
from pathlib import Path

import pytest
from detect_secrets import SecretsCollection
from detect_secrets.settings import default_settings
from hypothesis import given
from hypothesis import strategies as st

from lab.systems.openclaw.capture.entropy import decoded, is_password, is_random, likeness, random_strings
from lab.systems.openclaw.capture.secrets import (
    holds_secret,
    looks_secret,
    looks_secret_to_plugin,
    redact,
    redact_all,
    secret_spans,
)
from tests.trials.secret_lines import Maker, captured, is_alarm, leaks

# What the plugin does not know.
ONLY_SEED = """my password is hunter2
set the password to hunter2 for now
use hunter2 as the admin password
密碼：abc
密碼是 hunter2
我的密碼是「芝麻開門」
提款卡密碼 1234 寫在背面
DB_PASSWORD=hunter
{"password": "hunter2"}
os.environ["API_TOKEN"] = "abcd1234"
postgres://bob:hunter2@db.internal/app
curl -u bob:hunter2 https://example.org
mysql -u root -pS3cret db
the PIN for the door is 4821
Authorization: Basic dXNlcjpwYXNzd29yZA==
I prefer Xk9mPq2LvR8sTnYw4Zc7 here
eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.abcdefghijk
the gate code changes to 5 5 0 8 from Friday
4 4 1 7 opens the garage
the safe is left 31, right 07, left 88
my telephone PIN is four oh two nine
log in to the wifi with tortilla-88-blue
host panel: user bob / pw axolotl-9
the first half is kl56mn78opqr
Remember the card 4111 1111 1111 1111
LIC-77XQ-A3KD-9PL2-0ZQ4
還有資料庫的密碼改成 pine鳳梨酥#2026 了
保健室藥櫃密碼鎖 3-1-7-7
OTP 一七七四零九
帳：banai 密：river-3952
金鑰前半是 ab12cd34ij
-----END OPENSSH PRIVATE KEY-----
[NOMEM] I prefer tea""".splitlines()
BENIGN = """the password is required
the password must be 12 characters long
we will use token auth
the token is valid for 24h
I like the secret sauce
密碼長度至少 12 個字元
我不要用密碼登入
token limit is 4096 from now on
commit 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b
550e8400-e29b-41d4-a716-446655440000
https://docs.google.com/document/d/1A2b3C4d5E6f7G8h9I0jKlMnOpQrStUvWxYz/edit
/home/user/projects/MyProject/src/components/UserProfileSettings.tsx
getUserProfileSettingsByAccountIdentifier
c2VjdGlvbiByZXByb2R1Y2VzIG11c3QgY29tYmluZQ==
我喜歡使用者體驗設計系統元件庫的命名方式
we'll move the password to 1Password
sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855
data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAUAAAAFCAYAAACNbyblAAAAHElEQVQI12P4
we decided on AES-256-GCM encryption
the gate code expires after 1000 hours
the access code was changed in 2026
the building code of 2024-03-01 applies
port 8443 opens the panel for 2 users
密碼至少 12 個字，90 天換一次
密碼那位客人的訂單是 PS20260504-0093171
turn left 200 m, then right
commit 9f3ac1e7b20d4c55e1a8 in the settle repo
the image digest is sha256:9d0c4b1e77fa20
the LUT is SL_ep04_v12_7f3b9c.cube now
log in with OAuth2 from now on
part TR-115062-EX0098 was ordered
export PASSWD_FILE=/etc/app/passwords.txt is the path""".splitlines()


@pytest.mark.parametrize("text", ONLY_SEED)
def test_holds_secret_finds_what_the_plugin_does_not_know(text: str) -> None:
    assert holds_secret(text)
    assert not looks_secret(text)


@pytest.mark.parametrize("text", BENIGN)
def test_holds_secret_leaves_long_and_similar_texts(text: str) -> None:
    assert not holds_secret(text), [text[start:end] for start, end in secret_spans(text)]


@pytest.mark.parametrize(
    "text",
    [
        "rotate ghp_abcdefghijklm\nnopqrstuvwxyz0123 now",
        'key = "Xk9mPq2LvR" +\n  "8sTnYw4Zc7Qh"',
        "password:\n  hunter2",
    ],
)
def test_secret_spans_cover_both_lines_of_a_split_secret(text: str) -> None:
    first, second = text.index("\n") - 1, text.index("\n") + 4
    spans = secret_spans(text)
    assert any(start <= first < end for start, end in spans)
    assert any(start <= second < end for start, end in spans)
    assert holds_secret(text)


@given(st.text(max_size=200))
def test_redact_all_leaves_no_secret_and_changes_nothing_else(text: str) -> None:
    redacted = redact_all(text)
    if not secret_spans(text):
        assert redacted == text
    said = f"{text} my password is hunter2 {text}"
    assert "hunter2" not in redact_all(said)


def test_redact_replaces_known_forms_only() -> None:
    assert redact("Bearer abcdefgh and password: x") == "Bearer [REDACTED] and password: x"
    assert redact_all("from now on password: hunter2 holds") == "from now on [REDACTED] holds"


def test_random_strings_tell_keys_from_words_and_hashes() -> None:
    draw = random.Random(7)
    mixed = string.ascii_letters + string.digits
    keys = ["".join(draw.choice(mixed) for _ in range(24)) for _ in range(2000)]
    assert sum(not is_random(key) for key in keys) <= 4
    assert sum(is_random(draw.randbytes(20).hex()) for _ in range(500)) == 0
    assert likeness("getUserProfileSettings") > 0 > likeness("Xk9mPq2LvR8sTnYw4Zc7")
    assert is_password("xK9#mP2$vL5@nQ8w")
    assert not is_password("correct.real43@example.org")
    assert decoded("aGVsbG8gd29ybGQ=") == "hello world"
    # Slashes do not make a path of a key in base64.
    assert is_random("BicUbuVmMPdXrW9+Avl/os30Di4cCHRa")
    assert not is_random("Library/Fonts/Roman2/READMES/v12/Index")
    assert random_strings("see https://x.org/Xk9mPq2LvR8sTnYw4Zc7 here") == []


def judged(lines: list[str], path: Path) -> set[int]:
    """Return the numbers of the lines in which detect-secrets finds a secret, with its default settings."""
    path.write_text("\n".join(line.replace("\n", " ") for line in lines), "utf-8")
    found = SecretsCollection()
    with default_settings():
        found.scan_file(str(path))
    return {secret.line_number for _, secret in found}


@pytest.mark.parametrize("seed", [11, 12])
def test_no_generated_secret_is_left_and_an_outside_judge_agrees(seed: int, tmp_path: Path) -> None:
    """detect-secrets finds many of the secrets in what was said, and none in what was stored."""
    maker = Maker(seed)
    cases = [maker.risky() for _ in range(400)]
    assert [case.text for case in cases if leaks(case)] == []
    stored = [item.text for case in cases for item in captured(case.text).stored]
    assert len(stored) > 10
    assert len(judged([case.text for case in cases], tmp_path / "said.txt")) > 60
    assert judged(stored, tmp_path / "stored.txt") == set()


def test_near_misses_are_no_false_alarms() -> None:
    maker = Maker(13)
    alarms = [case.text for case in (maker.benign() for _ in range(500)) if is_alarm(case)]
    assert len(alarms) <= 1, alarms


@pytest.mark.parametrize(
    "piece",
    [
        *(
            "a",
            "a.",
            "a_",
            "password ",
            "password for the a b ",
            "密碼是",
            "Bearer ",
            "eyJabcdefgh.",
            "a://b:",
            "curl ",
        ),
        *("gate code ", "1 ", "left 1 ", "code for the a ", "log in a ", "one two ", "密碼a", "AB12-", "first half "),
    ],
)
def test_holds_secret_takes_time_in_proportion_to_hostile_texts(piece: str) -> None:
    holds_secret(piece * (48_000 // len(piece)))


@pytest.mark.parametrize(
    ("text", "known"),
    [
        ("-----BEGIN PGP PRIVATE KEY BLOCK-----", False),
        ("-----BEGIN RSA  PRIVATE KEY-----", True),
        ("-----BEGIN PRIVATE KEY-----", True),
        ("sk-abcdefghijklmnopqrst_", False),
        ("Authorization:bearer abcdefghijkl=mnop.q", True),
    ],
)
def test_plugin_knows_its_own_forms_of_keys_alone(text: str, known: bool) -> None:
    assert looks_secret_to_plugin(text) is known
    assert looks_secret(text)
