-- People who sign in, their sessions, and who did what. `user` is a word of SQL.
CREATE TABLE user_account (
    id               TEXT PRIMARY KEY,
    email            TEXT NOT NULL,
    display_name     TEXT NOT NULL,
    grants           TEXT NOT NULL,
    disabled         INTEGER NOT NULL,
    password_hash    TEXT NOT NULL,
    password_expired INTEGER NOT NULL,
    version          INTEGER NOT NULL,
    created_at       INTEGER NOT NULL,
    last_login_at    INTEGER
) STRICT, WITHOUT ROWID;

-- A session is a user's or a token's.
CREATE TABLE sign_in (
    id           TEXT PRIMARY KEY,
    secret_hash  BLOB NOT NULL,
    user_id      TEXT REFERENCES user_account (id) ON DELETE CASCADE,
    token_id     TEXT REFERENCES token (id) ON DELETE CASCADE,
    created_at   INTEGER NOT NULL,
    last_used_at INTEGER NOT NULL,
    expires_at   INTEGER NOT NULL,
    CHECK ((user_id IS NULL) <> (token_id IS NULL))
) STRICT, WITHOUT ROWID;
CREATE INDEX sign_in_user ON sign_in (user_id) WHERE user_id IS NOT NULL;
CREATE INDEX sign_in_token ON sign_in (token_id) WHERE token_id IS NOT NULL;
CREATE INDEX sign_in_end ON sign_in (expires_at);

-- Ids grow with time. `app` is the name of the app that the resource is in, or empty.
CREATE TABLE audit_event (
    id             BLOB PRIMARY KEY,
    at             INTEGER NOT NULL,
    app            TEXT NOT NULL,
    principal      TEXT NOT NULL,
    method         TEXT NOT NULL,
    resource       TEXT NOT NULL,
    request_id     TEXT NOT NULL,
    peer_address   TEXT NOT NULL,
    code           INTEGER NOT NULL,
    changed_fields TEXT NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX audit_event_app ON audit_event (app, id);
CREATE INDEX audit_event_principal ON audit_event (principal, id);
