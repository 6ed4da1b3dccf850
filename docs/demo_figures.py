"""Write the figures of ``lab demo`` into README.md, and its report, with the chart of README.md, into reports/example.

Run ``python docs/demo_figures.py [DIR]`` from the root of the project: DIR is the demo's run (default reports/demo),
which is made if it is missing. The figures that the text quotes are printed. ``tests/cli/test_demo.py`` holds the table
of README.md and the example to the demo.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lab.runs.directory import RunDirectory

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

QUOTED = ("Forbidden@6", "StaleRecall", "CleanHit@6", "FalseRecall", "Judged@6")
COMPARED = ("Success@6", "RepeatRate")
# What differs between reports of equal results: times, what identifies the run, its configurations and what made it,
# and in a figure the line that names the run, and the shapes of letters.
UNSETTLED = re.compile(
    r'<section aria-labelledby="latency">.*?</section>|(?<=[ >])[\d.,]+/(?:[\d.,]+|–)(?=[ <])'
    r"|<summary>(?:Versions|Hashes|Configuration)\b.*?</details>"
    r"|\* run key: \w+|<dt>run key</dt><dd>\w+</dd>"
    r"|<defs>.*?</defs>|<!-- recall lab, run .*?</g>",
    re.DOTALL,
)


def settled(report: str) -> str:
    """Return the text of a report or a figure without its times and what identifies its run."""
    return re.sub(r">\s+<", "><", UNSETTLED.sub("", report))


def write_example(run: RunDirectory, folder: Path) -> None:
    """Write a run's page as it is, and its Markdown with the figures that it shows, into an emptied folder."""
    from lab.report.build import build_report

    shutil.rmtree(folder, ignore_errors=True)
    (folder / "figures").mkdir(parents=True)
    shutil.copyfile(build_report(run)[0], folder / "report.html")
    build_report(run, slides=True)
    text = (run.path / "report.md").read_text("utf-8")
    (folder / "report.md").write_text(text, "utf-8")
    for name in re.findall(r"\]\((figures/[\w-]+\.svg)\)", text):
        shutil.copyfile(run.path / name, folder / name)


def main(folder: Path) -> None:
    """Make the run if it is missing, write README.md and the example, and print what the text quotes."""
    from lab.base.formatting import interval, signed
    from lab.compare.paired import compare_arms
    from lab.measures.score import headlines, score_and_write, summarise
    from lab.runs.directory import open_run
    from lab.runs.scores import read_gold
    from lab.studies.scale import in_reach

    if not (folder / "report.html").exists():
        command = [sys.executable, "-m", "lab", "demo", "--out", str(folder)]
        subprocess.run(command, cwd=ROOT, check=True)  # noqa: S603 - the command is the lab's own
    run = open_run(folder)
    summary = summarise(score_and_write(run), read_gold(run), run.arms)
    means = {arm: scores["measures"] for arm, scores in summary["arms"].items()}
    readme = ROOT / "README.md"
    text = readme.read_text("utf-8")
    for arm, values in means.items():
        row = " | ".join("–" if (value := values.get(name)) is None else f"{value:.3f}" for name in headlines(6))
        # The last cell says what the arm is.
        pattern = rf"^\| `{arm}` \| .* \| ([^|]+) \|$"
        text = re.sub(pattern, lambda found, line=f"| `{arm}` | {row} |": f"{line} {found[1]} |", text, flags=re.M)
    readme.write_text(text, "utf-8")
    write_example(run, ROOT / "reports" / "example")
    for name in QUOTED:
        shown = ", ".join(
            f"{arm} {value:.3f}" for arm, values in means.items() if (value := values.get(name)) is not None
        )
        sys.stdout.write(f"{name}: {shown}\n")
    for baseline in ("tier_first_v1", "hybrid"):
        for difference in compare_arms(run, baseline, "tier_quota_v1").differences:
            mean, low, high = difference.estimate[:3]
            if difference.measure in COMPARED and low is not None and high is not None:
                shown = f"{signed(mean)} ({interval(low, high)})"
                sys.stdout.write(f"tier_quota_v1 minus {baseline}, {difference.measure}: {shown}\n")
    reach = in_reach(run)
    gold = [len(judged.grades) for judged in read_gold(run).values() if judged.grades]
    sys.stdout.write(f"memories in reach {reach:.0f}, of which relevant {sum(gold) / len(gold):.1f}\n")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "reports/demo"))
