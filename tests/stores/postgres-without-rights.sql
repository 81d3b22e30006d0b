-- A restore ended before its last statement.
ALTER TABLE memory_tool.writer DISABLE ROW LEVEL SECURITY;
