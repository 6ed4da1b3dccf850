"""Every figure of a report: one function in the module of its family, and one line here.

Each takes plain records and returns a matplotlib figure; :func:`save` writes SVG and PNG, equal bytes for equal data.
"""

from __future__ import annotations

from lab.report.figures_forest import forest_chart, forest_figure, slices_chart, slices_figure
from lab.report.figures_governance import governance_figure
from lab.report.figures_growth import growth_chart, growth_figure
from lab.report.figures_missed import missed_chart, missed_figure
from lab.report.figures_saturation import saturation_chart, saturation_figure
from lab.report.figures_scale import scale_chart, scale_figure
from lab.report.figures_silence import silence_chart, silence_figure
from lab.report.figures_stages import turn_chart, turn_figure
from lab.report.figures_tiers import composition_chart, composition_figure, tiers_chart, tiers_figure
from lab.report.figures_timeline import timeline_chart, timeline_figure
from lab.report.figures_tradeoff import pareto_chart, pareto_figure, tradeoff_chart, tradeoff_figure, tradeoff_points
from lab.report.style import COLOURS, MARKS, TIERS, alt_text, rendered, save, styled, subplots, within, words_of

__all__ = [
    "COLOURS",
    "MARKS",
    "TIERS",
    "alt_text",
    "composition_chart",
    "composition_figure",
    "forest_chart",
    "forest_figure",
    "governance_figure",
    "growth_chart",
    "growth_figure",
    "missed_chart",
    "missed_figure",
    "pareto_chart",
    "pareto_figure",
    "rendered",
    "saturation_chart",
    "saturation_figure",
    "save",
    "scale_chart",
    "scale_figure",
    "silence_chart",
    "silence_figure",
    "slices_chart",
    "slices_figure",
    "styled",
    "subplots",
    "tiers_chart",
    "tiers_figure",
    "timeline_chart",
    "timeline_figure",
    "tradeoff_chart",
    "tradeoff_figure",
    "tradeoff_points",
    "turn_chart",
    "turn_figure",
    "within",
    "words_of",
]
