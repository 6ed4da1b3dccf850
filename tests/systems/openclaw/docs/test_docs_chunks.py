"""Chunks of a Markdown file: where it is split, how pieces are named, and what is left out."""

from __future__ import annotations

import hashlib

import pytest

from lab.systems.openclaw.docs.chunks import Chunk, chunk_markdown, doc_kind, slug, ts_hint


def ids(text: str, max_chars: int = 1400) -> list[str]:
    return [chunk.chunk_id for chunk in chunk_markdown(text, "note", max_chars)[0]]


def test_sections_carry_the_path_of_their_headings() -> None:
    text = "Before.\n\n# One\n\nA.\n\n### Deep ###\n\nB.\n\n## Two\n\nC.\n\n# Last\n\nD."
    assert chunk_markdown(text, "note") == (
        [
            Chunk("root:001", "One", "", "Before."),
            Chunk("one:001", "One", "One", "A."),
            Chunk("one-deep:001", "One", "One / Deep", "B."),
            Chunk("one-two:001", "One", "One / Two", "C."),
            Chunk("last:001", "One", "Last", "D."),
        ],
        0,
    )


def test_a_document_without_a_first_level_heading_is_titled_by_its_name() -> None:
    assert [chunk.title for chunk in chunk_markdown("## Second\n\nText.", "note")[0]] == ["note"]


@pytest.mark.parametrize("fence", ["```", "~~~", "````"])
def test_a_heading_inside_fenced_code_does_not_split(fence: str) -> None:
    text = f"# Run\n\n{fence}sh\n# not a heading\n{fence}\n\nAfter.\n\n# Next\n\nEnd."
    assert ids(text) == ["run:001", "next:001"]


@pytest.mark.parametrize("line", ["#hashtag", "    # indented code", "####### seven", "#", "# "])
def test_what_looks_like_a_heading_and_is_none_stays_text(line: str) -> None:
    chunks, _ = chunk_markdown(f"# One\n\nA.\n\n{line}\n\nB.", "note")
    assert [chunk.heading_path for chunk in chunks] == ["One"]
    assert line.strip() in chunks[0].text


def test_sections_without_text_give_no_chunk() -> None:
    assert ids("# One\n\n## Two\n\n   \n\n## Three\n\nText.") == ["one-three:001"]


def test_repeated_headings_are_numbered_and_chinese_ones_share_root() -> None:
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
def test_a_slug_keeps_ascii_letters_and_digits(text: str, expected: str) -> None:
    assert slug(text) == expected


def test_paragraphs_are_packed_up_to_the_limit() -> None:
    first, second, third = "a" * 120, "b" * 78, "c" * 79
    # 120 + 2 + 78 is the limit exactly; one more character is too many.
    assert [chunk.text for chunk in chunk_markdown(f"{first}\n\n{second}\n \n\n{third}", "n", 200)[0]] == [
        f"{first}\n\n{second}",
        third,
    ]
    assert [chunk.text for chunk in chunk_markdown(f"{first}\n\n{third}", "n", 200)[0]] == [first, third]


def test_a_long_paragraph_is_cut_and_its_neighbours_stay_apart() -> None:
    text = f"short\n\n{'x' * 450}\n\nend"
    chunks, _ = chunk_markdown(text, "n", 200)
    assert [chunk.text for chunk in chunks] == ["short", "x" * 200, "x" * 200, "x" * 50, "end"]
    assert [chunk.chunk_id for chunk in chunks] == [f"root:{number:03d}" for number in range(1, 6)]


def test_no_limit_is_smaller_than_two_hundred_characters() -> None:
    assert ids("字" * 200, max_chars=5) == ["root:001"]
    assert ids("字" * 201, max_chars=5) == ["root:001", "root:002"]


def test_the_hash_covers_heading_path_title_and_text_trimmed() -> None:
    chunk = Chunk("a:001", "Title", "Path ", "text\n")
    assert chunk.content_hash == hashlib.sha1(b"Path\nTitle\ntext").hexdigest()
    assert chunk._replace(chunk_id="b:001").content_hash == chunk.content_hash
    assert chunk._replace(text="other").content_hash != chunk.content_hash


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("Decisions/001.md", "decision"),
        ("docs/Decision-log.md", "decision"),
        ("a/captain-log/1.md", "log"),
        ("logs/specs/x.md", "log"),
        ("specs/decision.md", "decision"),
        ("specs/x.md", "spec"),
        ("docs/api-SPEC.md", "spec"),
        ("prd.md", "spec"),
        ("ROADMAP.md", "roadmap"),
        ("blogs/x.md", "doc"),
    ],
)
def test_the_kind_of_a_document_is_read_from_its_path(path: str, kind: str) -> None:
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
def test_the_day_comes_from_front_matter_else_from_the_path(text: str, path: str, hint: str | None) -> None:
    assert ts_hint(text, path) == hint


@pytest.mark.parametrize("tag", ["[SECRET]", "[private]", "[NoExport]", "[NOMEM]"])
def test_tagged_chunks_are_left_out_and_counted(tag: str) -> None:
    chunks, excluded = chunk_markdown(f"# One\n\nA.\n\n# Two\n\n{tag} B.\n\n# Three\n\nC.", "note")
    assert [chunk.heading_path for chunk in chunks] == ["One", "Three"]
    assert excluded == 1


def test_a_tag_in_a_heading_covers_the_sections_below_it() -> None:
    chunks, excluded = chunk_markdown("# Open\n\nA.\n\n# Keys [SECRET]\n\nB.\n\n## Old\n\nC.", "note")
    assert [chunk.text for chunk in chunks] == ["A."]
    assert excluded == 2


def test_every_part_of_a_tagged_paragraph_is_left_out() -> None:
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
def test_what_looks_like_a_secret_is_left_out(line: str) -> None:
    assert chunk_markdown(f"# One\n\nA.\n\n# Two\n\nBefore\n{line}\nafter", "note") == (
        [Chunk("one:001", "One", "One", "A.")],
        1,
    )


def test_a_secret_that_the_cut_falls_into_is_still_seen() -> None:
    assert chunk_markdown("x" * 190 + " sk-" + "FAKE" * 5, "note", 200) == ([], 2)


@pytest.mark.parametrize("line", ["my password is safe", "the secret of good tea", "basket-weaving", "[SECRETS]"])
def test_talk_of_secrets_is_kept(line: str) -> None:
    assert len(chunk_markdown(line, "note")[0]) == 1
