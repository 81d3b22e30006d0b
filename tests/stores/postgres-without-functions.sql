DROP FUNCTION memory_tool.all_paths, memory_tool.read_path;
