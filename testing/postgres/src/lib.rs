//! The tests of memory-tool that need PostgreSQL and PgBouncer. The code is in `tests`.
