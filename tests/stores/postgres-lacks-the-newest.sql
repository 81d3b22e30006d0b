DELETE FROM memory_tool.file WHERE memory = 'default' AND path LIKE '%/history/log/%6';
