# SPDX-License-Identifier: GPL-2.0-only
"""The schedulers of sched_ext as configurations of a suite, each as its documentation has it for latency-critical work."""

from __future__ import annotations

from suite import TODAY, Configuration

BLOCK = "sched_ext"


def configurations(layers: str, asked: bool = False) -> tuple[Configuration, ...]:
    """scx_layered has layers by cgroups, from a file of bench/apps: one of them is called `service`, and has to have
    had tasks, which the statistics tell. The others know no groups."""
    return (
        Configuration("scx_layered", TODAY, BLOCK, scheduler=f"scx_layered --stats 0.5 f:{{files}}/{layers}",
                      proof=" service .*tasks= *[1-9]", asked=asked),
        Configuration("scx_lavd", TODAY, BLOCK, scheduler="scx_lavd --performance", asked=asked),
        Configuration("scx_bpfland", TODAY, BLOCK, scheduler="scx_bpfland", asked=asked),
        Configuration("scx_rusty", TODAY, BLOCK, scheduler="scx_rusty", asked=asked))
