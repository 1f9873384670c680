"""Programs that time one stage of tokenmill, or what it is measured against, in a process of their own."""
