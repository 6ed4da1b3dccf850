"""One example for each command, shown at the end of its ``--help``.

Each is a command that can be typed as it stands in a folder where ``lab demo`` has run, with an OpenClaw in the home
folder. A test parses all of them, and runs those that need little time.
"""

from __future__ import annotations

import typer

EXAMPLES = {
    "demo": "lab demo",
    "replay": "lab replay shipped:operators --arm tier_quota_v1 --arm hybrid \\\n"
    "    --scope recorded --out reports/runs/mine",
    "runs merge": "lab runs merge reports/runs/all reports/runs/part1 reports/runs/part2",
    "score": "lab score reports/demo --slices",
    "compare": "lab compare reports/demo --baseline hybrid --candidate tier_quota_v1",
    "explain": "lab explain reports/demo choir-tour/s08/t03 --arm tier_quota_v1",
    "report": "lab report reports/demo",
    "view": "lab view reports/demo --open",
    "diff": "lab diff reports/demo reports/runs/mine",
    "acceptance": "lab acceptance shipped:operators",
    "nightly run": "lab nightly run --plan shipped:operators",
    "nightly message": "lab nightly message reports/demo --as slack",
    "nightly trend": "lab nightly trend --measure Success@6 --all",
    "study ablate": "lab study ablate shipped:operators --out reports/ablation",
    "study saturation": "lab study saturation shipped:operators --out reports/saturation",
    "study governance": "lab study governance shipped:operators --out reports/governance",
    "study retention": "lab study retention reports/demo --rule 90/30",
    "study scale": "lab study scale shipped:operators --out reports/scale",
    "study league": "lab study league shipped:operators --out reports/league",
    "memory observe": "lab memory observe shipped:operators --out reports/observations",
    "study silence": "lab study silence shipped:operators --out reports/silence",
    "study sweep": "lab study sweep shipped:operators --out reports/sweep",
    "missed": "lab missed reports/demo",
    "study latency": "lab study latency shipped:operators --out reports/latency",
    "canary agree": "lab canary agree ~/.openclaw --format openclaw \\\n"
    "    --memories-from ~/.openclaw/memory/lancedb --config openclaw.json",
    "canary shadow": "lab canary shadow ~/.openclaw --candidate new.json \\\n"
    "    --embedder openai:text-embedding-3-small@https://api.openai.com/v1",
    "canary run": "lab canary run ~/.openclaw/openclaw.json --slot openclaw-mem-engine \\\n"
    "    --restart 'systemctl --user restart openclaw-gateway'",
    "canary recover": "lab canary recover ~/.openclaw/openclaw.json",
    "canary watch": "lab canary watch ~/.openclaw/openclaw.json \\\n"
    "    --restart 'systemctl --user restart openclaw-gateway'",
    "canary plan": "lab canary plan --stage A --as systemd",
    "canary apply": "lab canary apply reports/demo",
    "canary rollback": "lab canary rollback shipped:operators --config openclaw.json",
    "runs export": "lab runs export reports/demo --out reports/trec",
    "runs import": "lab runs import --qrels reports/trec/qrels.txt --run reports/trec/hybrid.run",
    "doctor": "lab doctor",
    "init": "lab init ~/.openclaw",
    "gate judge": "lab gate reports/demo --policy rollout",
    "gate policies": "lab gate policies --show stage-b",
    "gate schema": "lab gate schema verdict",
    "gate verify": "lab gate verify reports/demo/verdict.json",
    "gate self-test": "lab gate self-test --list",
    "nightly baseline approve": 'lab nightly baseline approve reports/demo --name demo --note "as released"',
    "nightly baseline list": "lab nightly baseline list",
    "nightly baseline show": "lab nightly baseline show demo",
    "nightly baseline rm": "lab nightly baseline rm demo",
    "recordings list": "lab recordings list openclaw",
    "recordings import": "lab recordings import ~/Downloads/locomo10.json --format locomo \\\n"
    "    --out datasets/locomo",
    "recordings validate": "lab recordings validate ~/.openclaw --format openclaw",
    "recordings convert": "lab recordings convert ~/.openclaw --format openclaw --out converted",
    "recordings schema": "lab recordings schema",
    "golden pool": "lab golden pool ~/.openclaw --format openclaw --out pool.jsonl",
    "golden judge": "lab golden judge pool.jsonl --out gold.jsonl",
    "golden lint": "lab golden lint shipped:operators",
    "golden diff": "lab golden diff shipped:operators gold.jsonl",
    "golden split": "lab golden split shipped:operators --out split",
    "golden agree": "lab golden agree ann.jsonl bob.jsonl",
    "golden answers": "lab golden answers answers_*.json --wrong wrong_vague.json",
    "golden errata": "lab golden errata errors.json --recordings locomo/ --format locomo",
    "memory store": 'lab memory store notes "The fair opens on 3 May."',
    "memory recall": 'lab memory recall notes "when does the fair open"',
    "memory forget": 'lab memory forget notes --query "fair"',
    "memory list": "lab memory list notes",
    "memory stats": "lab memory stats notes",
    "memory export": "lab memory export notes notes.jsonl",
    "memory import": "lab memory import copy notes.jsonl",
    "memory docs-ingest": "lab memory docs-ingest notes --root handbook",
    "memory docs-search": 'lab memory docs-search notes "opening hours"',
    "memory backfill": "lab memory backfill notes",
    "memory compact": "lab memory compact notes",
    "memory ledger capture": "lab memory ledger capture ~/.openclaw observations.jsonl",
    "memory ledger ingest": "lab memory ledger ingest ledger.sqlite observations.jsonl --write",
    "memory ledger search": 'lab memory ledger search ledger.sqlite "gateway timeout"',
    "memory ledger timeline": "lab memory ledger timeline ledger.sqlite 2",
    "memory ledger get": "lab memory ledger get ledger.sqlite 2 --raw",
    "memory ledger grade": "lab memory ledger grade ledger.sqlite",
    "memory ledger archive": "lab memory ledger archive ledger.sqlite observations.jsonl",
    "memory episodes ingest": "lab memory episodes ingest shipped:operators --ledger ledger.sqlite --write",
    "memory episodes embed": "lab memory episodes embed --ledger ledger.sqlite --write",
    "memory episodes search": 'lab memory episodes search "Breton song copies" --ledger ledger.sqlite',
    "memory episodes replay": "lab memory episodes replay choir-tour/s08 --ledger ledger.sqlite",
    "memory episodes expire": "lab memory episodes expire --ledger ledger.sqlite \\\n    --days conversation.user=365",
    "memory ledger writeback": "lab memory ledger writeback ledger.sqlite ~/.openclaw/memory/lancedb",
    "memory ledger lifecycle": "lab memory ledger lifecycle ledger.sqlite 2 --to stale --reason outdated",
    "memory ledger used": "lab memory ledger used ledger.sqlite 2",
    "memory ledger drift": "lab memory ledger drift ledger.sqlite --by week --most-unknown 0.2",
    "memory ledger decay": "lab memory ledger decay ledger.sqlite --p1 90 --p2 30",
    "memory facts assert": "lab memory facts assert facts.jsonl gateway status live --from 2026-11-05 \\\n"
    "    --source obs:2 --assertion note:review --ledger ledger.sqlite --write",
    "memory facts import": "lab memory facts import facts.jsonl claims.jsonl --ledger ledger.sqlite",
    "memory facts invalidate": "lab memory facts invalidate facts.jsonl fact_406c056ffff8ff6333cc \\\n"
    "    --source obs:2 --assertion note:review --ledger ledger.sqlite",
    "memory facts current": "lab memory facts current facts.jsonl gateway --ledger ledger.sqlite",
    "memory facts timeline": "lab memory facts timeline facts.jsonl gateway --ledger ledger.sqlite",
    "memory facts lint": "lab memory facts lint facts.jsonl --ledger ledger.sqlite",
    "memory facts pack": "lab memory facts pack facts.jsonl gateway --max-items 5 \\\n    --ledger ledger.sqlite",
    "memory facts propose": "lab memory facts propose notes.md --source doc:notes.md",
    "memory facts rebuild": "lab memory facts rebuild facts.jsonl",
    "memory graph show": "lab memory graph show gateway --ledger ledger.sqlite --facts facts.jsonl",
    "memory graph path": "lab memory graph path gateway redis --ledger ledger.sqlite",
    "memory graph export": "lab memory graph export graph.json --ledger ledger.sqlite --write",
    "memory pack": 'lab memory pack ledger.sqlite --query "gateway timeout" \\\n    --budget-tokens 300 --trace',
    "memory index status": "lab memory index status ~/.openclaw/memory/lancedb",
    "memory index build": "lab memory index build ~/.openclaw/memory/lancedb --write",
    "memory index optimize": "lab memory index optimize ~/.openclaw/memory/lancedb --write",
    "memory tags add": "lab memory tags add ~/.openclaw/memory/lancedb before-regrading",
    "memory tags list": "lab memory tags list ~/.openclaw/memory/lancedb --check",
    "memory tags checkout": "lab memory tags checkout ~/.openclaw/memory/lancedb before-regrading --write",
    "memory tags delete": "lab memory tags delete ~/.openclaw/memory/lancedb before-regrading --write",
    "config show": "lab config show openclaw.json --profile upstream",
    "config check": "lab config check openclaw.json",
    "canary audit": "lab canary audit gateway.log --out audit.json",
    "canary show": "lab canary show gateway.log --last 3",
    "canary limits": "lab canary limits before.log --out stage-b-here.toml",
    "runs list": "lab runs list reports",
    "runs rm": "lab runs rm reports/runs/mine",
    "runs schema": "lab runs schema",
    "cache stat": "lab cache stat",
    "cache gc": "lab cache gc --other-models",
    "cache verify": "lab cache verify",
    "cache answers": "lab cache answers",
}


def add_examples(app: typer.Typer, *words: str) -> None:
    """Set the example of every command as the end of its help.

    ``words`` are the names of the groups that the app is in. Raises :class:`KeyError` for a command without an example.
    """
    for group in app.registered_groups:
        if group.typer_instance is not None:
            add_examples(group.typer_instance, *words, str(group.name))
    for command in app.registered_commands:
        if not command.hidden:
            # \b keeps the lines as they are.
            lines = "\n".join(f"  {line}" for line in EXAMPLES[" ".join((*words, str(command.name)))].splitlines())
            command.epilog = f"\b\nExample:\n{lines}"
