-- The time of the clock when the next time of a schedule was computed; NULL if that is not known. A later one than now shows
-- that the clock went back since.
ALTER TABLE schedule ADD COLUMN timed_at INTEGER;
