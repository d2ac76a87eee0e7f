-- The trace of the call that caused the event; every attempt at its webhook tells the same.
ALTER TABLE debts ADD COLUMN traceparent TEXT;
ALTER TABLE debts ADD COLUMN tracestate TEXT;
