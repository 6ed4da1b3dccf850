"""An external system as an arm: ``--arm NAME=exec:COMMAND``, ``--arm NAME=http:URL``, or a file (EX-11)."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from lab.base.code import __version__
from lab.base.errors import CannotMeasure, UnusableInput
from lab.base.files import digest
from lab.base.shape import expect
from lab.systems.contract import ArmInfo
from lab.systems.external.answers import folder_of, read_identity, save_identity
from lab.systems.external.protocol import VERSION, HostFailed, checked, remedy
from lab.systems.external.session import FIXED, PASSED, EndpointChannel, ProcessChannel, Request, Session, environment
from lab.systems.external.settings import HostSettings, read_settings
from lab.systems.external.system import ExternalSystem, Opening, identity_in
from lab.systems.kit import Kit
from lab.systems.openclaw.capture.secrets import holds_secret, redact_all
from lab.systems.spec import RECORDED, ArmSpec

# How much of a host's stderr a message shows, if it does not start.
_SHOWN = 300


@dataclass(frozen=True)
class ExternalArm:
    """A host with its settings, and who answered when the run was planned."""

    name: str
    settings: HostSettings
    identity: Mapping[str, Any]
    max_items: int | None = None
    depth: int = 50
    is_recorded: bool = False
    # Its answers are checked like those of systems from other packages (EX-17).
    foreign: bool = field(default=True, init=False)

    def describe(self) -> ArmInfo:
        """Describe the arm by the identity that the host gave."""
        who = self.identity
        config = {**self.settings.as_json(), "hello": dict(who), "could_see": could_see(self.settings, who)}
        sources = f" {digest(who['sources'])[:16]}" if who["sources"] else ""
        return ArmInfo(
            self.name,
            "external",
            who["cutoff"],
            who["depth"],
            config,
            f"{who['name']} {who['version']}{sources}",
            who["at_most"],
            who["writes"],
            needs=tuple(who["needs"]) or None,
        )

    @property
    def claims(self) -> tuple[str, ...]:
        """What it must prove before it is scored (EX-22): what it claims, or that it recalls what it was given."""
        embeds = ("embedder",) if "embedder" in self.identity["needs"] else ()
        return tuple(dict.fromkeys((*(self.identity["claims"] or ("relevant",)), *embeds)))

    def open(self, kit: Kit) -> ExternalSystem:
        """Return the system of one conversation; the host is started at its first request."""
        return ExternalSystem(
            Opening(
                self.name,
                self.identity,
                partial(open_session, self.settings),
                self.settings.settings,
                self.settings.embedder,
                self.max_items,
                self.depth,
                _folder(self.settings, self.max_items, self.depth),
                self.is_recorded,
                bool(self.settings.command),
            ),
            kit,
        )


def make(spec: ArmSpec) -> ExternalArm:
    """Make the arm; request the host's identity, unless that is recorded.

    Raises :class:`UnusableInput` for unusable settings or a command that does not exist, and :class:`CannotMeasure` if
    the host does not answer.
    """
    settings = read_settings(spec.config, spec.where, allow_remote=spec.allow_remote)
    folder = _folder(settings, spec.max_items, spec.depth)
    is_recorded = spec.answers == RECORDED
    # A manifest holds the identity, so that its arms are made again without a request.
    known = spec.config.get("hello") if isinstance(spec.config, Mapping) else None
    if is_recorded:
        identity = _checked(known or read_identity(folder, spec.name), spec.where)
    else:
        settings.require_present(spec.where)
        identity = _asked(settings, spec)
        if known is not None and identity != _checked(known, spec.where):
            raise CannotMeasure(f"{spec.where}: another system or version answers now; give the run another --out")
        save_identity(folder, spec.name, identity)
    return ExternalArm(spec.name, settings, identity, spec.max_items, spec.depth, is_recorded)


def could_see(settings: HostSettings, identity: Mapping[str, Any]) -> dict[str, object]:
    """Return what a host could know beyond its requests, for the manifest (EX-9, EX-15).

    No path of the recordings or of the golden set is given to it. A process has the rights of its user all the same.
    """
    probes = "informed which recalls are probes" if identity["stateful"] else "asked like turns"
    if not settings.command:
        return {"files": "the files of its own machine", "probes": probes}
    return {
        "files": "all files of its user, the golden set too if it finds it",
        "working_directory": "the folder where the lab was started",
        "environment": sorted({*PASSED, *FIXED, *settings.env}),
        "probes": probes,
    }


def open_session(settings: HostSettings, home: Path) -> Session:
    """Start a process with this home, or address the endpoint."""
    if settings.command:
        env = environment(home, settings.env, os.environ)
        return Session(ProcessChannel(settings.command, env), settings.timeouts)
    return Session(EndpointChannel(settings.url, settings.key_env), settings.timeouts)


def _folder(settings: HostSettings, max_items: int | None, depth: int) -> Path:
    """Return where its answers are recorded; time-outs and the permission to leave this machine change no answer."""
    deciding = {name: value for name, value in settings.as_json().items() if name not in ("timeouts", "allow_remote")}
    return folder_of({**deciding, "max_items": max_items, "depth": depth})


def _asked(settings: HostSettings, spec: ArmSpec) -> dict[str, Any]:
    """Start the host once and return who it is."""
    hello = {
        "protocol": VERSION,
        "lab": __version__,
        "conversation": None,
        "seed": spec.seed,
        "scoping": "open",
        "captures": False,
        "replies": True,
        "embedder": None,
        "now_ms": 0,
        "max_items": spec.max_items,
        "depth": spec.depth,
        "settings": dict(settings.settings),
    }
    with tempfile.TemporaryDirectory(prefix="recall-lab-", ignore_cleanup_errors=True) as home:
        session: Session | None = None
        try:
            session = open_session(settings, Path(home))
            result, _ = session.ask(Request.of("hello", {**hello, "home": home if settings.command else None}))
            identity = identity_in(result)
            session.close()
        except HostFailed as error:
            if session is not None:
                session.close(politely=False)
            raise _not_answering(error, settings, spec, session.channel.errors() if session else "") from None
        except BaseException:
            if session is not None:
                session.close(politely=False)
            raise
    _require_no_secrets(identity, spec)
    return identity


def _not_answering(error: HostFailed, settings: HostSettings, spec: ArmSpec, errors: str) -> Exception:
    """Return the exception for a host that does not say who it is. It has received no text, so stderr is shown."""
    if error.kind == "died" and error.place == "exit 127":
        return UnusableInput(f"{spec.where}: {settings.command[0]!r} cannot be started; give an executable file")
    last = next((line.strip() for line in reversed(errors.splitlines()) if line.strip()), "")
    # A host that was stopped writes nothing else to stderr.
    stderr = f"; its stderr ends: {redact_all(last)[:_SHOWN]}" if error.kind == "died" and last.isprintable() else ""
    # Requests before the run are not recorded, and a host that does not start may not run at all.
    remedies = {
        "died": "",
        "timed_out": "start it, or raise timeouts.hello in the arm's file",
        "no_answer": "start it, or correct the address",
        "not_json": "only answers may be on stdout, everything else belongs on stderr",
    }
    mended = remedies.get(error.kind, remedy(str(error), spec.name))
    mended = f"; {mended}" if mended else ""
    return CannotMeasure(f"{spec.where}: the host does not answer hello: {error}{stderr}{mended} (docs/external.md)")


def _checked(value: object, where: str) -> dict[str, Any]:
    """Return an identity from a manifest or the cache."""
    with suppress(HostFailed):
        return identity_in(checked(expect(value, dict, f"{where}: hello"), "hello"))
    raise UnusableInput(f"{where}: hello: is no answer to hello of this version of the protocol")


def _require_no_secrets(identity: Mapping[str, Any], spec: ArmSpec) -> None:
    """Raise :class:`UnusableInput` if what would come into the manifest looks like a password or a key (EX-19)."""
    if any(holds_secret(text) for text in _texts(identity)):
        raise UnusableInput(
            f"{spec.where}: the host's answer to hello holds what looks like a password or a key, and the run would "
            "record it; leave it out of config"
        )


def _texts(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    if isinstance(value, Mapping):
        return [text for name, content in value.items() for text in (*_texts(name), *_texts(content))]
    return [text for element in value for text in _texts(element)] if isinstance(value, list | tuple) else []
