# SPDX-License-Identifier: Apache-2.0

"""The quick start: from a bare Debian 12 or 13 to the first result."""
