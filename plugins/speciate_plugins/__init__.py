"""Everything built in: one file a plugin; the folder is the stage."""
