# SPDX-License-Identifier: GPL-2.0-only
"""The suites: each module has a SUITE."""
