"""Answers with a table: as JSON, or as an Arrow stream or JSON with types if the client accepts that."""

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
from starlette.requests import Request
from starlette.responses import Response

from trident.server import bodies
from trident.server.guards import json_answer


def wants_table(request: Request) -> bool:
    """Return whether the client accepts the form of a table: an Arrow stream, or JSON with types."""
    accepted = request.headers.get("accept", "")
    return bodies.ARROW in accepted or bodies.TYPED in accepted


def row_answer(
    request: Request, table: pa.Table, fresh: Mapping[str, Any], more: Mapping[str, Any] | None = None
) -> Response:
    """Answer with the rows of a table, the batches that they show, and more fields."""
    accepted = request.headers.get("accept", "")
    if bodies.ARROW in accepted:
        headers = {
            "Trident-As-Of-Txid": bodies.json_body(fresh["asOfTxid"]).decode(),
            "Trident-Committed-At": bodies.json_body(fresh["committedAt"]).decode(),
            "Trident-Staleness-Ms": bodies.json_body(fresh["stalenessMs"]).decode(),
        }
        headers |= {f"Trident-{name.title()}": str(value) for name, value in (more or {}).items()}
        return Response(bodies.arrow_body(table), media_type=bodies.ARROW, headers=headers)
    types = {"types": bodies.types_of(table)} if bodies.TYPED in accepted else {}
    content = {"fields": table.column_names, **types, "rows": _rows(table), **fresh, **(more or {})}
    return json_answer(content)


def _rows(table: pa.Table) -> list[list[Any]]:
    """Return the rows as JSON values; rows without a field, too, of which there may be several."""
    return bodies.json_rows(table) if table.num_columns else [[]] * table.num_rows
