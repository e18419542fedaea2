-- Every index costs a commit a page. The main conversation is 1 and holds nearly all entries and tasks of a session: the
-- tables in id order are its index. A task's own tasks have greater ids than it, so they are found from its id on.
DROP INDEX entries_conversation;
CREATE INDEX entries_conversation ON entries(conversation)WHERE conversation<>1;
DROP INDEX tasks_conversation;
CREATE INDEX tasks_conversation ON tasks(conversation)WHERE conversation<>1;
DROP INDEX tasks_owner;
