# SPDX-License-Identifier: Apache-2.0

"""A live view of tenants and their connections: acdc-top."""
