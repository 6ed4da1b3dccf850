"""A live plugin in the lab's Node host, spoken to directly, and an embedding provider that can fail."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from lab.base.errors import CannotMeasure
from lab.embedding.embedder import DOCUMENT, Role
from lab.embedding.server import EmbeddingServer
from lab.systems.external.plugin import HOST
from tests.conformance.embedding import DIMENSION, embed

MODEL = "text-embedding-3-small"


class Provider:
    """Vectors of hashed words. Texts in ``refused``, and all while it is ``down``, get an error."""

    dimension = DIMENSION

    def __init__(self) -> None:
        self.refused: Collection[str] = ()
        self.down = False
        # All texts that it was sent, in order.
        self.asked: list[str] = []

    def prepare(self, texts: Sequence[str], role: Role = DOCUMENT) -> int:
        """Refuse what is to be refused."""
        self.asked += texts
        if self.down or not set(texts).isdisjoint(self.refused):
            raise CannotMeasure("down")
        return len(texts)

    def of(self, texts: Sequence[str], role: Role = DOCUMENT) -> np.ndarray:
        """Return float32 ``[len(texts), dimension]``."""
        return np.stack([embed(text) for text in texts])


class Plugin:
    """A plugin under one configuration, with ``home`` as its home and ``env`` beside what every plugin is told."""

    def __init__(
        self,
        node: str,
        settings: Mapping[str, Any],
        home: Path,
        server: EmbeddingServer,
        env: Mapping[str, str] | None = None,
        **hello: Any,
    ) -> None:
        home.mkdir(parents=True, exist_ok=True)
        self.home = home.resolve()
        env = {"PATH": os.environ["PATH"], "HOME": str(self.home), "TMPDIR": str(self.home)} | dict(env or {})
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(
            [node, "--no-warnings", str(HOST)], stdin=pipe, stdout=pipe, text=True, encoding="utf-8", env=env
        )
        self._count = 0
        offered = {"url": server.url, "model": server.model, "dimension": server.dimension}
        told: dict[str, Any] = {
            "protocol": 1,
            "conversation": "peers",
            "seed": 0,
            "scoping": "tags",
            "captures": False,
            "now_ms": 0,
        }
        told |= {"home": str(self.home), "embedder": offered, "settings": dict(settings)} | hello
        try:
            self.about = self.ask("hello", **told)
        except BaseException:
            self.__exit__(None, None, None)
            raise

    def __enter__(self) -> Plugin:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process.stdin:
            self._process.stdin.close()
        if self._process.stdout:
            self._process.stdout.close()
        self._process.wait(60)

    def answer(self, operation: str, **values: Any) -> dict[str, Any]:
        """Return the answer to one request."""
        if self._process.stdin is None or self._process.stdout is None:
            raise RuntimeError("the host has no pipes")
        self._count += 1
        self._process.stdin.write(json.dumps({"id": self._count, "op": operation} | values) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"the host ended with {self._process.wait(60)} at {operation}")
        answer: dict[str, Any] = json.loads(line)
        if answer.pop("id") != self._count:
            raise RuntimeError(f"the host answered another request than {operation}")
        return answer

    def ask(self, operation: str, **values: Any) -> Any:
        """Return the result of one request; raise RuntimeError for an error."""
        answer = self.answer(operation, **values)
        if not answer["ok"]:
            raise RuntimeError(f"{operation}: {answer['error']}")
        return answer["result"]

    def tool(self, name: str, at: int, **params: Any) -> Any:
        """Call one of the plugin's tools with its clock at ``at``."""
        return self.ask("tool", name=name, now_ms=at, params=params)
