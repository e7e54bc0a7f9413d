-- The reservations of one message, for the budget of one request.
CREATE INDEX reservation_inbox ON reservation (inbox);
