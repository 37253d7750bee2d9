"""Clients of a topology's server: those of `trident_client`, whose answers are PySpark's Rows and Arrow tables here."""

from trident.client.answers import ServedRows as ServedRows
from trident.client.async_drpc_client import AsyncDRPCClient as AsyncDRPCClient
from trident.client.drpc_client import DRPCClient as DRPCClient
from trident_client.changes import Change as Change
