-- An older dump was restored over the rows of a newer one, without its keys.
ALTER TABLE memory_tool.file DROP CONSTRAINT file_pkey;
INSERT INTO memory_tool.file SELECT * FROM memory_tool.file WHERE memory = 'default' AND path NOT LIKE '%/log/%';
