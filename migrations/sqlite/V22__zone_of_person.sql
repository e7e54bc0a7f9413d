-- The IANA name of the time zone that a person has chosen for their schedules; NULL if they use that of the server.
ALTER TABLE users ADD COLUMN zone TEXT;
