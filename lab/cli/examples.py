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
    "merge": "lab merge reports/runs/all reports/runs/part1 reports/runs/part2",
    "score": "lab score reports/demo --slices",
    "compare": "lab compare reports/demo --baseline hybrid --candidate tier_quota_v1",
    "explain": "lab explain reports/demo choir-tour/s08/t03 --arm tier_quota_v1",
    "report": "lab report reports/demo",
    "view": "lab view reports/demo --open",
    "diff": "lab diff reports/demo reports/runs/mine",
    "acceptance": "lab acceptance shipped:operators",
    "nightly": "lab nightly --plan shipped:operators",
    "message": "lab message reports/demo --as slack",
    "trend": "lab trend --measure Success@6 --all",
    "ablate": "lab ablate shipped:operators --out reports/ablation",
    "saturation": "lab saturation shipped:operators --out reports/saturation",
    "governance": "lab governance shipped:operators --out reports/governance",
    "retention": "lab retention reports/demo --rule 90/30",
    "scale": "lab scale shipped:operators --out reports/scale",
    "league": "lab league shipped:operators --out reports/league",
    "observe": "lab observe shipped:operators --out reports/observations",
    "silence": "lab silence shipped:operators --out reports/silence",
    "sweep": "lab sweep shipped:operators --out reports/sweep",
    "missed": "lab missed reports/demo",
    "latency": "lab latency shipped:operators --out reports/latency",
    "agree": "lab agree ~/.openclaw --format openclaw \\\n"
    "    --memories-from ~/.openclaw/memory/lancedb --config openclaw.json",
    "canary run": "lab canary run ~/.openclaw/openclaw.json --slot openclaw-mem-engine \\\n"
    "    --restart 'systemctl --user restart openclaw-gateway'",
    "canary recover": "lab canary recover ~/.openclaw/openclaw.json",
    "canary watch": "lab canary watch ~/.openclaw/openclaw.json \\\n"
    "    --restart 'systemctl --user restart openclaw-gateway'",
    "canary plan": "lab canary plan --stage A --as systemd",
    "apply": "lab apply reports/demo",
    "rollback": "lab rollback shipped:operators --config openclaw.json",
    "measures": "lab measures",
    "export": "lab export reports/demo --out reports/trec",
    "import": "lab import --qrels reports/trec/qrels.txt --run reports/trec/hybrid.run",
    "migrate": "lab migrate reports/old reports/new",
    "doctor": "lab doctor",
    "init": "lab init ~/.openclaw",
    "gate judge": "lab gate reports/demo --policy rollout",
    "gate policies": "lab gate policies --show stage-b",
    "gate schema": "lab gate schema verdict",
    "gate self-test": "lab gate self-test --list",
    "baseline approve": 'lab baseline approve reports/demo --name demo --note "as released"',
    "baseline list": "lab baseline list",
    "baseline show": "lab baseline show demo",
    "baseline rm": "lab baseline rm demo",
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
    "memory store": 'lab memory store notes "The fair opens on 3 May."',
    "memory recall": 'lab memory recall notes "when does the fair open"',
    "memory forget": 'lab memory forget notes --query "fair"',
    "memory list": "lab memory list notes",
    "memory stats": "lab memory stats notes",
    "memory export": "lab memory export notes notes.jsonl",
    "memory import": "lab memory import copy notes.jsonl",
    "memory docs-ingest": "lab memory docs-ingest notes --root handbook",
    "memory docs-search": 'lab memory docs-search notes "opening hours"',
    "memory backfill": "lab memory backfill notes --dry-run",
    "memory compact": "lab memory compact notes",
    "ledger capture": "lab ledger capture ~/.openclaw observations.jsonl",
    "ledger ingest": "lab ledger ingest ledger.sqlite observations.jsonl --write",
    "ledger search": 'lab ledger search ledger.sqlite "gateway timeout"',
    "ledger timeline": "lab ledger timeline ledger.sqlite 2",
    "ledger get": "lab ledger get ledger.sqlite 2 --raw",
    "ledger grade": "lab ledger grade ledger.sqlite",
    "ledger archive": "lab ledger archive ledger.sqlite observations.jsonl",
    "episodes ingest": "lab episodes ingest shipped:operators --ledger ledger.sqlite --write",
    "episodes embed": "lab episodes embed --ledger ledger.sqlite --write",
    "episodes search": 'lab episodes search "Breton song copies" --ledger ledger.sqlite',
    "episodes replay": "lab episodes replay choir-tour/s08 --ledger ledger.sqlite",
    "episodes expire": "lab episodes expire --ledger ledger.sqlite --days conversation.user=365",
    "ledger writeback": "lab ledger writeback ledger.sqlite ~/.openclaw/memory/lancedb",
    "ledger lifecycle": "lab ledger lifecycle ledger.sqlite 2 --to stale --reason outdated",
    "ledger used": "lab ledger used ledger.sqlite 2",
    "ledger drift": "lab ledger drift ledger.sqlite --by week --most-unknown 0.2",
    "ledger decay": "lab ledger decay ledger.sqlite --p1 90 --p2 30",
    "facts assert": "lab facts assert facts.jsonl gateway status live --from 2026-11-05 \\\n"
    "    --source obs:2 --assertion note:review --ledger ledger.sqlite --write",
    "facts import": "lab facts import facts.jsonl claims.jsonl --ledger ledger.sqlite",
    "facts invalidate": "lab facts invalidate facts.jsonl fact_406c056ffff8ff6333cc \\\n"
    "    --source obs:2 --assertion note:review --ledger ledger.sqlite",
    "facts current": "lab facts current facts.jsonl gateway --ledger ledger.sqlite",
    "facts timeline": "lab facts timeline facts.jsonl gateway --ledger ledger.sqlite",
    "facts lint": "lab facts lint facts.jsonl --ledger ledger.sqlite",
    "facts pack": "lab facts pack facts.jsonl gateway --max-items 5 --ledger ledger.sqlite",
    "facts propose": "lab facts propose notes.md --source doc:notes.md",
    "facts rebuild": "lab facts rebuild facts.jsonl",
    "graph show": "lab graph show gateway --ledger ledger.sqlite --facts facts.jsonl",
    "graph path": "lab graph path gateway redis --ledger ledger.sqlite",
    "graph export": "lab graph export graph.json --ledger ledger.sqlite --write",
    "pack": 'lab pack ledger.sqlite --query "gateway timeout" --budget-tokens 300 --trace',
    "store index status": "lab store index status ~/.openclaw/memory/lancedb",
    "store index build": "lab store index build ~/.openclaw/memory/lancedb --yes",
    "store index optimize": "lab store index optimize ~/.openclaw/memory/lancedb --yes",
    "store tag": "lab store tag ~/.openclaw/memory/lancedb before-regrading",
    "store list": "lab store list ~/.openclaw/memory/lancedb --check",
    "store checkout": "lab store checkout ~/.openclaw/memory/lancedb before-regrading --yes",
    "store delete": "lab store delete ~/.openclaw/memory/lancedb before-regrading --yes",
    "config show": "lab config show openclaw.json --profile upstream",
    "config check": "lab config check openclaw.json",
    "receipts audit": "lab receipts audit gateway.log --out audit.json",
    "receipts show": "lab receipts show gateway.log --last 3",
    "runs list": "lab runs list reports",
    "runs rm": "lab runs rm reports/runs/mine",
    "runs schema": "lab runs schema",
    "cache stat": "lab cache stat",
    "cache gc": "lab cache gc --other-models --dry-run",
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
