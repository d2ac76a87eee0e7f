-- A webhook that its receiver rejects again and again is skipped.
ALTER TABLE configs ADD COLUMN rejections INTEGER NOT NULL DEFAULT 0;  -- of the next delivery
ALTER TABLE configs ADD COLUMN skipped INTEGER NOT NULL DEFAULT 0;
