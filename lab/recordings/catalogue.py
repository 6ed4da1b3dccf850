"""The sets that are known by name: where each comes from, under which licence, what it is good for, how to know it.

None of them is shipped but the project's own. A checksum tells which version a downloaded copy is; where no more than
its first digits are published, those are compared.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

from lab.errors import UnusableInput

RESEARCH = "none stated: research only"


@dataclass(frozen=True, slots=True)
class Known:
    """A file whose checksum is known. ``part`` is empty for a file as it is published, else what it holds of one."""

    name: str
    sha256: str
    part: str = ""


@dataclass(frozen=True, slots=True)
class Entry:
    """A set: its format, origin (repository, path in it, commit), licence and size, and the files that are known."""

    format: str
    title: str
    repository: str
    path: str
    commit: str
    licence: str
    holds: str
    good_for: str
    files: tuple[Known, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self)


def entry_of(format_name: str) -> Entry:
    """What is known of the set of a format; :class:`UnusableInput` for one that is nobody's."""
    for entry in CATALOGUE:
        if entry.format == format_name:
            return entry
    known = ", ".join(entry.format for entry in CATALOGUE)
    raise UnusableInput(f"the catalogue has no set of format {format_name!r}; it has: {known}")


def identified(entry: Entry, checksums: Iterable[str]) -> list[Known | None]:
    """Which known file each checksum is; None where it is another version, or another file."""
    return [next((known for known in entry.files if checksum.startswith(known.sha256)), None) for checksum in checksums]


CATALOGUE: tuple[Entry, ...] = (
    Entry(
        "realmem",
        "RealMem, personas and their assistant",
        "AvatarMemory/RealMemBench",
        "",
        "67afd0891d",
        "Apache-2.0",
        "10 personas, 2,055 sessions, 14,028 turns, 1,415 probes",
        "the main English set: gold on natural turns, project scopes, repeats",
        (
            Known("Ethan_Hunt_dialogues_256k.json", "67bd20d962cd0b01c1531cc82a73a0b1a1e58ef17db6e2f743fc9b35273734ac"),
            Known(
                "Kenta_Tanaka_dialogues_256k.json", "b8fe2e606db96dbce1ffa0ab7c21b23ce83d4b5d472d80cd4bd23cd8a259d397"
            ),
            Known("Lin_Wanyu_dialogues_256k.json", "a7a751066c48e829b3012a94f2b365febd0e6fb6db454a6d5f4ec01f9c55008a"),
            Known(
                "Sophie_Dubois_dialogues_256k.json", "75f71e5ec0d14606debaea409075a6e631faf6a57d74ce7ec49f17476ef44e26"
            ),
        ),
    ),
    Entry(
        "locomo",
        "LoCoMo-10, two people over months",
        "snap-research/locomo",
        "data/locomo10.json",
        "3eb6f2c585",
        "CC BY-NC 4.0",
        "10 conversations, 5,882 turns, 1,986 questions",
        "comparison with published numbers, questions from outside",
        (
            Known("locomo10.json", "79fa87e9"),
            Known(
                "locomo5_dev.json",
                "85352ee7bb908f3018081f20f16dc6f07683a0034ad44904768ee1315f1ce809",
                "5 of 10 conversations",
            ),
        ),
    ),
    Entry(
        "beam",
        "BEAM, long chats, ten abilities",
        "mohammadtavakoli78/BEAM",
        "chats",
        "b2a3ee8ba1",
        RESEARCH,
        "100K: 20 chats, 5,732 messages, 400 questions; 500K: 35 chats",
        "standing instructions, updates, contradictions, abstention, size",
        (
            Known("100K/1/chat.json", "ea71efd5dcc13f7366d3737b45d532eadb3d1497f3d6f23d1fa1c4004d5ffdf2"),
            Known("100K/1/probing_questions.json", "047398ff1497674b11585e7b4829c3d64d2d5e63f7f3572c826b73ca1faaf898"),
            Known("100K/4/chat.json", "e0ef0f74b1f7ac911e8e0518722335c422cbc1112048e9909911b208c51fc027"),
            Known("100K/4/probing_questions.json", "f69eda522cd7325830c8f78b6f02a571c992b6cf43311fa96f28043fd3c18dae"),
            Known("100K/6/chat.json", "5365cdc41da212fb7143cf9f191ff7862eed8e9ca175b3728fe593adedc87871"),
            Known("100K/6/probing_questions.json", "7a6f88dfdeb3f1b582209a745e7c980158dbb2829a9ceae6cdb08bb868a00035"),
            Known("100K/8/chat.json", "3207b8f5aa45cd1b2d1e2f37f224831b4696d0cc2352ef514af08f2092b6c239"),
            Known("100K/8/probing_questions.json", "d279dbd8fd293692d29f0057b3dd2468ccb97c7da6df28ae2adc8481d9970148"),
            Known("100K/11/chat.json", "45cb4fab51042278e6a57f524fca4cd4b8941cbbd091f9ec8fb92dad4de31b12"),
            Known("100K/11/probing_questions.json", "3aa98a74a03be59472834422dd14004d3b432a0c800bbef8f316865834449c08"),
            Known("100K/13/chat.json", "aea586c143dab53cb5a021b3fab23380d5d9628fea1c4b718f91411019166dc6"),
            Known("100K/13/probing_questions.json", "02dee0ba1d5576aed8ac535328a23fe4f882f6dcff3b96e039162e10d547236b"),
            Known("100K/16/chat.json", "414f11e16156d490cfb8449db62bddae88308e5b37fa79df54b147637f059afd"),
            Known("100K/16/probing_questions.json", "abf20d16a37322112af0fe48f5c43be0d824d54ae2bb2c5e3e069c6e84c54033"),
            Known("100K/18/chat.json", "3c08576a5726fa48b9f906bc8699fab37e33cc5219f076f76374f7c1302449cb"),
            Known("100K/18/probing_questions.json", "d813db9e2b416e6ac7cc22841b131ea5c80e5931e690f81bb37aa16c3b9edc3a"),
        ),
    ),
    Entry(
        "realtalk",
        "REALTALK, real people for 21 days",
        "danny911kr/REALTALK",
        "data",
        "b903e06a97",
        RESEARCH,
        "10 chats, 8,944 turns, 728 questions",
        "real language, real times, noisy gold",
        (
            Known("Chat_1_Emi_Elise.json", "4e947998a751a1ba2c3710fc873b90fbcbc234fda7a5e4e75db2b762e0f25a36"),
            Known("Chat_2_Kevin_Elise.json", "4ac6e319c206731aa9a025c93325eb1edb43686cf39473f058c87ae7deb2d62a"),
            Known("Chat_3_Kevin_Paola.json", "10c9208016538cbe7a28aafa6cfd72587b072677964c36ec242159fdf58961f2"),
            Known("Chat_4_Emi_Paola.json", "80aa012ed6a918f5b317bd942b4d4811a158d27a6e07b7a5c6182994107a9367"),
        ),
    ),
    Entry(
        "ikat",
        "TREC iKAT, personal statements",
        "irlabamsterdam/iKAT",
        "data, 2023/data, 2024/data, 2025/data",
        "05399308a3",
        "MIT",
        "70 topics, 833 utterances, 313 of which need a statement",
        "silence: most turns need nothing",
        (
            Known("2023_train_topics.json", "ff52ac0fd49d6bf337679342867214390a2920e57665586df0455d5054c7032d"),
            Known("2024_test_topics.json", "c8d5bd52dc59ac49b99a7bdb593be00d889ed27547b1b01ecb422fb7b43da6e3"),
        ),
    ),
    Entry(
        "madial",
        "MADial-Bench, English and Chinese",
        "hejunqing/MADial-Bench",
        "data/en, data/ch",
        "572e3a10d6",
        "MIT",
        "2 users, 160 dialogues and as many probes in each language",
        "the same probes in two languages",
        (
            Known(
                "en-dialogue-user1.jsonl",
                "c67d5e1e4facbc1187bf38a7f01ce915bd885b350fd28d09a4ca86ff6bdcdf71",
                "user 1 of 2",
            ),
            Known(
                "en-memory-user1.json",
                "4759672d77c190dcf9f153824340000b0187eb40d3dd5357b4de45df23441f80",
                "user 1 of 2",
            ),
            Known(
                "zh-dialogue-user1.jsonl",
                "357afb79680108aa48cdf938373b6c1c6230bde43981279a7564673024da5a0d",
                "user 1 of 2",
            ),
            Known(
                "zh-memory-user1.json",
                "06d090a235092341cd49635951efcbe04ffcf6cdafc2f65aad985640f3025832",
                "user 1 of 2",
            ),
        ),
    ),
    Entry(
        "aider",
        "An aider chat history",
        "Aider-AI/aider",
        "tests/fixtures/chat-history.md",
        "",
        "Apache-2.0",
        "1 developer, 678 sessions, 1,775 user messages",
        "replay without gold: latency, size, repeats",
        (
            Known(
                "aider-chat-history.md",
                "b6151f1d99b6e6dc4e5b319b353cf5d0ca8cfa9da4b375e5493130cc22a42dfb",
                "the first half",
            ),
        ),
    ),
    Entry(
        "hermes",
        "A Hermes agent's day",
        "vectorize-io/hindsight",
        "",
        "",
        "MIT",
        "41 logged conversations, 474 messages, 7.5 hours",
        "replay without gold, in Chinese",
        (
            Known(
                "hermes-zh.jsonl",
                "b5d767b8283790a32d289d183f9d936f2bbf372041277a3f10dbc0dd1bf8b314",
                "the first 20 of 41 logged conversations",
            ),
        ),
    ),
    Entry(
        "lab",
        "operators, the project's own",
        "this project",
        "datasets/operators",
        "",
        "MIT",
        "conversations of operators and their agents, English and Chinese",
        "every behaviour of the seeds; checksums: SHA256SUMS beside it",
    ),
)
