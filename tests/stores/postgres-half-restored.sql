-- A restore ended before the end of the dump: keys and rights come last.
ALTER TABLE memory_tool.file DROP CONSTRAINT file_pkey;
ALTER TABLE memory_tool.writer DROP CONSTRAINT writer_pkey;
DROP POLICY own_rows ON memory_tool.writer;
ALTER TABLE memory_tool.writer DISABLE ROW LEVEL SECURITY;
