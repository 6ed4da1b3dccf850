"""Capture 5,000 secret-like strings and 5,000 near misses under profile seed, and count leaks and false alarms.

Run with ``python tests/trials/secret_lines.py [SEED]``. A leak is a secret, or 8 characters of it in a row, in a stored
text, a scope, a receipt, a log line or the writes of the replay. A false alarm is a near miss counted as a secret.
"""

from __future__ import annotations

import base64
import hashlib
import json
import random
import string
import sys
import uuid
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from lab.systems.openclaw.capture.pipeline import Captured, Message, capture
from lab.systems.openclaw.capturing import SEED
from lab.systems.openclaw.config.resolve import resolve
from tests.conformance.capture import Captures
from tests.conformance.embedding import embed

NUMBER = 5000
CONFIG = resolve({"autoCapture": {"captureTodo": True, "maxItemsPerTurn": 4, "maxTodoPerTurn": 3}}, "seed")
LOWER, UPPER, DIGITS = string.ascii_lowercase, string.ascii_uppercase, string.digits
MIXED = LOWER + UPPER + DIGITS
WORDS = (
    "account",
    "action",
    "batch",
    "billing",
    "branch",
    "buffer",
    "cache",
    "client",
    "cluster",
    "column",
    "commit",
    "config",
    "cursor",
    "deploy",
    "design",
    "editor",
    "engine",
    "export",
    "feature",
    "filter",
    "folder",
    "gateway",
    "handler",
    "header",
    "import",
    "index",
    "layout",
    "ledger",
    "limit",
    "logger",
    "memory",
    "metric",
    "migration",
    "module",
    "network",
    "notice",
    "option",
    "order",
    "panel",
    "parser",
    "payment",
    "pipeline",
    "plugin",
    "policy",
    "profile",
    "project",
    "prompt",
    "query",
    "queue",
    "record",
    "release",
    "render",
    "report",
    "request",
    "retry",
    "schema",
    "scope",
    "search",
    "server",
    "service",
    "session",
    "settings",
    "sidebar",
    "signal",
    "source",
    "staging",
    "status",
    "store",
    "stream",
    "system",
    "table",
    "target",
    "template",
    "thread",
    "ticket",
    "timer",
    "token",
    "topic",
    "update",
    "user",
    "vector",
    "version",
    "view",
    "webhook",
    "widget",
    "window",
    "worker",
)


@dataclass(frozen=True, slots=True)
class Case:
    """A message, its kind, and the secret in it (blank for a near miss)."""

    kind: str
    text: str
    secret: str = ""


class Maker:
    """Messages from a seed."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def of(self, alphabet: str, length: int) -> str:
        return "".join(self.random.choice(alphabet) for _ in range(length))

    def word(self) -> str:
        return self.random.choice(WORDS)

    def encoded(self, octets: int) -> str:
        return base64.b64encode(self.random.randbytes(octets)).decode()

    def secret(self) -> tuple[str, str]:
        """Return the kind of a secret and the secret."""
        kinds: dict[str, Callable[[], str]] = {
            "openai": lambda: "sk-" + self.of(MIXED, 48),
            "openai project": lambda: "sk-proj-" + self.of(MIXED + "_-", 40),
            "anthropic": lambda: "sk-ant-api03-" + self.of(MIXED + "_-", 40),
            "github": lambda: f"gh{self.random.choice('pousr')}_" + self.of(MIXED, 36),
            "github fine": lambda: "github_pat_" + self.of(MIXED + "_", 60),
            "gitlab": lambda: "glpat-" + self.of(MIXED + "_-", 20),
            "slack": lambda: f"xox{self.random.choice('baprs')}-{self.of(DIGITS, 11)}-{self.of(MIXED, 24)}",
            "aws": lambda: "AKIA" + self.of(UPPER + DIGITS, 16),
            "aws secret": lambda: self.of(MIXED + "/+", 40),
            "google": lambda: "AIza" + self.of(MIXED + "_-", 35),
            "stripe": lambda: f"{self.random.choice('sr')}k_live_" + self.of(MIXED, 24),
            "npm": lambda: "npm_" + self.of(MIXED, 36),
            "hugging face": lambda: "hf_" + self.of(MIXED, 34),
            "sendgrid": lambda: f"SG.{self.of(MIXED, 22)}.{self.of(MIXED, 43)}",
            "telegram": lambda: f"{self.of('123456789', 10)}:{self.of(MIXED + '_-', 35)}",
            "jwt": lambda: ".".join(
                ["eyJ" + self.of(MIXED, 20), "eyJ" + self.of(MIXED, 30), self.of(MIXED + "_-", 43)]
            ),
            "base64": lambda: self.encoded(self.random.choice((24, 30, 32, 48))),
            "base62": lambda: self.of(MIXED, self.random.randint(20, 44)),
            "base36": lambda: self.of(LOWER + DIGITS, self.random.randint(24, 40)),
            "generated password": lambda: self.of(MIXED, 18) + self.of("!@#$%^&*", 2) + self.of(MIXED, 2),
        }
        name = self.random.choice(sorted(kinds))
        return name, kinds[name]()

    def password(self) -> str:
        """Return a password as people choose them."""
        return self.random.choice(
            (
                lambda: self.word() + self.of(DIGITS, self.random.randint(1, 4)),
                lambda: self.word().title() + self.of(DIGITS, 2) + self.random.choice("!@#$"),
                lambda: self.of(LOWER + DIGITS, 9) + self.random.choice(DIGITS) + self.random.choice(LOWER),
                lambda: "".join(self.word().title() for _ in range(3)) + self.random.choice(DIGITS),
            )
        )()

    def risky(self) -> Case:
        """Return a message with a secret, by its form or by the name that it is given."""
        if self.random.random() < 0.35:
            secret = self.password()
            said = self.random.choice(
                (
                    "I want the password: {}",
                    "we will set the password to {}",
                    "TODO: log in, my password is {}",
                    'I prefer config {{"password": "{}"}} here',
                    "from now on DB_PASSWORD={} applies",
                    "we decided to use {} as the admin password",
                    "I like `export API_KEY={}` in the shell",
                    "let's use postgres://bob:{}@db.internal/app",
                    "密碼：{}，我們決定採用",
                    "我們決定密碼改成 {}",
                    "提醒我登入密碼是 {}",
                    "待辦：後台的金鑰：{} 要更新",
                    "we decided on the password:\nTODO: {}",
                    "決定採用新的密碼：\n「{}」我喜歡這個",
                )
            )
            return Case("named", said.format(secret), secret)
        kind, secret = self.secret()
        said = self.random.choice(
            (
                "I prefer {} for staging",
                "TODO: rotate {} before Friday",
                "We decided to keep `{}` in the vault",
                'let\'s use "{}" as before',
                "from now on ({}) is the value",
                "我們決定採用 {} 這一組",
                "待辦：更新「{}」",
                "提醒我把{}換掉",
                "I like const key = '{}'; in the code",
                "SPLIT",
                "```\nI prefer {} in code\n```\nI like short answers in the morning",
                "> we will keep {} here",
            )
        )
        if said == "SPLIT":
            at = self.random.randint(len(secret) // 3, 2 * len(secret) // 3)
            end = self.random.choice(("\n", "\n  ", "\\\n", '" +\n  "'))
            return Case(f"{kind}, split", f"TODO: rotate {secret[:at]}{end}{secret[at:]} I want it soon", secret)
        return Case(kind, said.format(secret), secret)

    def benign(self) -> Case:
        """Return a message with a string that is long or speaks of secrets, and is none."""
        words = [self.word() for _ in range(4)]
        kinds: dict[str, Callable[[], str]] = {
            "camelCase": lambda: words[0] + "".join(word.title() for word in words[1:]),
            "PascalCase": lambda: "".join(word.title() for word in words) + self.of(DIGITS, 1),
            "snake_case": lambda: "_".join(words),
            "CONSTANT": lambda: "_".join(words).upper(),
            "kebab-case": lambda: "-".join(words) + "-v2",
            "path": lambda: "/home/" + "/".join(words) + ".tsx",
            "url": lambda: f"https://{words[0]}.example.com/{words[1]}/{self.of(MIXED, 24)}?page=2",
            "commit": lambda: hashlib.sha1(self.random.randbytes(8)).hexdigest(),
            "sha256": lambda: hashlib.sha256(self.random.randbytes(8)).hexdigest(),
            "sri": lambda: "sha256-" + self.encoded(32),
            "uuid": lambda: str(uuid.UUID(bytes=self.random.randbytes(16))),
            "base64 words": lambda: base64.b64encode(" ".join(words).encode()).decode(),
            "package": lambda: f"com.example.{words[0]}.{words[1].title()}{words[2].title()}Factory",
            "version": lambda: f"{words[0]}-{words[1]}-2.0.{self.of(DIGITS, 1)}-py3-none-any.whl",
            "number": lambda: self.of(DIGITS, 24),
            "email": lambda: f"{words[0]}.{words[1]}{self.of(DIGITS, 2)}@{words[2]}-{words[3]}.example.org",
            "time": lambda: f"2026-07-19T10:{self.of('012345', 2)}:00.{self.of(DIGITS, 3)}Z",
            "object id": lambda: self.random.randbytes(12).hex(),
        }
        if self.random.random() < 0.3:
            said = self.random.choice(
                (
                    "I want the password to be required for {} users",
                    "we decided the password must have 12 characters in the {}",
                    "I prefer tokens over cookies for the {}",
                    "we will rotate API tokens of the {} every 90 days",
                    "TODO: move the secret of the {} into the vault",
                    "from now on the token limit of the {} is 4096",
                    "I like the {} password policy to be strict",
                    "我們決定 {} 的密碼要定期更換",
                    "我不要用密碼登入 {}",
                    "待辦：{} 的金鑰由 vault 管理",
                    "提醒我 {} 的驗證碼改用簡訊",
                    "we decided that the access key of the {} is stored in the vault",
                )
            )
            return Case("about secrets", said.format(" ".join(words[:2])))
        name = self.random.choice(sorted(kinds))
        said = self.random.choice(
            (
                "I prefer {} for this",
                "TODO: check {} again",
                "We decided to keep `{}` here",
                "我們決定採用 {} 這個",
                "提醒我看 {}",
            )
        )
        return Case(name, said.format(kinds[name]()))


def captured(text: str) -> Captured:
    """Capture one message on an empty table."""
    return capture([Message((text,), "t1")], CONFIG, SEED, Captures(), now_ms=1, embed=embed)


def leaks(case: Case) -> bool:
    """Return whether anything that a capture leaves behind holds 8 characters of the secret in a row."""
    result = captured(case.text)
    left = json.dumps([[item.text, item.scope, item.source] for item in result.stored], ensure_ascii=False)
    left += json.dumps([result.receipt, result.log], ensure_ascii=False)
    size = min(8, len(case.secret))
    return any(case.secret[at : at + size] in left for at in range(len(case.secret) - size + 1))


def is_alarm(case: Case) -> bool:
    """Return whether a near miss is counted as a secret."""
    receipt = captured(case.text).receipt
    return receipt is not None and receipt["filteredOut"]["secrets_like"] > 0


def main(seed: int) -> int:
    """Print both counts by kind; return 1 if anything leaks."""
    maker = Maker(seed)
    risky = [maker.risky() for _ in range(NUMBER)]
    benign = [maker.benign() for _ in range(NUMBER)]
    leaked = [case for case in risky if leaks(case)]
    alarms = [case for case in benign if is_alarm(case)]
    print(f"seed {seed}: {len(leaked)} of {len(risky)} secrets leak, {len(alarms)} of {len(benign)} near misses alarm")
    for title, cases in (("leaks", leaked), ("false alarms", alarms)):
        for kind, count in Counter(case.kind for case in cases).most_common():
            print(f"{title}: {kind}: {count}, such as {next(case.text for case in cases if case.kind == kind)!r}")
    return int(bool(leaked))


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 0))
