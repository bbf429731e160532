# SPDX-License-Identifier: Apache-2.0

"""The quick start: from a bare Debian 12 to the first result."""
