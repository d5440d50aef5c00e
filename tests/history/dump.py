"""Everything that a database holds, as text: every column of every row of every table.

In: a database's URL. Out: (place, text) pairs. Never: a table left out.
"""

from __future__ import annotations

import asyncpg

TABLES = "SELECT schemaname, tablename FROM pg_tables WHERE schemaname NOT IN ('pg_catalog', 'information_schema')"


async def dump(url: str) -> list[tuple[str, str]]:
    """The whole database; bytes are shown as text, so that what is inside them is found too."""
    connection = await asyncpg.connect(url.replace("+asyncpg", ""))
    found: list[tuple[str, str]] = []
    try:
        for schema, table in await connection.fetch(TABLES):
            for row in await connection.fetch(f'SELECT * FROM "{schema}"."{table}"'):
                for column, value in row.items():
                    text = value.decode("latin-1") if isinstance(value, bytes) else str(value)
                    found.append((f"{schema}.{table}.{column}", text))
    finally:
        await connection.close()
    return found
