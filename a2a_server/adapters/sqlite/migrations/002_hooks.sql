-- Before this, only 1.0 was spoken, and it has room for one scheme, which stands in the config.
ALTER TABLE configs ADD COLUMN version TEXT NOT NULL DEFAULT '1.0';
ALTER TABLE configs ADD COLUMN schemes TEXT NOT NULL DEFAULT '[]';  -- all that the client offered, as a JSON list
