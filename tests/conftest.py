"""What every test may use: the fixtures of a real Postgres."""

pytest_plugins = ["tests.postgres_fixture"]
