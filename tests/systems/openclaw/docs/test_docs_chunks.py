"""Chunks of a Markdown file: where it is split, how chunks are named, and what is left out."""

from __future__ import annotations

import hashlib

import pytest

from lab.systems.openclaw.docs.chunks import Chunk, chunk_markdown, doc_kind, slug, ts_hint


def ids(text: str, max_chars: int = 1400) -> list[str]:
    return [chunk.chunk_id for chunk in chunk_markdown(text, "note", max_chars)[0]]


def test_chunks_have_the_path_of_their_headings() -> None:
    text = "Before.\n\n# One\n\nA.\n\n### Deep ###\n\nB.\n\n## Two\n\nC.\n\n# Last\n\nD."
    assert chunk_markdown(text, "note") == (
        [
            Chunk("root:001", "note", "", "Before."),
            Chunk("one:001", "One", "One", "A."),
            Chunk("one-deep:001", "Deep", "One / Deep", "B."),
            Chunk("one-two:001", "Two", "One / Two", "C."),
            Chunk("last:001", "Last", "Last", "D."),
        ],
        0,
    )


def test_headings_replace_those_at_their_number_not_their_level() -> None:
    chunks, _ = chunk_markdown("### Deep\n\nA.\n\n### Next\n\nB.\n\n# \n\nC.", "note")
    assert [chunk.heading_path for chunk in chunks] == ["Deep", "Deep / Next", "(untitled)"]


@pytest.mark.parametrize("fence", ["```", "~~~", "````"])
def test_chunks_are_not_split_at_headings_inside_fenced_code(fence: str) -> None:
    text = f"# Run\n\n{fence}sh\n# not a heading\n{fence}\n\nAfter.\n\n# Next\n\nEnd."
    assert ids(text) == ["run:001", "next:001"]


@pytest.mark.parametrize("line", ["#hashtag", "    # indented code", "####### seven", "#"])
def test_chunks_keep_lines_that_only_look_like_headings(line: str) -> None:
    chunks, _ = chunk_markdown(f"# One\n\nA.\n\n{line}\n\nB.", "note")
    assert [chunk.heading_path for chunk in chunks] == ["One"]
    assert line.strip() in chunks[0].text


def test_chunks_skip_sections_without_text() -> None:
    assert ids("# One\n\n## Two\n\n   \n\n## Three\n\nText.") == ["one-three:001"]


def test_chunk_ids_number_repeated_headings_and_root_chinese_ones() -> None:
    text = "# 部署\n\n甲。\n\n# Todo\n\nA.\n\n# 回復\n\n乙。\n\n# Todo\n\nB.\n\n# 備份\n\n丙。"
    assert ids(text) == ["root:001", "todo:001", "root~2:001", "todo~2:001", "root~3:001"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Café / Déjà vu!", "cafe-deja-vu"),
        ("部署 API v2", "api-v2"),
        ("部署", ""),
        ("--a__b--", "a-b"),
        ("ﬁle", "file"),
    ],
)
def test_slug_keeps_ascii_letters_and_digits(text: str, expected: str) -> None:
    assert slug(text) == expected


def test_chunks_pack_paragraphs_up_to_the_limit() -> None:
    first, second, third = "a" * 120, "b" * 78, "c" * 79
    # 120 + 2 + 78 is exactly the limit; one more character is too many.
    assert [chunk.text for chunk in chunk_markdown(f"{first}\n\n{second}\n \n\n{third}", "n", 200)[0]] == [
        f"{first}\n\n{second}",
        third,
    ]
    assert [chunk.text for chunk in chunk_markdown(f"{first}\n\n{third}", "n", 200)[0]] == [first, third]


def test_chunks_cut_a_long_paragraph_and_keep_its_neighbours_apart() -> None:
    text = f"short\n\n{'x' * 450}\n\nend"
    chunks, _ = chunk_markdown(text, "n", 200)
    assert [chunk.text for chunk in chunks] == ["short", "x" * 200, "x" * 200, "x" * 50, "end"]
    assert [chunk.chunk_id for chunk in chunks] == [f"root:{number:03d}" for number in range(1, 6)]


def test_chunk_limit_is_at_least_200_characters() -> None:
    assert ids("字" * 200, max_chars=5) == ["root:001"]
    assert ids("字" * 201, max_chars=5) == ["root:001", "root:002"]


def test_content_hash_covers_trimmed_heading_path_title_and_text() -> None:
    chunk = Chunk("a:001", "Title", "Path ", "text\n")
    assert chunk.content_hash == hashlib.sha1(b"Path\nTitle\ntext").hexdigest()
    assert chunk._replace(chunk_id="b:001").content_hash == chunk.content_hash
    assert chunk._replace(text="other").content_hash != chunk.content_hash


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("docs/Decisions/001.md", "decision"),
        ("docs/Decision-log.md", "decision"),
        ("a/captain-log/1.md", "log"),
        ("a/logs/specs/x.md", "log"),
        ("specs/decision.md", "decision"),
        ("a/specs/x.md", "spec"),
        ("docs/api-SPEC.md", "spec"),
        ("prd.md", "spec"),
        ("ROADMAP.md", "roadmap"),
        ("blogs/x.md", "doc"),
        ("logs/x.md", "doc"),
    ],
)
def test_doc_kind_is_derived_from_the_path(path: str, kind: str) -> None:
    assert doc_kind(path) == kind


@pytest.mark.parametrize(
    ("text", "path", "hint"),
    [
        ("---\ntitle: x\ndate: 2026-03-01\n---\n", "2025-01-01.md", "2026-03-01"),
        ('---\ndate: "2026-03-01T10:00"\n---\n', "a.md", "2026-03-01"),
        ("---\ntitle: x\n---\ndate: 2026-03-01\n", "log/2025_01_02-x.md", "2025-01-02"),
        ("date: 2026-03-01\n", "a.md", None),
        ("---\n" + "x: y\n" * 40 + "date: 2026-03-01\n---\n", "a.md", None),
        ("", "2025/01/02/a.md", "2025-01-02"),
        ("", "12025-01-023.md", None),
        ("", "1999-01-02.md", None),
    ],
)
def test_ts_hint_prefers_front_matter_over_the_path(text: str, path: str, hint: str | None) -> None:
    assert ts_hint(text, path) == hint


@pytest.mark.parametrize("tag", ["[SECRET]", "[private]", "[NoExport]", "[NOMEM]"])
def test_chunks_leave_out_and_count_tagged_ones(tag: str) -> None:
    chunks, excluded = chunk_markdown(f"# One\n\nA.\n\n# Two\n\n{tag} B.\n\n# Three\n\nC.", "note")
    assert [chunk.heading_path for chunk in chunks] == ["One", "Three"]
    assert excluded == 1


def test_chunks_leave_out_sections_below_a_tagged_heading() -> None:
    chunks, excluded = chunk_markdown("# Open\n\nA.\n\n# Keys [SECRET]\n\nB.\n\n## Old\n\nC.", "note")
    assert [chunk.text for chunk in chunks] == ["A."]
    assert excluded == 2


def test_chunks_leave_out_every_part_of_a_tagged_paragraph() -> None:
    chunks, excluded = chunk_markdown(f"[PRIVATE] {'x' * 500}\n\nopen", "note", 200)
    assert [(chunk.chunk_id, chunk.text) for chunk in chunks] == [("root:004", "open")]
    assert excluded == 3


@pytest.mark.parametrize(
    "line",
    [
        "password: hunter2",
        "export API_KEY=FAKE",
        "-----BEGIN OPENSSH PRIVATE KEY-----",
        "sk-" + "FAKE" * 5,
        "AKIA" + "FAKE" * 4,
        "ghp_" + "FAKE" * 5,
        "xoxb-" + "FAKE" * 3,
        "Authorization: Bearer " + "FAKE" * 4,
    ],
)
def test_chunks_leave_out_what_looks_like_a_secret(line: str) -> None:
    assert chunk_markdown(f"# One\n\nA.\n\n# Two\n\nBefore\n{line}\nafter", "note") == (
        [Chunk("one:001", "One", "One", "A.")],
        1,
    )


def test_chunks_detect_a_secret_that_is_cut_in_two() -> None:
    assert chunk_markdown("x" * 190 + " sk-" + "FAKE" * 5, "note", 200) == ([], 2)


@pytest.mark.parametrize("line", ["my password is safe", "the secret of good tea", "basket-weaving", "[SECRETS]"])
def test_chunks_keep_text_about_secrets(line: str) -> None:
    assert len(chunk_markdown(line, "note")[0]) == 1
