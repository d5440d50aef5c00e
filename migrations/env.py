"""How alembic runs the migrations: on the connection that controller/log/migrate.py hands over, in one transaction."""

from __future__ import annotations

from alembic import context

connection = context.config.attributes.get("connection")
if connection is None:
    raise SystemExit("migrations run by `tfjob db upgrade`")
# One transaction for all: an upgrade that fails half way leaves the database as it was.
context.configure(connection=connection, transaction_per_migration=False)
with context.begin_transaction():
    context.run_migrations()
