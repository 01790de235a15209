-- People who sign in, their sessions, and who did what. `user` is a word of SQL.
CREATE TABLE user_account (
    id               text PRIMARY KEY,
    email            text NOT NULL,
    display_name     text NOT NULL,
    grants           jsonb NOT NULL,
    disabled         boolean NOT NULL,
    password_hash    text NOT NULL,
    password_expired boolean NOT NULL,
    version          bigint NOT NULL,
    created_at       timestamptz NOT NULL,
    last_login_at    timestamptz
);

-- A session is a user's or a token's.
CREATE TABLE sign_in (
    id           text PRIMARY KEY,
    secret_hash  bytea NOT NULL,
    user_id      text REFERENCES user_account (id) ON DELETE CASCADE,
    token_id     text REFERENCES token (id) ON DELETE CASCADE,
    created_at   timestamptz NOT NULL,
    last_used_at timestamptz NOT NULL,
    expires_at   timestamptz NOT NULL,
    CHECK ((user_id IS NULL) <> (token_id IS NULL))
);
CREATE INDEX sign_in_user ON sign_in (user_id) WHERE user_id IS NOT NULL;
CREATE INDEX sign_in_token ON sign_in (token_id) WHERE token_id IS NOT NULL;
CREATE INDEX sign_in_end ON sign_in (expires_at);

-- Ids grow with time. `app` is the name of the app that the resource is in, or empty.
CREATE TABLE audit_event (
    id             uuid PRIMARY KEY,
    at             timestamptz NOT NULL,
    app            text NOT NULL,
    principal      text NOT NULL,
    method         text NOT NULL,
    resource       text NOT NULL,
    request_id     text NOT NULL,
    peer_address   text NOT NULL,
    code           integer NOT NULL,
    changed_fields jsonb NOT NULL
);
CREATE INDEX audit_event_app ON audit_event (app, id);
CREATE INDEX audit_event_principal ON audit_event (principal, id);
