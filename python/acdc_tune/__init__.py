# SPDX-License-Identifier: Apache-2.0

"""TCP's parameters from the numbers of the fabric (docs/tuning.rst)."""
