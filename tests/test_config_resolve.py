"""The configuration that a host uses: includes, variables, and the file that decides a key (HC-1 to HC-8)."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from lab.base.config_env import config_if_named, config_named, config_of, dotenv_files, references, state_of, user_path
from lab.base.config_resolve import MAX_BYTES, MAX_DEPTH, Resolved, resolve_config
from lab.base.config_text import MISSING
from lab.base.errors import UnusableInput


def written(folder: Path, **files: Any) -> Path:
    """Write files, named without ``.json``; return the one named ``main``."""
    for name, value in files.items():
        text = value if isinstance(value, str) else json.dumps(value)
        (folder / f"{name}.json").write_text(text)
    return folder / "main.json"


def resolved(folder: Path, environ: Mapping[str, str] | None = None, **files: Any) -> Resolved:
    return resolve_config(written(folder, **files), environ=environ or {})


def refusal(folder: Path, environ: Mapping[str, str] | None = None, **files: Any) -> str:
    with pytest.raises(UnusableInput) as caught:
        resolved(folder, environ, **files)
    text = str(caught.value)
    assert "\n" not in text
    return text


def test_include_of_a_file_stands_for_its_value(tmp_path: Path) -> None:
    found = resolved(tmp_path, main={"plugins": {"$include": "./p.json"}, "x": 1}, p="{ slots: { memory: 'm' }, }")
    assert found.value == {"plugins": {"slots": {"memory": "m"}}, "x": 1}
    assert [file.name for file in found.included] == ["p.json"]


def test_include_of_a_list_merges_in_order_and_joins_lists(tmp_path: Path) -> None:
    found = resolved(
        tmp_path,
        main={"$include": ["a.json", "b.json"], "deep": {"z": 3}},
        a={"deep": {"x": 1, "y": 1}, "list": [1], "kept": None},
        b={"deep": {"y": 2}, "list": [2], "kept": "b"},
    )
    assert found.value == {"deep": {"x": 1, "y": 2, "z": 3}, "list": [1, 2], "kept": "b"}


def test_include_beside_keys_is_overridden_by_them(tmp_path: Path) -> None:
    found = resolved(tmp_path, main={"a": {"x": "own", "$include": "i.json"}}, i={"x": "included", "y": [1]})
    assert found.value == {"a": {"x": "own", "y": [1]}}


def test_include_names_are_relative_to_the_including_file(tmp_path: Path) -> None:
    (tmp_path / "parts" / "deep").mkdir(parents=True)
    (tmp_path / "parts" / "one.json").write_text('{"b": {"$include": "deep/two.json"}}')
    (tmp_path / "parts" / "deep" / "two.json").write_text('{"c": {"$include": "../three.json"}}')
    (tmp_path / "parts" / "three.json").write_text("[1, 2]")
    found = resolved(tmp_path, main={"a": {"$include": "parts/one.json"}})
    assert found.value == {"a": {"b": {"c": [1, 2]}}}


def test_include_inside_a_list_is_resolved(tmp_path: Path) -> None:
    assert resolved(tmp_path, main={"list": [{"$include": "i.json"}]}, i={"x": 1}).value == {"list": [{"x": 1}]}


def test_include_drops_names_of_the_prototype_when_it_merges(tmp_path: Path) -> None:
    found = resolved(tmp_path, main={"$include": "i.json", "constructor": 1, "a": 1}, i={"__proto__": 1, "b": 2})
    assert found.value == {"a": 1, "b": 2}


def test_include_up_to_the_depth_limit_is_read_and_one_more_is_refused(tmp_path: Path) -> None:
    chain: dict[str, Any] = {f"f{at}": {"$include": f"f{at + 1}.json"} for at in range(MAX_DEPTH)}
    last = {f"f{MAX_DEPTH}": {"end": True}}
    assert resolved(tmp_path, main={"$include": "f1.json"}, **chain, **last).value == {"end": True}
    assert "more than 10 files include one another" in refusal(tmp_path, main={"$include": "f0.json"}, **chain, **last)


@pytest.mark.parametrize(
    ("main", "files", "message"),
    [
        ({"a": {"$include": "gone.json"}}, {}, "main.json: a: $include 'gone.json': "),
        ({"$include": "main.json"}, {}, "includes itself: main.json -> main.json"),
        ({"$include": "a.json"}, {"a": {"x": {"$include": "a.json"}}}, "a.json: x: $include 'a.json': includes itself"),
        ({"$include": "../out.json"}, {}, "is outside of "),
        ({"$include": "/etc/hostname"}, {}, "is outside of "),
        ({"$include": 7}, {}, "$include: expected a file or a list of files, found a number"),
        ({"$include": ["a.json", None]}, {"a": {}}, "$include: expected names of files, found null"),
        ({"$include": "a\0.json"}, {}, "is no name of a file"),
        ({"$include": "x" * 5000}, {}, "is no name of a file"),
        ({"$include": "."}, {}, "is a folder, not a file"),
        ({"$include": "a.json"}, {"a": "{a: "}, "a.json:1: neither JSON nor JSON5"),
        ({"$include": "a.json"}, {"a": ""}, "a.json:1: is empty"),
        ({"x": 1, "$include": "a.json"}, {"a": [1]}, "beside other keys needs a file with an object, found a list"),
    ],
)
def test_include_that_the_host_refuses_is_one_line(tmp_path: Path, main: Any, files: Any, message: str) -> None:
    assert message in refusal(tmp_path, main=main, **files)


def test_include_of_a_pipe_is_refused_and_not_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.json")
    assert "is a pipe, not a file" in refusal(tmp_path, main={"$include": "pipe.json"})


def test_include_of_a_large_file_or_one_with_two_names_is_refused(tmp_path: Path) -> None:
    (tmp_path / "big.json").write_bytes(b" " * (MAX_BYTES + 1))
    assert "the host reads at most 2,097,152" in refusal(tmp_path, main={"$include": "big.json"})
    (tmp_path / "one.json").write_text("{}")
    os.link(tmp_path / "one.json", tmp_path / "two.json")
    assert "has several names" in refusal(tmp_path, main={"$include": "two.json"})


def test_include_through_a_link_is_refused_outside_and_read_inside(tmp_path: Path) -> None:
    home, out = tmp_path / "home", tmp_path / "out"
    home.mkdir()
    out.mkdir()
    (out / "i.json").write_text('{"x": 1}')
    (home / "link.json").symlink_to(out / "i.json")
    assert "is a link to" in refusal(home, main={"$include": "link.json"})
    (home / "real.json").write_text('{"x": 2}')
    (home / "inner.json").symlink_to(home / "real.json")
    assert resolved(home, main={"$include": "inner.json"}).value == {"x": 2}


def test_include_outside_is_read_from_a_folder_that_the_variable_names(tmp_path: Path) -> None:
    home, out = tmp_path / "home", tmp_path / "out"
    home.mkdir()
    out.mkdir()
    (out / "i.json").write_text('{"x": 1}')
    found = resolved(home, {"OPENCLAW_INCLUDE_ROOTS": str(out)}, main={"$include": str(out / "i.json")})
    assert found.value == {"x": 1}
    assert "is outside of" in found.decides(("x",)).why_not


def test_a_file_of_the_lab_is_taken_as_it_is_written(tmp_path: Path) -> None:
    value = {"lab": {"arm": "external"}, "exec": ["sh", "-c", "echo ${HOME}"], "x": {"$include": "gone.json"}}
    assert resolved(tmp_path, {"HOME": "/h"}, main=value).value == value


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("${A}", "1"),
        ("${A}${B}", "12"),
        ("x${A}/y${A}", "x1/y1"),
        ("$${A}", "${A}"),
        ("$$${A}", "$${A}"),
        ("${a}", "${a}"),
        ("${A1}", "3"),
        ("${_A}", "4"),
        ("${}", "${}"),
        ("${A", "${A"),
        ("$A", "$A"),
        ("${A:-x}", "${A:-x}"),
        ("${ A }", "${ A }"),
        ("${1A}", "${1A}"),
        ("${A-B}", "${A-B}"),
    ],
)
def test_variables_are_put_in_as_the_host_does(tmp_path: Path, text: str, expected: str) -> None:
    found = resolved(tmp_path, {"A": "1", "B": "2", "A1": "3", "_A": "4"}, main={"k": text, "list": [text]})
    assert found.value == {"k": expected, "list": [expected]}
    assert not found.unset


def test_variables_in_keys_stay_as_they_are(tmp_path: Path) -> None:
    assert resolved(tmp_path, {"A": "1"}, main={"${A}": "x"}).value == {"${A}": "x"}


def test_variables_are_not_put_in_twice(tmp_path: Path) -> None:
    assert resolved(tmp_path, {"A": "${B}", "B": "2"}, main={"k": "${A}"}).value == {"k": "${B}"}


def test_unset_variables_are_all_named_with_their_keys(tmp_path: Path) -> None:
    found = resolved(tmp_path, {"C": ""}, main={"a": {"b": "${A}${B}"}, "l": ["${C}"], "apiKey": "${D}", "ok": "${E"})
    assert found.value == {"a": {"b": "${A}${B}"}, "l": ["${C}"], "apiKey": "${D}", "ok": "${E"}
    with pytest.raises(UnusableInput) as caught:
        found.require_set(())
    assert "not set: A (a.b), B (a.b), C (l.0), D (apiKey); set them as the gateway has them" in str(caught.value)
    found.require_set(("apiKey",), ("ok",))
    with pytest.raises(UnusableInput, match=r"not set: A \(a\.b\), B \(a\.b\); "):
        found.require_set(("a",))


def test_secrets_stay_references_even_if_their_variables_are_set(tmp_path: Path) -> None:
    value = {"apiKey": "${K}", "botToken": "x${K}", "auth": {"password": "${K}"}, "tokens": ["${K}"], "model": "${M}"}
    found = resolved(tmp_path, {"K": "sk-secret", "M": "m"}, main=value)
    assert "sk-secret" not in str(found.value)
    assert found.value == {**value, "model": "m"}


def test_a_password_that_a_variable_puts_into_a_uri_is_masked(tmp_path: Path) -> None:
    found = resolved(tmp_path, {"URL": "https://me:pw@host/v1"}, main={"baseUrl": "${URL}"})
    assert found.value == {"baseUrl": "https://***@host/v1"}


def test_variables_come_from_the_environment_then_dotenv_then_the_section(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("# none\nexport B=dotenv\nC=\"two words\" # why\nD='#kept'\nE=\nA = dotenv\n1X=no\n")
    main = {
        "env": {"vars": {"C": "vars", "E": "vars", "F": "vars", "G": "vars"}, "G": "section", "H": "${A}", "I": " "},
        "got": "${A},${B},${C},${D},${E},${F},${G}",
        "not": "${H}${I}",
    }
    found = resolved(tmp_path, {"A": "environment"}, main=main)
    assert found.value["got"] == "environment,dotenv,two words,#kept,vars,vars,section"
    assert [each.name for each in found.unset] == ["H", "I"]


def test_variables_of_a_state_folder_that_is_named(tmp_path: Path) -> None:
    state = tmp_path / ".openclaw"
    state.mkdir()
    (state / ".env").write_text("A=state\n")
    (tmp_path / ".config" / "openclaw").mkdir(parents=True)
    (tmp_path / ".config" / "openclaw" / "gateway.env").write_text("A=gateway\nB=gateway\n")
    config = written(tmp_path, main={"k": "${A},${B}"})
    assert resolve_config(config, state=state, environ={}).value == {"k": "state,gateway"}
    assert resolve_config(config, environ={"OPENCLAW_STATE_DIR": str(state)}).value == {"k": "state,gateway"}
    assert len(dotenv_files(tmp_path / "copy")) == 1


def test_a_dotenv_that_is_a_pipe_is_not_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / ".env")
    assert [each.name for each in resolved(tmp_path, main={"k": "${A}"}).unset] == ["A"]


def test_env_cannot_set_what_the_host_protects(tmp_path: Path) -> None:
    found = resolved(tmp_path, main={"env": {"PATH": "/x", "lower": "y"}, "k": "${PATH}"})
    assert [each.name for each in found.unset] == ["PATH"]


def test_unset_says_that_the_host_asks_a_shell(tmp_path: Path) -> None:
    found = resolved(tmp_path, main={"env": {"shellEnv": {"enabled": True}}, "k": "${A}"})
    with pytest.raises(UnusableInput, match="the host would ask a login shell for it"):
        found.require_set(())


def test_decides_names_the_file_and_the_keys_inside_it(tmp_path: Path) -> None:
    found = resolved(
        tmp_path,
        main={"plugins": {"$include": ["a.json", "b.json"], "own": 1}},
        a={"slots": {"memory": "a", "other": "a"}, "only": {"x": 1}},
        b={"slots": {"memory": "b"}},
    )
    decided = {path: found.decides(("plugins", *path)) for path in [("slots", "memory"), ("slots", "other"), ("own",)]}
    assert [(each.file.name, each.path, each.written, each.why_not) for each in decided.values()] == [
        ("b.json", ("slots", "memory"), "b", ""),
        ("a.json", ("slots", "other"), "a", ""),
        ("main.json", ("plugins", "own"), 1, ""),
    ]
    # What no file sets is inserted where it decides: in the last file that has the object.
    assert found.decides(("plugins", "slots", "new"))[:3] == (tmp_path / "b.json", ("slots", "new"), MISSING)
    assert found.decides(("plugins", "only", "y", "z"))[:3] == (tmp_path / "a.json", ("only", "y", "z"), MISSING)
    assert found.decides(("plugins", "new"))[:3] == (tmp_path / "main.json", ("plugins", "new"), MISSING)


def test_decides_says_why_a_value_cannot_be_edited(tmp_path: Path) -> None:
    found = resolved(
        tmp_path,
        {"X": "1"},
        main={"v": "${X}", "l": [1], "$include": "i.json", "t": {"$include": "t.json"}, "u": {"$include": "t.json"}},
        i={"l": [2]},
        t={"k": "v"},
    )
    assert "it comes from the variable X" in found.decides(("v",)).why_not
    assert "it is joined from the lists of i.json and main.json" in found.decides(("l",)).why_not
    assert "t.json is included 2 times" in found.decides(("t", "k")).why_not
    assert "t.json is included 2 times" in found.decides(("t", "new")).why_not
    with pytest.raises(UnusableInput, match=r"main\.json: v: expected an object, found a string"):
        found.decides(("v", "x"))


def test_place_names_file_and_line(tmp_path: Path) -> None:
    found = resolved(tmp_path, main='{\n a: { $include: "i.json" }}', i='{\n\n "k": 1 }')
    assert found.place(("a", "k")) == f"{tmp_path / 'i.json'}:3"
    assert found.place(("a", "gone")) == f"{tmp_path / 'i.json'}:1"


def test_edited_bytes_are_taken_instead_of_those_of_a_file(tmp_path: Path) -> None:
    config = written(tmp_path, main={"a": {"$include": "i.json"}}, i={"x": 1})
    assert resolve_config(config, environ={}, edited={tmp_path / "i.json": b'{"x": 2}'}).value == {"a": {"x": 2}}


def test_config_of_a_host_is_where_its_variables_say(tmp_path: Path) -> None:
    home, elsewhere = tmp_path / "h", tmp_path / "etc" / "o.json"
    environ = {"HOME": str(home)}
    assert config_of(None, environ) == home / ".openclaw" / "openclaw.json"
    (home / ".clawdbot").mkdir(parents=True)
    (home / ".clawdbot" / "clawdbot.json").write_text("{}")
    assert config_of(None, environ) == home / ".clawdbot" / "clawdbot.json"
    (home / ".openclaw").mkdir()
    assert config_of(None, environ) == home / ".openclaw" / "openclaw.json"
    assert config_of(None, environ | {"OPENCLAW_HOME": "~/o"}) == home / "o" / ".openclaw" / "openclaw.json"
    assert config_of(None, environ | {"OPENCLAW_STATE_DIR": "~/s"}) == home / "s" / "openclaw.json"
    assert config_of(None, environ | {"OPENCLAW_CONFIG_PATH": str(elsewhere)}) == elsewhere
    assert state_of(environ | {"OPENCLAW_STATE_DIR": " "}) == home / ".openclaw"
    assert user_path("~", environ) == home


def test_config_of_a_folder_with_its_own_file_is_that_one(tmp_path: Path) -> None:
    state, other = tmp_path / "state", tmp_path / "o.json"
    state.mkdir()
    other.write_text("{}")
    environ = {"OPENCLAW_CONFIG_PATH": str(other), "HOME": str(tmp_path)}
    assert config_of(state, environ) == other
    (state / "openclaw.json").write_text("{}")
    assert config_of(state, environ) == state / "openclaw.json"
    assert config_named(other, {}) == other
    assert config_named(state, {}) == state / "openclaw.json"


def test_references_of_a_text() -> None:
    assert references("${A}$${B}${c}${D_1}") == ("A", "D_1")


def test_config_if_named_needs_an_option_or_the_environment(tmp_path: Path) -> None:
    file = tmp_path / "openclaw.json"
    file.write_text("{}", "utf-8")
    assert config_if_named(None, {"HOME": str(tmp_path)}) is None
    assert config_if_named(tmp_path, {}) == file
    assert config_if_named(None, {"OPENCLAW_STATE_DIR": str(tmp_path)}) == file
    assert config_if_named(None, {"OPENCLAW_CONFIG_PATH": str(file)}) == file
