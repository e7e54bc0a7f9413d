-- Counts the changes of stored turns and steps, so that a copy of them in memory is recognised as old. A new turn, and a
-- new step of an unfinished turn, are no changes.
ALTER TABLE conversation ADD COLUMN history_changes INTEGER NOT NULL DEFAULT 0;

CREATE TRIGGER turn_removed AFTER DELETE ON turn BEGIN
    UPDATE conversation SET history_changes = history_changes + 1 WHERE id = OLD.conversation;
END;

CREATE TRIGGER turn_changed AFTER UPDATE OF conversation, user_text, continues ON turn BEGIN
    UPDATE conversation SET history_changes = history_changes + 1 WHERE id IN (OLD.conversation, NEW.conversation);
END;

CREATE TRIGGER step_changed AFTER UPDATE OF turn, step ON step BEGIN
    UPDATE conversation SET history_changes = history_changes + 1
    WHERE id IN (SELECT conversation FROM turn WHERE id IN (OLD.turn, NEW.turn));
END;

CREATE TRIGGER step_removed AFTER DELETE ON step BEGIN
    UPDATE conversation SET history_changes = history_changes + 1
    WHERE id = (SELECT conversation FROM turn WHERE id = OLD.turn);
END;
