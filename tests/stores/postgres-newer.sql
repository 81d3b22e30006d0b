UPDATE memory_tool.schema_version SET number = 99;
