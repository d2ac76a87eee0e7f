-- What is old is found without looking at what is not. Sends without a key and turns without a state of their context
-- write to none of these.
CREATE INDEX receipts_by_end ON receipts (expires_ms);
CREATE INDEX receipts_by_task ON receipts (task_id);
CREATE INDEX context_states_by_age ON context_states (updated_ms);
