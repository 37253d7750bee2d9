"""Answers with a table: as JSON, or as an Arrow stream if the client accepts that."""

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
from starlette.requests import Request
from starlette.responses import Response

from trident.server import bodies
from trident.server.guards import json_answer


def wants_arrow(request: Request) -> bool:
    """Return whether the client accepts an Arrow stream."""
    return bodies.ARROW in request.headers.get("accept", "")


def row_answer(
    request: Request, table: pa.Table, fresh: Mapping[str, Any], more: Mapping[str, Any] | None = None
) -> Response:
    """Answer with the rows of a table, the batches that they show, and more fields."""
    if wants_arrow(request):
        headers = {
            "Trident-As-Of-Txid": bodies.json_body(fresh["asOfTxid"]).decode(),
            "Trident-Committed-At": bodies.json_body(fresh["committedAt"]).decode(),
            "Trident-Staleness-Ms": bodies.json_body(fresh["stalenessMs"]).decode(),
        }
        headers |= {f"Trident-{name.title()}": str(value) for name, value in (more or {}).items()}
        return Response(bodies.arrow_body(table), media_type=bodies.ARROW, headers=headers)
    content = {"fields": table.column_names, "rows": bodies.json_rows(table), **fresh, **(more or {})}
    return json_answer(content)
