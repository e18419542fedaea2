-- The records of one session kernel (agentcore/session). Zero and "" are NULL where a column may be absent; every JSON
-- value is a blob. Comments stay outside the statements: SQLite keeps the statements' text in the file.

-- One row: the store's identity and counters. epoch fences writers.
CREATE TABLE meta(id INTEGER PRIMARY KEY CHECK(id=1),store_id TEXT NOT NULL,epoch INTEGER NOT NULL,seq INTEGER NOT NULL,next_id INTEGER NOT NULL)STRICT;
INSERT INTO meta VALUES(1,'',0,0,2);

CREATE TABLE conversations(id INTEGER PRIMARY KEY,parent INTEGER REFERENCES conversations,at INTEGER,owner INTEGER)STRICT;

-- Immutable. The index by conversation ends in the id, as every index does.
CREATE TABLE entries(id INTEGER PRIMARY KEY,conversation INTEGER NOT NULL REFERENCES conversations,seq INTEGER NOT NULL,kind TEXT NOT NULL,model BLOB,data BLOB,head INTEGER,edits BLOB,by_task INTEGER)STRICT;
CREATE INDEX entries_conversation ON entries(conversation);
CREATE INDEX entries_head ON entries(conversation)WHERE head IS NOT NULL;

CREATE TABLE tasks(id INTEGER PRIMARY KEY,conversation INTEGER NOT NULL,kind TEXT NOT NULL,version INTEGER NOT NULL,owner INTEGER,background INTEGER NOT NULL,status TEXT NOT NULL,phase TEXT,checkpoint BLOB,awaits BLOB,policy TEXT,outcome BLOB,abort INTEGER NOT NULL,abort_reason TEXT,epoch INTEGER NOT NULL,input BLOB,memos BLOB)STRICT;
CREATE INDEX tasks_conversation ON tasks(conversation);
CREATE INDEX tasks_owner ON tasks(owner)WHERE owner IS NOT NULL;
CREATE INDEX tasks_live ON tasks(conversation)WHERE status<>'terminal';

CREATE TABLE submissions(id INTEGER PRIMARY KEY,conversation INTEGER NOT NULL,request_id TEXT,digest TEXT NOT NULL,status TEXT NOT NULL,payload BLOB,entry INTEGER,answer INTEGER,reason TEXT,detail TEXT)STRICT;
CREATE UNIQUE INDEX submissions_request ON submissions(conversation,request_id)WHERE request_id IS NOT NULL;
CREATE INDEX submissions_status ON submissions(conversation,status);

-- One row per incarnation; retired 0 = live. A document that is not rewindable is deleted when it retires.
CREATE TABLE documents(id INTEGER PRIMARY KEY,scope INTEGER NOT NULL,owner INTEGER NOT NULL,kind TEXT NOT NULL,key TEXT NOT NULL,rewindable INTEGER NOT NULL,created INTEGER NOT NULL,retired INTEGER NOT NULL)STRICT;
CREATE UNIQUE INDEX documents_address ON documents(scope,owner,kind,key,retired);

-- n orders the writes of one commit. base 1 = the whole value, 0 = a list of operations.
CREATE TABLE revisions(document INTEGER NOT NULL,seq INTEGER NOT NULL,n INTEGER NOT NULL,base INTEGER NOT NULL,version INTEGER NOT NULL,content BLOB NOT NULL,PRIMARY KEY(document,seq,n))WITHOUT ROWID,STRICT;
