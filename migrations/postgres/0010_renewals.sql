-- The renewal of OAuth grants. `generation` grows with every change of the secrets; `renewal_begun_at` is when an exchange with
-- the issuer was begun whose end is not known.

ALTER TABLE credentials ADD COLUMN generation BIGINT NOT NULL DEFAULT 0;
ALTER TABLE credentials ADD COLUMN renewal_begun_at BIGINT;
